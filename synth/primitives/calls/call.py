"""One operation as a call in a runtime, and the runtime's spelling of numbers and element types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import Formatter
from typing import Any

from grammar.tensors.operations import Literal, Operation, Value
from grammar.tensors.sharding import ReductionKind, Type, is_float
from hierarchies import InputError
from synth.primitives.calls.spelling import spell_number, spell_parameter
from synth.primitives.factor import Offset

LARGEST = {"f8_e4m3fn": "448.0"}
"""The largest finite number of floats without infinity; larger numbers become NaN."""


@dataclass(frozen=True)
class RuntimeSpelling:
    """How a runtime spells numbers.

    ``dtypes``: its element types. ``number``: a typed number. ``infinite``: the module of ``inf``
    and ``nan``. ``limits``: the function that returns the least and largest integer of a type.
    """

    name: str
    dtypes: Mapping[str, str]
    number: str
    infinite: str
    limits: str

    def literal(self, literal: Literal) -> str:
        """Returns a number with its type. Raises InputError for a type that the runtime lacks."""
        if literal.dtype not in self.dtypes:
            raise InputError(f"{self.name} has no {literal.dtype}, and {literal} is of it")
        value = spell_number(literal, self.infinite)
        return self.number.format(value=value, dtype=self.dtypes[literal.dtype])

    def neutral(self, kind: ReductionKind, dtype: str) -> str:
        """Returns the neutral element of a reduction."""
        if dtype == "bool":
            return str(kind is ReductionKind.MIN)
        if kind is ReductionKind.SUM:
            return "0"
        sign = "-" if kind is ReductionKind.MAX else ""
        if dtype in LARGEST:
            return f"{sign}{LARGEST[dtype]}"
        if is_float(dtype):
            return f"{sign}{self.infinite}.inf"
        if dtype.startswith("u"):  # A runtime may keep these in a wider type, with other limits.
            return "0" if kind is ReductionKind.MAX else str(2 ** int(dtype[1:]) - 1)
        end = "min" if kind is ReductionKind.MAX else "max"
        return f"{self.limits}({self.dtypes[dtype]}).{end}"


@dataclass(frozen=True)
class PrimitiveCall:
    """One operation on parts, to be written for a runtime.

    ``operation``: the operation on parts, with their shapes and parameters. ``operands``: as
    Python, with typed numbers. ``offset``: the dependence on the number of the part.
    """

    operation: Operation
    operands: tuple[str, ...]
    offset: Offset | None
    runtime: RuntimeSpelling

    @cached_property
    def plain(self) -> tuple[str, ...]:
        """The operands, with untyped numbers if another operand determines their type."""
        given = self.operation.operands
        if not any(isinstance(operand, Value) for operand in given):
            return self.operands
        return tuple(
            spell_number(operand, self.runtime.infinite) if isinstance(operand, Literal) else text
            for operand, text in zip(given, self.operands, strict=True)
        )

    @property
    def result(self) -> Type:
        """The type of the first result."""
        return self.operation.results[0].type

    @property
    def dtype(self) -> str:
        """The element type of the first result, as the runtime spells it."""
        return self.runtime.dtypes[self.result.dtype]

    def given(self, at: int = 0) -> Type:
        """Returns the type of an operand."""
        return self.operation.operands[at].type

    @property
    def bits(self) -> int:
        """Bits of an element of the first operand: 32 for ``i32``."""
        return int(self.given().dtype.lstrip("uif"))

    def spell(self, name: str) -> str:
        """Returns a parameter as Python."""
        return spell_parameter(self.operation.parameter[name], self.runtime.dtypes)

    def keyword(self, name: str) -> str:
        """Returns ``, name=value`` if the parameter is given, else an empty text."""
        return f", {name}={self.spell(name)}" if name in self.operation.parameter else ""

    def check(self, **only: object) -> None:
        """Raises InputError if a parameter differs from the only value that can be written."""
        for name, value in only.items():
            if self.operation.parameter.get(name, value) != value:
                raise self.refused(f"with {name}={self.spell(name)}")

    def refused(self, why: str) -> InputError:
        """Returns the error for a call that cannot be written."""
        problem = f"{self.runtime.name} has no {self.operation.primitive} {why}"
        return InputError(problem, where=self.operation.line)

    def write(self, writer: Writer) -> str:
        """Returns the call as Python. Raises InputError for a parameter the operation lacks."""
        return _CallFormatter(self).format(writer) if isinstance(writer, str) else writer(self)


Writer = str | Callable[[PrimitiveCall], str]
"""An expression, or a function that returns an expression.

An expression has ``{0}`` for an operand, ``{p0}`` for an operand whose number has no type, ``{1+}``
for the operands from 1 on, ``{all}`` for all; ``{axes}`` for a parameter, ``{?axes}`` for
``, axes=(0,)`` or nothing if it is absent; ``{primitive}`` for the name, ``{made}`` for the element
type of the result, and ``{result.shape}`` for its shape.
"""


class _CallFormatter(Formatter):
    """Fills in an expression."""

    def __init__(self, call: PrimitiveCall) -> None:
        self.call = call

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        call = self.call
        match key:
            case int():
                return call.operands[key]
            case "all":
                return ", ".join(call.operands)
            case "primitive":
                return call.operation.primitive
            case "made":
                return call.dtype
            case "result":
                return call.result
        if key[1:].isdigit() and key[0] == "p":
            return call.plain[int(key[1:])]
        if key.endswith("+"):
            return ", ".join(call.operands[int(key[:-1]) :])
        return call.keyword(key[1:]) if key.startswith("?") else call.spell(key)
