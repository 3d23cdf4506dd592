"""Reductions over axes of a placement: their groups of devices and their synthesis trees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt

from hierarchies.errors import InputError, suggest_nearest
from hierarchies.hierarchy import Hierarchy, Level, check_distinct, is_numbered
from hierarchies.placement import Axis, Placement

MOST_NAMED = 2**24
Devices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Digit:
    """One digit of a synthesis tree: a name and a size of at least 2."""

    name: str
    size: int

    def __post_init__(self) -> None:
        if self.size < 2:
            raise InputError(f"tree digit {self.name!r} has size {self.size}", hint="2 at least")


@dataclass(frozen=True)
class Tree:
    """The synthesis tree ("reduction axes hierarchy" in P²): digits, outermost first."""

    digits: tuple[Digit, ...]

    def __post_init__(self) -> None:
        check_distinct(self.names, "tree digit")
        for position, name in enumerate(self.names):
            if name == "root" or (is_numbered(name) and name != f"d{position}"):
                raise InputError(
                    f"tree digit {position} is called {name!r}",
                    hint=f"root and d0, d1, ... have a meaning of their own; d{position} would do",
                )

    @classmethod
    def of(cls, *sizes: int) -> Tree:
        """Return a tree of digits ``d0``, ``d1``, ... Raises InputError for a size below 2."""
        return cls(tuple(Digit(f"d{i}", size) for i, size in enumerate(sizes)))

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(digit.name for digit in self.digits)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(digit.size for digit in self.digits)

    @property
    def devices(self) -> int:
        """The number of devices of one reduction group."""
        return prod(self.sizes)

    def __str__(self) -> str:
        return " x ".join(f"{digit.size} {digit.name}" for digit in self.digits) or "of no digits"

    def index(self, name: str) -> int:
        """Return the position of a digit, by its name or by ``d0``, ``d1``, ..., always accepted.

        Raises InputError for a name that is not in the tree.
        """
        if name in self.names:
            return self.names.index(name)
        numbered = [f"d{i}" for i in range(len(self.digits))]
        if name in numbered:
            return numbered.index(name)
        have = ", ".join(self.names) if self.digits else "none"
        hint = f"this synthesis tree has: {have}"
        raise InputError(f"no level {name!r}", hint=hint)


@dataclass(frozen=True)
class DigitPart:
    """A part of a level's digit: its size, and the tree digit it belongs to.

    Eight GPUs of a node with data=4, model=2 are a part of 4 and a part of 2 if only one of the
    axes is reduced. ``digit`` is None for axes that are not reduced, whose parts number replicas.
    """

    size: int
    digit: int | None


@dataclass(frozen=True)
class Reduction:
    """A reduction over the axes ``over``, on a placement.

    With data=8, model=4, over ``data``: four groups (replicas) of eight devices each. Devices that
    agree on every digit of the other axes form one reduction group; there are ``replicas`` of them,
    and ``replicas * tree.devices`` is the number of devices. The synthesis tree has the factors > 1
    of the reduced axes' rows, outermost level first. With ``collapse`` (P²'s choice) the factors of
    several axes on one level make one digit named after the level; without, each makes a digit of
    its own, named ``level.axis``. Raises InputError for an unknown axis, for none, and for one
    named twice.
    """

    placement: Placement
    over: tuple[str, ...]
    collapse: bool = True

    def __post_init__(self) -> None:
        if not self.over:
            raise InputError("no axis to reduce over", hint="name at least one")
        check_distinct(self.over, "reduced axis")
        names = [axis.name for axis in self.placement.axes]
        for name in self.over:
            if name not in names:
                raise InputError(
                    f"no axis {name!r} to reduce over", hint=suggest_nearest(name, names)
                )

    @classmethod
    def plain(cls, *sizes: int) -> Reduction:
        """Return a reduction group that fills a machine: a level and a tree digit for each size.

        For tests and replays without a machine: ``plain(2, 4)`` has eight devices.
        """
        levels = tuple(Level(f"level{i}", size) for i, size in enumerate(sizes or (1,)))
        hierarchy = Hierarchy(levels)
        axis = Axis("all", hierarchy.devices)
        return cls(Placement(hierarchy, (axis,), (hierarchy.cardinalities,)), ("all",))

    @cached_property
    def _names(self) -> tuple[tuple[str | None, ...], ...]:
        """For each level and axis, the name of the tree digit of its factor, if any."""
        placement = self.placement

        def name(level: int, axis: int) -> str | None:
            label = placement.hierarchy.names[level]
            if placement.axes[axis].name not in self.over or placement.matrix[axis][level] == 1:
                return None
            return label if self.collapse else f"{label}.{placement.axes[axis].name}"

        axes, levels = range(len(placement.axes)), range(len(placement.hierarchy.levels))
        return tuple(tuple(name(level, axis) for axis in axes) for level in levels)

    @cached_property
    def tree(self) -> Tree:
        """The synthesis tree; without digits if every reduced axis has size 1."""
        sizes: dict[str, int] = {}
        for level, names in enumerate(self._names):
            for axis, name in enumerate(names):
                if name is not None:
                    sizes[name] = sizes.get(name, 1) * self.placement.matrix[axis][level]
        return Tree(tuple(Digit(name, size) for name, size in sizes.items()))

    @cached_property
    def parts(self) -> tuple[tuple[DigitPart, ...], ...]:
        """For each level, outermost first, the parts > 1 of its digit, slowest first.

        Neighbouring parts of the same digit are merged, as groups do not distinguish them: eight
        GPUs of which model=2 and pipe=4 number replicas are one part of 8, in either order. So
        reductions with the same parts have the same groups, with the same numbers and costs. The
        product of the sizes of a level's parts is the level's cardinality.
        """
        order = {name: position for position, name in enumerate(self.tree.names)}
        levels = []
        for level, names in enumerate(self._names):
            parts: list[DigitPart] = []
            for row, name in zip(self.placement.matrix, names, strict=True):
                size, digit = row[level], None if name is None else order[name]
                if size > 1 and parts and parts[-1].digit == digit:
                    size *= parts.pop().size
                parts += [DigitPart(size, digit)] if size > 1 else []
            levels.append(tuple(parts))
        return tuple(levels)

    @property
    def replicas(self) -> int:
        """The number of reduction groups."""
        return self.placement.hierarchy.devices // self.tree.devices

    def grid(self) -> Devices:
        """Device ids by replica and member, shape (replicas, tree.devices).

        A member's number is the mixed-radix number of its tree digits; replicas are numbered by the
        remaining parts, outermost level first, within a level in axis order. Raises InputError for
        more than ``MOST_NAMED`` devices.
        """
        devices = self.placement.hierarchy.devices
        if devices > MOST_NAMED:
            raise InputError(
                f"{devices} devices are too many to name one by one", hint=f"at most {MOST_NAMED}"
            )
        flat = [part for level in self.parts for part in level]
        ids = np.arange(devices).reshape([p.size for p in flat] or [1])
        if not flat:
            return ids.reshape(1, 1)
        ranked = sorted(
            range(len(flat)),
            key=lambda i: (-1, i) if (digit := flat[i].digit) is None else (digit, i),
        )
        return ids.transpose(ranked).reshape(self.replicas, self.tree.devices)
