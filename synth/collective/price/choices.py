"""Chooses each step's algorithm to minimise the time of a program whose segments overlap.

Alone, a step takes the algorithm that is fastest for its buffer. Where segments overlap, other
segments hide a step's waiting, and only the time for which it keeps links busy counts: a ring may
beat a tree, and an in-network sum may beat both. The best choice depends on the other steps, so all
combinations are tried, except for algorithms that another dominates: it waits no longer and keeps
no link busy for longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from synth.collective.price.segments import Choices, best_choice
from synth.collective.price.step_prices import Grid, Simulator
from synth.collective.price.steps import InstructionPrice
from synth.collective.price.ways import LinePicker, PriceLine, pick_fastest
from synth.collective.semantics.layout import Move

_ALIKE = 1 + 1e-9
"""Times within this factor are equal: two algorithms may add the same terms in another order."""


def select_undominated(lines: Sequence[PriceLine], size_bytes: float) -> list[PriceLine]:
    """Returns the lines that no other dominates for this buffer, the fastest alone first.

    A line is dominated if another waits no longer and keeps no resource busy for longer; of two
    equal lines the first stays.
    """
    first = pick_fastest(lines, size_bytes)
    kept: list[PriceLine] = [first]
    demands = [_demands_of(first, size_bytes)]
    for line in lines:
        demand = _demands_of(line, size_bytes)
        if any(_dominates(other, demand) for other in demands):
            continue
        # The fastest line stays first even if dominated: callers rely on its place.
        still = [i for i, other in enumerate(demands) if i == 0 or not _dominates(demand, other)]
        kept, demands = [*(kept[i] for i in still), line], [*(demands[i] for i in still), demand]
    return kept


def _demands_of(line: PriceLine, size_bytes: float) -> tuple[float, dict[str, float]]:
    return line.waiting_seconds(size_bytes), dict(line.resources)


def _dominates(line: tuple[float, dict[str, float]], other: tuple[float, dict[str, float]]) -> bool:
    """Whether a line waits no longer and keeps no resource busy for longer, up to rounding."""
    return line[0] <= other[0] * _ALIKE and all(
        busy <= other[1].get(name, 0.0) * _ALIKE for name, busy in line[1].items()
    )


def choices(
    simulator: Simulator, alphabet: Sequence[Move], grid: Grid, sizes: Mapping[int, float]
) -> dict[int, list[Choices]]:
    """Returns, for each number of segments, each move's phases by every undominated algorithm, the
    fastest alone first.

    ``sizes`` are the bytes of one segment. A single segment overlaps with nothing, so there only
    the fastest algorithm is kept.
    """
    undominated, options = _UndominatedLines(), dict[int, list[Choices]]()
    for segments, size_bytes in sizes.items():
        worth = undominated.lines if segments > 1 else _keep_fastest
        options[segments] = simulator.alternatives(alphabet, grid, size_bytes, worth)
    return options


def _keep_fastest(lines: Sequence[PriceLine], size_bytes: float) -> list[PriceLine]:
    return [pick_fastest(lines, size_bytes)]


class _UndominatedLines:
    """Finds undominated lines. Mutable: caches results by the identity of the lines.

    A result depends on the buffer's size only through the waiting times and the fastest line.
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
"""Lines, kept alive so that their ids stay unique, and the undominated among them."""


def choose_phases(
    simulator: Simulator,
    moves: Sequence[Move],
    grid: Grid,
    payload_bytes: float,
    segments: int,
) -> tuple[InstructionPrice, ...]:
    """The prices of one segment of a program's phases, by the algorithms best for the whole.

    ``payload_bytes`` is that of one segment. The first of tied choices wins, so each step keeps its
    fastest algorithm unless another speeds up the whole.
    """
    options = choices(simulator, moves, grid, {segments: payload_bytes})[segments]
    _, best = best_choice(options, segments)
    return tuple(
        price
        for move, number in zip(moves, best, strict=True)
        for price in simulator.move(move, grid, payload_bytes, _pick_nth(number))
    )


def _pick_nth(number: int) -> LinePicker:
    """Returns a picker of the n-th undominated line, counted from 0; the first is the fastest."""
    if number == 0:
        return pick_fastest
    return lambda lines, size_bytes: select_undominated(lines, size_bytes)[number]
