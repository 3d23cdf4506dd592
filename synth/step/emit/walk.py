"""Writes a sharded step as Python functions, by one walk for all runtimes.

The functions show line by line what each device executes. A comment gives the type of every value,
and a comment above it the line of the user's model. A runtime is a ``TargetLanguage``: a table of
primitives, its spelling of moves, and how it repeats a body. A body becomes a separate function.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from grammar.tensors.operations import Operation, Step, Value
from grammar.tensors.sharding import Sharding
from hierarchies import InputError
from synth.primitives import PRIMITIVES
from synth.primitives.calls.call import PrimitiveCall
from synth.primitives.calls.spelling import spell_tuple, spell_words
from synth.step.emit.language import TargetLanguage
from synth.step.emit.listing import Function, Listing, list_outputs
from synth.step.emit.sections import ProgramSection, split_sections
from synth.step.emit.spelling import Identifiers, spell_statement, spell_unpacking
from synth.step.emit.values import FunctionValues, MoveCall, MoveContext, members_of, use_collective
from synth.step.factors import Index, part_of
from synth.step.sharding import LocalOperation, RedistributedValue, SentValue, StepProgram
from synth.step.sharding.plan import scan_operands_of
from synth.step.sharding.program import Key


def build_listing(
    step: Step,
    program: StepProgram,
    sizes: Mapping[str, int],
    language: TargetLanguage,
    called: MoveCall = use_collective,
    overlap: bool = False,
) -> Listing:
    """Writes the functions of a sharded step; ``called`` may replace the calls of some moves.

    ``overlap``: whether values computed in the step are sent as soon as they are computed, and
    waited for where they are first read. It has no effect in a runtime that orders work itself, nor
    if ``called`` replaces calls.

    Partial outputs that are not inputs of the next step are reduced, because nothing later
    completes them. Raises InputError for primitives and element types that the language lacks, and
    for partial inputs.
    """
    for label, sharding in zip(step.labels, program.inputs, strict=True):
        if sharding.partial:
            problem = f"input {label} is partial: {sharding.spelled()}"
            raise InputError(problem, hint="replicate or shard it")
    inputs = zip(step.graph.inputs, program.inputs, strict=True)
    kept = {(value.name, sharding): value.name for value, sharding in inputs}
    early = overlap and bool(language.later) and called is use_collective
    sending = MoveContext(language, sizes, called, early, members_of(program))
    writer = _FunctionWriter(sending)
    split = split_sections(step, program, sizes)
    for section in split.sections:
        writer.section(section, split.sums)
    names = writer.shared | kept
    return Listing(
        tuple(writer.functions),
        tuple(list_outputs(step, split.outputs, names if program.places else None)),
        tuple(sending.moves),
        split.sections,
        split.transfers,
        names,
    )


def build_partial_listing(
    program: ProgramSection,
    sizes: Mapping[str, int],
    language: TargetLanguage,
    sent: Collection[str],
) -> Listing:
    """Writes operations of a step as ``device_step``, of values with the section's shardings.

    Partial values stay partial; values named ``sent`` are returned in the form that a collective
    needs. Raises InputError as ``build_listing`` does.
    """
    writer = _FunctionWriter(MoveContext(language, sizes))
    writer.section(program, {}, sent)
    return Listing(tuple(writer.functions), (), tuple(writer.sending.moves), (), (), {})


@dataclass
class _FunctionWriter:
    """The functions of a file so far."""

    sending: MoveContext
    functions: list[Function] = field(default_factory=list)
    loops: int = 0
    shared: dict[Key, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = self._own_names()

    def _own_names(self) -> Identifiers:
        return Identifiers(set(self.sending.language.reserved))

    def section(
        self, section: ProgramSection, sums: Mapping[Key, Key], sent: Collection[str] = ()
    ) -> None:
        """Writes the function of a section. Values have the same name in all functions.

        A sum over microbatches has the name of the value that is summed.
        """
        self.shared |= {done: self.shared[key] for done, key in sums.items() if key in self.shared}
        values = FunctionValues(self.sending, self.names, self.shared)
        scope = _Scope(self, values)
        names = scope.inputs(section.reads)
        scope.body(section.instructions)
        made = [
            self.sending.language.sent.format(text) if str(value) in sent else text
            for value, sharding in section.makes
            for text in [values.read(value, sharding)]
        ]
        head = [f"def {section.function}(values):", f'    """{section.sentence}"""']
        head += spell_unpacking(dict(names), "values") if names else []
        lines = [*values.lines, *spell_statement(f"return {spell_tuple(made)}")]
        if made:
            self.functions.append(Function(section.function, tuple(head), tuple(lines)))

    def repetition(self, done: LocalOperation) -> str:
        """Writes the function of a loop's body; returns its name."""
        loop, graph, program = done.operation, done.operation.body, done.body
        assert graph is not None
        assert program is not None
        self.loops += 1
        name, operands = f"loop_{self.loops}", scan_operands_of(loop.parameter)
        values = FunctionValues(self.sending, self._own_names())
        scope = _Scope(self, values)
        names = scope.inputs(tuple(zip(graph.inputs, program.inputs, strict=True)))
        scope.body(program.instructions)
        kept = operands.constants + operands.carried
        made = [values.read(*pair) for pair in zip(graph.outputs, program.outputs, strict=True)]
        groups = (names[: operands.constants], names[operands.constants : kept], names[kept:])
        head = [
            f"def {name}(constants, carried, slices):",
            f'    """Repeated {loop.parameter["length"]} times{_spell_line(loop)}."""',
        ]
        for names_, group in zip(groups, ("constants", "carried", "slices"), strict=True):
            if names_:
                head += spell_unpacking(dict(names_), group)
        after, stacks = made[: operands.carried], made[operands.carried :]
        lines = [
            *values.lines,
            *spell_statement(f"return ({spell_tuple(after)}, {spell_tuple(stacks)})"),
        ]
        self.functions.append(Function(name, tuple(head), tuple(lines)))
        return name


def _spell_line(operation: Operation) -> str:
    return f", {operation.line}" if operation.line else ""


@dataclass
class _Scope:
    """Writes one function, operation by operation."""

    writer: _FunctionWriter
    values: FunctionValues
    done: set[tuple[object, ...]] = field(default_factory=set)
    line: str = ""

    @property
    def language(self) -> TargetLanguage:
        return self.writer.sending.language

    def inputs(self, given: Sequence[tuple[Value, Sharding]]) -> list[tuple[str, str]]:
        """Declares the inputs; returns their names and types."""
        for value, _ in given:
            self._check(value)
        return [self.values.made(*pair) for pair in given]

    def body(self, instructions: Sequence[LocalOperation | RedistributedValue | SentValue]) -> None:
        self.values.expect(instructions)
        for instruction in instructions:
            match instruction:
                case RedistributedValue():
                    self.values.move(instruction)
                case LocalOperation():
                    self._do(instruction)
                case SentValue():
                    raise AssertionError(instruction)
                case _:
                    assert_never(instruction)

    def _do(self, done: LocalOperation) -> None:
        operation, how, values = done.operation, done.how, self.values
        if operation.line != self.line:
            self.line = operation.line
            self.values.lines.append(f"    # {self.line}")
        for value in operation.results:
            self._check(value)
        pairs = zip(operation.operands, how.operands, strict=True)
        operands = [values.read(*pair) for pair in pairs]
        operands = self._again(operation, operands)
        text = self._repeated(done, operands) if done.body else self._written(done, operands)
        results = zip(operation.results, how.results, strict=True)
        made = [values.made(*pair) for pair in results]
        if done.body is not None:
            carried = scan_operands_of(operation.parameter).carried
            after, stacks = values.names.made("after"), values.names.made("stacks")
            self.values.lines += spell_statement(f"{after}, {stacks} = {text}")
            for names_made, source in ((made[:carried], after), (made[carried:], stacks)):
                self.values.lines += spell_unpacking(dict(names_made), source) if names_made else []
        else:
            names = [name for name, _ in made]
            is_sequence = PRIMITIVES[operation.primitive].is_sequence
            left = spell_tuple(names)[1:-1] if is_sequence else names[0]
            self.values.lines += spell_statement(
                f"{left} = {text}", ", ".join(what for _, what in made)
            )
        for value, sharding in zip(operation.results, how.results, strict=True):
            values.hold(value, sharding, values.held[value.name, sharding])

    def _again(self, operation: Operation, operands: list[str]) -> list[str]:
        """Returns the operands, kept apart from those of an equal earlier operation.

        A compiler that merged recomputed values with the originals would keep the originals in
        memory. Scalars may be merged.
        """
        key = (operation.primitive, operation.parameters, operation.operands)
        if key not in self.done or not operation.results[0].type.shape:
            self.done.add(key)
            return operands
        apart = self.language.apart
        return [
            apart.format(text) if apart and isinstance(operand, Value) else text
            for operand, text in zip(operation.operands, operands, strict=True)
        ]

    def _written(self, done: LocalOperation, operands: Sequence[str]) -> str:
        part = part_of(done.operation, done.how, self.writer.sending.sizes)
        if part.offset is not None and part.offset.index is Index.PADDING:
            [text] = operands
            masked = f"without_padding({text}, {part.offset.size}, {spell_words(part.offset.axes)})"
            operands, part = [masked], replace(part, offset=None)
        return self.language.write(
            PrimitiveCall(part.operation, tuple(operands), part.offset, self.language.spelling)
        )

    def _repeated(self, done: LocalOperation, operands: Sequence[str]) -> str:
        name, loop = self.writer.repetition(done), done.operation
        scanned = scan_operands_of(loop.parameter)
        kept = scanned.constants + scanned.carried
        groups = (
            operands[: scanned.constants],
            operands[scanned.constants : kept],
            operands[kept:],
        )
        length, reverse = loop.parameter["length"], loop.parameter.get("reverse", False)
        return f"repeat({name}, {', '.join(map(spell_tuple, groups))}, {length}, reverse={reverse})"

    def _check(self, value: Value) -> None:
        spelling = self.language.spelling
        if value.type.dtype not in spelling.dtypes:
            problem = f"{spelling.name} has no {value.type.dtype}, and {value} is of it"
            raise InputError(problem, where=self.line)
