"""The named schedules, each as a small function of a rank's number.

Each follows its paper and equals PyTorch's class of the same schedule:
GPipe (arXiv 1811.06965), 1F1B (PipeDream-flush, 2006.09503), interleaved 1F1B (Megatron-LM,
2104.04473), zero bubble H1 (2401.10241), looped BFS (breadth-first pipelines, 2211.05953), and the
V-shaped schedules (``v_shaped``). Zero bubble by durations (``zero_bubble``) has no PyTorch class;
under its name it uses ``DEFAULT_DURATIONS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from hierarchies import InputError
from synth.step.schedules.clock import Durations
from synth.step.schedules.order import Action, Pass, PipelineSchedule
from synth.step.schedules.v_shaped import check_dualpipev, dualpipev, zbv
from synth.step.schedules.zero_bubble import zero_bubble

Row = Sequence[Action]


def gpipe(ranks: int, microbatches: int) -> PipelineSchedule:
    """Runs all forward passes, then all backward passes."""
    _check(ranks, microbatches)
    kinds = (Pass.FORWARD, Pass.BACKWARD)
    return PipelineSchedule.known(
        tuple(
            tuple(Action(rank, kind, m) for kind in kinds for m in range(microbatches))
            for rank in range(ranks)
        )
    )


def one_f_one_b(ranks: int, microbatches: int) -> PipelineSchedule:
    """Alternates forward and backward passes once a gradient arrives: holds few activations."""
    _check(ranks, microbatches)
    return PipelineSchedule.known(
        tuple(
            _alternate_passes(
                [Action(rank, Pass.FORWARD, m) for m in range(microbatches)],
                [Action(rank, Pass.BACKWARD, m) for m in range(microbatches)],
                ranks - 1 - rank,
            )
            for rank in range(ranks)
        )
    )


def interleaved(ranks: int, microbatches: int, chunks: int) -> PipelineSchedule:
    """Returns 1F1B with several stages per rank, which shrink bubbles: rank r has r, r + ranks, ...

    Microbatches go in rounds of equal size: the number of ranks, if it divides their number.
    """
    rounds = _Rounds(ranks, microbatches, chunks)
    return PipelineSchedule.known(
        tuple(
            _alternate_passes(
                rounds.forward(rank),
                rounds.backward(rank, Pass.BACKWARD),
                rounds.ahead + 2 * (ranks - 1 - rank),
            )
            for rank in range(ranks)
        )
    )


def zero_bubble_h1(ranks: int, microbatches: int, chunks: int = 1) -> PipelineSchedule:
    """Returns 1F1B with split backward passes: stages wait for I only, and W fills bubbles.

    On rank r, W runs r microbatches after its I. No rank then holds more activations than the first
    rank of 1F1B.
    """
    rounds = _Rounds(ranks, microbatches, chunks)
    rows = []
    for rank in range(ranks):
        first = rounds.backward(rank, Pass.INPUT)
        row = _alternate_passes(rounds.forward(rank), first, rounds.ahead + ranks - 1 - rank)
        rows.append(_insert_weight_passes(row, rounds.backward(rank, Pass.WEIGHT), rank))
    return PipelineSchedule.known(tuple(rows))


def looped_bfs(ranks: int, microbatches: int, chunks: int) -> PipelineSchedule:
    """Runs all microbatches on a rank's first stage, then on its next, and backward in reverse."""
    _check(ranks, microbatches, chunks)
    rows = []
    for rank in range(ranks):
        stages = range(rank, ranks * chunks, ranks)
        forward = [Action(s, Pass.FORWARD, m) for s in stages for m in range(microbatches)]
        rows.append(
            (*forward, *(Action(a.stage, Pass.BACKWARD, a.microbatch) for a in forward[::-1]))
        )
    return PipelineSchedule.known(tuple(rows))


DEFAULT_DURATIONS = Durations(1.0, 2.0)
"""A backward pass has twice the products of a forward pass, half of them for weights."""


@dataclass(frozen=True)
class NamedSchedule:
    """A schedule as a function of ranks, microbatches and chunks.

    ``halves``: whether it splits some or all backward passes. ``stages``: the number of stages per
    rank if it is fixed; None if it equals the number of chunks. ``folded``: whether rank r of P has
    the stages r and 2P - 1 - r.
    """

    build: Callable[[int, int, int], PipelineSchedule]
    halves: bool = False
    stages: int | None = None
    folded: bool = False

    def __call__(self, ranks: int, microbatches: int, chunks: int) -> PipelineSchedule:
        return self.build(ranks, microbatches, chunks)


SCHEDULES: Mapping[str, NamedSchedule] = {
    "gpipe": NamedSchedule(
        lambda ranks, microbatches, chunks: gpipe(ranks, microbatches), stages=1
    ),
    "1f1b": NamedSchedule(
        lambda ranks, microbatches, chunks: one_f_one_b(ranks, microbatches), stages=1
    ),
    "interleaved-1f1b": NamedSchedule(interleaved),
    "zero-bubble-h1": NamedSchedule(zero_bubble_h1, halves=True),
    "zero-bubble": NamedSchedule(
        lambda ranks, microbatches, chunks: zero_bubble(ranks, microbatches, DEFAULT_DURATIONS),
        halves=True,
        stages=1,
    ),
    "looped-bfs": NamedSchedule(looped_bfs),
    "zbv": NamedSchedule(
        lambda ranks, microbatches, chunks: zbv(ranks, microbatches),
        halves=True,
        stages=2,
        folded=True,
    ),
    "dualpipev": NamedSchedule(
        lambda ranks, microbatches, chunks: dualpipev(ranks, microbatches),
        halves=True,
        stages=2,
        folded=True,
    ),
}
"""Schedules by name."""

HALVES = tuple(name for name, schedule in SCHEDULES.items() if schedule.halves)
"""Schedules that split some or all backward passes."""

ONE_STAGE = tuple(name for name, schedule in SCHEDULES.items() if schedule.stages == 1)
"""Schedules with one stage per rank, whatever the chunks."""

V_SHAPED = tuple(name for name, schedule in SCHEDULES.items() if schedule.folded)
"""Schedules with two stages per rank, whatever the chunks: r and 2P - 1 - r of P ranks."""


def chunks_of(schedule: str, chunks: int = 1) -> int:
    """Returns the number of stages per rank in a schedule, for the given chunks."""
    known = SCHEDULES.get(schedule)  # recipes ask before they refuse an unknown name
    return (known and known.stages) or chunks


def check_sizes(schedule: str, ranks: int, microbatches: int, chunks: int) -> None:
    """Raises InputError for sizes that a named schedule does not support, without building it."""
    match schedule:
        case "interleaved-1f1b" | "zero-bubble-h1":
            _Rounds(ranks, microbatches, chunks)
        case "dualpipev":
            check_dualpipev(ranks, microbatches)
        case _:
            _check(ranks, microbatches, chunks)


def count_held(schedule: str, ranks: int, microbatches: int, chunks: int) -> tuple[int, ...]:
    """Equals ``PipelineSchedule.held``, but builds only the schedules without a formula.

    A rank of 1F1B holds the microbatches ahead of its first backward pass, and one more.
    """
    chunks = chunks_of(schedule, chunks)
    match schedule:
        case "1f1b":
            ahead, per_rank = 0, 1
        case "interleaved-1f1b":
            ahead, per_rank = _Rounds(ranks, microbatches, chunks).ahead, 2
        case _:
            return SCHEDULES[schedule](ranks, microbatches, chunks).held()
    most = microbatches * chunks
    return tuple(min(most, ahead + per_rank * (ranks - 1 - rank) + 1) for rank in range(ranks))


class _Rounds:
    """The passes of a rank with several stages, in rounds of microbatches through all of them."""

    def __init__(self, ranks: int, microbatches: int, chunks: int) -> None:
        _check(ranks, microbatches, chunks)
        rounds = max(1, microbatches // ranks) if chunks > 1 else 1
        if microbatches % rounds:
            raise InputError(
                f"{microbatches} microbatches on {ranks} ranks do not divide into equal rounds",
                hint=f"{microbatches // ranks * ranks} or {-(-microbatches // ranks) * ranks} do",
            )
        self._ranks, self._microbatches, self._chunks = ranks, microbatches, chunks
        self._each = microbatches // rounds
        self.ahead = (chunks - 1) * self._each
        """Forward passes of the last rank before its first backward pass may come."""

    def forward(self, rank: int) -> Row:
        return self._passes(Pass.FORWARD, range(rank, self._ranks * self._chunks, self._ranks))

    def backward(self, rank: int, kind: Pass) -> Row:
        stages = range(rank, self._ranks * self._chunks, self._ranks)
        return self._passes(kind, stages[::-1])

    def _passes(self, kind: Pass, stages: Sequence[int]) -> Row:
        return [
            Action(stage, kind, microbatch)
            for first in range(0, self._microbatches, self._each)
            for stage in stages
            for microbatch in range(first, first + self._each)
        ]


def _alternate_passes(forward: Row, backward: Row, ahead: int) -> tuple[Action, ...]:
    """Takes ``ahead`` forward passes, then alternates, then takes the remaining backward passes."""
    ahead = min(ahead, len(forward))
    pairs = zip(forward[ahead:], backward, strict=False)
    return (*forward[:ahead], *chain.from_iterable(pairs), *backward[len(forward) - ahead :])


def _insert_weight_passes(row: Row, later: Row, lag: int) -> tuple[Action, ...]:
    """Inserts weight passes: the first after I number ``lag``, the rest at the end."""
    weights = iter(later)
    merged: list[Action] = []
    inputs = 0
    for action in row:
        merged.append(action)
        if action.kind is Pass.INPUT:
            inputs += 1
            if inputs > lag:
                merged.append(next(weights))
    return (*merged, *weights)


def _check(ranks: int, microbatches: int, chunks: int = 1) -> None:
    given = {"ranks": ranks, "microbatches": microbatches, "chunks": chunks}
    for name, number in given.items():
        if number < 1:
            raise InputError(f"{number} {name}", hint="at least 1")
