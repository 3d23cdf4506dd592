"""A program in groups: operations with nothing sent between them are one task of a device.

What a layer does between two collectives is timed once, as a section, and repeated for each layer:
a loop of 96 layers is as many short lists of groups. A group ends where a value is made that is
sent as soon as it is there, and where the place of an instruction is another. The update of all
parameters is one, and waits for all gradients.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from grammar.tensors.operations import Graph, Operation, Value
from grammar.tensors.sharding import Sharding, Type, part_shape
from synth.compute import NOTHING, Estimate, Section, is_scores, scores_of, together
from synth.train.factors import part
from synth.train.plans import Done, Moved, Place, Program, Sent
from synth.train.plans.program import EVERYWHERE
from synth.train.simulation.kinds import Kind
from synth.train.simulation.remade import MADE_ANYWHERE, between_kernels
from synth.train.simulation.remade import Key as Key


@dataclass(frozen=True)
class Group:
    """Operations done as one: what they read of others, and ``makes``, what others read of them.

    ``aliases``: values that lie otherwise without being sent, and as what they were made;
    ``working_bytes`` are the most that its own values take beside what it makes. ``remade``: what
    it makes and does not store, as readers compute it again from other values.
    """

    name: str
    done: tuple[Done, ...]
    section: Section
    reads: tuple[Key, ...]
    makes: tuple[tuple[Value, Sharding], ...]
    aliases: tuple[tuple[Key, Key], ...]
    working_bytes: int
    remade: Mapping[Key, tuple[Key, ...]] = field(default_factory=dict)

    @cached_property
    def casts(self) -> bool:
        """Whether all that is done is one cast."""
        one_value = len(self.reads) == len(self.makes) == 1
        return one_value and all(one.primitive == CAST for one in self.section.operations)


CAST = "convert_element_type"

MAKING_SCORES = ("dot_general", "exp")
"""By these scores of attention are known."""

Item = Group | Moved | Sent | Done
"""A group, something sent, or a loop."""

Items = tuple[tuple[Item, Place | None], ...]

_Spot = tuple[Place | None, bool]
"""Where operations are one task: a place, and whether they are of the update."""


@dataclass(frozen=True)
class Again:
    """What kernels compute again: values that others make and do not store, and what of.

    ``inputs`` are those that come into a program, by name, with the parts that a device reads;
    ``types`` are all values of the program.
    """

    values: Mapping[Key, tuple[Key, ...]] = field(default_factory=dict)
    inputs: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    types: Mapping[str, Value] = field(default_factory=dict)

    @property
    def sources(self) -> list[Key]:
        """What is stored for others to be computed from."""
        return [*dict.fromkeys(key for keys in self.values.values() for key in keys)]


NOTHING_AGAIN = Again()


@dataclass(frozen=True)
class Body:
    """The body of a loop in groups, with the kinds of its values; ``of`` is what it was made of.

    ``entering`` are the names of what comes in, ``ends`` of what comes out. ``fresh`` are slices
    that are made again, of what is then kept.
    """

    of: tuple[Graph, Program]
    entering: tuple[Key, ...]
    items: tuple[Item, ...]
    ends: tuple[Key, ...]
    kinds: Mapping[str, Kind]
    fresh: Mapping[Key, tuple[Key, ...]]


class Sizes:
    """Bytes of values on a device, by how they lie."""

    def __init__(self, parts: Mapping[str, int], unstored: Collection[tuple[int, ...]]) -> None:
        self._parts, self._unstored = parts, unstored
        self._known: dict[tuple[object, Sharding], int] = {}

    def __call__(self, kind: Type, lies: Sharding) -> int:
        if (kind, lies) not in self._known:
            own = Type(kind.dtype, part_shape(kind, lies, self._parts))
            never = is_scores(kind, self._unstored) or is_scores(own, self._unstored)
            self._known[kind, lies] = 0 if never else own.bytes
        return self._known[kind, lies]


@dataclass(frozen=True)
class Grouping:
    """How programs are cut in groups: ``parts`` of axes, and what counts as sent.

    ``whole``: groups are as long as they may be, else each operation is one. ``prompt``: what is
    sent goes as soon as it is made. ``measured`` has seconds of operations by the ``id`` of their
    ``Done``; of a loop, of what it does itself.
    """

    parts: Mapping[str, int]
    sizes: Mapping[str, int]
    whole: bool
    prompt: bool
    bytes_of: Sizes
    measured: Mapping[int, Estimate] = field(default_factory=dict)
    known: dict[object, list[tuple[Program, Items]]] = field(default_factory=dict, compare=False)
    bodies: dict[object, Body] = field(default_factory=dict, compare=False)
    sections: dict[object, tuple[Sequence[Done], Section, int]] = field(
        default_factory=dict, compare=False
    )

    def of(
        self,
        graph: Graph,
        program: Program,
        ends: Collection[Key],
        given: Collection[str] = (),
        gone: Collection[Key] = (),
        inputs: Mapping[str, tuple[Value, ...]] = MappingProxyType({}),
    ) -> Items:
        """The program of a graph in groups; ``given`` are inputs of it that are constants.

        ``gone`` are ends, and ``inputs`` what comes in, that readers compute again. What was asked
        for before is kept: stages that do the same have the same groups.
        """
        key = id(graph), frozenset(gone), tuple(inputs.items())
        same = self.known.setdefault(key, [])
        for other, items in same:
            if other is program or other == program:
                return items
        constants = constants_of(graph, given) if self.whole else frozenset[str]()
        values: Mapping[Key, tuple[Key, ...]] = {}
        if self.whole:
            values = between_kernels(program, ends, self.bytes_of, self.sizes, gone, inputs.keys())
        again = Again(values, inputs, graph.values)
        same.append((program, tuple(self.items(program, ends, constants, again))))
        return same[-1][1]

    def items(
        self,
        program: Program,
        ends: Collection[Key],
        constants: Collection[str] = (),
        again: Again = NOTHING_AGAIN,
    ) -> Iterator[tuple[Item, Place | None]]:
        """The program in groups, with their places; ``ends`` are read after it.

        What makes ``constants``, or sends them, is left out.
        """
        instructions = program.instructions
        places = program.places or (None,) * len(instructions)
        gates = self._gates(instructions)
        update = program.update if self.whole else frozenset[str]()
        left = _Readers(instructions, [*ends, *again.sources])
        runs: dict[_Spot, list[Done | Moved]] = {}
        on_the_way: list[Done] = []

        def ended(chosen: Iterable[_Spot]) -> Iterator[tuple[Item, Place | None]]:
            for spot in [one for one in chosen if one in runs]:
                yield self.group(runs.pop(spot), left, constants, again, on_the_way), spot[0]
                on_the_way.clear()

        for one, place in zip(instructions, places, strict=True):
            if constants and _constant(one, constants):
                left.passed(one)
                on_the_way += [one] if isinstance(one, Done) else []
                continue
            spot = place, not update.isdisjoint(_made(one))
            free = isinstance(one, Moved) and not one.path.requests(self.sizes)
            if not isinstance(one, Done) or one.body is not None:
                if free and spot in runs:
                    assert isinstance(one, Moved)
                    runs[spot].append(one)
                    continue
                yield from ended(list(runs) if isinstance(one, Sent) else _read_by(spot, runs))
                yield from ended([spot])
                yield one, place
                left.passed(one)
                continue
            full = not spot[1] and any(value.name in gates for value in one.operation.results)
            yield from ended(_read_by(spot, runs))
            if full and one.operation.primitive == CAST:
                yield from ended([spot])
            runs.setdefault(spot, []).append(one)
            if full or not self.whole:
                yield from ended([spot])
        yield from ended(list(runs))

    def _gates(self, instructions: Sequence[Done | Moved | Sent]) -> set[str]:
        """The values after which a group ends, as they are sent at once."""
        if not self.prompt:
            return set()
        return {
            one.value.name
            for one in instructions
            if isinstance(one, Moved) and one.path.requests(self.sizes)
        }

    def group(
        self,
        run: Sequence[Done | Moved],
        left: _Readers,
        constants: Collection[str] = (),
        again: Again = NOTHING_AGAIN,
        on_the_way: Sequence[Done] = (),
    ) -> Group:
        """Some operations as one, and values that lie otherwise without being sent.

        What was measured of making constants ``on_the_way`` is part of it.
        """
        made: dict[Key, Value] = {}
        reads: dict[Key, None] = {}
        roots: dict[Key, Key] = {}
        for one in run:
            left.passed(one)
            if isinstance(one, Moved):
                source = (one.value.name, one.path.source)
                roots[one.value.name, one.path.target] = roots.get(source, source)
                continue
            for operand, lies in zip(one.operation.operands, one.how.operands, strict=True):
                key = (str(operand), lies)
                if not isinstance(operand, Value) or operand.name in constants:
                    continue
                if roots.get(key, key) not in made:
                    reads[roots.get(key, key)] = None
            for value, lies in zip(one.operation.results, one.how.results, strict=True):
                made[value.name, lies] = value
        makes = tuple((value, key[1]) for key, value in made.items() if key[0] in left.names)
        done = [one for one in run if isinstance(one, Done)]
        kept = {value.name for value, lies in makes if (value.name, lies) not in again.values}
        known = self._sources((*reads, *made), again, constants)
        section, working = self._section(done, kept, constants, known, on_the_way)
        return Group(
            named(done[0].operation, len(done)),
            tuple(done),
            section,
            tuple(reads),
            makes,
            tuple((new, old) for new, old in roots.items() if new[0] in left.names),
            working,
            {key: again.values[key] for key in made if again.values.get(key)},
        )

    def _sources(
        self, keys: Iterable[Key], again: Again, constants: Collection[str]
    ) -> dict[str, tuple[Value, ...]]:
        """By name the parts from which values are computed again that are not in memory."""
        found = {}
        for name, lies in keys:
            sources = again.values.get((name, lies), ())
            parts = tuple(
                self.part_of(again.types[source], how)
                for source, how in sources
                if source not in constants
            )
            if parts or name in again.inputs:
                found[name] = parts or again.inputs[name]
        return found

    def part_of(self, value: Value, lies: Sharding) -> Value:
        """The part of a value that a device has."""
        return Value(value.name, Type(value.type.dtype, part_shape(value.type, lies, self.parts)))

    def _section(
        self,
        done: Sequence[Done],
        kept: Collection[str],
        constants: Collection[str],
        remade: Mapping[str, tuple[Value, ...]],
        on_the_way: Sequence[Done],
    ) -> tuple[Section, int]:
        """Operations as a section, and its working bytes; alike but for names, they are one."""
        numbers: dict[str, int] = {}
        alike = []
        for one in done:
            names = map(str, (*one.operation.operands, *one.operation.results))
            values = tuple(numbers.setdefault(name, len(numbers)) for name in names)
            alike.append((one.operation.form, id(one.how), values))
        out = frozenset(numbers[one] for one in kept)
        given = frozenset(numbers[one] for one in numbers.keys() & constants)
        sources = tuple(
            (numbers[name], tuple((numbers.setdefault(v.name, len(numbers)), v.type) for v in some))
            for name, some in remade.items()
            if name in numbers
        )
        both = (*done, *on_the_way)
        known = tuple(self.measured.get(id(one)) for one in both) if self.measured else ()
        key = tuple(alike), out, given, sources, known
        if key not in self.sections:
            own = tuple(part(one.operation, one.how, self.parts).operation for one in done)
            section = Section(own, frozenset(kept), frozenset(constants), tuple(remade.items()))
            if seconds := [one for one in known if one is not None]:
                left = (one for one, took in zip(own, known, strict=False) if took is None)
                rest = sum(map(weight, left)) / sum(map(weight, own))
                section = replace(section, measured=together(seconds), rest=rest)
            self.sections[key] = done, section, _working(done, kept, self.bytes_of)
        return self.sections[key][1:]

    def own_work(self, loop: Done) -> Section | None:
        """What a loop does itself, where it was measured: else it takes no time."""
        known = self.measured.get(id(loop), NOTHING)
        return Section((), frozenset(), measured=known, rest=0.0) if known.seconds else None


@dataclass
class _Readers:
    """The names that are read by what is still to come, and how often."""

    names: dict[str, int] = field(default_factory=dict)

    def __init__(self, instructions: Sequence[Done | Moved | Sent], ends: Collection[Key]) -> None:
        self.names = {}
        for name in (*(name for one in instructions for name in _read(one)), *(n for n, _ in ends)):
            self.names[name] = self.names.get(name, 0) + 1

    def passed(self, one: Done | Moved | Sent) -> None:
        """Its reads are no longer to come."""
        for name in _read(one):
            self.names[name] -= 1
            if not self.names[name]:
                del self.names[name]


def _read_by(spot: _Spot, runs: Collection[_Spot]) -> list[_Spot]:
    """Of which something may be read at another: of its own stage, and of all.

    What the update makes nothing else computes with.
    """
    place, updates = spot
    others = [one for one in runs if one != spot and (updates or not one[1])]
    if place is None:
        return others
    near = (place.stage, EVERYWHERE)
    return [(at, late) for at, late in others if at is not None and at.stage in near]


def _constant(one: Done | Moved | Sent, constants: Collection[str]) -> bool:
    """Whether it makes constants, or has them lie otherwise."""
    return all(name in constants for name in _made(one))


def _made(one: Done | Moved | Sent) -> Sequence[str]:
    """The names of what is made, or sent."""
    if isinstance(one, Done):
        return [value.name for value in one.operation.results]
    return [one.value.name]


def constants_of(graph: Graph, given: Collection[str] = ()) -> frozenset[str]:
    """The values that come of numbers written out alone: masks, zeros, positions.

    Whoever reads one makes it on the way, so it takes no memory and next to no time. ``given``: the
    inputs of the graph that are such.
    """
    found = set(given)
    for one in graph.operations:
        values = [operand for operand in one.operands if isinstance(operand, Value)]
        if one.primitive in MADE_ANYWHERE and all(value.name in found for value in values):
            found.update(value.name for value in one.results)
    return frozenset(found)


def _read(one: Done | Moved | Sent) -> Iterator[str]:
    match one:
        case Done():
            yield from map(str, one.operation.operands)
        case _:
            yield one.value.name


def _working(run: Sequence[Done], kept: Collection[str], bytes_of: Sizes) -> int:
    """The most bytes that live inside, beyond those of what is kept."""
    last = {
        str(operand): number for number, one in enumerate(run) for operand in one.operation.operands
    }
    living: dict[str, int] = {}
    held = most = all_kept = 0
    for number, one in enumerate(run):
        operation = one.operation
        for value, lies in zip(operation.results, one.how.results, strict=True):
            size = bytes_of(value.type, lies)
            held += size
            if value.name in kept:
                all_kept += size
            else:
                living[value.name] = size
        most = max(most, held)
        for name in {*map(str, operation.operands), *(v.name for v in operation.results)}:
            if last.get(name, number) <= number:
                held -= living.pop(name, 0)
    return max(0, most - all_kept)


def weight(operation: Operation) -> float:
    """The share of a measured section that an operation has beside others, by what it touches."""
    touched = (*operation.operands, *operation.results)
    return 1.0 + sum(value.type.bytes for value in touched if isinstance(value, Value))


def named(operation: Operation, count: int = 1) -> str:
    """What a task is called that begins with an operation."""
    if count > 1:
        return f"{count} operations from {operation.primitive} on"
    return f"{operation.primitive} {operation.line}" if operation.line else operation.primitive


def scores_in(program: Program, parts: Mapping[str, int]) -> frozenset[tuple[int, ...]]:
    """The shapes that scores of attention have, and those of a device's part of them."""
    several = [one for one in _all_done(program) if one.operation.primitive in MAKING_SCORES]
    own = (part(one.operation, one.how, parts).operation for one in several)
    return scores_of(own) | scores_of(one.operation for one in several)


def _all_done(program: Program) -> Iterator[Done]:
    for one in program.instructions:
        if isinstance(one, Done):
            yield one
            if one.body is not None:
                yield from _all_done(one.body)
