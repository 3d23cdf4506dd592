"""A sharded step written out as Python functions: one walk, whatever the runtime.

What each device does stands there line by line, with the type of every value behind it and its
user's lines above. A runtime is a ``Language``: a table of primitives, its words for moves, and
how it repeats a body. A body becomes a function of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import assert_never

from grammar.tensors.operations import Literal, Operand, Operation, Step, Value
from grammar.tensors.sharding import Sharding, Type, part_shape
from hierarchies import InputError
from synth.train.emit.kernels import handed_on
from synth.train.emit.language import Call, Language
from synth.train.emit.sections import Phase, Section, Transfer, sections
from synth.train.emit.spelling import Names, listed, statement, unpacked
from synth.train.factors import part
from synth.train.plans import Done, Moved, Program, Sent
from synth.train.plans.plan import loop_of
from synth.train.plans.program import Key, makes
from synth.train.plans.together.buckets import flat
from synth.train.resharding import How, Move, Path

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
class Function:
    """A function of the emitted file: its lines are indented."""

    name: str
    head: tuple[str, ...]
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join((*self.head, *self.lines))


@dataclass(frozen=True)
class Ending:
    """An output of the step, by name and by how it lies in the end.

    With microbatches ``kept`` is the name under which it is there once all is done.
    """

    name: str
    type: Type
    sharding: Sharding
    kept: str = ""


@dataclass(frozen=True)
class Written:
    """A section as a function of the file; ``names`` are what values are kept under."""

    section: Section
    names: Mapping[Key, str]

    @property
    def key(self) -> str:
        """As an action of an order is spelled, without its microbatch; else in words."""
        assert self.section.phase is not None
        return str(self.section.phase)

    @property
    def function(self) -> str:
        """Its name, empty where it makes nothing: then it is there to send and to get."""
        return _called(self.section.phase) if self.section.makes else ""

    @property
    def reads(self) -> list[str]:
        return self._named((one.name, lies) for one, lies in self.section.reads)

    @property
    def makes(self) -> list[str]:
        made = self.section.makes
        return self._named((one.name, lies) for one, lies in made if isinstance(one, Value))

    @property
    def adds(self) -> list[str]:
        return self._named(self.section.adds)

    @property
    def keeps(self) -> list[str]:
        return self._named(self.section.keeps)

    def _named(self, keys: Iterable[Key]) -> list[str]:
        return [self.names[key] for key in keys]


def _called(phase: Phase | None) -> str:
    return phase.function if phase else "device_step"


def _what(phase: Phase | None) -> str:
    return phase.told if phase else "What every device does of a step, on its parts of the inputs."


@dataclass(frozen=True)
class Listing:
    """The functions of a step: bodies first, what each device does last; and what it gives.

    ``moves`` are those that stand in them. With microbatches there are several functions:
    ``written`` in their order, and ``transfers`` between them.
    """

    functions: tuple[Function, ...]
    outputs: tuple[Ending, ...]
    moves: tuple[Move, ...]
    written: tuple[Written, ...]
    transfers: tuple[Transfer, ...]

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
    early = overlap and bool(language.later) and called is no_calls
    kernels = handed_on(program)
    writer = _Writer(language, sizes, called, early, buckets=members_of(program), kernels=kernels)
    found = sections(step, program, sizes)
    for one in found.sections:
        writer.section(one, found.sums)
    names = writer.shared | kept
    return Listing(
        tuple(writer.functions),
        tuple(_endings(step, found.outputs, names if program.places else None)),
        tuple(writer.moves),
        tuple(Written(one, names) for one in found.sections),
        found.transfers,
    )


def listing_of_some(
    program: Section, sizes: Mapping[str, int], language: Language, sent: Collection[str]
) -> Listing:
    """The function of some operations of a step, ``device_step``, of values as they lie there.

    What is partial stays so; the values named ``sent`` are given away as to a collective. Raises
    InputError as ``listing`` does.
    """
    writer = _Writer(language, sizes, no_calls)
    writer.section(program, {}, sent)
    return Listing(tuple(writer.functions), (), tuple(writer.moves), (), ())


def _endings(
    step: Step, outputs: Sequence[tuple[Operand, Sharding]], names: Mapping[Key, str] | None
) -> Iterator[Ending]:
    """What the step gives; with microbatches there are ``names`` under which values are kept.

    Raises InputError for a number that is written out, which is then kept nowhere.
    """
    for name, (output, lies) in zip(output_names(step), outputs, strict=True):
        kind = output.type if isinstance(output, Value) else Type(output.dtype, ())
        if names is not None and isinstance(output, Literal):
            hint = "leave microbatches out of the plan"
            raise InputError(f"the step gives the number {output}", where="plan", hint=hint)
        yield Ending(name, kind, lies, names[str(output), lies] if names is not None else "")


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
    overlap: bool = False
    functions: list[Function] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    buckets: Mapping[Key, int] = field(default_factory=dict)
    kernels: Mapping[Key, tuple[Key, ...]] = field(default_factory=dict)
    loops: int = 0
    shared: dict[Key, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = Names(set(self.language.reserved))

    def section(self, one: Section, sums: Mapping[Key, Key], sent: Collection[str] = ()) -> None:
        """The function of a section. Values have the same name in all functions.

        A sum over microbatches is called as what is added up.
        """
        self.shared |= {done: self.shared[key] for done, key in sums.items() if key in self.shared}
        scope = _Scope(self, self.names, self.shared, kernels=self.kernels)
        names = scope.inputs(one.reads)
        scope.body(one.instructions)
        made = [
            self.language.sent.format(text) if str(value) in sent else text
            for value, lies in one.makes
            for text in [scope.read(value, lies)]
        ]
        head = [f"def {_called(one.phase)}(values):", f'    """{_what(one.phase)}"""']
        head += unpacked(dict(names), "values") if names else []
        lines = [*scope.lines, *statement(f"return {listed(made)}")]
        if made:
            self.functions.append(Function(_called(one.phase), tuple(head), tuple(lines)))

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
        names = scope.inputs(tuple(zip(graph.inputs, program.inputs, strict=True)))
        scope.body(program.instructions)
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
class Bucket:
    """Redistributions that go as one; ``begun``, the name of what waits for it, if it was begun."""

    members: list[Moved] = field(default_factory=list)
    begun: str = ""


@dataclass
class _Scope:
    """One function: which values it has, lying how, under which names.

    ``known`` are names that other functions have for values, too; ``kernels`` see ``handed_on``.
    """

    writer: _Writer
    names: Names
    known: dict[Key, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    held: dict[Key, str] = field(default_factory=dict)
    early: dict[Key, list[Moved]] = field(default_factory=dict)
    begun: dict[Key, str] = field(default_factory=dict)
    bucketed: dict[int, Bucket] = field(default_factory=dict)
    done: set[tuple[object, ...]] = field(default_factory=set)
    line: str = ""
    kernels: Mapping[Key, tuple[Key, ...]] = field(default_factory=dict)

    @property
    def language(self) -> Language:
        return self.writer.language

    @property
    def sizes(self) -> Mapping[str, int]:
        return self.writer.sizes

    def inputs(self, given: Sequence[tuple[Value, Sharding]]) -> list[tuple[str, str]]:
        """The names of the inputs, and what they are."""
        for value, _ in given:
            self._check(value)
        return [self._made(*one) for one in given]

    def body(self, instructions: Sequence[Done | Moved | Sent]) -> None:
        for one in instructions:
            if isinstance(one, Moved):
                self._expect(one)
        for one in instructions:
            match one:
                case Moved() if self._bucket(one) is not None:
                    self._together(one)
                case Moved(value, path):
                    self.move(value, path)
                case Done():
                    self._do(one)
                case Sent():
                    raise AssertionError(one)
                case _:
                    assert_never(one)
            self._hand_on(one)

    def _hand_on(self, one: Done | Moved | Sent) -> None:
        """Keep what a kernel made apart from what reads it, once its last instruction is done."""
        made = makes(one)
        keys = self.kernels.get(made[0], ()) if made else ()
        names = [*dict.fromkeys(self.held[key] for key in keys)]
        if names and self.language.apart:
            given = listed(names) if len(names) > 1 else names[0]
            kept = self.language.apart.format(given)
            self.lines += statement(f"{', '.join(names)} = {kept}", "the end of a kernel")

    def read(self, operand: Operand, sharding: Sharding) -> str:
        if isinstance(operand, Literal):
            return self.language.literal(operand)
        return self.held[operand.name, sharding]

    def move(self, value: Value, path: Path) -> None:
        if (value.name, path.target) in self.held:
            return
        text = self.held[value.name, path.source]
        last = path.moves[-1] if path.moves else None
        made = self._name((value.name, path.target), AFTER[last.how]) if last else text
        if begun := self.begun.pop((value.name, path.target), None):
            comment = f"{last}: {value.type.sharded(path.target)}"
            self.lines += statement(f"{made} = {begun}()", comment)
        else:
            self.writer.moves += path.moves
            for call, comment in self._calls(value, path, text, made):
                self.lines += statement(f"{made} = {call}", comment)
        self.known[value.name, path.target] = made
        self._hold(value, path.target, made)

    def _bucket(self, one: Moved) -> int | None:
        return self.writer.buckets.get((one.value.name, one.path.target))

    def _expect(self, one: Moved) -> None:
        """Know what will be sent, to begin it as soon as it is made."""
        if (number := self._bucket(one)) is not None:
            self.bucketed.setdefault(number, Bucket()).members.append(one)
        elif self.writer.overlap and _sends_last(one.path, self.sizes):
            self.early.setdefault((one.value.name, one.path.source), []).append(one)

    def _together(self, first: Moved) -> None:
        """All members end to end in one request, and each as it is to lie; nothing for the rest."""
        if (first.value.name, first.path.target) in self.held:
            return
        bucket = self.bucketed[self.writer.buckets[first.value.name, first.path.target]]
        _, path = flat(bucket.members)
        texts = [self.held[one.value.name, one.path.source] for one in bucket.members]
        for at, move in enumerate(path.moves):
            names = [
                self._name((m.value.name, m.path.target), AFTER[path.moves[-1].how])
                for m in bucket.members
            ]
            if move.how in (How.SLICE, How.MASK):
                for one, text, made in zip(bucket.members, texts, names, strict=True):
                    self._alone(one, at, text, made)
            else:
                self._flat(bucket, at, texts, names)
            texts = names
        self.writer.moves += path.moves
        for one, text in zip(bucket.members, texts, strict=True):
            self.known[one.value.name, one.path.target] = text
            self._hold(one.value, one.path.target, text)

    def _alone(self, one: Moved, at: int, text: str, made: str) -> None:
        """A move of one member that sends nothing."""
        move = one.path.moves[at]
        kind = Type(one.value.type.dtype, part_shape(one.value.type, move.before, self.sizes))
        call = self.language.move(text, move, kind, self.sizes)
        self.lines += statement(f"{made} = {call}", f"{move}")

    def _flat(self, bucket: Bucket, at: int, texts: list[str], names: list[str]) -> None:
        """A request of all members, which a device puts end to end and takes apart."""
        made = bucket.begun or self._sent_flat(bucket, at, texts)
        if bucket.begun:
            self.lines += statement(f"{made} = {made}()")
        moves = [one.path.moves[at] for one in bucket.members]
        shapes = [
            part_shape(one.value.type, move.after, self.sizes)
            for one, move in zip(bucket.members, moves, strict=True)
        ]
        more = ""
        if moves[0].how is How.ALL_GATHER:
            more = f", {[move.leaves for move in moves]}, {self._parts(moves[0])}"
        left = listed(names)[1:-1]
        self.lines += statement(f"{left} = parted({made}, {shapes}{more})", f"{moves[0]}")

    def _sent_flat(self, bucket: Bucket, at: int, texts: list[str], later: str = "{0}") -> str:
        """The name of what comes of a request of all members end to end."""
        kind, path = flat(bucket.members)
        move, moves = path.moves[at], [one.path.moves[at] for one in bucket.members]
        more = ""
        if move.how is How.REDUCE_SCATTER:
            more = f", {[each.enters for each in moves]}, {self._parts(move)}"
        made = self.names.made("bucket")
        self.lines += statement(f"{made} = flattened([{', '.join(texts)}]{more})")
        held = Type(kind.dtype, part_shape(kind, move.before, self.sizes))
        call = self.writer.called(made, move, kind)
        call = call or self.language.move(made, move, held, self.sizes)
        if later != "{0}":
            call = later.format(call[:-1])
        self.lines += statement(f"{made} = {call}", f"{move}: {len(moves)} gradients")
        return made

    def _parts(self, move: Move) -> int:
        return prod(self.sizes[axis] for axis in move.axes)

    def _calls(self, value: Value, path: Path, text: str, made: str) -> Iterator[tuple[str, str]]:
        """Of each move its call, and what comes of it; all but the first are of ``made``."""
        for move in path.moves:
            kind = Type(value.type.dtype, part_shape(value.type, move.before, self.sizes))
            call = self.writer.called(text, move, value.type)
            call = call or self.language.move(text, move, kind, self.sizes)
            yield call, f"{move}: {value.type.sharded(move.after)}"
            text = made

    def _hold(self, value: Value, lies: Sharding, text: str) -> None:
        """Have a value; what is to be sent of it early is begun now."""
        self.held[value.name, lies] = text
        for bucket in self.bucketed.values():
            self._begin(bucket)
        for one in self.early.pop((value.name, lies), ()):
            made = self.names.made(f"{value.name}_begun")
            self.writer.moves += one.path.moves
            *local, (call, comment) = self._calls(value, one.path, text, made)
            for each, what in local:
                self.lines += statement(f"{made} = {each}", what)
            call = self.language.later.format(call[:-1])
            self.lines += statement(f"{made} = {call}", f"begin {comment}")
            self.begun[value.name, one.path.target] = made

    def _begin(self, bucket: Bucket) -> None:
        """Begin a request as soon as the last of its members is made, if nothing is local in it."""
        if not self.writer.overlap or bucket.begun:
            return
        keys = [(one.value.name, one.path.source) for one in bucket.members]
        path = bucket.members[0].path
        single = len(path.moves) == 1 and path.requests(self.sizes) == path.moves
        if single and all(key in self.held for key in keys):
            texts = [self.held[key] for key in keys]
            bucket.begun = self._sent_flat(bucket, 0, texts, self.language.later)

    def _do(self, done: Done) -> None:
        operation, how = done.operation, done.how
        if operation.line != self.line:
            self.line = operation.line
            self.lines.append(f"    # {self.line}")
        for value in operation.results:
            self._check(value)
        operands = [self.read(*one) for one in zip(operation.operands, how.operands, strict=True)]
        operands = self._again(operation, operands)
        text = self._repeated(done, operands) if done.body else self._written(done, operands)
        made = [self._made(*one) for one in zip(operation.results, how.results, strict=True)]
        if done.body is not None:
            carried = loop_of(operation.parameter).carried
            after, stacks = self.names.made("after"), self.names.made("stacks")
            self.lines += statement(f"{after}, {stacks} = {text}")
            for several, source in ((made[:carried], after), (made[carried:], stacks)):
                self.lines += unpacked(dict(several), source) if several else []
        else:
            names = [name for name, _ in made]
            left = listed(names)[1:-1] if operation.primitive in SEVERAL else names[0]
            self.lines += statement(f"{left} = {text}", ", ".join(what for _, what in made))
        for value, lies in zip(operation.results, how.results, strict=True):
            self._hold(value, lies, self.held[value.name, lies])

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
        name = self._name((value.name, sharding))
        self.held[value.name, sharding] = name
        return name, value.type.sharded(sharding)

    def _name(self, key: Key, after: str = "") -> str:
        """What a value is called, by the move after which it lies so if there was one."""
        if key not in self.known:
            self.known[key] = self.names.made(f"{key[0]}_{after}" if after else key[0])
        return self.known[key]


def members_of(program: Program) -> Mapping[Key, int]:
    """Of each member of a bucket its bucket's number."""
    return {
        (one.value.name, one.path.target): number
        for number, bucket in enumerate(program.buckets)
        for one in map(program.instructions.__getitem__, bucket)
        if isinstance(one, Moved)
    }


def _sends_last(path: Path, sizes: Mapping[str, int]) -> bool:
    """Whether a collective is the only one that sends, and the last: begun, and waited for."""
    if not path.moves or path.requests(sizes) != path.moves[-1:]:
        return False
    return path.moves[-1].how is not How.PERMUTE
