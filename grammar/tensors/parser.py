"""Parses steps and types; errors show a caret under the position.

The parser checks only the language: every value is defined before it is read, a name denotes one
value, and a loop's operands match its body. It does not know what primitives require of their
operands; the users of a step check that.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import resources
from typing import Any, NoReturn

from lark import Lark, Token, Tree, UnexpectedInput

from grammar.carets import describe_unexpected, draw_caret
from grammar.tensors.constants import unpack
from grammar.tensors.operations import (
    CONSTANT,
    EVERYWHERE,
    MOVING,
    REPEATED,
    Graph,
    Literal,
    Operand,
    Operation,
    Parameter,
    PipelinePosition,
    ShardedStep,
    Step,
    Value,
)
from grammar.tensors.scanning import check_length, check_names
from grammar.tensors.sharding import (
    MOST_ELEMENTS,
    ReductionKind,
    Sharding,
    Type,
    check_type,
    dtype_bytes,
    parse_value_type,
    replicated_sharding,
)
from hierarchies import InputError

BEGINNING = 2**15
"""Characters of a longer text that are checked first."""
MOST_NESTED = 16
"""The nesting limit of loops and of lists of parameters."""

_WORDS = {
    "_STEP": "step",
    "_OVER": "over and axes",
    "_IN": "in",
    "_OUT": "out",
    "NAME": "a name",
    "TYPE": "a type, as f32[8,16]",
    "LITERAL": "a number with its type, as 0.5:f32",
    "NUMBER": "a number",
    "WORD": "a word",
    "STRING": "a text in quotation marks",
    "ROLE": "parameter, moment, batch, state or cache",
    "FLAT": "flat",
    "KIND": "sum, max or min",
    "LINE": "@ and a line of code",
    "PLACE": "a stage and when, as in stage 1 forward",
    "COLON": "':'",
    "EQUAL": "'='",
    "COMMA": "','",
    "LPAR": "'('",
    "RPAR": "')'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "LSQB": "'['",
    "RSQB": "']'",
    "AT": "'@'",
    "_NEWLINE": "a new line",
    "$END": "the end",
}


def parse_step(text: str, *, where: str = "step") -> Step:
    """Parse a step. ``parse_step(str(step)) == step``.

    Raises InputError with the line, a caret and what was expected there; likewise for an unknown
    value, a name that is defined twice, and a loop whose operands do not match its body.
    """
    match parse_either(text, where=where):
        case Step() as step:
            return step
        case ShardedStep():
            hint = "give the step that it was made of; collsynth shard takes either"
            raise InputError("this step is sharded", where=where, hint=hint)


def parse_sharded(text: str, *, where: str = "step") -> ShardedStep:
    """Parse a sharded step. ``parse_sharded(str(sharded)) == sharded``.

    Raises InputError as ``parse_step`` does, and for a type that is impossible on the axes: an axis
    cuts it twice, or its axes do not divide a dimension.
    """
    match parse_either(text, where=where):
        case ShardedStep() as sharded:
            return sharded
        case Step():
            hint = "its first line gives the axes, as in 'step mlp over data=2'"
            raise InputError("this step is not sharded", where=where, hint=hint)


def parse_either(text: str, *, where: str = "step") -> Step | ShardedStep:
    """Parse a step, sharded if its first line has axes. Raises InputError as the other two do."""
    if not text.endswith("\n"):
        text += "\n"
    name, over, graph = _read_step(text, where).children
    axes = None if over is None else _sizes(over, text, where)
    reader = _StepTransformer(text, where, axes)
    parsed = reader.graph(graph)
    step = Step(
        name=_text(name),
        graph=parsed,
        roles=tuple(reader.roles),
        labels=tuple(reader.labels),
        updates=tuple(reader.updates),
        constants=tuple(reader.constants),
    )
    if axes is None:
        return step
    return ShardedStep(tuple(axes.items()), step, tuple(reader.places))


def check_beginning(text: str, *, where: str = "step") -> None:
    """Raise InputError for a long text that is recognizably no step, before parsing all of it.

    Checks its first lines, the lengths of its lines, and names that denote two values.
    """
    _read_beginning(text, where)


def _read_step(text: str, where: str) -> Any:
    """Return the parse tree of a step; the beginning of a long one is read before its names."""
    if len(text) <= BEGINNING:
        return _read(text, "start", where)
    parser = _read_beginning(text, where)
    with _syntax_errors(text, where):
        return parser.resume_parse()


def _read_beginning(text: str, where: str) -> Any:
    """Check as ``check_beginning`` does, and return the parser after the first lines (of lark)."""
    check_length(text, where)
    end = text.rfind("\n", 0, BEGINNING) + 1
    parser = _lark().parse_interactive(text, "start")
    with _syntax_errors(text, where):
        for token in parser.iter_parse() if end else ():
            if token.end_pos == end:  # an end of a line is a token, fed when the next is read
                parser.feed_token(token)
                break
    check_names(text, where)
    return parser


def _sizes(over: Any, text: str, where: str) -> dict[str, int]:
    """Return the axes of a sharded step with their sizes."""
    reader, sizes = _StepTransformer(text, where), dict[str, int]()
    for axis, size in zip(over.children[::2], over.children[1::2], strict=True):
        if axis in sizes:
            reader.refuse(axis, f"axis {axis} is said twice")
        if not re.fullmatch(r"[A-Za-z_]\w*", axis):
            reader.refuse(axis, f"{axis} is not the name of an axis", "letters, digits and _")
        if not re.fullmatch(r"[1-9]\d{0,17}", size):
            reader.refuse(size, f"an axis of size {size}", "a whole number above 0")
        sizes[str(axis)] = int(size)
    return sizes


def parse_type(text: str, *, where: str = "type") -> tuple[Type, Sharding]:
    """Parse ``f32[8@data,16,64@(seq,model)]{sum:expert}`` to a type and a sharding."""
    dtype, *rest = _read(text, "sharded", where).children
    shape, cut, partial = [], [], []
    flat: tuple[str, ...] = ()
    lead = 0
    for part in filter(None, rest):
        if part.data == "dimension":
            size, axes = part.children
            shape.append(int(size))
            cut.append(tuple(map(str, axes.children)) if axes else ())
            continue
        kind, axes = part.children
        if kind.type == "FLAT":
            if flat:
                raise InputError(f"flat is said twice in {text}", where=where)
            flat, lead = tuple(map(str, axes.children)), int(kind.removeprefix("flat") or 0)
        else:
            partial += [(ReductionKind(str(kind)), str(axis)) for axis in axes.children]
    sharding = Sharding(tuple(cut), tuple(partial), flat, lead)
    return parse_value_type(str(dtype), tuple(shape)), sharding


@cache
def _lark() -> Lark:
    source = resources.files("grammar.tensors").joinpath("step.lark").read_text(encoding="utf-8")
    return Lark(source, parser="lalr", start=["start", "sharded"], propagate_positions=True)


def _read(text: str, start: str, where: str) -> Any:
    """Return the parse tree of a text (Any: lark's trees have no more precise type)."""
    with _syntax_errors(text, where):
        return _lark().parse(text, start)


@contextmanager
def _syntax_errors(text: str, where: str) -> Iterator[None]:
    """Raise InputError, with a caret, for what lark did not expect."""
    try:
        yield
    except UnexpectedInput as error:
        raise describe_unexpected(text, error, _WORDS, subject=where) from None


@dataclass
class _StepTransformer:
    """Transforms the tree of one graph; each body has its own transformer, and its own values.

    ``axes``: the axes of a sharded step, whose values have shardings. ``turns``: the product of the
    lengths of all loops around the graph.
    """

    text: str
    where: str
    axes: Mapping[str, int] | None = None
    known: dict[str, Value] = field(default_factory=dict)
    roles: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    updates: list[tuple[int, int]] = field(default_factory=list)
    constants: list[tuple[str, bytes]] = field(default_factory=list)
    places: list[PipelinePosition] = field(default_factory=list)
    depth: int = 0
    turns: int = 1

    @property
    def is_body(self) -> bool:
        return self.depth > 0

    def graph(self, tree: Any) -> Graph:
        inputs: list[Value] = []
        operations: list[Operation] = []
        outputs: list[Operand] = []
        place: PipelinePosition | None = None
        for line in tree.children:
            match line.data:
                case "place":
                    place = self._place(line.children[0], operations)
                case "input":
                    if operations or outputs:
                        self.refuse(line.children[0], "inputs come before everything else")
                    inputs.append(self._input(line.children))
                case "operation":
                    if outputs:
                        self.refuse(line.children[0].children[0], "outputs come at the end")
                    operations.append(self._operation(line.children))
                    self.places += [place] if place else []
                case "output":
                    outputs.append(self._output(line.children, inputs, len(outputs)))
        return Graph(tuple(inputs), tuple(operations), tuple(outputs))

    def _place(self, token: Token, before: Sequence[Operation]) -> PipelinePosition:
        """Return the stage and pass of the operations below it."""
        if self.axes is None or self.is_body:
            self.refuse(token, "stages are of sharded steps, outside of loops")
        if before and not self.places:
            self.refuse(token, "it follows operations without a stage", "give each its stage")
        stage, when = token.split()[-2:]
        return PipelinePosition(EVERYWHERE if stage == "everywhere" else int(stage), when)

    def _input(self, parts: Sequence[Any]) -> Value:
        name, type_, role, label, constant = parts
        if (role is None) is not self.is_body:
            problem = "the input of a body has no role" if role else "give the role of this input"
            self.refuse(role or name, problem, "parameter, moment, batch, state or cache")
        self.roles.append(str(role))
        self.labels.append(str(name) if label is None else _text(label))
        value = self._new(name, type_)
        if constant is not None:
            self.constants.append((value.name, self._values(constant, value, str(role))))
        elif role == "state" and value.type.shape and CONSTANT.fullmatch(self.labels[-1]):
            problem = f"{self.labels[-1]}, an array that the model closes over, has no values here"
            self.refuse(name, problem, "trace the model again: its text then holds them")
        return value

    def _values(self, tree: Any, value: Value, role: str) -> bytes:
        """Return the bytes of an array that the model closes over."""
        strings = tree.children
        if role != "state":
            self.refuse(strings[0], "only a state has values in the text")
        try:
            return unpack("".join(map(_text, strings)), value.type.bytes)
        except InputError as error:
            self.refuse(strings[0], error.problem, error.hint)

    def _output(self, parts: Sequence[Any], inputs: Sequence[Value], at: int) -> Operand:
        tree, into = parts
        operand = self._operand(tree)
        if into is not None:
            places = [place for place, value in enumerate(inputs) if value.name == into]
            if not places or self.is_body:
                self.refuse(into, f"{into} is not an input of the step")
            before = inputs[places[0]]
            if not isinstance(operand, Value) or operand.type != before.type:
                self.refuse(into, f"{into} is of another type")
            if operand.sharding != before.sharding:
                self.refuse(
                    into, f"{into} has another sharding: {before.spelled}", "redistribute first"
                )
            if any(place == places[0] for _, place in self.updates):
                self.refuse(into, f"{into} is updated twice")
            self.updates.append((at, places[0]))
        return operand

    def _operation(self, parts: Sequence[Any]) -> Operation:
        """Transform ``values = name(operands) parameters body line``, in this order."""
        by_rule = {rule: [part for part in parts if _is_part(part, rule)] for rule in _PARTS}
        name, line = parts[len(by_rule["value"])], parts[-1]
        # Operands before results: an operation must not read its own result.
        operands = tuple(map(self._operand, by_rule["operand"]))
        parameters = self._entries(by_rule["entry"])
        inside = next(iter(by_rule["body"]), None)
        results = tuple(self._new(*tree.children) for tree in by_rule["value"])
        body = None
        if inside is not None:
            if self.depth == MOST_NESTED:
                self.refuse(name, f"more than {MOST_NESTED} loops in each other")
            turns = self.turns * _length(parameters)
            if turns > MOST_ELEMENTS:
                self.refuse(name, "loops of so many turns, together", f"at most {MOST_ELEMENTS}")
            deeper = self.depth + 1
            inner = _StepTransformer(self.text, self.where, self.axes, depth=deeper, turns=turns)
            body = inner.graph(inside.children[0])
        operation = Operation(
            str(name), operands, results, parameters, body, str(line or "").removeprefix("@")
        )
        if name in MOVING and self.axes is None:
            self.refuse(name, f"{name} is an operation of sharded steps only")
        if (name == REPEATED) is not (body is not None):
            self.refuse(name, f"{name} {'without' if body is None else 'with'} a body")
        if body is not None and (problem := _loop_mismatch(operation, body)):
            self.refuse(name, problem)
        return operation

    def _entries(self, trees: Sequence[Any], depth: int = 0) -> tuple[tuple[str, Parameter], ...]:
        entries: dict[str, Parameter] = {}
        for tree in trees:
            name, value = tree.children
            if name in entries:
                self.refuse(name, f"{name} is given twice")
            entries[str(name)] = self._parameter(value, depth)
        return tuple(entries.items())

    def _parameter(self, tree: Any, depth: int = 0) -> Parameter:
        if isinstance(tree, Tree):
            if depth == MOST_NESTED:
                where = f"{self.where}, line {tree.meta.line}"
                raise InputError(f"more than {MOST_NESTED} lists in each other", where=where)
            children = [child for child in tree.children if child is not None]
            if tree.data == "named":
                return self._entries(children, depth + 1)
            return tuple(self._parameter(child, depth + 1) for child in children)
        match tree.type:
            case "NUMBER":
                return _number(tree)
            case "STRING":
                return _text(tree)
        return {"true": True, "false": False}.get(str(tree), str(tree))

    def _operand(self, tree: Any) -> Operand:
        [token] = tree.children
        if token.type == "NAME":
            if token not in self.known:
                self.refuse(token, f"no value {token} before this line")
            return self.known[str(token)]
        value, _, dtype = token.partition(":")
        self._checked(token, dtype)
        return Literal(value == "true" if value in ("true", "false") else _number(value), dtype)

    def _new(self, name: Token, type_: Token) -> Value:
        if name in self.known:
            self.refuse(name, f"{name} is already the name of a value")
        value = Value(str(name), *self._typed(type_))
        self.known[value.name] = value
        return value

    def _typed(self, token: Token) -> tuple[Type, Sharding | None]:
        """Return the type, and in a sharded step the sharding, that a token spells."""
        try:
            value_type, sharding = _parse_type_quickly(str(token))
            if self.axes is not None:
                check_type(value_type, sharding, self.axes)
                return value_type, sharding
        except InputError as error:
            self.refuse(token, error.problem, error.hint)
        if sharding.axes:
            hint = "the first line of a sharded step gives its axes: 'step mlp over data=2'"
            self.refuse(token, "only sharded steps give shardings of values", hint)
        return value_type, None

    def _checked(self, at: Token, dtype: str) -> None:
        try:
            dtype_bytes(dtype)
        except InputError as error:
            self.refuse(at, error.problem, error.hint)

    def refuse(self, at: Token, problem: str, hint: str = "") -> NoReturn:
        line, column = at.line or 1, at.column or 1
        where = f"{self.where}, line {line}, column {column}"
        raise InputError(f"{problem}{draw_caret(self.text, line, column)}", where=where, hint=hint)


@lru_cache(maxsize=2**12)
def _parse_type_quickly(text: str) -> tuple[Type, Sharding]:
    """Parse like ``parse_type``, but cached, and faster for uncut types: steps have few types."""
    dtype, _, shape = text.partition("[")
    if "@" in shape or "{" in shape:
        return parse_type(text)
    sizes = tuple(map(int, shape.removesuffix("]").split(","))) if shape != "]" else ()
    return parse_value_type(dtype, sizes), replicated_sharding(len(sizes))


_PARTS = ("value", "operand", "entry", "body")


def _is_part(part: Any, rule: str) -> bool:
    return isinstance(part, Tree) and part.data == rule


def _length(parameters: Sequence[tuple[str, Parameter]]) -> int:
    """Return the number of turns of a loop, at least 1; 1 if none is given, which fails later."""
    length = dict(parameters).get("length")
    return max(length, 1) if isinstance(length, int) else 1


def _loop_mismatch(loop: Operation, body: Graph) -> str:
    """Return how a loop and its body do not match; empty if they do."""
    counts = [loop.parameter.get(key) for key in ("length", "num_consts", "num_carry")]
    if not all(type(count) is int and count >= 0 for count in counts):
        return "a loop gives its length, num_consts and num_carry"
    length, consts, carried = (int(str(count)) for count in counts)
    kept = consts + carried
    if len(loop.operands) != len(body.inputs) or len(loop.operands) < kept:
        return f"{len(loop.operands)} values for the {len(body.inputs)} inputs of the body"
    if len(loop.results) != len(body.outputs) or len(loop.results) < carried:
        return f"{len(loop.results)} results of the {len(body.outputs)} outputs of the body"
    operands = [operand.type for operand in loop.operands]
    results = [value.type for value in loop.results]
    inputs = [value.type for value in body.inputs]
    outputs = [output.type for output in body.outputs]
    scanned = [_stacked_type(length, slice_type) for slice_type in inputs[kept:]]
    stacked = [_stacked_type(length, slice_type) for slice_type in outputs[carried:]]
    pairs = [
        *zip(operands[:kept], inputs[:kept], strict=True),
        *zip(operands[kept:], scanned, strict=True),
        *zip(outputs[:carried], inputs[consts:kept], strict=True),
        *zip(results[:carried], outputs[:carried], strict=True),
        *zip(results[carried:], stacked, strict=True),
    ]
    return next(
        (f"{outer} where the body has {inner}" for outer, inner in pairs if outer != inner), ""
    )


def _stacked_type(length: int, slice_type: Type) -> Type:
    return Type(slice_type.dtype, (length, *slice_type.shape))


def _number(text: str) -> int | float:
    """Return an integer or a float; nan is always one object, so tuples with it are equal."""
    if text == "nan":
        return math.nan
    return float(text) if any(mark in text for mark in (".", "e", "inf")) else int(text)


def _text(token: Token) -> str:
    return str(json.loads(token)) if token.type == "STRING" else str(token)
