"""Which algorithm each step takes where segments overlap: those that make the whole fastest.

Alone a step takes the algorithm that is fastest for its buffer. Where segments overlap, others hide
the messages it waits for, and what counts is how long it keeps links busy: a ring may be better
than a tree, sums in a switch better than either. Which, depends on the other steps; so all choices
for all steps are tried, but for algorithms that wait no less than another and keep no link busy
for less time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from synth.collective.price.segments import Choices, best_choice
from synth.collective.price.step_prices import Grid, Simulator
from synth.collective.price.steps import InstructionPrice
from synth.collective.price.ways import LinePicker, PriceLine, pick_fastest
from synth.collective.semantics.layout import Move

_ALIKE = 1 + 1e-9
"""Times that differ by less are the same: two algorithms may do the same in another order."""


def select_undominated(lines: Sequence[PriceLine], size_bytes: float) -> list[PriceLine]:
    """The lines worth a choice for a buffer of some size, the fastest alone first.

    One is left out if another waits no longer and keeps no resource busy for longer; of two that
    are the same in all of it the first stays.
    """
    first = pick_fastest(lines, size_bytes)
    kept: list[PriceLine] = [first]
    asks = [_demands_of(first, size_bytes)]
    for line in lines:
        ask = _demands_of(line, size_bytes)
        if any(_is_dominated(other, ask) for other in asks):
            continue
        still = [i for i, other in enumerate(asks) if i == 0 or not _is_dominated(ask, other)]
        kept, asks = [*(kept[i] for i in still), line], [*(asks[i] for i in still), ask]
    return kept


def _demands_of(line: PriceLine, size_bytes: float) -> tuple[float, dict[str, float]]:
    return line.waiting_seconds(size_bytes), dict(line.resources)


def _is_dominated(
    one: tuple[float, dict[str, float]], other: tuple[float, dict[str, float]]
) -> bool:
    """Whether one waits no longer than the other and needs no resource for longer, but for
    roundings.
    """
    return one[0] <= other[0] * _ALIKE and all(
        busy <= other[1].get(name, 0.0) * _ALIKE for name, busy in one[1].items()
    )


def choices(
    simulator: Simulator, alphabet: Sequence[Move], where: Grid, sizes: Mapping[int, float]
) -> dict[int, list[Choices]]:
    """For each number of segments what each move may do: its phases by each algorithm worth a
    choice, the fastest alone first.

    ``sizes`` are the bytes of one segment. Of a single one nothing overlaps: there the fastest is
    the only one.
    """
    worth = _UndominatedLines()
    return {
        segments: simulator.alternatives(
            alphabet, where, size_bytes, worth.lines if segments > 1 else _keep_fastest
        )
        for segments, size_bytes in sizes.items()
    }


def _keep_fastest(lines: Sequence[PriceLine], size_bytes: float) -> list[PriceLine]:
    return [pick_fastest(lines, size_bytes)]


class _UndominatedLines:
    """The lines worth a choice. Mutable: remembers those of lines seen before, by place in memory.

    Of the size of a buffer they depend only by what lines wait, and by which is the fastest.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, tuple[float, ...]], _Kept] = {}

    def lines(self, lines: Sequence[PriceLine], size_bytes: float) -> list[PriceLine]:
        waits = tuple(line.waiting_seconds(size_bytes) for line in lines)
        key = id(lines), id(pick_fastest(lines, size_bytes)), waits
        if key not in self._known:
            self._known[key] = lines, select_undominated(lines, size_bytes)
        return self._known[key][1]


_Kept = tuple[Sequence[PriceLine], list[PriceLine]]
"""Lines, so that their place stays theirs, and those worth a choice."""


def choose_phases(
    simulator: Simulator,
    moves: Sequence[Move],
    where: Grid,
    payload_bytes: float,
    segments: int,
) -> tuple[InstructionPrice, ...]:
    """The prices of a program's phases, of one segment, by the algorithms best for the whole.

    ``payload_bytes`` is that of one segment. Of choices that tie the first counts: each step by
    the algorithm that is fastest alone, as far as that makes no difference.
    """
    every = choices(simulator, moves, where, {segments: payload_bytes})[segments]
    _, best = best_choice(every, segments)
    return tuple(
        price
        for move, number in zip(moves, best, strict=True)
        for price in simulator.move(move, where, payload_bytes, _pick_nth(number))
    )


def _pick_nth(number: int) -> LinePicker:
    """Picks the n-th line worth a choice, counted from 0; the first is the fastest."""
    if number == 0:
        return pick_fastest
    return lambda lines, size_bytes: select_undominated(lines, size_bytes)[number]
