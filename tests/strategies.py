"""Hypothesis strategies for the whole house: small machines, placements, trees and programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from math import gcd, prod

from hypothesis import assume, reject
from hypothesis import strategies as st

import oracle
from grammar import (
    ROOT,
    Across,
    Collective,
    Goal,
    Groups,
    InsideGroup,
    Instruction,
    Master,
    Parallel,
    Program,
    ProgramInstruction,
    list_instructions,
    parse,
    spell,
)
from grammar.tensors.sharding import ReductionKind
from hierarchies import (
    Axis,
    Domain,
    Fault,
    Hierarchy,
    InputError,
    Level,
    Link,
    Placement,
    Reduction,
    System,
    Tree,
    placements,
)
from hierarchies.hierarchy import RESERVED
from synth.collective.emit.source import EmitSource
from synth.collective.price.step_prices import Simulator
from synth.collective.ranking.answers import price_phases
from synth.collective.semantics.lowering import lower
from synth.collective.semantics.programs import Language, explore_states
from synth.collective.semantics.rules import Derivation, derive
from synth.collective.verify.symbolic import Proved
from synth.collective.workload.job import (
    Entry,
    JobAxis,
    NamedNumber,
    Requirement,
    UnpricedTraffic,
    Workload,
)
from synth.collective.workload.quantities import (
    UNITS,
    Amount,
    AtMostRule,
    BinaryOperation,
    Extreme,
    NameReference,
    Number,
    WholeRule,
)

LEVEL_NAMES = ("pod", "rack", "node", "gpu")
AXIS_NAMES = ("data", "model", "pipe")


@st.composite
def hierarchies(draw: st.DrawFn, most_devices: int = 48, most_levels: int = 4) -> Hierarchy:
    """Hierarchies of one to four levels; levels of one child among them."""
    count = draw(st.integers(1, most_levels))
    room = most_devices
    levels = []
    for name in LEVEL_NAMES[-count:]:
        size = draw(st.integers(1, min(room, 8)))
        room //= size
        levels.append(Level(name, size))
    return Hierarchy(tuple(levels))


@st.composite
def placed(draw: st.DrawFn, hierarchy: Hierarchy | None = None) -> Placement:
    """A placement of one to three axes, size 1 among them, on a small hierarchy."""
    hierarchy = hierarchy or draw(hierarchies())
    sizes = [1] * draw(st.integers(1, 3))
    for factor in _prime_factors(hierarchy.devices):
        sizes[draw(st.integers(0, len(sizes) - 1))] *= factor
    axes = tuple(Axis(name, size) for name, size in zip(AXIS_NAMES, sizes, strict=False))
    return draw(st.sampled_from(list(placements(hierarchy, axes))))


@st.composite
def reductions(draw: st.DrawFn, hierarchy: Hierarchy | None = None) -> Reduction:
    """A reduction over some of a placement's axes, collapsed or not."""
    placement = draw(placed(hierarchy))
    names = [axis.name for axis in placement.axes]
    over = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    return Reduction(placement, tuple(over), draw(st.booleans()))


@st.composite
def trees(draw: st.DrawFn, most_digits: int = 3, largest: int = 3) -> Tree:
    """Trees of at least one digit."""
    return Tree.of(*draw(st.lists(st.integers(2, largest), min_size=1, max_size=most_digits)))


@st.composite
def programs(
    draw: st.DrawFn,
    tree: Tree,
    most_steps: int = 4,
    across: bool = True,
    goal: Goal = Goal.ALL_REDUCE,
) -> Program:
    """Any program a tree admits, sensible or not."""
    known = list_instructions(len(tree.digits), across=across, goal=goal)
    steps = draw(st.lists(st.sampled_from(known), max_size=most_steps))
    return Program(tuple(spell(step, tree) for step in steps))


SWITCHES = (Domain.SWITCH,)


@st.composite
def systems(draw: st.DrawFn, most_devices: int = 32, kinds: Iterable[Domain] = Domain) -> System:
    """Small systems of all kinds of domains unless told which."""
    hierarchy = draw(hierarchies(most_devices))
    count = len(hierarchy.levels)
    domains = [draw(st.sampled_from(list(kinds))) for _ in range(count)]
    through: list[tuple[str, ...]] = [()] * count
    for level in range(count - 2, -1, -1):
        inner = level + 1
        if domains[inner] in (Domain.SWITCH, Domain.BUS) and draw(st.booleans()):
            through[level] = (hierarchy.names[inner], *through[inner])
    links = []
    for level, domain in enumerate(domains):
        inside = hierarchy.cardinalities[level + 1 :]
        ports = {Domain.TORUS: prod(inside)}.get(domain, 1)
        if domain is Domain.SWITCH and draw(st.booleans()):
            ports = prod(inside[: draw(st.integers(0, len(inside)))])
            uneven = ports * draw(st.integers(1, 3))
            ports = uneven if serves_whole_children(uneven, inside) else ports
        wraps = domain not in (Domain.RING, Domain.TORUS) or draw(st.booleans())
        links.append(
            Link(
                domain,
                draw(st.floats(1e9, 1e12)),
                draw(st.floats(0, 1e-4)),
                ports,
                through[level],
                wraps=wraps,
            )
        )
    memory = draw(st.floats(1e10, 1e13))
    return System("drawn", "", hierarchy, tuple(links), memory)


def serves_whole_children(ports: int, inside: Sequence[int]) -> bool:
    """Whether the devices that share a port are whole children of one of the levels inside."""
    block = prod(inside) // gcd(ports, prod(inside))
    wholes = [prod(inside[level + 1 :]) for level in range(len(inside))]
    return any(
        block % w == 0 and c % (block // w) == 0 for w, c in zip(wholes, inside, strict=True)
    ) or block == prod(inside)


@st.composite
def smart_systems(
    draw: st.DrawFn, most_devices: int = 32, kinds: Iterable[Domain] = Domain
) -> System:
    """As ``systems``, with switches that reduce, and links that know NCCL's other protocols."""
    system = draw(systems(most_devices, kinds))
    latency = st.none() | st.floats(0, 1e-5)
    links = tuple(
        replace(
            link,
            reduces=link.domain is Domain.SWITCH and draw(st.booleans()),
            ll_latency_seconds=draw(latency),
            ll128_latency_seconds=draw(latency),
        )
        for link in system.links
    )
    return replace(system, links=links)


def with_spare_ports(draw: st.DrawFn, system: System) -> System:
    """The same, now and then with more ports than devices."""
    if draw(st.integers(0, 4)):
        return system
    several = [
        replace(link, ports=2 * system.hierarchy.devices_in_child(level))
        if link.domain is Domain.SWITCH
        else link
        for level, link in enumerate(system.links)
    ]
    return replace(system, links=tuple(several))


def _prime_factors(number: int) -> list[int]:
    factors, prime = [], 2
    while number > 1:
        while number % prime == 0:
            factors.append(prime)
            number //= prime
        prime += 1
    return factors


@st.composite
def written(draw: st.DrawFn) -> Program:
    """Programs as text may say them: any names, whether or not some tree has them."""
    plain = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,9}(\.[A-Za-z][a-z0-9_-]?)?", fullmatch=True)
    names = plain.filter(lambda name: name not in RESERVED - {ROOT})
    forms = st.one_of(
        st.just(InsideGroup()),
        st.builds(Parallel, names),
        st.builds(Master, names),
        st.builds(Across, st.lists(names, min_size=1, max_size=3).map(tuple)),
    )
    steps = st.builds(ProgramInstruction, st.sampled_from(Collective), names, forms)
    return Program(tuple(draw(st.lists(steps, max_size=4))))


@cache
def all_valid(depth: int, language: Language | None = None) -> tuple[tuple[Instruction, ...], ...]:
    """Every valid program on a tree of so many digits, the shortest first."""
    graph = explore_states(depth, language or Language(5))
    labels = range(len(graph.alphabet))
    paths = graph.cheapest([0] * len(labels), labels)
    return tuple(tuple(graph.alphabet[label] for label in path.labels) for path in paths)


def spelled(steps: tuple[Instruction, ...], tree: Tree) -> Program:
    """The instructions as a program on a tree."""
    return Program(tuple(spell(step, tree) for step in steps))


@st.composite
def valid_programs(draw: st.DrawFn, tree: Tree, goal: Goal = Goal.ALL_REDUCE) -> Program:
    """Valid programs of at most 5 steps on a tree of at most 4 digits."""
    known = all_valid(len(tree.digits), Language(5, goal=goal))
    return spelled(draw(st.sampled_from(known)), tree)


def word(meant: Instruction) -> oracle.Word:
    """An instruction in the oracle's own terms."""
    return oracle.Word(meant.collective.value, meant.groups.free, meant.groups.zero)


def unword(said: oracle.Word) -> Instruction:
    """The inverse of ``word``."""
    return Instruction(Collective(said.collective), Groups(said.free, said.zero))


def source(
    program: Program | str,
    reduction: Reduction,
    payload_bytes: int = 2**20,
    segments: int = 1,
    goal: Goal = Goal.ALL_REDUCE,
) -> EmitSource:
    """What emitters get for a valid program, on a machine of plain switches."""
    text = parse(program) if isinstance(program, str) else program
    derivation = derive(text, reduction.tree, goal)
    assert isinstance(derivation, Derivation), derivation
    system = switches(reduction.placement.hierarchy)
    schedule = lower(derivation, reduction, payload_bytes, segments)
    prices = tuple(price_phases(Simulator(system), derivation, reduction, payload_bytes / segments))
    return EmitSource(schedule, system, prices, Proved())


def striped(
    stripes: Sequence[tuple[Program | str, int, int]],
    reduction: Reduction,
    goal: Goal = Goal.ALL_REDUCE,
) -> EmitSource:
    """What emitters get for programs side by side: each with its bytes and segments."""
    first, *others = [source(program, reduction, *cut, goal) for program, *cut in stripes]
    return replace(first, beside=tuple(others))


def reducing(given: EmitSource, op: ReductionKind) -> EmitSource:
    """The same with another reduction operation."""
    first, *others = (replace(one, schedule=replace(one.schedule, op=op)) for one in given.stripes)
    return replace(first, beside=tuple(others))


def switches(hierarchy: Hierarchy) -> System:
    """A machine of crossbars, ten times faster at every level further in."""
    links = tuple(
        Link(Domain.SWITCH, 1e9 * 10**level, 1e-5 / (level + 1))
        for level in range(len(hierarchy.levels))
    )
    return System("switches", "Crossbars", hierarchy, links, 1e12)


def amounts(
    names: Sequence[str], units: bool = False, signs: str = "+-*/", most: int = 8
) -> st.SearchStrategy[Amount]:
    """Amounts of a few parts over the names, with units of bytes if asked for.

    Without ``-`` among the signs there is no 0 either, so that values are above 0.
    """
    digits = st.integers(0 if "-" in signs else 1, 99).map(str)
    digits |= st.sampled_from(["0.5", "1.25", "2e1", "1e-2"])
    leaves: st.SearchStrategy[Amount] = st.builds(
        Number, digits, st.sampled_from(["", *UNITS]) if units else st.just("")
    )
    if names:
        leaves |= st.sampled_from(names).map(NameReference)
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(BinaryOperation, st.sampled_from(signs), inner, inner),
            st.builds(
                Extreme,
                st.sampled_from(["min", "max"]),
                st.tuples(inner, inner) | st.tuples(inner, inner, inner),
            ),
        ),
        max_leaves=most,
    )


TOLD = st.text(
    st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=9
)
"""Names and titles of one printable line."""


@st.composite
def jobs(draw: st.DrawFn) -> Workload:
    """Jobs with open and fixed axes, numbers, requirements and collectives, all in bounds."""
    few = st.lists(st.integers(1, 8), min_size=1, max_size=3, unique=True).map(tuple)
    names = draw(st.lists(st.sampled_from(AXIS_NAMES), min_size=1, unique=True))
    axes = tuple(JobAxis(name, draw(st.none() | few)) for name in names)
    numbers: list[NamedNumber] = []
    for name in ("layers", "hidden", "x_1")[: draw(st.integers(0, 3))]:
        known = [*names, *(number.name for number in numbers)]
        numbers.append(NamedNumber(name, draw(amounts(known, signs="+*/", most=3))))
    known = [*names, *(number.name for number in numbers)]
    plain = amounts(known, signs="+*/", most=3)
    rules = st.one_of(st.builds(AtMostRule, plain, plain), st.builds(WholeRule, plain))
    called = draw(st.lists(TOLD, max_size=2, unique=True))
    requires = [Requirement(name, draw(rules)) for name in called]
    over = st.lists(st.sampled_from(names), min_size=1, unique=True).map(tuple)
    told = draw(st.lists(TOLD, min_size=1, max_size=4, unique=True))
    size = plain | st.builds(Number, st.just("3"), st.sampled_from(list(UNITS)))
    shares = st.sampled_from(["0", "1", "0.25"]).map(Number)
    entries = [
        Entry(name, draw(st.sampled_from(Goal)), draw(over), draw(size), draw(plain), draw(shares))
        for name in told[:2]
    ]
    unpriced = [
        UnpricedTraffic(name, draw(over), draw(size), draw(plain), draw(TOLD)) for name in told[2:]
    ]
    try:
        return Workload(
            draw(TOLD),
            draw(st.just("") | TOLD),
            tuple(draw(st.lists(TOLD, max_size=2))),
            axes,
            tuple(numbers),
            tuple(requires),
            tuple(entries),
            tuple(unpriced),
        )
    except InputError:
        reject()


@st.composite
def faulty(draw: st.DrawFn, most_devices: int = 12, kinds: Iterable[Domain] = Domain) -> System:
    """A small system with some units and ports slower, and ports missing where there are others."""
    system = draw(smart_systems(most_devices, kinds))
    faults: dict[tuple[object, ...], Fault] = {}
    for _ in range(draw(st.integers(1, 3))):
        device = draw(st.integers(0, system.devices - 1))
        level = draw(st.integers(0, len(system.links) - 1))
        path, link = system.hierarchy.digits(device)[: level + 1], system.links[level]
        port = draw(st.none() | st.integers(0, link.ports - 1))
        port = port if link.domain is Domain.SWITCH else None
        share = draw(st.sampled_from([0.25, 0.5, 0.9]))
        if port is not None and draw(st.booleans()):
            share = 0.0
        fault = Fault(path, share, port)
        faults[fault.what] = fault
    try:
        return system.with_faults(faults.values())
    except InputError:
        assume(False)
        raise
