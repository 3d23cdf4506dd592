"""Missing or slower parts of a machine: units, ports and cables, by readable names.

``node3/gpu5`` is a *unit*: level names with numbers from 0, outermost first.
``node3/nic2`` (or ``node3/port2``) is a *port* that joins the unit ``node3`` to its siblings.
``node3/gpu0-gpu1`` is a *cable* between two children of ``node3``, which form a ring, torus or
mesh.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

from hierarchies.errors import InputError, suggest_nearest
from hierarchies.hierarchy import Hierarchy

_NUMBERED = re.compile(r"(?P<name>.*[^0-9])(?P<number>0|[1-9][0-9]{0,8})")
_PORTS = ("port", "nic")
MISSING = 0.0
LEAST = 1e-6


@dataclass(frozen=True)
class Fault:
    """A unit, port or cable with the remaining share of its bandwidth, 0.0 if it is missing.

    ``path`` has the digits of the unit, or of the parent of a cable's two ends, outermost first;
    ``port`` the number of a port of that unit; ``ends`` the two children that a cable joins, the
    lower number first. A slower unit is slower at all links that join it to its siblings. A missing
    unit is missing with all its devices.
    """

    path: tuple[int, ...]
    share: float = MISSING
    port: int | None = None
    ends: tuple[int, int] | None = None
    source: str = ""

    def __post_init__(self) -> None:
        if not (isfinite(self.share) and (self.share == MISSING or LEAST <= self.share <= 1)):
            raise InputError(
                f"a share of {self.share} of the bandwidth",
                hint=f"from {LEAST:g} to 1; what carries nothing at all is missing",
            )

    @property
    def missing(self) -> bool:
        return self.share == MISSING

    @property
    def is_unit(self) -> bool:
        return self.port is None and self.ends is None

    @property
    def what(self) -> tuple[object, ...]:
        """The part that is missing or slower, without the share; faults of one part share it."""
        return self.path, self.port, self.ends

    @property
    def level(self) -> int:
        """The level whose links are affected: ``node3`` affects those between nodes."""
        return len(self.path) - (self.ends is None)

    def name(self, hierarchy: Hierarchy) -> str:
        """Return the path that ``parse_fault`` reads."""
        names = hierarchy.names
        parts = [f"{name}{digit}" for name, digit in zip(names, self.path, strict=False)]
        if self.port is not None:
            parts.append(f"port{self.port}")
        if self.ends is not None:
            parts.append("-".join(f"{names[len(self.path)]}{end}" for end in self.ends))
        return "/".join(parts)


def parse_fault(text: str, hierarchy: Hierarchy, share: float = MISSING, source: str = "") -> Fault:
    """Return the fault of the part that a path names (``node3/nic2``), with its bandwidth share.

    Raises InputError for an unknown level, numbers out of range, and an invalid share.
    """
    *outer, last = text.strip().split("/")
    path = _digits(outer, hierarchy, text)
    joined = [_split_numbered(end) for end in last.split("-")]
    if len(joined) == 2 and all(joined):
        ends = sorted(_digits([end], hierarchy, text, len(path))[0] for end in last.split("-"))
        if ends[0] == ends[1]:
            raise InputError(f"{text!r} is no cable", hint="it joins two different children")
        return Fault(path, share, ends=(ends[0], ends[1]), source=source)
    name, number = _split_numbered(last) or ("", -1)
    if path and name in _PORTS and name not in hierarchy.names:
        return Fault(path, share, port=number, source=source)
    return Fault((*path, *_digits([last], hierarchy, text, len(path))), share, source=source)


def _split_numbered(part: str) -> tuple[str, int] | None:
    match = _NUMBERED.fullmatch(part)
    return (match["name"], int(match["number"])) if match else None


def _digits(
    parts: Sequence[str], hierarchy: Hierarchy, text: str, begin: int = 0
) -> tuple[int, ...]:
    """Return the digits of a path of units, whose first is at level ``begin``."""
    digits = []
    for level, part in enumerate(parts, start=begin):
        if level >= len(hierarchy.levels):
            hint = f"a device is named {_example(hierarchy, len(hierarchy.levels))}"
            raise InputError(f"no unit {text!r}: {part!r} is inside of a device", hint=hint)
        expected, cardinality = hierarchy.names[level], hierarchy.cardinalities[level]
        name, number = _split_numbered(part) or (part, -1)
        if name != expected or number < 0:
            suggestion = (
                suggest_nearest(name, hierarchy.names) if name not in hierarchy.names else ""
            )
            hint = f"here stands {expected} and a number, as in {_example(hierarchy, level + 1)}"
            raise InputError(f"no unit {text!r}", hint=f"{suggestion} {hint}".strip())
        if number >= cardinality:
            raise InputError(
                f"no unit {text!r}", hint=f"{expected}0 to {expected}{cardinality - 1} are there"
            )
        digits.append(number)
    return tuple(digits)


def _example(hierarchy: Hierarchy, levels: int) -> str:
    return "/".join(f"{name}0" for name in hierarchy.names[:levels])


def check_distinct_faults(faults: Iterable[Fault], hierarchy: Hierarchy) -> None:
    """Refuse two faults of one part, and faults inside a missing unit. Raises InputError."""
    missing = {fault.path for fault in faults if fault.missing and fault.is_unit}
    seen = set()
    for fault in faults:
        name = fault.name(hierarchy)
        if fault.what in seen:
            raise InputError(f"{name} is named twice", hint="say once what is left of it")
        seen.add(fault.what)
        inside = len(fault.path) - fault.is_unit
        if any(fault.path[:end] in missing for end in range(1, inside + 1)):
            raise InputError(f"{name} is part of a unit that is missing", hint="leave it out")


def find_first_refused(count: int, check: Callable[[int], object]) -> int:
    """Return the smallest n for which ``check(n)`` raises InputError.

    Bisects, so ``check`` must be monotonic: it refuses ``count``, and n + 1 if it refuses n.
    """
    good, bad = 0, count
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            check(middle)
            good = middle
        except InputError:
            bad = middle
    return bad


def missing_devices(faults: Iterable[Fault], hierarchy: Hierarchy) -> tuple[int, ...]:
    """Return the ids of the missing devices, ascending.

    Raises InputError if no device is left.
    """
    missing: set[int] = set()
    for fault in faults:
        if fault.missing and fault.is_unit:
            inside = hierarchy.devices_in_child(len(fault.path) - 1)
            first = hierarchy.unit(fault.path)
            missing.update(range(first * inside, (first + 1) * inside))
    if len(missing) == hierarchy.devices:
        raise InputError("no device is left", hint="leave at least one")
    return tuple(sorted(missing))
