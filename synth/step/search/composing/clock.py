"""Times the passes of plans in the order of a schedule, or bounds them without a clock.

A stage has some layers; the first also has what comes before them, the last what comes after, which
for a large vocabulary is as much as several layers. Most stages are alike, so plans are described
by *kinds* of stages and of ranks (``lay_out_stages``). The lower bound needs no clock: a rank waits
for the stages before its own, does all its passes, and those stages end after it. Four equal stages
and eight microbatches by 1F1B attain it:

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
"""Pipeline ranks, schedule, microbatches, chunks: which passes there are, and their order."""


StageKind = tuple[float, bool, bool]
"""A kind of stage: how many layers, whether it is the first, and whether the last."""

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
        """For each rank the number of its stages of each kind."""
        counts = (Counter(self.kind_of[stage] for stage in stages) for stages in self.of_rank)
        return tuple(tuple(sorted(count.items())) for count in counts)

    @cached_property
    def ranks(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The distinct kinds of ranks: how many stages of each kind they have."""
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
        """The last rank of each run of ranks of one kind, and for each kind the number of stages
        before that rank's own.
        """
        kinds = self.rank_kind_of
        last = [rank for rank, kind in enumerate(kinds) if kinds[rank + 1 : rank + 2] != (kind,)]
        stage_kinds = range(len(self.kinds))
        return tuple((rank, tuple(map(self.kind_of[:rank].count, stage_kinds))) for rank in last)

    def of_stages(self, values: Mapping[ModelPart, float]) -> KindValues:
        """Sums the values of parts for each kind of stages."""
        return tuple(
            first * values[ModelPart.FIRST]
            + layers * values[ModelPart.LAYER]
            + last * values[ModelPart.LAST]
            for layers, first, last in self.kinds
        )

    def of_ranks(self, stages: KindValues) -> KindValues:
        """Sums the values of kinds of stages for each kind of ranks."""
        return tuple(sum(times * stages[kind] for kind, times in counts) for counts in self.ranks)

    def of_last(self, stages: KindValues) -> KindValues:
        """The value of each kind of ranks' first stage, whose backward pass is its last."""
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
    """Lays stages out on ranks in turn, ``chunks`` on each, with ``stage_layers`` or equal layers.

    ``folded``: stages go down the ranks and back up, as those of a V-shaped schedule.
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
    """Seconds of a plan: of a microbatch's ``forward`` and ``backward`` pass by kind of stage; by
    kind of rank of one microbatch (``busy``) and of what is done ``once``; and of handing values
    from each rank to the next (``handed``).
    """

    layout: StageLayout
    forward: KindValues
    backward: KindValues
    busy: KindValues
    once: KindValues
    handed: Sequence[float]

    def bound(self, microbatches: int, *, whole: bool) -> float:
        """Lower bound over all orders of the passes, if backward passes are ``whole``.

        Rank r begins when the first microbatch has come through the stages before its own, and has
        all its passes to do; the last of them is the backward pass of stage r, and those of the
        stages before it come after.
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

    A search meets hundreds of schedules of thousands of actions, so arrays are kept and no actions:
    the stage of each action, its share of a forward and of a backward pass; the link of each
    transfer; and the last action of each rank.
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
        """Seconds of each plan, until the last rank has done what it does once."""
        forward = np.array([np.take(plan.forward, plan.layout.kind_of) for plan in plans])
        backward = np.array([np.take(plan.backward, plan.layout.kind_of) for plan in plans])
        seconds = (self.ahead * forward[:, self.stages] + self.back * backward[:, self.stages]).T
        if len(self.links):
            handed = np.array([[*plan.handed, max(plan.handed)] for plan in plans])
            seconds = np.concatenate([seconds, handed[:, self.links].T])
        last = self.levels.ends(seconds)[self.last]
        once = np.array([np.take(plan.once, plan.layout.rank_kind_of) for plan in plans])
        steps: list[float] = (last.T + once).max(axis=1).tolist()
        return steps


def _link(order: PipelineSchedule, source: Action, target: Action) -> int:
    """The lower of two neighbouring ranks; from the last rank to the first, the last index."""
    ends = [order.rank_of[action.stage] for action in (source, target)]
    return min(ends) if abs(ends[0] - ends[1]) == 1 else len(order.ranks) - 1


_BACKWARD_SHARES = {Pass.FORWARD: 0.0, Pass.BACKWARD: 1.0, Pass.INPUT: 0.5, Pass.WEIGHT: 0.5}
"""How much of a backward pass each kind is."""


def time_plans(structure: Structure, plans: Sequence[PassSeconds]) -> list[float]:
    """Returns the seconds of a step for each of several plans of one structure."""
    return _clock(*structure).seconds(plans)


@lru_cache(4096)
def _clock(ranks: int, schedule: str, microbatches: int, chunks: int) -> _ScheduleClock:
    if schedule:
        order = SCHEDULES[schedule](ranks, microbatches, chunks)
    else:
        order = one_f_one_b(1, microbatches)
    return _ScheduleClock.of(build_transfer_graph(order, TransferProtocol.EAGER))
