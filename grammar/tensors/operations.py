"""Training steps as graphs of primitives: inputs, operations in order, outputs.

A step has no axes: it is the computation of one device. ``Operation`` is an equation of a jaxpr
(``dot_general``, ``reduce_sum``). A loop (``scan``: layers, or time) keeps its body and a count, so
96 layers take no more text than 2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from textwrap import indent
from typing import Any
from weakref import WeakValueDictionary

from grammar.tensors.constants import pack
from grammar.tensors.sharding import Sharding, Type
from hierarchies import InputError

Parameter = bool | int | float | str | tuple["Parameter", ...] | tuple[tuple[str, "Parameter"], ...]
"""A parameter of a primitive: a number, word, list, or named entries."""


@dataclass(frozen=True, eq=False)
class Literal:
    """A constant of rank 0 in the text: always replicated.

    Literals with the same spelling are equal: nan equals nan, and -0.0 is not 0.0.
    """

    value: bool | int | float
    dtype: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self.spelled == other.spelled

    def __hash__(self) -> int:
        return hash(self.spelled)

    @cached_property
    def type(self) -> Type:
        """The type, of rank 0."""
        return Type(self.dtype, ())

    @cached_property
    def spelled(self) -> str:
        """The number and its type: ``0.5:f32``."""
        return f"{_spell_number(self.value)}:{self.dtype}"

    def __str__(self) -> str:
        return self.spelled


@dataclass(frozen=True)
class Value:
    """A value with its name, which is unique in its graph.

    ``sharding`` is set in a sharded step, and None in the step of one device.
    """

    name: str
    type: Type
    sharding: Sharding | None = None

    @property
    def spelled(self) -> str:
        """The name and the type: ``v0: f32[8@data,16]``."""
        spelled_type = str(self.type) if self.sharding is None else self.type.sharded(self.sharding)
        return f"{self.name}: {spelled_type}"

    def __str__(self) -> str:
        return self.name


Operand = Value | Literal


class OperationForm:
    """The common form of operations that differ only in the names of their values.

    ``facts`` has what was computed for the form, by the function that computed it.
    """

    def __init__(self) -> None:
        self.facts: dict[object, Any] = {}


@dataclass(frozen=True)
class Operation:
    """One primitive: its operands, results and parameters, and its line in the user's code.

    ``body`` is the repeated part of a ``scan``. Its inputs are the constants, the carried values
    and one slice of each scanned operand; its outputs are the carried values and one slice of each
    stacked result. ``line`` ("gpt.py:31") is for messages and does not affect the computation.
    """

    primitive: str
    operands: tuple[Operand, ...]
    results: tuple[Value, ...]
    parameters: tuple[tuple[str, Parameter], ...] = ()
    body: Graph | None = None
    line: str = field(default="", compare=False)

    @cached_property
    def parameter(self) -> Mapping[str, Parameter]:
        """The parameters by name. A lookup raises InputError for a name that the text lacks."""
        return _Parameters(self)

    @property
    def values(self) -> tuple[Operand, ...]:
        """The operands, then the results."""
        return (*self.operands, *self.results)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the operands."""
        return [operand.type.shape for operand in self.operands]

    @cached_property
    def form(self) -> OperationForm:
        """The form: primitive, parameters, and types of values; every loop has a form of its own.

        Facts that depend only on the form are computed once for all operations of that form.
        """
        if self.body is not None:
            return OperationForm()
        operands = tuple(each.type if isinstance(each, Value) else each for each in self.operands)
        results = tuple(value.type for value in self.results)
        key = (self.primitive, operands, results, self.parameters)
        return _FORMS.setdefault(key, OperationForm())

    def lacks(self, name: str) -> InputError:
        """Return the error for a missing parameter."""
        problem = f"{self.primitive} has no parameter {name!r}"
        return InputError(problem, where=self.line, hint="it follows the operands, as in JAX")

    def __str__(self) -> str:
        """Return ``v1: f32[8] = reduce_sum(v0) axes=(1) @mlp.py:12``; a body follows, indented."""
        results = ", ".join(value.spelled for value in self.results)
        operands = ", ".join(map(str, self.operands))
        parameters = "".join(f" {key}={_spell_parameter(value)}" for key, value in self.parameters)
        body = "" if self.body is None else f" {{\n{indent(str(self.body), '  ')}}}"
        line = f" @{_BLANKS.sub('_', self.line)}" if self.line else ""
        return f"{results} = {self.primitive}({operands}){parameters}{body}{line}"


_FORMS: WeakValueDictionary[object, OperationForm] = WeakValueDictionary()


class _Parameters(dict[str, Parameter]):
    def __init__(self, operation: Operation) -> None:
        super().__init__(operation.parameters)
        self._operation = operation

    def __missing__(self, name: str) -> Parameter:
        raise self._operation.lacks(name)


@dataclass(frozen=True)
class Graph:
    """A step, or the body of a loop: operations in an executable order.

    Every operand is an input or the result of an earlier operation; names are unique. Neither is
    checked here: only our own front end and parser construct graphs.
    """

    inputs: tuple[Value, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[Operand, ...]

    @cached_property
    def values(self) -> Mapping[str, Value]:
        """Inputs and results by name."""
        results = (value for operation in self.operations for value in operation.results)
        return {value.name: value for value in (*self.inputs, *results)}

    def everywhere(self) -> Iterator[Operation]:
        """Yield all operations, including bodies' (once), after the loop that repeats them."""
        for operation in self.operations:
            yield operation
            if operation.body is not None:
                yield from operation.body.everywhere()

    def graphs(self) -> Iterator[Graph]:
        """Yield the graph, and the bodies of all loops."""
        yield self
        yield from (loop.body for loop in self.everywhere() if loop.body is not None)

    def __str__(self) -> str:
        """Return inputs, operations and outputs, one per line."""
        return self.spelled([""] * len(self.inputs), [""] * len(self.outputs))

    def spelled(
        self, of_inputs: Sequence[str], of_outputs: Sequence[str], above: Sequence[str] = ()
    ) -> str:
        """Return the text, with suffixes for inputs and outputs, and lines above operations."""
        inputs = zip(self.inputs, of_inputs, strict=True)
        outputs = zip(self.outputs, of_outputs, strict=True)
        heads = above or ("",) * len(self.operations)
        lines = [
            *(f"in {value.spelled}{suffix}" for value, suffix in inputs),
            *(f"{head}{each}" for head, each in zip(heads, self.operations, strict=True)),
            *(f"out {operand}{suffix}" for operand, suffix in outputs),
        ]
        return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True)
class Step:
    """A named training step: a graph with the roles of its inputs and outputs.

    ``roles`` gives the role of each input: ``parameter``, ``moment``, ``batch``, ``state``, or
    ``cache`` (the values that inference keeps of each sample). ``updates`` maps outputs to inputs
    of the next step, as pairs of positions. ``labels`` are the user's names
    ("layers/0/attention/query"). ``constants`` are the arrays that the model closes over: the bytes
    of an input by its name, in C order, little-endian. These inputs are states, with ``CONSTANT``
    labels.
    """

    name: str
    graph: Graph
    roles: tuple[str, ...]
    labels: tuple[str, ...]
    updates: tuple[tuple[int, int], ...] = ()
    constants: tuple[tuple[str, bytes], ...] = ()

    def __str__(self) -> str:
        """Return the text that ``parse_step`` reads. Labels equal to the name are omitted."""
        return self.spelled(f"step {_word(self.name)}")

    def spelled(self, head: str, above: Sequence[str] = ()) -> str:
        """Return the text with this first line, and optional lines above operations."""
        values = dict(self.constants)
        of_inputs = [
            f" {role}"
            + (f" {json.dumps(label)}" if label != value.name else "")
            + (_constant(values[value.name]) if value.name in values else "")
            for value, role, label in zip(self.graph.inputs, self.roles, self.labels, strict=True)
        ]
        into = {out: f" -> {self.graph.inputs[place]}" for out, place in self.updates}
        of_outputs = [into.get(at, "") for at in range(len(self.graph.outputs))]
        return f"{head}\n{self.graph.spelled(of_inputs, of_outputs, above)}"


CONSTANT = re.compile(r"(?:\d+/)?constant/\d+")
"""The label of an array that the model closes over, or of one stage's part of it."""


def _constant(data: bytes) -> str:
    """Return an input's values as text: on its line, or on lines of their own."""
    lines = [f'"{line}"' for line in pack(data)]
    return (
        f" = {lines[0]}"
        if len(lines) == 1
        else "".join([" = (\n", *(f"  {line}\n" for line in lines), ")"])
    )


EVERYWHERE = -1
"""The stage of operations that every stage runs."""

PASSES = ("forward", "backward", "weight")
"""The passes of each microbatch; ``weight`` is the half of a backward pass for weights."""
PIPELINE_MOMENTS = ("before", *PASSES, "after")
"""The moments of a step: once before all microbatches, in their passes, and once after."""


@dataclass(frozen=True)
class PipelinePosition:
    """The stage and moment of an operation of a sharded step: ``stage 1 forward``."""

    stage: int
    when: str

    def __str__(self) -> str:
        stage = "everywhere" if self.stage == EVERYWHERE else f"stage {self.stage}"
        return f"{stage} {self.when}"


@dataclass(frozen=True)
class ShardedStep:
    """A step as every device of some axes runs it: each value has a sharding.

    A *redistribution* is an operation of its own, ``redistribute``. Its result is the same value
    with another sharding; ``by`` names the collective or local change (``all-reduce``, ``slice``)
    and ``over`` the axes. The axes are in the order of the placement.

    With microbatches, or in stages, ``places`` has the position of each operation. A stage does not
    have the values of other stages: a ``send`` is also an operation, whose result is the same value
    on the stage that it is sent ``to``.
    """

    axes: tuple[tuple[str, int], ...]
    step: Step
    places: tuple[PipelinePosition, ...] = ()

    @property
    def sizes(self) -> Mapping[str, int]:
        """The axes by name."""
        return dict(self.axes)

    def __str__(self) -> str:
        """Return the text that ``parse_sharded`` reads."""
        over = " ".join(f"{axis}={size}" for axis, size in self.axes)
        before = (None, *self.places[:-1]) if self.places else ()
        pairs = zip(self.places, before, strict=True)
        above = [f"{place}\n" if place != last else "" for place, last in pairs]
        return self.step.spelled(f"step {_word(self.step.name)} over {over}", above)


REPEATED = "scan"
"""The only primitive that has a body."""
REPLICATED = "replicated"
"""The parameter of a primitive that every device computes in full."""

REDISTRIBUTE = "redistribute"
SEND = "send"
MOVING = (REDISTRIBUTE, SEND)
"""Operations of sharded steps that are not primitives: they return their operand's value."""


def _spell_parameter(value: Parameter) -> str:
    """Spell a parameter: ``3``, ``clip``, ``(0,1)``, or with named entries ``{axis=1,size=2}``."""
    if isinstance(value, str):
        return _word(value)
    if not isinstance(value, tuple):
        return _spell_number(value)
    if value and all(map(_is_entry, value)):
        entries: Any = value
        return f"{{{','.join(f'{name}={_spell_parameter(entry)}' for name, entry in entries)}}}"
    return f"({','.join(map(_spell_parameter, value))})"


def _is_entry(value: Any) -> bool:
    """Return whether a value is a pair of a name and a value, an entry of a named list."""
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and isinstance(value[0], str)
        and _NAME.fullmatch(value[0]) is not None
    )


def _word(text: str) -> str:
    """Return a word unchanged, or in quotation marks if it would be parsed differently."""
    bare = _NAME.fullmatch(text) and text not in ("true", "false", "inf", "nan")
    return text if bare else json.dumps(text)


def _spell_number(value: bool | int | float) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


_NAME = re.compile(r"[A-Za-z_][\w./-]*", re.ASCII)
_BLANKS = re.compile(r"[\s{}]")
