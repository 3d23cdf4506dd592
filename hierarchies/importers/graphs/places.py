"""Where each device of a graph stands in the levels that were found: its digits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hierarchies.importers.graphs.circles import natural
from hierarchies.importers.graphs.domains import Devices, Domain
from hierarchies.importers.graphs.levels import Found
from hierarchies.system import Domain as Kinds

Digits = tuple[int, ...]


@dataclass(frozen=True)
class Places:
    """Levels, outermost first, and the digits of every device and unit; what is missing is last."""

    levels: tuple[Found, ...]
    devices: Mapping[str, Digits]

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(level.count for level in self.levels)

    def path(self, unit: Devices, position: int) -> Digits:
        """The digits of a unit of a level: those that its devices share."""
        return self.devices[next(iter(unit))][: position + 1]

    def missing(self) -> Iterator[Digits]:
        """The digits of units that are not there, though their siblings are."""
        there = {digits[:end] for digits in self.devices.values() for end in range(len(digits) + 1)}
        for parent in sorted(there):
            if len(parent) < len(self.levels):
                for digit in range(self.levels[len(parent)].count):
                    if (*parent, digit) not in there:
                        yield (*parent, digit)


def places(found: Sequence[Found], devices: Devices) -> Places:
    """The digits of every device, by domains from the outermost on."""
    outermost_first = tuple(reversed(found))
    digits: dict[str, Digits] = {}
    _place(outermost_first, devices, (), digits)
    return Places(outermost_first, digits)


def _place(
    levels: tuple[Found, ...], part: Devices, above: Digits, digits: dict[str, Digits]
) -> None:
    position = len(above)
    if position == len(levels):
        digits[next(iter(part))] = above
        return
    level = levels[position]
    if level.torus:
        [grid] = [one for one in level.torus if part <= one.places.keys()]
        digits.update({device: (*above, *grid.places[device]) for device in part})
        return
    [domain] = [one for one in level.domains if one.devices == part]
    units = level.units[domain.name]
    for number, unit in enumerate(_ordered(levels, position, domain, units)):
        _place(levels, unit, (*above, number), digits)


def _ordered(
    levels: tuple[Found, ...], position: int, domain: Domain, units: Sequence[Devices]
) -> list[Devices]:
    """Units that share ports of outer levels side by side; in a ring, as they stand around."""
    blocks = [
        terminal.behind
        for level in levels[:position]
        for outer in level.domains
        for terminal in (*outer.terminals, *(end for cable in outer.cables for end in cable[:2]))
        if terminal.behind < domain.devices
    ]
    blocks.sort(key=len, reverse=True)

    def key(unit: Devices) -> tuple[object, ...]:
        shared = {block for block in blocks if unit < block}
        each = ((-len(block), natural(_least(block))) for block in sorted(shared, key=len)[::-1])
        return (*each, (-len(unit), natural(_least(unit))))

    ordered = sorted(units, key=key)
    return _around(domain, ordered) if levels[position].kind is Kinds.RING else ordered


def _least(devices: Devices) -> str:
    return min(devices, key=natural)


def _around(domain: Domain, units: Sequence[Devices]) -> list[Devices]:
    near: dict[Devices, list[Devices]] = {unit: [] for unit in units}
    for one, other, _ in domain.cables:
        near[one.behind].append(other.behind)
        near[other.behind].append(one.behind)
    around = [min(units, key=lambda unit: len(near[unit]))]
    while len(around) < len(units):
        onward = [unit for unit in units if unit in near[around[-1]] and unit not in around]
        around.append(onward[0])
    return around
