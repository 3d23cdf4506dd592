"""Zero bubble by durations: a free rank first runs the pass that other ranks wait for.

The hand-drawn schedules (arXiv 2401.10241, section 2) fit passes of equal length; the authors
search for others by a model's durations, within its memory (section 3). This module uses list
scheduling. Among the passes that a rank could begin first, it prefers the gradient of an input,
then a forward pass whose activations fit in memory; it runs gradients of weights where it would
otherwise wait. Until its first gradient arrives, it runs only forward passes that end before that.
Of a few such schedules the best is the schedule whose slowest rank takes least time: a rank that
has finished its weight passes may update the weights and begin the next step, whatever other ranks
still do.
"""

from __future__ import annotations

from itertools import product
from math import ceil, floor, inf

from hierarchies import InputError
from synth.step.schedules.clock import Durations, Transfers
from synth.step.schedules.order import Action, Pass, PipelineSchedule

PATIENCE = (0.0, 0.1, 0.5)
"""Shares of W's seconds that a rank waits for F or I before it begins W."""

_SLACK = 1e-9


def zero_bubble(
    ranks: int,
    microbatches: int,
    durations: Durations,
    transfer_seconds: float = 0.0,
    room: float | None = None,
    kept: float = 0.5,
) -> PipelineSchedule:
    """Searches for a schedule for these durations, with one stage per rank.

    ``room``: the most microbatches whose activations a rank holds; by default two for each rank
    (ZB-2p; 1F1B's first rank holds one for each). ``kept``: the share of them that ``W`` still
    reads after ``I``. Raises InputError for sizes below 1, or a share outside of 0 to 1.
    """
    room = 2.0 * ranks if room is None else room
    if min(ranks, microbatches) < 1 or room < 1 or not 0 <= kept <= 1:
        problem = (
            f"{ranks} ranks, {microbatches} microbatches, activations of "
            f"{room:g}, a share of {kept:g} kept"
        )
        raise InputError(problem, hint="at least 1, 1 and 1, and from 0 to 1")
    sent = Transfers(transfer_seconds).seconds
    f, i = durations.forward_seconds, durations.backward_seconds - durations.weight
    around = f + i + 2 * sent
    ahead = [(ranks - 1 - rank) * around / f if f else inf for rank in range(ranks)]
    searches = []
    for rounded, patience in product((floor, ceil), PATIENCE):
        first = [1 + rounded(n + _SLACK) if n < inf else microbatches for n in ahead]
        search = _ZeroBubbleSearch(microbatches, (f, i, durations.weight), sent, room, kept, first)
        search.fill(patience)
        searches.append(search)
    return PipelineSchedule(min(searches, key=lambda search: search.slowest).rows)


class _ZeroBubbleSearch:
    """The state of a search: the F, I and W that each rank has begun, and when it is free again."""

    def __init__(
        self,
        microbatches: int,
        seconds: tuple[float, float, float],
        transfer: float,
        room: float,
        kept: float,
        first: list[int],
    ) -> None:
        ranks = range(len(first))
        self._microbatches, self._seconds, self._transfer = microbatches, seconds, transfer
        self._room, self._kept, self._first = room + _SLACK, kept, first
        self._free = [0.0 for _ in ranks]
        self._rows: list[list[Action]] = [[] for _ in ranks]
        self._forward: list[list[float]] = [[] for _ in ranks]
        self._input: list[list[float]] = [[] for _ in ranks]
        self._weights = [0 for _ in ranks]

    @property
    def rows(self) -> tuple[tuple[Action, ...], ...]:
        return tuple(map(tuple, self._rows))

    @property
    def slowest(self) -> float:
        """Seconds of the slowest rank, from its first pass to its last."""
        first = self._seconds[0]
        begun = (ends[0] - first for ends in self._forward)
        return max(free - begin for free, begin in zip(self._free, begun, strict=True))

    def fill(self, patience: float) -> None:
        """Appends passes one at a time, always the pass that may begin first."""
        ranks = range(len(self._rows))
        nexts = [self._next(rank, patience) for rank in ranks]
        for _ in range(3 * self._microbatches * len(nexts)):
            rank = min(ranks, key=lambda rank: nexts[rank][0])
            begin, kind = nexts[rank]
            self._do(rank, kind, begin)
            # Only neighbours read what this pass makes, so other ranks' choices still hold.
            for near in range(max(0, rank - 1), min(len(nexts), rank + 2)):
                nexts[near] = self._next(near, patience)

    def _next(self, rank: int, patience: float) -> tuple[float, Pass]:
        """Returns the next pass of a rank and its start: the earliest, then the most urgent."""
        free, forward, inputs = self._free[rank], len(self._forward[rank]), len(self._input[rank])
        weights = self._weights[rank]
        options = [(inf, inf, Pass.WEIGHT)]
        if inputs < forward:
            options.append((max(free, self._gradient(rank, inputs)), 0.0, Pass.INPUT))
        held = forward - inputs + self._kept * (inputs - weights)
        early = not inputs and forward >= self._first[rank]
        if forward < self._microbatches and held + 1 <= self._room and not early:
            options.append((max(free, self._activation(rank, forward)), 1.0, Pass.FORWARD))
        if weights < inputs:
            options.append((free + patience * self._seconds[2], 2.0, Pass.WEIGHT))
        begin, _, kind = min(options, key=lambda option: option[:2])
        return (free if weights < inputs and kind is Pass.WEIGHT else begin), kind

    def _activation(self, rank: int, microbatch: int) -> float:
        """Returns when the activations of the previous rank arrive."""
        if not rank:
            return 0.0
        made = self._forward[rank - 1]
        return made[microbatch] + self._transfer if microbatch < len(made) else inf

    def _gradient(self, rank: int, microbatch: int) -> float:
        if rank + 1 == len(self._rows):
            return self._forward[rank][microbatch]
        made = self._input[rank + 1]
        return made[microbatch] + self._transfer if microbatch < len(made) else inf

    def _do(self, rank: int, kind: Pass, begin: float) -> None:
        f, i, w = self._seconds
        match kind:
            case Pass.FORWARD:
                number, self._free[rank] = len(self._forward[rank]), begin + f
                self._forward[rank].append(begin + f)
            case Pass.INPUT:
                number, self._free[rank] = len(self._input[rank]), begin + i
                self._input[rank].append(begin + i)
            case _:
                number, self._free[rank] = self._weights[rank], begin + w
                self._weights[rank] += 1
        self._rows[rank].append(Action(rank, kind, number))
