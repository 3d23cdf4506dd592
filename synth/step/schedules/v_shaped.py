"""Schedules whose stages go down the ranks and back up: rank r has stages r and 2P - 1 - r of 2P.

The first and the last stage share a rank, so no rank waits for the whole model before its first
gradient. ``zbv`` is ZB-V of zero bubble (arXiv 2401.10241, section 6); ``dualpipev`` is the folded
form of DeepSeek's DualPipe (arXiv 2412.19437), which pairs forward and backward passes. Both equal
PyTorch's ``ScheduleZBVZeroBubble`` and ``ScheduleDualPipeV``, pass for pass.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from hierarchies import InputError
from synth.step.schedules.order import Action, Pass, PipelineSchedule

F, B, I, W = Pass.FORWARD, Pass.BACKWARD, Pass.INPUT, Pass.WEIGHT  # noqa: E741 - PyTorch's letters
DOWN, UP = 0, 1
"""The two stages of a rank: on the way to the last rank, and on the way back."""


def zbv(ranks: int, microbatches: int) -> PipelineSchedule:
    """Returns zero bubble in a V: no bubble in the middle if F, I and W take equally long.

    A rank holds as many activations as 1F1B's first rank. With fewer than 2P - 1 microbatches the
    result is the schedule for 2P - 1, without the passes of the surplus microbatches.
    """
    count = max(2 * ranks - 1, microbatches)
    rows = (_zbv(ranks, rank, count) for rank in range(ranks))
    return PipelineSchedule.known(
        tuple(tuple(a for a in row if a.microbatch < microbatches) for row in rows)
    )


def dualpipev(ranks: int, microbatches: int) -> PipelineSchedule:
    """Pairs forward passes of one stage with backward passes of the other.

    Backward passes are whole in the middle and split at both ends. Raises InputError for fewer
    microbatches than stages.
    """
    check_dualpipev(ranks, microbatches)
    rows = (_dualpipev(ranks, rank, microbatches) for rank in range(ranks))
    return PipelineSchedule.known(tuple(rows))


def check_dualpipev(ranks: int, microbatches: int) -> None:
    """Raises InputError for fewer microbatches than stages."""
    if microbatches < 2 * ranks:
        raise InputError(
            f"dualpipev with {microbatches} microbatches and {2 * ranks} stages",
            hint=f"at least as many microbatches as stages: {2 * ranks}",
        )


@dataclass
class _Row:
    """The passes of a rank so far; each pass of a stage takes the next microbatch. Mutable."""

    stages: tuple[int, int]
    actions: list[Action] = field(default_factory=list)
    _counts: Counter[tuple[int, Pass]] = field(default_factory=Counter)
    _weights: deque[int] = field(default_factory=deque)

    def do(self, *passes: tuple[int, Pass]) -> None:
        """Appends passes of the stage down or up. ``B`` counts as both of its halves."""
        for side, kind in passes:
            counted = I if kind is B else kind
            number = self._counts[side, counted]
            self.actions.append(Action(self.stages[side], kind, number))
            self._counts[side, counted] += 1
            self._counts[side, W] += kind is B
            if kind is I:
                self._weights.append(side)

    def weight(self) -> None:
        """Appends the weight pass that has been pending longest, if there is one."""
        if self._weights:
            self.do((self._weights.popleft(), W))

    def count(self, side: int, kind: Pass) -> int:
        """Returns the number of passes of a kind on a stage so far."""
        return self._counts[side, kind]


def _row(ranks: int, rank: int) -> _Row:
    return _Row((rank, 2 * ranks - 1 - rank))


def _zbv(ranks: int, rank: int, microbatches: int) -> Iterator[Action]:
    row = _row(ranks, rank)
    behind = ranks - rank
    row.do(*[(DOWN, F)] * (2 * behind - 1))
    row.do(*[(UP, F), (DOWN, F)] * rank)
    row.do(*[(UP, F), (UP, I), (UP, W)] * behind)
    while row.count(UP, F) < microbatches:
        if row.count(DOWN, F) < microbatches:
            row.do((DOWN, F))
        row.do((DOWN, I), (DOWN, W), (UP, F), (UP, I), (UP, W))
    row.do(*[(DOWN, I), (UP, I)] * rank)
    row.do(*[(DOWN, I), (DOWN, W)] * behind)
    for side in (UP, DOWN):
        row.do(*[(side, W)] * (row.count(side, I) - row.count(side, W)))
    yield from row.actions


def _dualpipev(ranks: int, rank: int, microbatches: int) -> tuple[Action, ...]:
    row = _row(ranks, rank)
    behind = ranks - 1 - rank
    row.do(*[(DOWN, F)] * (2 * behind))
    row.do(*[(DOWN, F), (UP, F)] * (rank + 1))
    for _ in range(behind):
        row.do((UP, I))
        row.weight()
        row.do((UP, F))
    row.do(*[(DOWN, F), (UP, B), (UP, F), (DOWN, B)] * (microbatches - 2 * ranks + rank + 1))
    row.do(*[(UP, B), (UP, F), (DOWN, B)] * behind)
    # The second half of the last backward passes is split, so that weight passes fill bubbles.
    for place in range(2 * (rank + 1)):
        row.do((UP if place % 2 == 0 else DOWN, B if place <= rank else I))
    for _ in range(behind):
        row.weight()
        row.do((DOWN, I))
    for _ in range(rank + 1):
        row.weight()
    return tuple(row.actions)
