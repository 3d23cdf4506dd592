"""Drafts from places and cables: counts, ports, bandwidths, and exceptions.

A draft is returned only if it is exact: its graph is built and compared with the input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from hierarchies.errors import InputError
from hierarchies.files.schema import MachineException
from hierarchies.graphs.machine import NodeKind, graph_of
from hierarchies.hierarchy import NAME, RESERVED, Hierarchy, Level, is_numbered
from hierarchies.importers.draft import (
    MOST_LACKS,
    Blank,
    Draft,
    DraftLevel,
    StatedValue,
)
from hierarchies.importers.graphs.arcs import SourceGraph
from hierarchies.importers.graphs.circles import natural_sort_key
from hierarchies.importers.graphs.domains import Devices, GraphDomain, Terminal, Wires, find_domains
from hierarchies.importers.graphs.levels import DevicePlaces, GraphLevel, find_levels, find_places
from hierarchies.system import Domain as Kinds
from hierarchies.system import Link, System

_NAMES, _DIMENSIONS = ("gpu", "node", "rack", "pod", "hall"), ("x", "y", "z", "w", "v")
_SCALE = 1e9
"""A scale for bandwidths without a unit when the draft's own graph is compared."""


@dataclass
class _LevelFacts:
    """The facts that a graph describes about a level."""

    name: str
    level: GraphLevel
    position: int
    ports: int = 1
    rate: float | None = None
    latency_seconds: float | None = None
    through: tuple[str, ...] = ()
    lacks: list[MachineException] = field(default_factory=list)


def draft_of(source_graph: SourceGraph) -> Draft:
    """Return the draft of a graph that is a hierarchy.

    Raises InputError, naming the irregularity.
    """
    wires = Wires(source_graph.graph)
    devices = frozenset(n.name for n in source_graph.graph.nodes if n.kind is NodeKind.DEVICE)
    assert wires.heights
    domains = find_domains(wires)
    places = find_places(find_levels(domains, devices), devices) if domains else None
    if places is None or not places.levels:
        raise InputError("the devices are not connected", hint="give a graph with edges")
    facts = _facts(places)
    lacks = [lack for fact in facts for lack in fact.lacks]
    lacks += [
        MachineException.of(_spell_unit(facts, digits), f"{source_graph.source}: missing")
        for digits in places.missing()
    ]
    if len(lacks) > MOST_LACKS:
        raise InputError(f"{len(lacks)} cables or units differ from their siblings")
    _check_exact(source_graph, domains, facts, lacks, places)
    counted = Counter(f"{node.kind.value}s" for node in source_graph.graph.nodes)
    shape = " x ".join(f"{fact.level.count} {fact.name}" for fact in facts)
    return Draft(
        "graph",
        f"{source_graph.source}: {shape}",
        tuple(_draft_level(fact, source_graph) for fact in facts),
        notes=source_graph.notes,
        counted={name.replace("switchs", "switches").replace("buss", "buses"): count
                 for name, count in counted.items()},
        lacks=tuple(lacks),
    )  # fmt: skip


def _facts(places: DevicePlaces) -> list[_LevelFacts]:
    names = _names(places.levels)
    facts = [
        _LevelFacts(n, f, i) for i, (n, f) in enumerate(zip(names, places.levels, strict=True))
    ]
    middles = {d.name: fact for fact in facts for d in fact.level.domains if d.kind}
    for fact in reversed(facts):
        fact.through = _crossed_levels(fact, middles)
        if fact.level.torus:
            _read_torus(fact, places)
        elif fact.level.kind is Kinds.SWITCH:
            _read_switches(fact, facts, places)
        elif fact.level.kind is Kinds.BUS:
            _read_buses(fact)
        else:
            _read_cables(fact, facts, places)
    return facts


def _names(levels: Sequence[GraphLevel]) -> list[str]:
    """Return the labels of the graph if they can be names, else usual ones."""
    labels = [level.label for level in levels]
    usable = all(
        NAME.fullmatch(label) and label not in RESERVED and not is_numbered(label)
        for label in labels
    )
    if usable and len(set(labels)) == len(labels):
        return labels
    torus = sum(bool(level.torus) for level in levels)
    inner = [*_DIMENSIONS[:torus]] if torus else [_NAMES[0]]
    more = [*_NAMES[1:], *(f"level-{chr(ord('a') + i)}" for i in range(len(levels)))]
    inner += [f"dimension-{chr(ord('a') + i)}" for i in range(torus - len(inner))]
    return list(reversed([*inner, *more][: len(levels)]))


def _crossed_levels(fact: _LevelFacts, middles: dict[str, _LevelFacts]) -> tuple[str, ...]:
    crossed = {middles[name].name: middles[name] for name in fact.level.hangs_on}
    if len(crossed) > 1:
        raise InputError(
            f"cables of one level are attached to switches of several levels: {', '.join(crossed)}"
        )
    ends = [
        end
        for domain in fact.level.domains
        for end in (*domain.terminals, *(e for cable in domain.cables for e in cable[:2]))
    ]
    if crossed and not all(end.hangs_on for end in ends):
        middle = fact.level.domains[0].name
        raise InputError(f"some cables into {middle!r} come from switches, others from devices")
    return tuple(n for name, inner in crossed.items() for n in (name, *inner.through))


def _read_switches(fact: _LevelFacts, facts: Sequence[_LevelFacts], places: DevicePlaces) -> None:
    """Read the ports and bandwidths of the children of switches."""
    by_unit: list[tuple[Devices, list[Terminal]]] = []
    for domain in fact.level.domains:
        for unit in fact.level.units[domain.name]:
            by_unit.append((unit, [t for t in domain.terminals if t.behind <= unit]))
    fact.ports = max(len(terminals) for _, terminals in by_unit)
    _set_usual_rates(fact, [terminal for _, terminals in by_unit for terminal in terminals])
    inside = prod(inner.level.count for inner in facts[fact.position + 1 :])
    for unit, terminals in by_unit:
        path = places.path(unit, fact.position)
        short = fact.ports - len(terminals)
        if short and len(unit) == inside:
            raise InputError(
                f"{_spell_unit(facts, path)} ({min(unit, key=natural_sort_key)!r}, ...) has "
                f"{len(terminals)} cables of level {fact.name!r}, others have {fact.ports}"
            )
        fact.lacks += _slow_ports(fact, facts, path, terminals, places)


def _slow_ports(
    fact: _LevelFacts,
    facts: Sequence[_LevelFacts],
    path: tuple[int, ...],
    terminals: Sequence[Terminal],
    places: DevicePlaces,
) -> Iterator[MachineException]:
    """Yield a unit's ports with less bandwidth than others, by their numbers in faults."""
    inside = prod(inner.level.count for inner in facts[fact.position + 1 :])
    block = max(1, inside // fact.ports)
    used: Counter[int] = Counter()
    for terminal in sorted(terminals, key=lambda t: (len(t.behind), -(t.rate or 0.0))):
        first = min(_number(facts, places.devices[d]) for d in terminal.behind) % inside
        port = first * fact.ports // inside if fact.ports > inside else first // block
        number = port + used[port]
        used[port] += 1
        if terminal.rate != fact.rate and terminal.rate is not None and fact.rate:
            name = _spell_unit(facts, path)
            if fact.ports > 1:
                name = f"{name}/port{number}"
            yield MachineException.of(name, "the graph", terminal.rate / fact.rate)


def _number(facts: Sequence[_LevelFacts], digits: Iterable[int]) -> int:
    number = 0
    for digit, fact in zip(digits, facts, strict=True):
        number = number * fact.level.count + digit
    return number


def _set_usual_rates(fact: _LevelFacts, ends: Sequence[Terminal]) -> None:
    """Set a level's bandwidth to that of its best cables, its latency to the most common one."""
    rates = [end.rate for end in ends if end.rate]
    fact.rate = max(rates, default=None)
    latencies = Counter(end.latency_seconds for end in ends if end.latency_seconds is not None)
    fact.latency_seconds = latencies.most_common(1)[0][0] if latencies else None


def _read_buses(fact: _LevelFacts) -> None:
    rates = {domain.rate for domain in fact.level.domains}
    if len(rates) > 1:
        raise InputError(f"the buses of a level differ: {fact.level.domains[0].name!r}")
    fact.rate = rates.pop()
    fact.latency_seconds = fact.level.domains[0].latency_seconds


def _read_cables(fact: _LevelFacts, facts: Sequence[_LevelFacts], places: DevicePlaces) -> None:
    """Read the bandwidths of a ring or mesh; slower cables are named by their two ends."""
    cables = [cable for domain in fact.level.domains for cable in domain.cables]
    _set_usual_rates(fact, [end for end, *_ in cables])
    for first, second, _ in cables:
        if first.rate != fact.rate and first.rate and fact.rate:
            ends = [places.path(end.behind, fact.position) for end in (first, second)]
            low, high = sorted(end[-1] for end in ends)
            parent = _spell_unit(facts, ends[0][:-1])
            cable = f"{fact.name}{low}-{fact.name}{high}"
            name = f"{parent}/{cable}" if parent else cable
            fact.lacks.append(MachineException.of(name, "the graph", first.rate / fact.rate))


def _read_torus(fact: _LevelFacts, places: DevicePlaces) -> None:
    ends = []
    for domain in fact.level.domains:
        for first, second, _ in domain.cables:
            [a], [b] = first.behind, second.behind
            if places.devices[a][fact.position] != places.devices[b][fact.position]:
                ends.append(first)
    sizes = fact.level.torus[0].sizes
    fact.ports = prod(sizes[fact.level.dimension + 1 :])
    _set_usual_rates(fact, ends)
    slow = next((end for end in ends if end.rate != fact.rate), None)
    if slow is not None:
        raise InputError(f"cables of one dimension of a torus differ, at {min(slow.behind)!r}")


def _spell_unit(facts: Sequence[_LevelFacts], digits: Iterable[int]) -> str:
    return "/".join(f"{fact.name}{digit}" for fact, digit in zip(facts, digits, strict=False))


def _draft_level(fact: _LevelFacts, source_graph: SourceGraph) -> DraftLevel:
    source = source_graph.source
    if fact.rate is None:
        rate: StatedValue | Blank = Blank(None, f"not in {source}")
    elif source_graph.in_bytes:
        rate = StatedValue(fact.rate, source)
    else:
        rate = Blank(None, f"{source} says {fact.rate:g}, without a unit")
    reduces = any(domain.reduces for domain in fact.level.domains)
    latency = fact.latency_seconds
    return DraftLevel(
        fact.name,
        StatedValue(fact.level.kind.value, source),
        rate,
        StatedValue(latency, source) if latency is not None else Blank(None, "not in the graph"),
        StatedValue(fact.level.count, source),
        StatedValue(fact.ports, source),
        fact.through,
        StatedValue(True, source) if reduces else None,
        wraps=None if fact.level.wraps else StatedValue(False, source),
    )


def _check_exact(
    source_graph: SourceGraph,
    domains: Sequence[GraphDomain],
    facts: Sequence[_LevelFacts],
    lacks: Sequence[MachineException],
    places: DevicePlaces,
) -> None:
    """Raise InputError unless the draft's own graph equals the input."""
    scale = 1.0 if source_graph.in_bytes else _SCALE
    hierarchy = Hierarchy(tuple(Level(fact.name, fact.level.count) for fact in facts))
    links = [
        Link(
            fact.level.kind,
            (fact.rate or 1.0) * scale,
            fact.latency_seconds or 0.0,
            fact.ports,
            fact.through,
            reduces=any(domain.reduces for domain in fact.level.domains),
            wraps=fact.level.wraps,
        )
        for fact in facts
    ]
    system = System("graph", "", hierarchy, tuple(links), 1e12)
    faults = [lack.fault(hierarchy) for lack in lacks]
    built = graph_of(replace(system, faults=tuple(faults)))
    names = {hierarchy.device(digits): device for device, digits in places.devices.items()}
    rename = {n.name: names[n.number or 0] for n in built.nodes if n.kind is NodeKind.DEVICE}
    wires = Wires(built)
    expected = _prints(find_domains(wires), wires, scale, rename)
    actual = _prints(domains, Wires(source_graph.graph), 1.0, {})
    if expected != actual:
        odd = next(iter((actual - expected) or (expected - actual)))
        raise InputError(
            "levels were found, but they do not describe the whole graph: the links "
            f"of {odd[0]} differ",
            hint="its ports or cables are shared in a way that no level describes",
        )


_Print = tuple[object, ...]


def _prints(
    domains: Sequence[GraphDomain], wires: Wires, scale: float, rename: dict[str, str]
) -> Counter[_Print]:
    """Return a fingerprint of each domain by names of devices, the same for equal graphs."""

    def named(devices: Devices) -> tuple[str, ...]:
        return tuple(sorted(rename.get(device, device) for device in devices))

    def rated(rate: float | None) -> float:
        return float(f"{(rate or 0.0) / scale:.9g}")

    def end(terminal: Terminal) -> _Print:
        attached = sorted(named(wires.behind(name)) for name in terminal.hangs_on)
        return named(terminal.behind), rated(terminal.rate), tuple(attached)

    counts: Counter[_Print] = Counter()
    for domain in domains:
        cables = sorted(
            (tuple(sorted((end(first)[:1], end(second)[:1]))), rated(first.rate))
            for first, second, _ in domain.cables
        )
        ends = sorted(end(terminal) for terminal in domain.terminals)
        kind = domain.kind.value if domain.kind else "cables"
        key = (named(domain.devices)[:4], kind, len(domain.devices), rated(domain.rate))
        counts[(*key, tuple(ends), tuple(cables), domain.reduces)] += 1
    return counts
