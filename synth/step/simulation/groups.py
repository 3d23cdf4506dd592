"""Groups the operations of a program: operations without communication between are one task.

The operations of a layer between two collectives are timed once, as a section, and repeated for
each layer: a loop of 96 layers is 96 short lists of groups. A group ends at a value that is sent as
soon as it is made, and when the place of instructions changes. The update of all parameters is one
group, which waits for all gradients.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from types import MappingProxyType

from grammar.tensors.operations import Graph, Operation, Value
from grammar.tensors.sharding import Sharding, Type, part_shape
from synth.compute import NOTHING, Estimate, Section, is_scores, scores_of, sum_estimates_of_section
from synth.step.factors import part_of
from synth.step.sharding import (
    InstructionPlace,
    LocalOperation,
    RedistributedValue,
    SentValue,
    StepProgram,
)
from synth.step.sharding.program import EVERYWHERE, Key, StepInstruction
from synth.step.simulation.kinds import BufferKind
from synth.step.simulation.remade import RECOMPUTABLE, find_kernel_recomputed


@dataclass(frozen=True)
class GroupedOperations:
    """Operations that run as one task.

    ``reads``: values of other groups that it reads; ``makes``: values that other groups read.
    ``aliases``: values redistributed without communication, and their sources. ``working_bytes``:
    the peak memory of values inside, in addition to its results. ``remade``: results that are not
    stored because their readers recompute them, with the values from which they are recomputed.
    """

    name: str
    done: tuple[LocalOperation, ...]
    section: Section
    reads: tuple[Key, ...]
    makes: tuple[tuple[Value, Sharding], ...]
    aliases: tuple[tuple[Key, Key], ...]
    working_bytes: int
    remade: Mapping[Key, tuple[Key, ...]] = field(default_factory=dict)

    @cached_property
    def casts(self) -> bool:
        """Whether the group is a single cast."""
        one_value = len(self.reads) == len(self.makes) == 1
        casts = (operation.primitive == CAST for operation in self.section.operations)
        return one_value and all(casts)


CAST = "convert_element_type"

SCORE_PRIMITIVES = ("dot_general", "exp")
"""Primitives that identify attention scores."""

Item = GroupedOperations | RedistributedValue | SentValue | LocalOperation
"""A group, communication, or a loop."""

Items = tuple[tuple[Item, InstructionPlace | None], ...]

_Spot = tuple[InstructionPlace | None, bool]
"""The common properties of a task's operations: a place, and whether they are of the update."""


@dataclass(frozen=True)
class Recomputation:
    """Values that are not stored, because the kernels that read them recompute them.

    ``values``: maps each to its sources. ``inputs``: recomputed inputs of the program, by name,
    with the parts of their sources that a device reads. ``types``: all values of the program.
    """

    values: Mapping[Key, tuple[Key, ...]] = field(default_factory=dict)
    inputs: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    types: Mapping[str, Value] = field(default_factory=dict)

    @property
    def sources(self) -> list[Key]:
        """The stored values from which other values are recomputed."""
        return [*dict.fromkeys(key for keys in self.values.values() for key in keys)]


NO_RECOMPUTATION = Recomputation()


@dataclass(frozen=True)
class LoopBody:
    """The body of a loop in groups, with the kinds of its values; ``of``: graph and program.

    ``entering``: the names of its inputs; ``ends``: the names of its outputs; ``fresh``: recomputed
    outputs, with their sources.
    """

    of: tuple[Graph, StepProgram]
    entering: tuple[Key, ...]
    items: tuple[Item, ...]
    ends: tuple[Key, ...]
    kinds: Mapping[str, BufferKind]
    fresh: Mapping[Key, tuple[Key, ...]]


class Sizes:
    """Bytes of values on a device, by type and sharding."""

    def __init__(self, parts: Mapping[str, int], unstored: Collection[tuple[int, ...]]) -> None:
        self._parts, self._unstored = parts, unstored
        self._known: dict[tuple[object, Sharding], int] = {}

    def __call__(self, kind: Type, sharding: Sharding) -> int:
        if (kind, sharding) not in self._known:
            part = Type(kind.dtype, part_shape(kind, sharding, self._parts))
            unstored = is_scores(kind, self._unstored) or is_scores(part, self._unstored)
            self._known[kind, sharding] = 0 if unstored else part.bytes
        return self._known[kind, sharding]


@dataclass(frozen=True)
class OperationGrouping:
    """A way to group programs, with its caches; ``parts``: the number of parts along each axis.

    ``whole``: groups are as long as possible; otherwise each operation is a group. ``prompt``:
    values are sent as soon as they are made. ``measured``: seconds of operations by the ``id`` of
    their ``LocalOperation``; for a loop, of the work outside its body.
    """

    parts: Mapping[str, int]
    sizes: Mapping[str, int]
    whole: bool
    prompt: bool
    bytes_of: Sizes
    measured: Mapping[int, Estimate] = field(default_factory=dict)
    known: dict[object, list[tuple[StepProgram, Items]]] = field(
        default_factory=dict, compare=False
    )
    bodies: dict[object, LoopBody] = field(default_factory=dict, compare=False)
    sections: dict[object, tuple[Sequence[LocalOperation], Section, int]] = field(
        default_factory=dict, compare=False
    )

    def of(
        self,
        graph: Graph,
        program: StepProgram,
        ends: Collection[Key],
        given: Collection[str] = (),
        gone: Collection[Key] = (),
        inputs: Mapping[str, tuple[Value, ...]] = MappingProxyType({}),
    ) -> Items:
        """Groups the program of a graph; ``given`` are inputs that are constants.

        ``gone``: ends that readers recompute. ``inputs``: inputs that readers recompute. Results
        are cached, so that equal stages share groups.
        """
        key = id(graph), frozenset(gone), tuple(inputs.items())
        cached = self.known.setdefault(key, [])
        for other, items in cached:
            if other is program or other == program:
                return items
        constants = constants_of(graph, given) if self.whole else frozenset[str]()
        values: Mapping[Key, tuple[Key, ...]] = {}
        if self.whole:
            values = find_kernel_recomputed(
                program, ends, self.bytes_of, self.sizes, gone, inputs.keys()
            )
        recomputed = Recomputation(values, inputs, graph.values)
        cached.append((program, tuple(self.items(program, ends, constants, recomputed))))
        return cached[-1][1]

    def items(
        self,
        program: StepProgram,
        ends: Collection[Key],
        constants: Collection[str] = (),
        again: Recomputation = NO_RECOMPUTATION,
    ) -> Iterator[tuple[Item, InstructionPlace | None]]:
        """Yields the groups of a program with their places; ``ends`` are read after it.

        Leaves out instructions that make or send ``constants``.
        """
        instructions = program.instructions
        places = program.places or (None,) * len(instructions)
        gates = self._gates(instructions)
        update = program.update if self.whole else frozenset[str]()
        readers = _Readers(instructions, [*ends, *again.sources])
        runs: dict[_Spot, list[LocalOperation | RedistributedValue]] = {}
        constants_made: list[LocalOperation] = []

        def close(chosen: Iterable[_Spot]) -> Iterator[tuple[Item, InstructionPlace | None]]:
            for spot in [spot for spot in chosen if spot in runs]:
                yield self.group(runs.pop(spot), readers, constants, again, constants_made), spot[0]
                constants_made.clear()

        for instruction, place in zip(instructions, places, strict=True):
            if constants and _is_constant(instruction, constants):
                readers.passed(instruction)
                constants_made += [instruction] if isinstance(instruction, LocalOperation) else []
                continue
            spot = place, not update.isdisjoint(_names_made(instruction))
            free = isinstance(instruction, RedistributedValue) and not instruction.path.requests(
                self.sizes
            )
            if not isinstance(instruction, LocalOperation) or instruction.body is not None:
                if free and spot in runs:
                    assert isinstance(instruction, RedistributedValue)
                    runs[spot].append(instruction)
                    continue
                yield from close(
                    list(runs)
                    if isinstance(instruction, SentValue)
                    else _find_read_spots(spot, runs)
                )
                yield from close([spot])
                yield instruction, place
                readers.passed(instruction)
                continue
            full = not spot[1] and any(
                value.name in gates for value in instruction.operation.results
            )
            yield from close(_find_read_spots(spot, runs))
            # A cast before a send is a group by itself, so that a loop before it can take it over.
            if full and instruction.operation.primitive == CAST:
                yield from close([spot])
            runs.setdefault(spot, []).append(instruction)
            if full or not self.whole:
                yield from close([spot])
        yield from close(list(runs))

    def _gates(self, instructions: Sequence[StepInstruction]) -> set[str]:
        """Returns the values that are sent immediately; a group ends after each."""
        if not self.prompt:
            return set()
        return {
            instruction.value.name
            for instruction in instructions
            if isinstance(instruction, RedistributedValue) and instruction.path.requests(self.sizes)
        }

    def group(
        self,
        run: Sequence[LocalOperation | RedistributedValue],
        readers: _Readers,
        constants: Collection[str] = (),
        again: Recomputation = NO_RECOMPUTATION,
        on_the_way: Sequence[LocalOperation] = (),
    ) -> GroupedOperations:
        """Returns a group of operations and of redistributions without communication.

        Includes the measured seconds of operations in between that make constants (``on_the_way``).
        """
        made: dict[Key, Value] = {}
        reads: dict[Key, None] = {}
        roots: dict[Key, Key] = {}
        for instruction in run:
            readers.passed(instruction)
            if isinstance(instruction, RedistributedValue):
                source = (instruction.value.name, instruction.path.source)
                roots[instruction.value.name, instruction.path.target] = roots.get(source, source)
                continue
            for key in instruction.keys_read:
                if key[0] not in constants and roots.get(key, key) not in made:
                    reads[roots.get(key, key)] = None
            for value, sharding in zip(
                instruction.operation.results, instruction.how.results, strict=True
            ):
                made[value.name, sharding] = value
        makes = tuple((value, key[1]) for key, value in made.items() if key[0] in readers.names)
        done = [instruction for instruction in run if isinstance(instruction, LocalOperation)]
        kept = {
            value.name for value, sharding in makes if (value.name, sharding) not in again.values
        }
        known = self._sources((*reads, *made), again, constants)
        section, working = self._section(done, kept, constants, known, on_the_way)
        return GroupedOperations(
            name_task(done[0].operation, len(done)),
            tuple(done),
            section,
            tuple(reads),
            makes,
            tuple((new, old) for new, old in roots.items() if new[0] in readers.names),
            working,
            {key: again.values[key] for key in made if again.values.get(key)},
        )

    def _sources(
        self, keys: Iterable[Key], again: Recomputation, constants: Collection[str]
    ) -> dict[str, tuple[Value, ...]]:
        """Returns, by name, the parts from which values that are not stored are recomputed."""
        sources_of = {}
        for name, sharding in keys:
            sources = again.values.get((name, sharding), ())
            parts = tuple(
                self.part_of(again.types[source], source_sharding)
                for source, source_sharding in sources
                if source not in constants
            )
            if parts or name in again.inputs:
                sources_of[name] = parts or again.inputs[name]
        return sources_of

    def part_of(self, value: Value, sharding: Sharding) -> Value:
        """Returns the part of a value that a device holds."""
        return Value(
            value.name, Type(value.type.dtype, part_shape(value.type, sharding, self.parts))
        )

    def _section(
        self,
        done: Sequence[LocalOperation],
        kept: Collection[str],
        constants: Collection[str],
        remade: Mapping[str, tuple[Value, ...]],
        on_the_way: Sequence[LocalOperation],
    ) -> tuple[Section, int]:
        """Returns a section of operations and its working bytes; the cache key ignores names."""
        numbers: dict[str, int] = {}
        forms = []
        for local in done:
            names = map(str, (*local.operation.operands, *local.operation.results))
            values = tuple(numbers.setdefault(name, len(numbers)) for name in names)
            forms.append((local.operation.form, id(local.how), values))
        out = frozenset(numbers[name] for name in kept)
        given = frozenset(numbers[name] for name in numbers.keys() & constants)
        sources = tuple(
            (
                numbers[name],
                tuple((numbers.setdefault(v.name, len(numbers)), v.type) for v in values),
            )
            for name, values in remade.items()
            if name in numbers
        )
        local_operations = (*done, *on_the_way)
        known = (
            tuple(self.measured.get(id(operation)) for operation in local_operations)
            if self.measured
            else ()
        )
        key = tuple(forms), out, given, sources, known
        if key not in self.sections:
            own = tuple(part_of(local.operation, local.how, self.parts).operation for local in done)
            section = Section(own, frozenset(kept), frozenset(constants), tuple(remade.items()))
            if seconds := [estimate for estimate in known if estimate is not None]:
                pairs = zip(own, known, strict=False)
                unmeasured = (operation for operation, estimate in pairs if estimate is None)
                rest = sum(map(weight, unmeasured)) / sum(map(weight, own))
                section = replace(section, measured=sum_estimates_of_section(seconds), rest=rest)
            # ``done`` is kept as well: ids in the key could be reused if it were freed.
            self.sections[key] = done, section, _working_bytes(done, kept, self.bytes_of)
        return self.sections[key][1:]

    def own_work(self, loop: LocalOperation) -> Section | None:
        """Returns the measured work of a loop outside its body; None if it takes no time."""
        known = self.measured.get(id(loop), NOTHING)
        return Section((), frozenset(), measured=known, rest=0.0) if known.seconds else None


class _Readers:
    """The ``names`` that later instructions read, with the number of reads."""

    def __init__(self, instructions: Sequence[StepInstruction], ends: Collection[Key]) -> None:
        self.names: dict[str, int] = {}
        read = chain.from_iterable(instruction.keys_read for instruction in instructions)
        for name, _ in (*read, *ends):
            self.names[name] = self.names.get(name, 0) + 1

    def passed(self, instruction: StepInstruction) -> None:
        """Removes the reads of an instruction."""
        for name, _ in instruction.keys_read:
            self.names[name] -= 1
            if not self.names[name]:
                del self.names[name]


def _find_read_spots(spot: _Spot, runs: Collection[_Spot]) -> list[_Spot]:
    """Returns the spots from which ``spot`` may read: those of its stage and of all stages.

    Only the update reads values that the update makes.
    """
    place, updates = spot
    others = [other for other in runs if other != spot and (updates or not other[1])]
    if place is None:
        return others
    near = (place.stage, EVERYWHERE)
    return [(at, updating) for at, updating in others if at is not None and at.stage in near]


def _is_constant(instruction: StepInstruction, constants: Collection[str]) -> bool:
    """Whether an instruction makes or redistributes constants."""
    return all(name in constants for name in _names_made(instruction))


def _names_made(instruction: StepInstruction) -> Sequence[str]:
    """Returns the names of the values that an instruction makes or sends."""
    if isinstance(instruction, LocalOperation):
        return [value.name for value in instruction.operation.results]
    return [instruction.value.name]


def constants_of(graph: Graph, given: Collection[str] = ()) -> frozenset[str]:
    """Returns the values computed from literals alone: masks, zeros, positions.

    The kernels that read them compute them, so they take no memory and almost no time. ``given``:
    the inputs of the graph that are constants.
    """
    constants = set(given)
    for operation in graph.operations:
        values = [operand for operand in operation.operands if isinstance(operand, Value)]
        if operation.primitive in RECOMPUTABLE and all(value.name in constants for value in values):
            constants.update(value.name for value in operation.results)
    return frozenset(constants)


def _working_bytes(run: Sequence[LocalOperation], kept: Collection[str], bytes_of: Sizes) -> int:
    """Returns the peak bytes of values inside a group, in addition to its results."""
    last = {
        str(operand): number
        for number, local in enumerate(run)
        for operand in local.operation.operands
    }
    living: dict[str, int] = {}
    held = most = all_kept = 0
    for number, local in enumerate(run):
        operation = local.operation
        for value, sharding in zip(operation.results, local.how.results, strict=True):
            size = bytes_of(value.type, sharding)
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
    """Returns an operation's weight in a measured section: the bytes that it reads and writes."""
    touched = (*operation.operands, *operation.results)
    return 1.0 + sum(value.type.bytes for value in touched if isinstance(value, Value))


def name_task(operation: Operation, count: int = 1) -> str:
    """Returns the name of a task that begins with an operation."""
    if count > 1:
        return f"{count} operations from {operation.primitive} on"
    return f"{operation.primitive} {operation.line}" if operation.line else operation.primitive


def find_scores(program: StepProgram, parts: Mapping[str, int]) -> frozenset[tuple[int, ...]]:
    """Returns the shapes of attention scores, both whole and as a device's parts."""
    operations = [
        local for local in _all_operations(program) if local.operation.primitive in SCORE_PRIMITIVES
    ]
    own = (part_of(local.operation, local.how, parts).operation for local in operations)
    return scores_of(own) | scores_of(local.operation for local in operations)


def _all_operations(program: StepProgram) -> Iterator[LocalOperation]:
    for instruction in program.instructions:
        if isinstance(instruction, LocalOperation):
            yield instruction
            if instruction.body is not None:
                yield from _all_operations(instruction.body)
