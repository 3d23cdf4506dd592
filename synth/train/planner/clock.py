"""The passes of plans in the order of a schedule: on one clock for many, or bounded without one.

Stages between the first and the last do all the same, and so do ranks. So a plan is told by what
its ends and one between take. What no order of the passes can beat needs no clock: a rank waits for
the stages before its own, does all its passes, and the stages before it end after it. Four equal
stages and eight microbatches by 1F1B reach that:

>>> each = (1.0, 1.0, 1.0)
>>> plan = Seconds(each, each, (2.0, 2.0, 2.0), (0.0, 0.0, 0.0), [0.0, 0.0, 0.0])
>>> plan.bound(4, 8, whole=True), *clocked((4, "1f1b", 8, 1), [plan])
(22.0, 22.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np

from synth.events.longest_path import ends_together
from synth.train.orders import (
    SCHEDULES,
    Action,
    Pass,
    Protocol,
    Scheduled,
    one_f_one_b,
    scheduled,
)

Structure = tuple[int, str, int, int]
"""Ranks of stages, schedule, microbatches, chunks: which passes there are, and their order."""


Ends = tuple[float, float, float]
"""Of the first stage or rank, of one between, and of the last; those between do all the same."""


@dataclass(frozen=True)
class Seconds:
    """Of a plan: a microbatch's ``forward`` and ``backward`` pass by stage; by rank what it does of
    one microbatch (``busy``) and ``once``; and of what is handed from each rank to the next.
    """

    forward: Ends
    backward: Ends
    busy: Ends
    once: Ends
    handed: Sequence[float]

    def bound(self, ranks: int, microbatches: int, *, whole: bool) -> float:
        """What no order of the passes is faster than, if backward passes are ``whole``.

        Rank r begins when the first microbatch has come through the stages before its own, and has
        all its passes to do; the last of them is the backward pass of stage r, and those of the
        stages before it come after.
        """
        sent, least = [0.0, *accumulate(self.handed)], 0.0
        for rank in {0, max(0, ranks - 2), ranks - 1}:
            end = _end(rank, ranks)
            first, between = min(rank, 1), max(0, rank - 1)
            ahead = sent[rank] + first * self.forward[0] + between * self.forward[1]
            behind = sent[rank] + first * self.backward[0] + between * self.backward[1]
            done = ahead + microbatches * self.busy[end]
            least = max(least, done + behind * whole + self.once[0], done + self.once[end])
        return least


@dataclass(frozen=True)
class _Clock:
    """An order as tasks, for many plans that differ in seconds only."""

    graph: Scheduled

    def seconds(self, several: Sequence[Seconds]) -> list[float]:
        """Of each plan, until the last rank has done what it does once."""
        stages, ahead, back, links, ranks = self._places
        forward = np.array([one.forward for one in several])[:, stages]
        backward = np.array([one.backward for one in several])[:, stages]
        took = (np.array(ahead) * forward + np.array(back) * backward).T
        if self.graph.transfers:
            handed = np.array([[*one.handed, max(one.handed)] for one in several])
            took = np.concatenate([took, handed[:, links].T])
        ends = ends_together(self.graph.tasks, took)
        last = ends[[queue[-1] for queue in self.graph.queues]]
        once = np.array([one.once for one in several])[:, ranks]
        found: list[float] = (last.T + once).max(axis=1).tolist()
        return found

    @cached_property
    def _places(self) -> tuple[list[int], list[float], list[float], list[int], list[int]]:
        """Of each action the end its stage is, and how much of a forward and of a backward pass;
        of each transfer its link; and the end that each rank is.
        """
        order = self.graph.order
        return (
            [_end(one.stage, order.stages) for one in order.actions],
            [float(one.kind is Pass.FORWARD) for one in order.actions],
            [_BACK[one.kind] for one in order.actions],
            [self._link(*pair) for pair in self.graph.transfers],
            [_end(rank, len(order.ranks)) for rank in range(len(order.ranks))],
        )

    def _link(self, source: Action, target: Action) -> int:
        """Between which ranks, by the lower; from the last rank to the first, the last of all."""
        ends = [self.graph.order.rank_of[one.stage] for one in (source, target)]
        return min(ends) if abs(ends[0] - ends[1]) == 1 else len(self.graph.order.ranks) - 1


_BACK = {Pass.FORWARD: 0.0, Pass.BACKWARD: 1.0, Pass.INPUT: 0.5, Pass.WEIGHT: 0.5}
"""How much of a backward pass each kind is."""


def _end(one: int, of: int) -> int:
    """The place of a stage or rank among ``Ends``."""
    return 0 if one == 0 else 2 if one == of - 1 else 1


def clocked(structure: Structure, several: Sequence[Seconds]) -> list[float]:
    """Seconds of a step by each of several plans of one structure, on its clock."""
    return _clock(*structure).seconds(several)


@lru_cache(4096)
def _clock(ranks: int, schedule: str, microbatches: int, chunks: int) -> _Clock:
    if schedule:
        order = SCHEDULES[schedule](ranks, microbatches, chunks)
    else:
        order = one_f_one_b(1, microbatches)
    return _Clock(scheduled(order, Protocol.EAGER))
