"""The passes of plans in the order of a schedule: on one clock for many, or bounded without one.

A stage has some layers; the first has what comes before them, too, and the last what comes after,
which of a large vocabulary is as much as several layers. Most do all the same, so plans are told by
*kinds* of stages and of ranks, as they are ``lay_out_stages``. What no order of the passes can beat
needs no clock: a rank waits for the stages before its own, does all its passes, and those stages
end after it. Four equal stages and eight microbatches by 1F1B reach that:

>>> each = (1.0, 1.0, 1.0)
>>> links = [0.0, 0.0, 0.0]
>>> plan = Seconds(lying(4, 4, 1), each, each, (2.0, 2.0, 2.0), (0.0, 0.0, 0.0), links)
>>> plan.bound(8, whole=True), *clocked((4, "1f1b", 8, 1), [plan])
(22.0, 22.0)

>>> lies = lying(126, 16, 1, (7, *(8,) * 14, 7))
>>> lies.kinds
((7, True, False), (8, False, False), (7, False, True))
>>> lies.turns
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
"""Ranks of stages, schedule, microbatches, chunks: which passes there are, and their order."""


StageKind = tuple[float, bool, bool]
"""Of a stage: how many layers, whether it is the first, and whether the last."""

KindValues = tuple[float, ...]
"""What each kind of stages or ranks has, or takes."""


@dataclass(frozen=True)
class StageLayout:
    """The kind of each of the ``stages``, and of each rank the stages that it has."""

    stages: tuple[StageKind, ...]
    of_rank: tuple[tuple[int, ...], ...]

    @cached_property
    def kinds(self) -> tuple[StageKind, ...]:
        """Of stages, each once."""
        return tuple(dict.fromkeys(self.stages))

    @cached_property
    def kind_of(self) -> tuple[int, ...]:
        """The place of each stage among kinds."""
        return tuple(map(self.kinds.index, self.stages))

    @cached_property
    def _counted(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each rank how many stages it has of which kinds."""
        each = (Counter(self.kind_of[stage] for stage in has) for has in self.of_rank)
        return tuple(tuple(sorted(one.items())) for one in each)

    @cached_property
    def ranks(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The kinds of ranks: how many stages they have of which kinds."""
        return tuple(dict.fromkeys(self._counted))

    @cached_property
    def rank_kind_of(self) -> tuple[int, ...]:
        """The place of each rank among kinds of ranks."""
        return tuple(map(self.ranks.index, self._counted))

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """The first rank of each kind."""
        return tuple(map(self.rank_kind_of.index, range(len(self.ranks))))

    @cached_property
    def turns(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """The last of each run of ranks of one kind, and of the stages before its own, as many as
        there are of each kind.
        """
        of = self.rank_kind_of
        last = [at for at, kind in enumerate(of) if of[at + 1 : at + 2] != (kind,)]
        each = range(len(self.kinds))
        return tuple((at, tuple(map(self.kind_of[:at].count, each))) for at in last)

    def of_stages(self, of: Mapping[ModelPart, float]) -> KindValues:
        """What each kind of stages has, by what parts have."""
        return tuple(
            first * of[ModelPart.FIRST] + layers * of[ModelPart.LAYER] + last * of[ModelPart.LAST]
            for layers, first, last in self.kinds
        )

    def of_ranks(self, stages: KindValues) -> KindValues:
        """What each kind of ranks has, by what kinds of stages have."""
        return tuple(sum(times * stages[kind] for kind, times in has) for has in self.ranks)

    def of_last(self, stages: KindValues) -> KindValues:
        """What the stage of each kind of ranks has whose backward pass is its last: its first."""
        return tuple(stages[self.kind_of[rank]] for rank in self.firsts)


@lru_cache(4096)
def lay_out_stages(
    layers: int, ranks: int, chunks: int, said: tuple[int, ...] = (), *, folded: bool = False
) -> StageLayout:
    """Stages in turn on ranks, ``chunks`` on each; of ``said`` layers, or of as many each.

    ``folded``: stages go down the ranks and back up, as those of a schedule in a V.
    """
    count = ranks * chunks
    each: Sequence[float] = said or (layers / count,) * count
    stages = ((size, not at, at == count - 1) for at, size in enumerate(each))
    if folded:
        return StageLayout(tuple(stages), tuple((rank, count - 1 - rank) for rank in range(ranks)))
    return StageLayout(
        tuple(stages), tuple(tuple(range(rank, count, ranks)) for rank in range(ranks))
    )


@dataclass(frozen=True)
class PassSeconds:
    """Of a plan: a microbatch's ``forward`` and ``backward`` pass by kind of stage; by kind of rank
    what it does of one microbatch (``busy``) and ``once``; and of what is handed from each rank to
    the next.
    """

    lies: StageLayout
    forward: KindValues
    backward: KindValues
    busy: KindValues
    once: KindValues
    handed: Sequence[float]

    def bound(self, microbatches: int, *, whole: bool) -> float:
        """What no order of the passes is faster than, if backward passes are ``whole``.

        Rank r begins when the first microbatch has come through the stages before its own, and has
        all its passes to do; the last of them is the backward pass of stage r, and those of the
        stages before it come after.
        """
        sent, least = [0.0, *accumulate(self.handed)], 0.0
        for rank, before in self.lies.turns:
            kind = self.lies.rank_kind_of[rank]
            ahead = sent[rank] + sum(map(mul, before, self.forward))
            behind = sent[rank] + sum(map(mul, before, self.backward))
            done = ahead + microbatches * self.busy[kind]
            least = max(least, done + behind * whole + self.once[0], done + self.once[kind])
        return least


@dataclass(frozen=True)
class _ScheduleClock:
    """An order as tasks, for many plans that differ in seconds only.

    A search meets hundreds of orders of thousands of actions each, so numbers are kept and no
    action: of each its stage, and how much of a forward and of a backward pass it is; of each
    transfer its link; and the last action of each rank.
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
            np.array([one.stage for one in actions]),
            np.array([float(one.kind is Pass.FORWARD) for one in actions]),
            np.array([_BACKWARD_SHARES[one.kind] for one in actions]),
            np.array([_link(graph.order, *pair) for pair in graph.transfers], np.int64),
            np.array([queue[-1] for queue in graph.queues]),
        )

    def seconds(self, several: Sequence[PassSeconds]) -> list[float]:
        """Of each plan, until the last rank has done what it does once."""
        forward = np.array([np.take(one.forward, one.lies.kind_of) for one in several])
        backward = np.array([np.take(one.backward, one.lies.kind_of) for one in several])
        took = (self.ahead * forward[:, self.stages] + self.back * backward[:, self.stages]).T
        if len(self.links):
            handed = np.array([[*one.handed, max(one.handed)] for one in several])
            took = np.concatenate([took, handed[:, self.links].T])
        last = self.levels.ends(took)[self.last]
        once = np.array([np.take(one.once, one.lies.rank_kind_of) for one in several])
        found: list[float] = (last.T + once).max(axis=1).tolist()
        return found


def _link(order: PipelineSchedule, source: Action, target: Action) -> int:
    """Between which ranks, by the lower; from the last rank to the first, the last of all."""
    ends = [order.rank_of[one.stage] for one in (source, target)]
    return min(ends) if abs(ends[0] - ends[1]) == 1 else len(order.ranks) - 1


_BACKWARD_SHARES = {Pass.FORWARD: 0.0, Pass.BACKWARD: 1.0, Pass.INPUT: 0.5, Pass.WEIGHT: 0.5}
"""How much of a backward pass each kind is."""


def time_plans(structure: Structure, several: Sequence[PassSeconds]) -> list[float]:
    """Seconds of a step by each of several plans of one structure, on its clock."""
    return _clock(*structure).seconds(several)


@lru_cache(4096)
def _clock(ranks: int, schedule: str, microbatches: int, chunks: int) -> _ScheduleClock:
    if schedule:
        order = SCHEDULES[schedule](ranks, microbatches, chunks)
    else:
        order = one_f_one_b(1, microbatches)
    return _ScheduleClock.of(build_transfer_graph(order, TransferProtocol.EAGER))
