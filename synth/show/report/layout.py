"""The layout of a machine's drawing: how many parts are drawn, in how many columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import ceil, prod, sqrt

from hierarchies import Domain, LevelInFull

MOST_DEVICES, MOST_NARROW = 128, 32
DEVICE, GAP, PAD, HUB, HUB_WIDTH = 46, 12, 26, 64, 150
GRID_GAP, ARC = 24, 12
"""The space between devices of a torus, and around them for the links that close its circles."""
SIDE_MARGIN = DEVICE / 2 + ARC / 2
"""The distance of these links from the centres of devices."""
_WIDE, _HIGH = 1300, 800
"""The size of a drawing that a page shows without scaling."""
_DEEP = 3
_NARROW_COLUMNS = 4
_MOST_MESHED = 8
_HUBS = {Domain.SWITCH, Domain.BUS}


def fold_counts(counts: Sequence[int], most: int) -> list[int]:
    """Return how many children are drawn at each level.

    The innermost level gets all children that fit, then each outer level two, so that its links are
    visible, then inner levels more.
    """
    shown = [1] * len(counts)
    shown[-1] = max(1, min(counts[-1], most))
    for wanted in (2, most):
        for level in range(len(counts) - 2, -1, -1):
            others = prod(shown) // shown[level]
            shown[level] = max(shown[level], min(counts[level], wanted, most // others))
    return shown


def has_hub(level: LevelInFull, count: int) -> bool:
    """Whether a hub above the children joins them all."""
    many = level.domain is Domain.MESH and count > _MOST_MESHED
    return level.count > 1 and (level.domain in _HUBS or many)


@dataclass(frozen=True)
class DrawingLayout:
    """The sizes of all parts; ``shown`` is the number of children drawn at each level.

    ``narrow``: units are below each other, as on a telephone.
    """

    levels: Sequence[LevelInFull]
    shown: Sequence[int]
    narrow: bool = False

    def is_grid(self, depth: int) -> bool:
        """Whether what is inside a unit of this level are the last two dimensions of a torus."""
        inner = self.levels[depth:]
        return len(inner) == 2 and all(level.domain is Domain.TORUS for level in inner)

    @cached_property
    def columns(self) -> Sequence[int]:
        """The number of columns of the children of a unit, by level."""
        depth = len(self.levels)
        usual = [_columns(count, depth - at) for at, count in enumerate(self.shown)]
        if self.narrow:
            return [1] * (depth - 1) + [min(_NARROW_COLUMNS, self.shown[-1])]
        if depth < _DEEP:
            return usual
        outer = [
            _possible_columns(*pair) for pair in zip(self.levels[:-1], self.shown[:-1], strict=True)
        ]
        return max(([*some, usual[-1]] for some in product(*outer)), key=self._scale)

    def _scale(self, columns: Sequence[int]) -> float:
        """Return the scale at which a drawing with these columns fits a page."""
        wide, high = self._size(0, columns)
        return min(_WIDE / wide, _HIGH / high)

    def size(self, depth: int) -> tuple[float, float]:
        """Return the width and height of a unit of a level."""
        return self._size(depth, self.columns)

    def _size(self, depth: int, columns: Sequence[int]) -> tuple[float, float]:
        if depth == len(self.levels):
            return DEVICE, DEVICE
        if self.is_grid(depth):
            down, across = (count * (DEVICE + GRID_GAP) - GRID_GAP for count in self.shown[-2:])
            return across + ARC + PAD, down + ARC + PAD * 1.5
        width, height = self._size(depth + 1, columns)
        across = columns[depth]
        down = ceil(self.shown[depth] / across)
        hub = has_hub(self.levels[depth], self.shown[depth])
        return (
            max(across * (width + GAP) - GAP, HUB_WIDTH if hub else 0) + PAD,
            down * (height + GAP) - GAP + PAD * 1.5 + (HUB if hub else 0),
        )


def _possible_columns(level: LevelInFull, count: int) -> Sequence[int]:
    """In how many columns so many children may stand: those of a circle in one row or column."""
    if level.domain in (Domain.RING, Domain.TORUS):
        return [1, count]
    return [across for across in range(1, count + 1) if count % across == 0]


def _columns(count: int, height: int) -> int:
    """In how many columns so many children stand, so that the whole is wider than tall.

    Devices (``height`` 1) stand about twice as wide as tall, up to four boxes of them in one row.
    """
    wanted = sqrt((2 if height == 1 else 5 if count <= 4 else 1.6) * count)
    fits = [across for across in range(1, count + 1) if count % across == 0]
    best = min(fits, key=lambda across: abs(across - wanted))
    return best if best <= 4 * wanted and count / best <= 4 * wanted else ceil(wanted)
