"""A sharded step written out as Python functions: one walk, whatever the runtime.

What each device does stands there line by line, with the type of every value behind it and its
user's lines above. A runtime is a ``TargetLanguage``: a table of primitives, its words for moves,
and how it repeats a body. A body becomes a function of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from grammar.tensors.operations import Operation, Step, Value
from grammar.tensors.sharding import Sharding
from hierarchies import InputError
from synth.step.emit.language import PrimitiveCall, TargetLanguage
from synth.step.emit.listing import Function, Listing, SectionFunction, list_outputs
from synth.step.emit.sections import ProgramSection, split_sections
from synth.step.emit.spelling import (
    Identifiers,
    spell_statement,
    spell_tuple,
    spell_unpacking,
    spell_words,
)
from synth.step.emit.values import FunctionValues, MoveCall, MoveContext, members_of, use_collective
from synth.step.factors import Index, part_of
from synth.step.sharding import LocalOperation, RedistributedValue, SentValue, StepProgram
from synth.step.sharding.plan import scan_operands_of
from synth.step.sharding.program import Key

SEQUENCE_RESULTS = frozenset(
    ("sort", "split", "top_k", "approx_top_k", "unstack", "lu", "qr", "eigh", "svd")
)
"""These give a sequence of results, also where it is one."""


def build_listing(
    step: Step,
    program: StepProgram,
    sizes: Mapping[str, int],
    language: TargetLanguage,
    called: MoveCall = use_collective,
    overlap: bool = False,
) -> Listing:
    """The functions of a sharded step; ``called`` has other calls for some of its moves.

    ``overlap``: what is made in the step is sent as soon as it is made, and waited for where it is
    read first. In a runtime that orders work itself nothing is written otherwise, nor where there
    are other calls.

    Outputs that do not come back in the next step are made whole if they are partial, as nobody
    else can complete them. Raises InputError for primitives and element types that the language
    has not, and for inputs that are partial.
    """
    for label, sharding in zip(step.labels, program.inputs, strict=True):
        if sharding.partial:
            problem = f"input {label} is partial: {sharding.spelled()}"
            raise InputError(problem, hint="let it be whole, or cut")
    inputs = zip(step.graph.inputs, program.inputs, strict=True)
    kept = {(value.name, lies): value.name for value, lies in inputs}
    early = overlap and bool(language.later) and called is use_collective
    sending = MoveContext(language, sizes, called, early, members_of(program))
    writer = _FunctionWriter(sending)
    found = split_sections(step, program, sizes)
    for one in found.sections:
        writer.section(one, found.sums)
    names = writer.shared | kept
    return Listing(
        tuple(writer.functions),
        tuple(list_outputs(step, found.outputs, names if program.places else None)),
        tuple(sending.moves),
        tuple(SectionFunction(one, names) for one in found.sections),
        found.transfers,
    )


def build_partial_listing(
    program: ProgramSection,
    sizes: Mapping[str, int],
    language: TargetLanguage,
    sent: Collection[str],
) -> Listing:
    """The function of some operations of a step, ``device_step``, of values as they lie there.

    What is partial stays so; the values named ``sent`` are given away as to a collective. Raises
    InputError as ``build_listing`` does.
    """
    writer = _FunctionWriter(MoveContext(language, sizes))
    writer.section(program, {}, sent)
    return Listing(tuple(writer.functions), (), tuple(writer.sending.moves), (), ())


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
        self, one: ProgramSection, sums: Mapping[Key, Key], sent: Collection[str] = ()
    ) -> None:
        """The function of a section. Values have the same name in all functions.

        A sum over microbatches is called as what is added up.
        """
        self.shared |= {done: self.shared[key] for done, key in sums.items() if key in self.shared}
        values = FunctionValues(self.sending, self.names, self.shared)
        scope = _Scope(self, values)
        names = scope.inputs(one.reads)
        scope.body(one.instructions)
        made = [
            self.sending.language.sent.format(text) if str(value) in sent else text
            for value, lies in one.makes
            for text in [values.read(value, lies)]
        ]
        head = [f"def {one.function}(values):", f'    """{one.told}"""']
        head += spell_unpacking(dict(names), "values") if names else []
        lines = [*values.lines, *spell_statement(f"return {spell_tuple(made)}")]
        if made:
            self.functions.append(Function(one.function, tuple(head), tuple(lines)))

    def repetition(self, done: LocalOperation) -> str:
        """The function of a body; gives its name."""
        loop, graph, program = done.operation, done.operation.body, done.body
        assert graph is not None
        assert program is not None
        self.loops += 1
        name, divided = f"loop_{self.loops}", scan_operands_of(loop.parameter)
        values = FunctionValues(self.sending, self._own_names())
        scope = _Scope(self, values)
        names = scope.inputs(tuple(zip(graph.inputs, program.inputs, strict=True)))
        scope.body(program.instructions)
        kept = divided.constants + divided.carried
        made = [values.read(*one) for one in zip(graph.outputs, program.outputs, strict=True)]
        groups = (names[: divided.constants], names[divided.constants : kept], names[kept:])
        head = [
            f"def {name}(constants, carried, slices):",
            f'    """Repeated {loop.parameter["length"]} times{_spell_line(loop)}."""',
        ]
        for names_, group in zip(groups, ("constants", "carried", "slices"), strict=True):
            if names_:
                head += spell_unpacking(dict(names_), group)
        after, stacks = made[: divided.carried], made[divided.carried :]
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
    """One function, operation by operation."""

    writer: _FunctionWriter
    values: FunctionValues
    done: set[tuple[object, ...]] = field(default_factory=set)
    line: str = ""

    @property
    def language(self) -> TargetLanguage:
        return self.writer.sending.language

    def inputs(self, given: Sequence[tuple[Value, Sharding]]) -> list[tuple[str, str]]:
        """The names of the inputs, and what they are."""
        for value, _ in given:
            self._check(value)
        return [self.values.made(*one) for one in given]

    def body(self, instructions: Sequence[LocalOperation | RedistributedValue | SentValue]) -> None:
        self.values.expect(instructions)
        for one in instructions:
            match one:
                case RedistributedValue():
                    self.values.move(one)
                case LocalOperation():
                    self._do(one)
                case SentValue():
                    raise AssertionError(one)
                case _:
                    assert_never(one)

    def _do(self, done: LocalOperation) -> None:
        operation, how, values = done.operation, done.how, self.values
        if operation.line != self.line:
            self.line = operation.line
            self.values.lines.append(f"    # {self.line}")
        for value in operation.results:
            self._check(value)
        operands = [values.read(*one) for one in zip(operation.operands, how.operands, strict=True)]
        operands = self._again(operation, operands)
        text = self._repeated(done, operands) if done.body else self._written(done, operands)
        made = [values.made(*one) for one in zip(operation.results, how.results, strict=True)]
        if done.body is not None:
            carried = scan_operands_of(operation.parameter).carried
            after, stacks = values.names.made("after"), values.names.made("stacks")
            self.values.lines += spell_statement(f"{after}, {stacks} = {text}")
            for several, source in ((made[:carried], after), (made[carried:], stacks)):
                self.values.lines += spell_unpacking(dict(several), source) if several else []
        else:
            names = [name for name, _ in made]
            left = spell_tuple(names)[1:-1] if operation.primitive in SEQUENCE_RESULTS else names[0]
            self.values.lines += spell_statement(
                f"{left} = {text}", ", ".join(what for _, what in made)
            )
        for value, lies in zip(operation.results, how.results, strict=True):
            values.hold(value, lies, values.held[value.name, lies])

    def _again(self, operation: Operation, operands: list[str]) -> list[str]:
        """The operands, told apart from those of an equal operation before, if there is one.

        What is computed again (remat) was not kept: a compiler that merges both would keep it.
        Single numbers may be kept.
        """
        key = (operation.primitive, operation.parameters, operation.operands)
        if key not in self.done or not operation.results[0].type.shape:
            self.done.add(key)
            return operands
        apart = self.language.apart
        return [
            apart.format(text) if apart and isinstance(one, Value) else text
            for one, text in zip(operation.operands, operands, strict=True)
        ]

    def _written(self, done: LocalOperation, operands: Sequence[str]) -> str:
        mine = part_of(done.operation, done.how, self.writer.sending.sizes)
        if mine.offset is not None and mine.offset.index is Index.PADDING:
            [text] = operands
            masked = f"without_padding({text}, {mine.offset.size}, {spell_words(mine.offset.axes)})"
            operands, mine = [masked], replace(mine, offset=None)
        return self.language.write(
            PrimitiveCall(mine.operation, tuple(operands), mine.offset, self.language)
        )

    def _repeated(self, done: LocalOperation, operands: Sequence[str]) -> str:
        name, loop = self.writer.repetition(done), done.operation
        divided = scan_operands_of(loop.parameter)
        kept = divided.constants + divided.carried
        groups = (
            operands[: divided.constants],
            operands[divided.constants : kept],
            operands[kept:],
        )
        length, reverse = loop.parameter["length"], loop.parameter.get("reverse", False)
        return f"repeat({name}, {', '.join(map(spell_tuple, groups))}, {length}, reverse={reverse})"

    def _check(self, value: Value) -> None:
        if value.type.dtype not in self.language.dtypes:
            problem = f"{self.language.name} has no {value.type.dtype}, and {value} is of it"
            raise InputError(problem, where=self.line)
