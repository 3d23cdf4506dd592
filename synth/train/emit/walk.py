"""A sharded step written out as Python functions: one walk, whatever the runtime.

What each device does stands there line by line, with the type of every value behind it and its
user's lines above. A runtime is a ``Language``: a table of primitives, its words for moves, and
how it repeats a body. A body becomes a function of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import assert_never

from grammar.tensors.operations import Graph, Literal, Operand, Operation, Step, Value
from grammar.tensors.sharding import Sharding, Type, part_shape
from hierarchies import InputError
from synth.train.emit.spelling import Names, bare, listed, statement, told, unpacked
from synth.train.factors import Offset, part
from synth.train.plans import Done, Moved, Program, Sent
from synth.train.plans.plan import loop_of
from synth.train.resharding import How, Move, Path, path_between

SEVERAL = frozenset(("sort", "split", "top_k"))
"""These give a sequence of results, also where it is one."""

AFTER = {
    How.SLICE: "part",
    How.MASK: "masked",
    How.WIDEN: "widened",
    How.PERMUTE: "permuted",
    How.ALL_REDUCE: "reduced",
    How.REDUCE_SCATTER: "scattered",
    How.ALL_GATHER: "gathered",
    How.ALL_TO_ALL: "exchanged",
}
"""What a value is called after its last move."""


@dataclass(frozen=True)
class Call:
    """One operation on parts, as a language is to write it.

    ``operation`` is that of the part: shapes and parameters are its own. ``operands`` are its
    operands as Python, numbers with their element type; ``offset`` is what enters by the part's
    number.
    """

    operation: Operation
    operands: tuple[str, ...]
    offset: Offset | None
    language: Language

    @cached_property
    def plain(self) -> tuple[str, ...]:
        """The operands, numbers without their type where another operand says what they are."""
        given = self.operation.operands
        if not any(isinstance(one, Value) for one in given):
            return self.operands
        return tuple(
            bare(one, self.language.infinite) if isinstance(one, Literal) else text
            for one, text in zip(given, self.operands, strict=True)
        )

    @property
    def made(self) -> Type:
        """What the first result is."""
        return self.operation.results[0].type

    def shape(self, at: int = 0) -> tuple[int, ...]:
        """Of an operand."""
        one = self.operation.operands[at]
        return one.type.shape if isinstance(one, Value) else ()

    def dtype(self, at: int = 0) -> str:
        """The element type of an operand."""
        one = self.operation.operands[at]
        return one.type.dtype if isinstance(one, Value) else one.dtype

    def told(self, name: str) -> str:
        """A parameter as Python."""
        return told(self.operation.parameter[name], self.language.dtypes)

    def keyword(self, name: str) -> str:
        """``, name=value`` where the parameter is given."""
        return f", {name}={self.told(name)}" if name in self.operation.parameter else ""

    def refused(self, why: str) -> InputError:
        """What it is that cannot be written."""
        problem = f"{self.language.name} has no {self.operation.primitive} {why}"
        return InputError(problem, where=self.operation.line)


Writer = str | Callable[[Call], str]
"""An expression with ``{0}`` for operands, ``{p0}`` for numbers without types, ``{name}`` for
parameters, ``{all}``, ``{made}``; or what makes one."""


@dataclass(frozen=True)
class Language:
    """A runtime in whose words a step is written.

    ``dtypes`` are its names of element types, ``number`` writes one with its type, ``infinite``
    has ``inf`` and ``nan``. ``move`` writes one move of a value whose part has a type.
    ``template`` has what the functions need; ``reserved`` are the names that it defines.
    """

    name: str
    template: str
    dtypes: Mapping[str, str]
    number: str
    infinite: str
    primitives: Mapping[str, Writer]
    move: Callable[[str, Move, Type, Mapping[str, int]], str]
    reserved: frozenset[str]

    def literal(self, one: Literal) -> str:
        """A number with its element type. Raises InputError for a type that it has not."""
        if one.dtype not in self.dtypes:
            raise InputError(f"{self.name} has no {one.dtype}, and {one} is of it")
        value = bare(one, self.infinite)
        return self.number.format(value=value, dtype=self.dtypes[one.dtype])

    def write(self, call: Call) -> str:
        """An operation. Raises InputError, with its user's line, for a primitive it has not."""
        operation = call.operation
        writer = self.primitives.get(operation.primitive)
        if writer is None:
            problem = f"{self.name} has no words for the primitive {operation.primitive!r}"
            hint = "write that line of the model in other operations, or ask for another runtime"
            raise InputError(problem, where=operation.line, hint=hint)
        if not isinstance(writer, str):
            return writer(call)
        words = {f"p{at}": one for at, one in enumerate(call.plain)}
        words |= {name: told(one, self.dtypes) for name, one in operation.parameters}
        words["all"] = ", ".join(call.operands)
        words["made"] = self.dtypes[call.made.dtype]
        try:
            return writer.format(*call.operands, **words)
        except KeyError as name:
            raise operation.lacks(str(name.args[0])) from None


@dataclass(frozen=True)
class Function:
    """A function of the emitted file: its lines are indented."""

    name: str
    head: tuple[str, ...]
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join((*self.head, *self.lines))


@dataclass(frozen=True)
class Ending:
    """An output of the step, by name and by how it lies in the end."""

    name: str
    type: Type
    sharding: Sharding


@dataclass(frozen=True)
class Listing:
    """The functions of a step: bodies first, what each device does last; and what it gives.

    ``moves`` are those that stand in them.
    """

    functions: tuple[Function, ...]
    outputs: tuple[Ending, ...]
    moves: tuple[Move, ...]

    @property
    def text(self) -> str:
        return "\n\n\n".join(map(str, self.functions))

    def uses(self, name: str) -> bool:
        """Whether a helper is called."""
        return re.search(rf"\b(?:{name})\(", self.text) is not None


Called = Callable[[str, Move, Type], str | None]
"""Of a value's text, a move and the value's type, the call that carries it out, if there is one."""


def no_calls(text: str, move: Move, value: Type) -> str | None:
    """Every move is carried out by the runtime's own collective."""
    return None


def listing(
    step: Step,
    program: Program,
    sizes: Mapping[str, int],
    language: Language,
    called: Called = no_calls,
) -> Listing:
    """The functions of a sharded step; ``called`` has other calls for some of its moves.

    Outputs that do not come back in the next step are made whole if they are partial, as nobody
    else can complete them. Raises InputError for primitives and element types that the language
    has not, and for inputs that are partial.
    """
    for label, sharding in zip(step.labels, program.inputs, strict=True):
        if sharding.partial:
            problem = f"input {label} is partial: {sharding.spelled()}"
            raise InputError(problem, hint="let it be whole, or cut")
    writer = _Writer(language, sizes, called)
    writer.step(step, program)
    return Listing(tuple(writer.functions), tuple(writer.outputs), tuple(writer.moves))


def output_names(step: Step) -> list[str]:
    """What outputs are called: as the input that they are next time, one number alone the loss."""
    back = {out: step.graph.inputs[place].name for out, place in step.updates}
    rest = [at for at in range(len(step.graph.outputs)) if at not in back]
    for number, at in enumerate(rest):
        output = step.graph.outputs[at]
        is_loss = len(rest) == 1 and not (isinstance(output, Value) and output.type.shape)
        free = "loss" not in step.graph.values
        back[at] = "loss" if is_loss and free else f"output/{number}"
    return [back[at] for at in range(len(step.graph.outputs))]


@dataclass
class _Writer:
    language: Language
    sizes: Mapping[str, int]
    called: Called
    functions: list[Function] = field(default_factory=list)
    outputs: list[Ending] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    loops: int = 0

    def step(self, step: Step, program: Program) -> None:
        scope = self._scope()
        names = scope.inputs(step.graph, program)
        scope.body(step.graph, program)
        made = []
        for name, output, sharding in zip(
            output_names(step), step.graph.outputs, program.outputs, strict=True
        ):
            kind = output.type if isinstance(output, Value) else Type(output.dtype, ())
            whole = Sharding(sharding.dimensions)
            if sharding.partial and isinstance(output, Value):
                scope.move(output, path_between(kind, sharding, whole, self.sizes))
            made.append(scope.read(output, whole))
            self.outputs.append(Ending(name, kind, whole))
        head = [
            "def device_step(values):",
            '    """What every device does of a step, on its parts of the inputs."""',
            *unpacked(dict(names), "values"),
        ]
        lines = [*scope.lines, *statement(f"return {listed(made)}")]
        self.functions.append(Function("device_step", tuple(head), tuple(lines)))

    def _scope(self) -> _Scope:
        return _Scope(self, Names(set(self.language.reserved)))

    def repetition(self, done: Done) -> str:
        """The function of a body; gives its name."""
        loop, graph, program = done.operation, done.operation.body, done.body
        assert graph is not None
        assert program is not None
        self.loops += 1
        name, divided = f"loop_{self.loops}", loop_of(loop.parameter)
        scope = self._scope()
        names = scope.inputs(graph, program)
        scope.body(graph, program)
        kept = divided.constants + divided.carried
        made = [scope.read(*one) for one in zip(graph.outputs, program.outputs, strict=True)]
        groups = (names[: divided.constants], names[divided.constants : kept], names[kept:])
        head = [
            f"def {name}(constants, carried, slices):",
            f'    """Repeated {loop.parameter["length"]} times{_at(loop)}."""',
        ]
        for names_, group in zip(groups, ("constants", "carried", "slices"), strict=True):
            if names_:
                head += unpacked(dict(names_), group)
        after, stacks = made[: divided.carried], made[divided.carried :]
        lines = [*scope.lines, *statement(f"return ({listed(after)}, {listed(stacks)})")]
        self.functions.append(Function(name, tuple(head), tuple(lines)))
        return name


def _at(operation: Operation) -> str:
    return f", {operation.line}" if operation.line else ""


@dataclass
class _Scope:
    """One function: which values it has, lying how, under which names."""

    writer: _Writer
    names: Names
    lines: list[str] = field(default_factory=list)
    held: dict[tuple[str, Sharding], str] = field(default_factory=dict)
    line: str = ""

    @property
    def language(self) -> Language:
        return self.writer.language

    @property
    def sizes(self) -> Mapping[str, int]:
        return self.writer.sizes

    def inputs(self, graph: Graph, program: Program) -> list[tuple[str, str]]:
        """The names of the inputs, and what they are."""
        for value in graph.inputs:
            self._check(value)
        pairs = zip(graph.inputs, program.inputs, strict=True)
        return [self._made(*one) for one in pairs]

    def body(self, graph: Graph, program: Program) -> None:
        for one in program.instructions:
            match one:
                case Moved(value, path):
                    self.move(value, path)
                case Done():
                    self._do(one)
                case Sent():
                    hint = "leave the schedule out of the plan"
                    raise InputError("a file has no stages yet", where="plan", hint=hint)
                case _:
                    assert_never(one)

    def read(self, operand: Operand, sharding: Sharding) -> str:
        if isinstance(operand, Literal):
            return self.language.literal(operand)
        return self.held[operand.name, sharding]

    def move(self, value: Value, path: Path) -> None:
        if (value.name, path.target) in self.held:
            return
        text = self.held[value.name, path.source]
        last = path.moves[-1] if path.moves else None
        made = self.names.made(f"{value.name}_{AFTER[last.how]}" if last else value.name)
        self.writer.moves += path.moves
        for move in path.moves:
            kind = Type(value.type.dtype, part_shape(value.type, move.before, self.sizes))
            comment = f"{move}: {value.type.sharded(move.after)}"
            text = self.writer.called(text, move, value.type) or self.language.move(
                text, move, kind, self.sizes
            )
            self.lines += statement(f"{made} = {text}", comment)
            text = made
        self.held[value.name, path.target] = text

    def _do(self, done: Done) -> None:
        operation, how = done.operation, done.how
        if operation.line != self.line:
            self.line = operation.line
            self.lines.append(f"    # {self.line}")
        for value in operation.results:
            self._check(value)
        operands = [self.read(*one) for one in zip(operation.operands, how.operands, strict=True)]
        text = self._repeated(done, operands) if done.body else self._written(done, operands)
        made = [self._made(*one) for one in zip(operation.results, how.results, strict=True)]
        if done.body is not None:
            carried = loop_of(operation.parameter).carried
            after, stacks = self.names.made("after"), self.names.made("stacks")
            self.lines += statement(f"{after}, {stacks} = {text}")
            for several, source in ((made[:carried], after), (made[carried:], stacks)):
                self.lines += unpacked(dict(several), source) if several else []
            return
        names = [name for name, _ in made]
        left = listed(names)[1:-1] if operation.primitive in SEVERAL else names[0]
        self.lines += statement(f"{left} = {text}", ", ".join(what for _, what in made))

    def _written(self, done: Done, operands: Sequence[str]) -> str:
        mine = part(done.operation, done.how, self.sizes)
        return self.language.write(
            Call(mine.operation, tuple(operands), mine.offset, self.language)
        )

    def _repeated(self, done: Done, operands: Sequence[str]) -> str:
        name, loop = self.writer.repetition(done), done.operation
        divided = loop_of(loop.parameter)
        kept = divided.constants + divided.carried
        groups = (
            operands[: divided.constants],
            operands[divided.constants : kept],
            operands[kept:],
        )
        length, reverse = loop.parameter["length"], loop.parameter.get("reverse", False)
        return f"repeat({name}, {', '.join(map(listed, groups))}, {length}, reverse={reverse})"

    def _check(self, value: Value) -> None:
        if value.type.dtype not in self.language.dtypes:
            problem = f"{self.language.name} has no {value.type.dtype}, and {value} is of it"
            raise InputError(problem, where=self.line)

    def _made(self, value: Value, sharding: Sharding) -> tuple[str, str]:
        """The name of a new value, and what it is."""
        name = self.names.made(value.name)
        self.held[value.name, sharding] = name
        return name, value.type.sharded(sharding)
