"""From places and cables to a draft: counts, ports, bandwidths, and what falls short of them.

A draft is given only where it is exact: its own graph is made, and compared with what was read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hierarchies.errors import InputError
from hierarchies.faults import parse_fault
from hierarchies.graphs.graph import MachineGraph, NodeKind
from hierarchies.graphs.machine import graph_of
from hierarchies.hierarchy import NAME, RESERVED, Hierarchy, Level, is_numbered
from hierarchies.importers.draft import Blank, Draft, DraftLevel, Lack, StatedValue
from hierarchies.importers.graphs.arcs import SourceGraph
from hierarchies.importers.graphs.circles import natural_sort_key
from hierarchies.importers.graphs.domains import Devices, GraphDomain, Terminal, Wires, find_domains
from hierarchies.importers.graphs.levels import GraphLevel, find_levels
from hierarchies.importers.graphs.places import DevicePlaces, find_places
from hierarchies.system import Domain as Kinds
from hierarchies.system import Link, System

MOST_LACKS = 1000
_NAMES, _DIMENSIONS = ("gpu", "node", "rack", "pod", "hall"), ("x", "y", "z", "w", "v")
_SCALE = 1e9
"""Stands for bandwidths without a unit where the draft's own graph is compared."""


@dataclass
class _LevelFacts:
    """What a level is, as far as the graph says it."""

    name: str
    found: GraphLevel
    position: int
    ports: int = 1
    rate: float | None = None
    latency_seconds: float | None = None
    through: tuple[str, ...] = ()
    lacks: list[Lack] = field(default_factory=list)


def draft_of(given: SourceGraph) -> Draft:
    """The draft of a graph that is a hierarchy. Raises InputError, naming what is irregular."""
    wires = Wires(given.graph)
    devices = frozenset(n.name for n in given.graph.nodes if n.kind is NodeKind.DEVICE)
    assert wires.heights
    joined = find_domains(wires)
    where = find_places(find_levels(joined, devices), devices) if joined else None
    if where is None or not where.levels:
        raise InputError("nothing joins the devices", hint="a graph has edges")
    facts = _facts(where, given.source)
    lacks = [lack for fact in facts for lack in fact.lacks]
    lacks += [
        Lack(_spell_unit(facts, digits), f"{given.source}: it is not there")
        for digits in where.missing()
    ]
    if len(lacks) > MOST_LACKS:
        raise InputError(f"{len(lacks)} cables or units are unlike their siblings")
    _check_exact(given, joined, facts, lacks, where)
    counted = Counter(f"{node.kind.value}s" for node in given.graph.nodes)
    shape = " x ".join(f"{fact.found.count} {fact.name}" for fact in facts)
    return Draft(
        "graph",
        f"{given.source}: {shape}",
        tuple(_draft_level(fact, given) for fact in facts),
        notes=given.notes,
        counted={name.replace("switchs", "switches").replace("buss", "buses"): count
                 for name, count in counted.items()},
        lacks=tuple(lacks),
    )  # fmt: skip


def _facts(where: DevicePlaces, source: str) -> list[_LevelFacts]:
    names = _names(where.levels)
    facts = [_LevelFacts(n, f, i) for i, (n, f) in enumerate(zip(names, where.levels, strict=True))]
    middles = {d.name: fact for fact in facts for d in fact.found.domains if d.kind}
    for fact in reversed(facts):
        fact.through = _crossed_levels(fact, middles)
        if fact.found.torus:
            _read_torus(fact, where)
        elif fact.found.kind is Kinds.SWITCH:
            _switches(fact, facts, where, source)
        elif fact.found.kind is Kinds.BUS:
            _read_buses(fact)
        else:
            _cables(fact, facts, where, source)
    return facts


def _names(found: Sequence[GraphLevel]) -> list[str]:
    """The labels that the graph has, if they can be names; else usual ones."""
    labels = [level.label for level in found]
    fit = all(
        NAME.fullmatch(one) and one not in RESERVED and not is_numbered(one) for one in labels
    )
    if fit and len(set(labels)) == len(labels):
        return labels
    torus = sum(bool(level.torus) for level in found)
    inner = [*_DIMENSIONS[:torus]] if torus else [_NAMES[0]]
    more = [*_NAMES[1:], *(f"level-{chr(ord('a') + i)}" for i in range(len(found)))]
    inner += [f"dimension-{chr(ord('a') + i)}" for i in range(torus - len(inner))]
    return list(reversed([*inner, *more][: len(found)]))


def _crossed_levels(fact: _LevelFacts, middles: dict[str, _LevelFacts]) -> tuple[str, ...]:
    crossed = {middles[name].name: middles[name] for name in fact.found.hangs_on}
    if len(crossed) > 1:
        raise InputError(f"cables of one level hang on switches of several: {', '.join(crossed)}")
    ends = [
        end
        for domain in fact.found.domains
        for end in (*domain.terminals, *(e for cable in domain.cables for e in cable[:2]))
    ]
    if crossed and not all(end.hangs_on for end in ends):
        middle = fact.found.domains[0].name
        raise InputError(f"some cables into {middle!r} hang on switches, others on devices")
    return tuple(n for name, inner in crossed.items() for n in (name, *inner.through))


def _switches(
    fact: _LevelFacts, facts: Sequence[_LevelFacts], where: DevicePlaces, source: str
) -> None:
    """Ports and bandwidths of the children of switches."""
    by_unit: list[tuple[Devices, list[Terminal]]] = []
    for domain in fact.found.domains:
        for unit in fact.found.units[domain.name]:
            by_unit.append((unit, [t for t in domain.terminals if t.behind <= unit]))
    fact.ports = max(len(terminals) for _, terminals in by_unit)
    terminals = [terminal for _, several in by_unit for terminal in several]
    _set_usual_rates(fact, terminals)
    inside = 1
    for inner in facts[fact.position + 1 :]:
        inside *= inner.found.count
    for unit, several in by_unit:
        path = where.path(unit, fact.position)
        short = fact.ports - len(several)
        if short and len(unit) == inside:
            raise InputError(
                f"{_spell_unit(facts, path)} ({min(unit, key=natural_sort_key)!r}, ...) has "
                f"{len(several)} "
                f"cables of level {fact.name!r}, others have {fact.ports}"
            )
        fact.lacks += _slow_ports(fact, facts, path, several, where)


def _slow_ports(
    fact: _LevelFacts,
    facts: Sequence[_LevelFacts],
    path: tuple[int, ...],
    several: Sequence[Terminal],
    where: DevicePlaces,
) -> Iterator[Lack]:
    """The ports of a unit that carry less than others, by the numbers that faults call them."""
    inside = 1
    for inner in facts[fact.position + 1 :]:
        inside *= inner.found.count
    block = max(1, inside // fact.ports)
    taken: Counter[int] = Counter()
    for terminal in sorted(several, key=lambda t: (len(t.behind), -(t.rate or 0.0))):
        first = min(_number(facts, where.devices[d]) for d in terminal.behind) % inside
        port = first * fact.ports // inside if fact.ports > inside else first // block
        number = port + taken[port]
        taken[port] += 1
        if terminal.rate != fact.rate and terminal.rate is not None and fact.rate:
            name = _spell_unit(facts, path)
            if fact.ports > 1:
                name = f"{name}/port{number}"
            yield Lack(name, "the graph", terminal.rate / fact.rate)


def _number(facts: Sequence[_LevelFacts], digits: Iterable[int]) -> int:
    number = 0
    for digit, fact in zip(digits, facts, strict=True):
        number = number * fact.found.count + digit
    return number


def _set_usual_rates(fact: _LevelFacts, ends: Sequence[Terminal]) -> None:
    """The bandwidth of a level is that of its best cables, its latency that of most."""
    rates = [end.rate for end in ends if end.rate]
    fact.rate = max(rates, default=None)
    times = Counter(end.latency_seconds for end in ends if end.latency_seconds is not None)
    fact.latency_seconds = times.most_common(1)[0][0] if times else None


def _read_buses(fact: _LevelFacts) -> None:
    rates = {domain.rate for domain in fact.found.domains}
    if len(rates) > 1:
        raise InputError(f"the buses of a level differ: {fact.found.domains[0].name!r}")
    fact.rate = rates.pop()
    fact.latency_seconds = fact.found.domains[0].latency_seconds


def _cables(
    fact: _LevelFacts, facts: Sequence[_LevelFacts], where: DevicePlaces, source: str
) -> None:
    """Bandwidths of a ring or mesh; slower cables by their two ends."""
    every = [cable for domain in fact.found.domains for cable in domain.cables]
    _set_usual_rates(fact, [one for one, *_ in every])
    for one, other, _ in every:
        if one.rate != fact.rate and one.rate and fact.rate:
            ends = [where.path(end.behind, fact.position) for end in (one, other)]
            low, high = sorted(end[-1] for end in ends)
            parent = _spell_unit(facts, ends[0][:-1])
            cable = f"{fact.name}{low}-{fact.name}{high}"
            name = f"{parent}/{cable}" if parent else cable
            fact.lacks.append(Lack(name, "the graph", one.rate / fact.rate))


def _read_torus(fact: _LevelFacts, where: DevicePlaces) -> None:
    mine = []
    for domain in fact.found.domains:
        for one, other, _ in domain.cables:
            [a], [b] = one.behind, other.behind
            if where.devices[a][fact.position] != where.devices[b][fact.position]:
                mine.append(one)
    fact.ports = 0
    _set_usual_rates(fact, mine)
    slow = next((end for end in mine if end.rate != fact.rate), None)
    if slow is not None:
        raise InputError(f"cables of one dimension of a torus differ, at {min(slow.behind)!r}")


def _spell_unit(facts: Sequence[_LevelFacts], digits: Iterable[int]) -> str:
    return "/".join(f"{fact.name}{digit}" for fact, digit in zip(facts, digits, strict=False))


def _draft_level(fact: _LevelFacts, given: SourceGraph) -> DraftLevel:
    source = given.source
    if fact.rate is None:
        rate: StatedValue | Blank = Blank(None, f"{source} does not say it")
    elif given.in_bytes:
        rate = StatedValue(fact.rate, source)
    else:
        rate = Blank(None, f"{source} says {fact.rate:g}, without a unit")
    reduces = any(domain.reduces for domain in fact.found.domains)
    latency = fact.latency_seconds
    return DraftLevel(
        fact.name,
        StatedValue(fact.found.kind.value, source),
        rate,
        StatedValue(latency, source) if latency is not None else Blank(None, "the graph has none"),
        StatedValue(fact.found.count, source),
        StatedValue(fact.ports, source) if fact.ports else _devices_inside_torus(fact, given),
        fact.through,
        StatedValue(True, source) if reduces else None,
        wraps=None if fact.found.wraps else StatedValue(False, source),
    )


def _devices_inside_torus(fact: _LevelFacts, given: SourceGraph) -> StatedValue:
    sizes = fact.found.torus[0].sizes
    inside = 1
    for size in sizes[fact.found.dimension + 1 :]:
        inside *= size
    return StatedValue(inside, given.source)


def _check_exact(
    given: SourceGraph,
    joined: Sequence[GraphDomain],
    facts: Sequence[_LevelFacts],
    lacks: Sequence[Lack],
    where: DevicePlaces,
) -> None:
    """Refuse a draft whose own graph is another one than what was read. Raises InputError."""
    scale = 1.0 if given.in_bytes else _SCALE
    hierarchy = Hierarchy(tuple(Level(fact.name, fact.found.count) for fact in facts))
    links = [
        Link(
            fact.found.kind,
            (fact.rate or 1.0) * scale,
            fact.latency_seconds or 0.0,
            int(str(_ports(fact, given).value)),
            fact.through,
            reduces=any(domain.reduces for domain in fact.found.domains),
            wraps=fact.found.wraps,
        )
        for fact in facts
    ]
    system = System("graph", "", hierarchy, tuple(links), 1e12)
    faults = [parse_fault(lack.unit, hierarchy, lack.share) for lack in lacks]
    made = graph_of(System("graph", "", hierarchy, tuple(links), 1e12, faults=tuple(faults)))
    names = {system.hierarchy.device(digits): device for device, digits in where.devices.items()}
    rename = {n.name: names[n.number or 0] for n in made.nodes if n.kind is NodeKind.DEVICE}
    ours = _fingerprint(made, scale, rename)
    theirs = _prints(joined, Wires(given.graph), 1.0, {})
    if ours != theirs:
        odd = next(iter((theirs - ours) or (ours - theirs)))
        raise InputError(
            f"levels are there, but do not hold all of the graph: what joins {odd[0]} is unlike",
            hint="its ports or cables are shared in a way that no level has",
        )


def _ports(fact: _LevelFacts, given: SourceGraph) -> StatedValue:
    return StatedValue(fact.ports, "") if fact.ports else _devices_inside_torus(fact, given)


_Print = tuple[object, ...]


def _fingerprint(graph: MachineGraph, scale: float, rename: dict[str, str]) -> Counter[_Print]:
    wires = Wires(graph)
    return _prints(find_domains(wires), wires, scale, rename)


def _prints(
    joined: Sequence[GraphDomain], wires: Wires, scale: float, rename: dict[str, str]
) -> Counter[_Print]:
    """What each domain joins, by the names of devices alone: equal for graphs that are one."""

    def named(devices: Devices) -> tuple[str, ...]:
        return tuple(sorted(rename.get(device, device) for device in devices))

    def rated(rate: float | None) -> float:
        return float(f"{(rate or 0.0) / scale:.9g}")

    def end(terminal: Terminal) -> _Print:
        hangs = sorted(named(wires.behind(name)) for name in terminal.hangs_on)
        return named(terminal.behind), rated(terminal.rate), tuple(hangs)

    found: Counter[_Print] = Counter()
    for domain in joined:
        cables = sorted(
            (tuple(sorted((end(one)[:1], end(other)[:1]))), rated(one.rate))
            for one, other, _ in domain.cables
        )
        ends = sorted(end(terminal) for terminal in domain.terminals)
        kind = domain.kind.value if domain.kind else "cables"
        key = (named(domain.devices)[:4], kind, len(domain.devices), rated(domain.rate))
        found[(*key, tuple(ends), tuple(cables), domain.reduces)] += 1
    return found
