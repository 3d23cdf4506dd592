"""Times the passes of plans in the order of a schedule, or bounds them without a schedule.

Each stage has some layers. The first stage also has the operations before the layers, and the last
stage the operations after them, which take as long as several layers if the vocabulary is large.
Most stages are alike, so plans are described by *kinds* of stages and of ranks
(``lay_out_stages``). The lower bound needs no schedule: a rank waits for the stages before its own,
runs all its passes, and those stages finish after it. Four equal stages and eight microbatches
under 1F1B attain the bound:

>>> each = (1.0, 1.0, 1.0)
>>> links = [0.0, 0.0, 0.0]
>>> layout = lay_out_stages(4, 4, 1)
>>> plan = PassSeconds(layout, each, each, (2.0, 2.0, 2.0), (0.0, 0.0, 0.0), links)
>>> plan.bound(8, whole=True), *time_plans((4, "1f1b", 8, 1), [plan])
(22.0, 22.0)

>>> layout = lay_out_stages(126, 16, 1, (7, *(8,) * 14, 7))
>>> layout.kinds
((7, True, False), (8, False, False), (7, False, True))
>>> layout.turns
((0, (0, 0, 0)), (14, (1, 13, 0)), (15, (1, 14, 0)))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from operator import mul
from typing import Self

import numpy as np

from synth.events.longest_path import Floats, Integers, Levels
from synth.step.schedules import (
    SCHEDULES,
    Action,
    Pass,
    PipelineSchedule,
    TransferGraph,
    TransferProtocol,
    build_transfer_graph,
    one_f_one_b,
)
from synth.step.search.composing.inside import ModelPart

Structure = tuple[int, str, int, int]
"""Pipeline ranks, schedule, microbatches, chunks: these determine the passes and their order."""


StageKind = tuple[float, bool, bool]
"""A kind of stage: its number of layers, whether it is the first, and whether it is the last."""

KindValues = tuple[float, ...]
"""A value for each kind of stages or of ranks."""


@dataclass(frozen=True)
class StageLayout:
    """The kind of each of the ``stages``, and the stages of each rank."""

    stages: tuple[StageKind, ...]
    of_rank: tuple[tuple[int, ...], ...]

    @cached_property
    def kinds(self) -> tuple[StageKind, ...]:
        """The distinct kinds of stages."""
        return tuple(dict.fromkeys(self.stages))

    @cached_property
    def kind_of(self) -> tuple[int, ...]:
        """The index of each stage's kind."""
        return tuple(map(self.kinds.index, self.stages))

    @cached_property
    def _counted(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each rank, the number of its stages of each kind."""
        counts = (Counter(self.kind_of[stage] for stage in stages) for stages in self.of_rank)
        return tuple(tuple(sorted(count.items())) for count in counts)

    @cached_property
    def ranks(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The distinct kinds of ranks: pairs of a kind of stage and the number of such stages."""
        return tuple(dict.fromkeys(self._counted))

    @cached_property
    def rank_kind_of(self) -> tuple[int, ...]:
        """The index of each rank's kind."""
        return tuple(map(self.ranks.index, self._counted))

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """The first rank of each kind."""
        return tuple(map(self.rank_kind_of.index, range(len(self.ranks))))

    @cached_property
    def turns(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """The last rank of each run of ranks of one kind, with the number of stages of each kind
        that come before that rank's own.
        """
        kinds = self.rank_kind_of
        last = [rank for rank, kind in enumerate(kinds) if kinds[rank + 1 : rank + 2] != (kind,)]
        stage_kinds = range(len(self.kinds))
        return tuple((rank, tuple(map(self.kind_of[:rank].count, stage_kinds))) for rank in last)

    def of_stages(self, values: Mapping[ModelPart, float]) -> KindValues:
        """Returns the sum of the values of its parts for each kind of stage."""
        return tuple(
            first * values[ModelPart.FIRST]
            + layers * values[ModelPart.LAYER]
            + last * values[ModelPart.LAST]
            for layers, first, last in self.kinds
        )

    def of_ranks(self, stages: KindValues) -> KindValues:
        """Returns the sum of the values of its stages for each kind of rank."""
        return tuple(sum(times * stages[kind] for kind, times in counts) for counts in self.ranks)

    def of_last(self, stages: KindValues) -> KindValues:
        """Returns the value of each rank kind's first stage, whose backward pass is its last."""
        return tuple(stages[self.kind_of[rank]] for rank in self.firsts)


@lru_cache(4096)
def lay_out_stages(
    layers: int,
    ranks: int,
    chunks: int,
    stage_layers: tuple[int, ...] = (),
    *,
    folded: bool = False,
) -> StageLayout:
    """Assigns stages to ranks in turn, ``chunks`` to each, with ``stage_layers`` or equal layers.

    ``folded``: stages go down the ranks and back up, as in a V-shaped schedule.
    """
    count = ranks * chunks
    sizes: Sequence[float] = stage_layers or (layers / count,) * count
    stages = ((size, not stage, stage == count - 1) for stage, size in enumerate(sizes))
    if folded:
        return StageLayout(tuple(stages), tuple((rank, count - 1 - rank) for rank in range(ranks)))
    return StageLayout(
        tuple(stages), tuple(tuple(range(rank, count, ranks)) for rank in range(ranks))
    )


@dataclass(frozen=True)
class PassSeconds:
    """Seconds of a plan's passes and transfers.

    By kind of stage: the ``forward`` and the ``backward`` pass of one microbatch. By kind of rank:
    all passes of one microbatch (``busy``), and the work done ``once`` per step. ``handed``: the
    transfer of values from each rank to the next.
    """

    layout: StageLayout
    forward: KindValues
    backward: KindValues
    busy: KindValues
    once: KindValues
    handed: Sequence[float]

    def bound(self, microbatches: int, *, whole: bool) -> float:
        """Returns a lower bound in seconds over all orders of the passes.

        Rank r begins when the first microbatch has passed through the stages before its own, and
        then runs all its passes. If backward passes are ``whole``, the last of these is the
        backward pass of stage r, and the backward passes of the stages before it follow.
        """
        sent, least = [0.0, *accumulate(self.handed)], 0.0
        for rank, before in self.layout.turns:
            kind = self.layout.rank_kind_of[rank]
            ahead = sent[rank] + sum(map(mul, before, self.forward))
            behind = sent[rank] + sum(map(mul, before, self.backward))
            done = ahead + microbatches * self.busy[kind]
            least = max(least, done + behind * whole + self.once[0], done + self.once[kind])
        return least


@dataclass(frozen=True)
class _ScheduleClock:
    """A schedule as tasks, for many plans that differ in seconds only.

    A search uses hundreds of schedules of thousands of actions, so arrays are stored instead of
    actions: the stage of each action, and its share of a forward and of a backward pass; the link
    of each transfer; and the last action of each rank.
    """

    levels: Levels
    stages: Integers
    ahead: Floats
    back: Floats
    links: Integers
    last: Integers

    @classmethod
    def of(cls, graph: TransferGraph) -> Self:
        actions = graph.order.actions
        return cls(
            graph.tasks.levels,
            np.array([action.stage for action in actions]),
            np.array([float(action.kind is Pass.FORWARD) for action in actions]),
            np.array([_BACKWARD_SHARES[action.kind] for action in actions]),
            np.array([_link(graph.order, *pair) for pair in graph.transfers], np.int64),
            np.array([queue[-1] for queue in graph.queues]),
        )

    def seconds(self, plans: Sequence[PassSeconds]) -> list[float]:
        """Returns the seconds of each plan, until every rank has finished its work of a step."""
        forward = np.array([np.take(plan.forward, plan.layout.kind_of) for plan in plans])
        backward = np.array([np.take(plan.backward, plan.layout.kind_of) for plan in plans])
        seconds = (self.ahead * forward[:, self.stages] + self.back * backward[:, self.stages]).T
        if len(self.links):
            # Interleaved stages wrap from the last rank to the first: priced as the slowest link.
            handed = np.array([[*plan.handed, max(plan.handed)] for plan in plans])
            seconds = np.concatenate([seconds, handed[:, self.links].T])
        last = self.levels.ends(seconds)[self.last]
        once = np.array([np.take(plan.once, plan.layout.rank_kind_of) for plan in plans])
        steps: list[float] = (last.T + once).max(axis=1).tolist()
        return steps


def _link(order: PipelineSchedule, source: Action, target: Action) -> int:
    """Returns the lower of two neighbouring ranks; the last index for a transfer that wraps."""
    ends = [order.rank_of[action.stage] for action in (source, target)]
    return min(ends) if abs(ends[0] - ends[1]) == 1 else len(order.ranks) - 1


_BACKWARD_SHARES = {Pass.FORWARD: 0.0, Pass.BACKWARD: 1.0, Pass.INPUT: 0.5, Pass.WEIGHT: 0.5}
"""The share of a whole backward pass that each kind of pass takes."""


def time_plans(structure: Structure, plans: Sequence[PassSeconds]) -> list[float]:
    """Returns the seconds of a step for each of several plans with the same structure."""
    return _clock(*structure).seconds(plans)


@lru_cache(4096)
def _clock(ranks: int, schedule: str, microbatches: int, chunks: int) -> _ScheduleClock:
    if schedule:
        order = SCHEDULES[schedule](ranks, microbatches, chunks)
    else:
        order = one_f_one_b(1, microbatches)
    return _ScheduleClock.of(build_transfer_graph(order, TransferProtocol.EAGER))
