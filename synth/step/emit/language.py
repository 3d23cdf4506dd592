"""A runtime in whose words steps are written: a table of primitives, and its words for moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from grammar.tensors.operations import Literal, Operation, Value
from grammar.tensors.sharding import Type
from hierarchies import InputError
from synth.step.emit.spelling import spell_number, spell_parameter
from synth.step.factors import Offset
from synth.step.redistribution import ShardingMove


@dataclass(frozen=True)
class PrimitiveCall:
    """One operation on parts, as a language is to write it.

    ``operation`` is that of the part: shapes and parameters are its own. ``operands`` are its
    operands as Python, numbers with their element type; ``offset`` is what enters by the part's
    number.
    """

    operation: Operation
    operands: tuple[str, ...]
    offset: Offset | None
    language: TargetLanguage

    @cached_property
    def plain(self) -> tuple[str, ...]:
        """The operands, numbers without their type where another operand says what they are."""
        given = self.operation.operands
        if not any(isinstance(one, Value) for one in given):
            return self.operands
        return tuple(
            spell_number(one, self.language.infinite) if isinstance(one, Literal) else text
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

    @property
    def bits(self) -> int:
        """Of an element of the first operand: 32 of ``i32``."""
        return int(self.dtype().lstrip("uif"))

    def told(self, name: str) -> str:
        """A parameter as Python."""
        return spell_parameter(self.operation.parameter[name], self.language.dtypes)

    def keyword(self, name: str) -> str:
        """``, name=value`` where the parameter is given."""
        return f", {name}={self.told(name)}" if name in self.operation.parameter else ""

    def refused(self, why: str) -> InputError:
        """What it is that cannot be written."""
        problem = f"{self.language.name} has no {self.operation.primitive} {why}"
        return InputError(problem, where=self.operation.line)


Finish = Callable[[PrimitiveCall, str], str]


def keep_text(call: PrimitiveCall, text: str) -> str:
    """An operation needs nothing beside its words."""
    return text


Writer = str | Callable[[PrimitiveCall], str]
"""An expression with ``{0}`` for operands, ``{p0}`` for numbers without types, ``{name}`` for
parameters, ``{all}``, ``{made}``; or what makes one."""


@dataclass(frozen=True)
class TargetLanguage:
    """A runtime in whose words a step is written.

    ``dtypes`` are its names of element types, ``number`` writes one with its type, ``empty`` an
    array without elements, ``infinite`` has ``inf`` and ``nan``. ``move`` writes one move of a
    value whose part has a type. ``template`` has what the functions need; ``reserved`` are the
    names that it defines. ``finish`` adds to the words of an operation what its element type needs.
    ``gets_by_shape``: who is sent a value must know its shape. ``sent`` is how a value is given
    away that is to be sent as it lies in memory, and ``later`` makes of a call of a collective one
    that only begins it; none, where the runtime orders work itself. ``apart`` keeps a value
    from being merged with an equal one; empty where nothing does.
    """

    name: str
    template: str
    dtypes: Mapping[str, str]
    number: str
    empty: str
    infinite: str
    primitives: Mapping[str, Writer]
    move: Callable[[str, ShardingMove, Type, Mapping[str, int]], str]
    reserved: frozenset[str]
    finish: Finish = keep_text
    gets_by_shape: bool = False
    sent: str = "{0}"
    later: str = ""
    apart: str = ""

    def literal(self, one: Literal) -> str:
        """A number with its element type. Raises InputError for a type that it has not."""
        if one.dtype not in self.dtypes:
            raise InputError(f"{self.name} has no {one.dtype}, and {one} is of it")
        value = spell_number(one, self.infinite)
        return self.number.format(value=value, dtype=self.dtypes[one.dtype])

    def write(self, call: PrimitiveCall) -> str:
        """An operation. Raises InputError, with its user's line, for a primitive it has not."""
        operation = call.operation
        writer = self.primitives.get(operation.primitive)
        if writer is None:
            problem = f"{self.name} has no words for the primitive {operation.primitive!r}"
            hint = "write that line of the model in other operations, or ask for another runtime"
            raise InputError(problem, where=operation.line, hint=hint)
        text = self._filled_in(writer, call) if isinstance(writer, str) else writer(call)
        return self.finish(call, text)

    def _filled_in(self, writer: str, call: PrimitiveCall) -> str:
        operation = call.operation
        words = {f"p{at}": one for at, one in enumerate(call.plain)}
        words |= {name: spell_parameter(one, self.dtypes) for name, one in operation.parameters}
        words["all"] = ", ".join(call.operands)
        words["made"] = self.dtypes[call.made.dtype]
        try:
            return writer.format(*call.operands, **words)
        except KeyError as name:
            raise operation.lacks(str(name.args[0])) from None
