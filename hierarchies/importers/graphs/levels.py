"""The levels of a graph: nested domains, innermost first.

The smallest domains join single devices, the next domains join these units, and so on, until one
unit is left. Irregular graphs (domains that overlap, units with different ports, incomplete
circles) are not hierarchies, and errors name the irregularity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hierarchies.errors import InputError
from hierarchies.graphs.machine import NodeKind
from hierarchies.importers.graphs.circles import Grid, find_grid, natural_sort_key
from hierarchies.importers.graphs.domains import Devices, GraphDomain, Terminal, common_label
from hierarchies.importers.hostlist import shorten_list
from hierarchies.system import Domain as Kinds

Unit = Devices


@dataclass(frozen=True)
class GraphLevel:
    """A level before ordering: its domains, and the units that each domain joins.

    ``hangs_on`` has the names of inner levels' middles to which its terminals are attached.
    ``torus`` has the places of devices in a grid of circles, if this is one of its dimensions.
    ``joined``: whether the ends of a ring are joined; otherwise it is a line.
    """

    kind: Kinds
    domains: tuple[GraphDomain, ...]
    units: Mapping[str, tuple[Unit, ...]]
    hangs_on: frozenset[str] = frozenset()
    torus: tuple[Grid, ...] = ()
    dimension: int = 0
    joined: bool = True

    @property
    def count(self) -> int:
        """The most children of any parent."""
        if self.torus:
            return self.torus[0].sizes[self.dimension]
        return max(len(units) for units in self.units.values())

    @property
    def wraps(self) -> bool:
        """Whether the ends of a ring or of a dimension are joined."""
        return self.torus[0].wraps[self.dimension] if self.torus else self.joined

    @property
    def label(self) -> str:
        if self.torus:
            return self.torus[0].labels[self.dimension]
        return common_label(self.domains)


def find_levels(domains: Sequence[GraphDomain], devices: Devices) -> list[GraphLevel]:
    """Return the levels, innermost first. Raises InputError, naming the irregularity."""
    remaining = sorted(domains, key=lambda domain: (len(domain.devices), domain.name))
    units: tuple[Unit, ...] = tuple(frozenset({device}) for device in sorted(devices))
    levels: list[GraphLevel] = []
    while remaining:
        inner = [d for d in remaining if not any(o.devices < d.devices for o in remaining)]
        _check_apart(inner, devices, levels)
        levels += _levels_of(inner, units)
        units = tuple(domain.devices for domain in inner)
        remaining = [domain for domain in remaining if domain not in inner]
    if len(units) > 1:
        raise InputError(
            f"the devices are in {len(units)} parts that are not "
            f"connected{_describe_levels_so_far(levels)}"
        )
    return list(levels)


def _describe_levels_so_far(levels: Sequence[GraphLevel]) -> str:
    if not levels:
        return ""
    inside = ", ".join(f"{level.count} in a {level.kind.value}" for level in levels)
    return f"; inside: {inside}"


def _check_apart(
    inner: Sequence[GraphDomain], devices: Devices, levels: Sequence[GraphLevel]
) -> None:
    """Check that the innermost domains contain every device once, and are of one kind."""
    times = Counter(device for domain in inner for device in domain.devices)
    for device in sorted(devices):
        if times[device] != 1:
            problem = "no domain" if not times[device] else "overlapping domains"
            names = shorten_list(d.name for d in inner if device in d.devices)
            raise InputError(
                f"{device!r} is in {problem} of this size{f' ({names})' if names else ''}"
                f"{_describe_levels_so_far(levels)}",
                hint="in a hierarchy, every device is in one domain of each level",
            )
    kinds = {domain.kind for domain in inner}
    if len(kinds) > 1:
        names = shorten_list(f"{d.name} ({d.kind.value if d.kind else 'cables'})" for d in inner)
        raise InputError(f"different kinds of units join devices at one level: {names}")
    if len({domain.reduces for domain in inner}) > 1:
        raise InputError("some switches of a level reduce and some do not")


def _levels_of(inner: Sequence[GraphDomain], units: Sequence[Unit]) -> list[GraphLevel]:
    """Return the level of these domains, or the levels of a torus."""
    units_of = {domain.name: _units_inside(domain, units) for domain in inner}
    kind = inner[0].kind
    if kind is None:
        return _level_of_cables(inner, units_of)
    joins = Kinds.SWITCH if kind is NodeKind.SWITCH else Kinds.BUS
    for domain in inner:
        for terminal in domain.terminals:
            _check_within(terminal, units_of[domain.name], domain)
    hangs = [t.hangs_on for domain in inner for t in domain.terminals]
    return [GraphLevel(joins, tuple(inner), units_of, frozenset().union(*hangs))]


def _units_inside(domain: GraphDomain, units: Sequence[Unit]) -> tuple[Unit, ...]:
    """Return the units that a domain joins. Raises InputError if it has only a part of a unit."""
    joined = []
    for unit in units:
        common = unit & domain.devices
        if common and common != unit:
            raise InputError(
                f"{domain.name!r} joins only {shorten_list(sorted(common))} of "
                f"{shorten_list(sorted(unit))}"
            )
        if common:
            joined.append(unit)
    return tuple(joined)


def _check_within(terminal: Terminal, units: Iterable[Unit], domain: GraphDomain) -> None:
    if not any(terminal.behind <= unit for unit in units):
        raise InputError(
            f"one cable into {domain.name!r} serves several units: "
            f"{shorten_list(sorted(terminal.behind))}",
        )


def _level_of_cables(
    inner: Sequence[GraphDomain], units_of: Mapping[str, tuple[Unit, ...]]
) -> list[GraphLevel]:
    """Return a ring, a mesh, or the dimensions of a torus."""
    hangs = frozenset().union(
        *(end.hangs_on for domain in inner for cable in domain.cables for end in cable[:2])
    )
    labelled = any(len({edge.level for *_, edge in domain.cables}) > 1 for domain in inner)
    kinds = {None if labelled else _shape(domain, units_of[domain.name]) for domain in inner}
    if len(kinds) == 1 and None not in kinds:
        [shape] = kinds
        assert shape is not None
        kind, joined = shape
        return [GraphLevel(kind, tuple(inner), units_of, hangs, joined=joined)]
    first = find_grid(inner[0])
    grids = tuple(find_grid(domain, first) for domain in inner) if len(inner) > 1 else (first,)
    shapes = {(grid.sizes, grid.wraps) for grid in grids}
    if len(shapes) > 1:
        raise InputError(f"rings of different sizes: {sorted(sizes for sizes, _ in shapes)}")
    return [
        GraphLevel(Kinds.TORUS, tuple(inner), units_of, hangs, grids, dimension)
        for dimension in reversed(range(len(grids[0].sizes)))
    ]


def _shape(domain: GraphDomain, units: Sequence[Unit]) -> tuple[Kinds, bool] | None:
    """Return a mesh or ring of units and whether its ends are joined, or None for other shapes."""
    number = {unit: place for place, unit in enumerate(units)}
    pairs = set()
    for first, second, _ in domain.cables:
        if first.behind not in number or second.behind not in number:
            return None
        pairs.add(frozenset((number[first.behind], number[second.behind])))
    count = len(units)
    if len(pairs) != len(domain.cables):
        return None
    if len(pairs) == count * (count - 1) // 2:
        return Kinds.MESH, True
    ends = Counter(end for pair in pairs for end in pair)
    single, double = (list(ends.values()).count(n) for n in (1, 2))
    if single + double < count or single not in (0, 2):
        return None
    return Kinds.RING, not single


Digits = tuple[int, ...]


@dataclass(frozen=True)
class DevicePlaces:
    """Levels, outermost first, and the digits of every device; missing units come last."""

    levels: tuple[GraphLevel, ...]
    devices: Mapping[str, Digits]

    def path(self, unit: Devices, position: int) -> Digits:
        """Return the digits of a unit of a level, which its devices share."""
        return self.devices[next(iter(unit))][: position + 1]

    def missing(self) -> Iterator[Digits]:
        """Yield the digits of missing units whose siblings are present."""
        present = {
            digits[:end] for digits in self.devices.values() for end in range(len(digits) + 1)
        }
        for parent in sorted(present):
            if len(parent) < len(self.levels):
                for digit in range(self.levels[len(parent)].count):
                    if (*parent, digit) not in present:
                        yield (*parent, digit)


def find_places(levels: Sequence[GraphLevel], devices: Devices) -> DevicePlaces:
    """Return the digits of every device, assigned domain by domain from the outermost level on."""
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
    for first, second, _ in domain.cables:
        neighbours[first.behind].append(second.behind)
        neighbours[second.behind].append(first.behind)
    ring = [min(units, key=lambda unit: len(neighbours[unit]))]
    while len(ring) < len(units):
        following = [unit for unit in units if unit in neighbours[ring[-1]] and unit not in ring]
        ring.append(following[0])
    return ring
