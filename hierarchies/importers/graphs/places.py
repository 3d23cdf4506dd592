"""The place of each device of a graph in the levels that were found: its digits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hierarchies.importers.graphs.circles import natural_sort_key
from hierarchies.importers.graphs.domains import Devices, GraphDomain
from hierarchies.importers.graphs.levels import GraphLevel
from hierarchies.system import Domain as Kinds

Digits = tuple[int, ...]


@dataclass(frozen=True)
class DevicePlaces:
    """Levels, outermost first, and the digits of every device; missing units come last."""

    levels: tuple[GraphLevel, ...]
    devices: Mapping[str, Digits]

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(level.count for level in self.levels)

    def path(self, unit: Devices, position: int) -> Digits:
        """The digits of a unit of a level, which its devices share."""
        return self.devices[next(iter(unit))][: position + 1]

    def missing(self) -> Iterator[Digits]:
        """The digits of missing units whose siblings are present."""
        present = {
            digits[:end] for digits in self.devices.values() for end in range(len(digits) + 1)
        }
        for parent in sorted(present):
            if len(parent) < len(self.levels):
                for digit in range(self.levels[len(parent)].count):
                    if (*parent, digit) not in present:
                        yield (*parent, digit)


def find_places(levels: Sequence[GraphLevel], devices: Devices) -> DevicePlaces:
    """The digits of every device, assigned domain by domain from the outermost level on."""
    outermost_first = tuple(reversed(levels))
    digits: dict[str, Digits] = {}
    _place_part(outermost_first, devices, (), digits)
    return DevicePlaces(outermost_first, digits)


def _place_part(
    levels: tuple[GraphLevel, ...], part: Devices, above: Digits, digits: dict[str, Digits]
) -> None:
    position = len(above)
    if position == len(levels):
        digits[next(iter(part))] = above
        return
    level = levels[position]
    if level.torus:
        [grid] = [grid for grid in level.torus if part <= grid.places.keys()]
        digits.update({device: (*above, *grid.places[device]) for device in part})
        return
    [domain] = [domain for domain in level.domains if domain.devices == part]
    units = level.units[domain.name]
    for number, unit in enumerate(_order_units(levels, position, domain, units)):
        _place_part(levels, unit, (*above, number), digits)


def _order_units(
    levels: tuple[GraphLevel, ...], position: int, domain: GraphDomain, units: Sequence[Devices]
) -> list[Devices]:
    """Order units so that sharers of outer ports are adjacent, and rings are in ring order."""
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
        outer = (
            (-len(block), natural_sort_key(_least_device(block)))
            for block in sorted(shared, key=len)[::-1]
        )
        return (*outer, (-len(unit), natural_sort_key(_least_device(unit))))

    ordered = sorted(units, key=key)
    return _order_around_ring(domain, ordered) if levels[position].kind is Kinds.RING else ordered


def _least_device(devices: Devices) -> str:
    return min(devices, key=natural_sort_key)


def _order_around_ring(domain: GraphDomain, units: Sequence[Devices]) -> list[Devices]:
    neighbours: dict[Devices, list[Devices]] = {unit: [] for unit in units}
    for one, other, _ in domain.cables:
        neighbours[one.behind].append(other.behind)
        neighbours[other.behind].append(one.behind)
    ring = [min(units, key=lambda unit: len(neighbours[unit]))]
    while len(ring) < len(units):
        following = [unit for unit in units if unit in neighbours[ring[-1]] and unit not in ring]
        ring.append(following[0])
    return ring
