"""The levels of a graph: domains that lie inside each other, innermost first.

The smallest domains join single devices, the next ones join what those joined, and so on, until one
is left. Whatever does not fit (domains that overlap, units of unlike ports, circles that are none)
is no hierarchy, and is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hierarchies.errors import InputError
from hierarchies.graphs.graph import Kind
from hierarchies.importers.graphs.circles import Grid, grid
from hierarchies.importers.graphs.domains import Devices, Domain, Terminal
from hierarchies.importers.hostlist import listed
from hierarchies.system import Domain as Kinds

Unit = Devices


@dataclass(frozen=True)
class Found:
    """A level as it was found: its domains, and the units that each joins, in no order yet.

    ``hangs_on``: the names of the middles of inner levels that its terminals hang on.
    ``torus``: the places of devices in a grid of circles, of which this is one dimension.
    ``joined``: whether the ends of a ring are; else it is a line.
    """

    kind: Kinds
    domains: tuple[Domain, ...]
    units: Mapping[str, tuple[Unit, ...]]
    hangs_on: frozenset[str] = frozenset()
    torus: tuple[Grid, ...] = ()
    dimension: int = 0
    joined: bool = True

    @property
    def count(self) -> int:
        """Children of one parent: the most that any has."""
        if self.torus:
            return self.torus[0].sizes[self.dimension]
        return max(len(units) for units in self.units.values())

    @property
    def wraps(self) -> bool:
        """Whether the ends of a ring or of a dimension are joined."""
        return self.torus[0].wraps[self.dimension] if self.torus else self.joined

    @property
    def label(self) -> str:
        labels = {domain.level for domain in self.domains}
        if self.torus:
            return self.torus[0].labels[self.dimension]
        return labels.pop() if len(labels) == 1 else ""


def levels(found: Sequence[Domain], devices: Devices) -> list[Found]:
    """The levels, innermost first. Raises InputError, naming what does not fit."""
    left = sorted(found, key=lambda domain: (len(domain.devices), domain.name))
    units: tuple[Unit, ...] = tuple(frozenset({device}) for device in sorted(devices))
    made: list[Found] = []
    while left:
        inner = [one for one in left if not any(o.devices < one.devices for o in left)]
        _check_apart(inner, devices, made)
        made += _levels_of(inner, units)
        units = tuple(domain.devices for domain in inner)
        left = [domain for domain in left if domain not in inner]
    if len(units) > 1:
        raise InputError(f"the devices are in {len(units)} parts that nothing joins{_so_far(made)}")
    return list(made)


def _so_far(made: Sequence[Found]) -> str:
    if not made:
        return ""
    inside = ", ".join(f"{level.count} in a {level.kind.value}" for level in made)
    return f"; inside: {inside}"


def _check_apart(inner: Sequence[Domain], devices: Devices, made: Sequence[Found]) -> None:
    """The innermost domains must hold every device once, and be of one kind."""
    times = Counter(device for domain in inner for device in domain.devices)
    for device in sorted(devices):
        if times[device] != 1:
            what = "no domain" if not times[device] else "several that overlap"
            names = listed(d.name for d in inner if device in d.devices)
            raise InputError(
                f"{device!r} is in {what} of this size{f' ({names})' if names else ''}"
                f"{_so_far(made)}",
                hint="in a hierarchy every device is in one domain of each level",
            )
    kinds = {domain.kind for domain in inner}
    if len(kinds) > 1:
        names = listed(f"{d.name} ({d.kind.value if d.kind else 'cables'})" for d in inner)
        raise InputError(f"unlike things join devices at one level: {names}")
    if len({domain.reduces for domain in inner}) > 1:
        raise InputError("some switches of a level add up and some do not")


def _levels_of(inner: Sequence[Domain], units: Sequence[Unit]) -> list[Found]:
    """The level that domains make, or the levels of a torus."""
    held = {domain.name: _inside(domain, units) for domain in inner}
    kind = inner[0].kind
    if kind is None:
        return _of_cables(inner, held)
    joins = Kinds.SWITCH if kind is Kind.SWITCH else Kinds.BUS
    for domain in inner:
        for terminal in domain.terminals:
            _check_within(terminal, held[domain.name], domain)
    hangs = [t.hangs_on for domain in inner for t in domain.terminals]
    return [Found(joins, tuple(inner), held, frozenset().union(*hangs))]


def _inside(domain: Domain, units: Sequence[Unit]) -> tuple[Unit, ...]:
    """The units that a domain joins. Raises InputError where it holds only a part of one."""
    held = []
    for unit in units:
        common = unit & domain.devices
        if common and common != unit:
            raise InputError(
                f"{domain.name!r} joins only {listed(sorted(common))} of {listed(sorted(unit))}"
            )
        if common:
            held.append(unit)
    return tuple(held)


def _check_within(terminal: Terminal, units: Iterable[Unit], domain: Domain) -> None:
    if not any(terminal.behind <= unit for unit in units):
        raise InputError(
            f"one cable into {domain.name!r} serves several units: "
            f"{listed(sorted(terminal.behind))}",
        )


def _of_cables(inner: Sequence[Domain], held: Mapping[str, tuple[Unit, ...]]) -> list[Found]:
    """A ring, a mesh, or the dimensions of a torus."""
    hangs = frozenset().union(
        *(end.hangs_on for domain in inner for cable in domain.cables for end in cable[:2])
    )
    told = any(len({edge.level for *_, edge in domain.cables}) > 1 for domain in inner)
    kinds = {None if told else _shape(domain, held[domain.name]) for domain in inner}
    if len(kinds) == 1 and None not in kinds:
        [shape] = kinds
        assert shape is not None
        kind, joined = shape
        return [Found(kind, tuple(inner), held, hangs, joined=joined)]
    first = grid(inner[0])
    grids = tuple(grid(domain, first) for domain in inner) if len(inner) > 1 else (first,)
    sizes = {(one.sizes, one.wraps) for one in grids}
    if len(sizes) > 1:
        raise InputError(f"circles of unlike sizes: {sorted(one for one, _ in sizes)}")
    return [
        Found(Kinds.TORUS, tuple(inner), held, hangs, grids, dimension)
        for dimension in reversed(range(len(grids[0].sizes)))
    ]


def _shape(domain: Domain, units: Sequence[Unit]) -> tuple[Kinds, bool] | None:
    """A mesh or ring of units, and whether its ends are joined; None if cables make neither."""
    number = {unit: place for place, unit in enumerate(units)}
    pairs = set()
    for one, other, _ in domain.cables:
        if one.behind not in number or other.behind not in number:
            return None
        pairs.add(frozenset((number[one.behind], number[other.behind])))
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
