"""A runtime that steps are written for: a table of primitives, and its spelling of moves."""

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

    ``operation``: that on parts, with their shapes and parameters. ``operands``: as Python,
    numbers with their element type. ``offset``: what depends on the number of the part.
    """

    operation: Operation
    operands: tuple[str, ...]
    offset: Offset | None
    language: TargetLanguage

    @cached_property
    def plain(self) -> tuple[str, ...]:
        """The operands, with untyped numbers if another operand determines their type."""
        given = self.operation.operands
        if not any(isinstance(operand, Value) for operand in given):
            return self.operands
        infinite = self.language.infinite
        return tuple(
            spell_number(operand, infinite) if isinstance(operand, Literal) else text
            for operand, text in zip(given, self.operands, strict=True)
        )

    @property
    def made(self) -> Type:
        """The type of the first result."""
        return self.operation.results[0].type

    def shape(self, at: int = 0) -> tuple[int, ...]:
        """The shape of an operand."""
        operand = self.operation.operands[at]
        return operand.type.shape if isinstance(operand, Value) else ()

    def dtype(self, at: int = 0) -> str:
        """The element type of an operand."""
        operand = self.operation.operands[at]
        return operand.type.dtype if isinstance(operand, Value) else operand.dtype

    @property
    def bits(self) -> int:
        """Bits of an element of the first operand: 32 for ``i32``."""
        return int(self.dtype().lstrip("uif"))

    def spell(self, name: str) -> str:
        """A parameter as Python."""
        return spell_parameter(self.operation.parameter[name], self.language.dtypes)

    def keyword(self, name: str) -> str:
        """``, name=value`` if the parameter is given, else nothing."""
        return f", {name}={self.spell(name)}" if name in self.operation.parameter else ""

    def refused(self, why: str) -> InputError:
        """The error for a call that cannot be written."""
        problem = f"{self.language.name} has no {self.operation.primitive} {why}"
        return InputError(problem, where=self.operation.line)


Finish = Callable[[PrimitiveCall, str], str]


def keep_text(call: PrimitiveCall, text: str) -> str:
    """Returns the text as it is."""
    return text


Writer = str | Callable[[PrimitiveCall], str]
"""An expression with ``{0}`` for operands, ``{p0}`` for numbers without types, ``{name}`` for
parameters, ``{all}``, ``{made}``; or a function that makes one."""


@dataclass(frozen=True)
class TargetLanguage:
    """A runtime that a step is written for.

    ``dtypes``: its element types; ``number``: a typed number; ``empty``: an array without elements;
    ``infinite``: the module of ``inf`` and ``nan``. ``move`` spells one move of a value whose part
    has a type. ``template`` has the helpers of the functions, ``reserved`` the names that it
    defines. ``finish`` adds to an operation what its element type needs. ``gets_by_shape``: the
    receiver of a value must know its shape. ``sent``: a value that is to be sent as it lies in
    memory. ``later``: turns the call of a collective into one that only begins it; empty where the
    runtime orders work itself. ``apart``: keeps a value from being merged with an equal one; empty
    where nothing does.
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

    def literal(self, literal: Literal) -> str:
        """A number with its element type. Raises InputError for a type that the runtime lacks."""
        if literal.dtype not in self.dtypes:
            raise InputError(f"{self.name} has no {literal.dtype}, and {literal} is of it")
        value = spell_number(literal, self.infinite)
        return self.number.format(value=value, dtype=self.dtypes[literal.dtype])

    def write(self, call: PrimitiveCall) -> str:
        """Writes an operation. Raises InputError, with its line, for an unknown primitive."""
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
        words = {f"p{at}": text for at, text in enumerate(call.plain)}
        words |= {name: spell_parameter(text, self.dtypes) for name, text in operation.parameters}
        words["all"] = ", ".join(call.operands)
        words["made"] = self.dtypes[call.made.dtype]
        try:
            return writer.format(*call.operands, **words)
        except KeyError as name:
            raise operation.lacks(str(name.args[0])) from None
