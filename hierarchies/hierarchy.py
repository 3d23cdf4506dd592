"""The named levels of a machine and the numbering of its devices."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from math import prod

from hierarchies.errors import InputError, suggest_nearest

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
MOST_CHILDREN = 10**9
MOST_LEVELS = 16
_NUMBERED = re.compile(r"d[0-9]+")
RESERVED = frozenset(
    {"root", "inside", "parallel", "master", "across"}
    | {"all-reduce", "reduce-scatter", "all-gather", "reduce", "broadcast", "all-to-all"}
)


def check_name(name: str, subject: str) -> None:
    """Refuse a name that cannot occur in the text of a program.

    Raises InputError unless the name is a letter followed by letters, digits, ``_`` and ``-``; also
    for a word of the language, and for ``d0``, ``d1``, ..., which always mean the digits of a tree.
    """
    if not NAME.fullmatch(name):
        raise InputError(
            f"{subject} name {name!r} cannot be written in a program",
            hint="a name is a letter followed by letters, digits, '_' or '-'",
        )
    if name in RESERVED or is_numbered(name):
        raise InputError(
            f"{subject} name {name!r} is a word of the reduction language",
            hint="choose another name",
        )


def is_numbered(name: str) -> bool:
    """Whether a name is ``d0``, ``d1``, ..., which always mean the digits of a tree."""
    return bool(_NUMBERED.fullmatch(name))


def check_distinct(names: tuple[str, ...], subject: str) -> None:
    """Refuse a name that occurs twice. Raises InputError."""
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"{subject} name {name!r} is given {names.count(name)} times",
                hint=f"every {subject} needs a name of its own",
            )


@dataclass(frozen=True)
class Level:
    """One level: its name and the number of children of each unit of the level above."""

    name: str
    cardinality: int

    def __post_init__(self) -> None:
        check_name(self.name, "level")
        if not 1 <= self.cardinality <= MOST_CHILDREN:
            raise InputError(
                f"level {self.name!r} has {self.cardinality} children",
                hint=f"from 1 to {MOST_CHILDREN}",
            )


@dataclass(frozen=True)
class Hierarchy:
    """Levels, outermost first. A device is a tuple of digits, one per level.

    A device's id is the mixed-radix number of its digits:
    ``device(digits(i)) == i`` for every ``0 <= i < devices``.
    """

    levels: tuple[Level, ...]

    def __post_init__(self) -> None:
        if not self.levels:
            raise InputError("the hierarchy has no levels", hint="give at least one")
        if len(self.levels) > MOST_LEVELS:
            raise InputError(f"{len(self.levels)} levels", hint=f"at most {MOST_LEVELS}")
        check_distinct(self.names, "level")

    @classmethod
    def of(cls, **cardinalities: int) -> Hierarchy:
        """``Hierarchy.of(node=2, gpu=4)``: two levels, outermost first."""
        return cls(tuple(Level(name, count) for name, count in cardinalities.items()))

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(level.name for level in self.levels)

    @cached_property
    def cardinalities(self) -> tuple[int, ...]:
        return tuple(level.cardinality for level in self.levels)

    @cached_property
    def devices(self) -> int:
        """The number of devices (leaves)."""
        return prod(self.cardinalities)

    def devices_in_child(self, level: int) -> int:
        """Return the number of devices in one child at ``level`` (0 = outermost)."""
        return prod(self.cardinalities[level + 1 :])

    def index(self, name: str) -> int:
        """Return the position of a level, 0 = outermost. Raises InputError for an unknown name."""
        if name not in self.names:
            raise InputError(f"no level {name!r}", hint=suggest_nearest(name, self.names))
        return self.names.index(name)

    def digits(self, device: int) -> tuple[int, ...]:
        """Return the digits of a device id, outermost first.

        Raises InputError for an id out of range.
        """
        if not 0 <= device < self.devices:
            raise InputError(f"no device {device}", hint=f"ids go from 0 to {self.devices - 1}")
        digits = []
        for cardinality in reversed(self.cardinalities):
            device, digit = divmod(device, cardinality)
            digits.append(digit)
        return tuple(reversed(digits))

    def device(self, digits: tuple[int, ...]) -> int:
        """Return the id of the device with these digits.

        Raises InputError for digits out of range.
        """
        if len(digits) != len(self.levels) or not all(
            0 <= digit < cardinality
            for digit, cardinality in zip(digits, self.cardinalities, strict=False)
        ):
            raise InputError(
                f"no device with digits {digits}", hint=f"cardinalities are {self.cardinalities}"
            )
        return self.unit(digits)

    def unit(self, path: tuple[int, ...]) -> int:
        """Return the number of a unit among all units of its level, from its digits.

        In racks of four nodes, (1, 3) is node 7.
        """
        number = 0
        for digit, cardinality in zip(path, self.cardinalities, strict=False):
            number = number * cardinality + digit
        return number

    def __str__(self) -> str:
        return " x ".join(f"{level.cardinality} {level.name}" for level in self.levels)
