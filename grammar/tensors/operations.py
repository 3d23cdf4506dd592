"""A training step as a graph of primitives: values in, operations in order, values out.

The step knows no axes: it is what one device would compute. ``Operation`` is an equation of a
jaxpr (``dot_general``, ``reduce_sum``); one that repeats a body (``scan``: layers, or time) keeps
it as a body and a count, so that 96 layers are no longer than 2.
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
"""What a primitive is told beside its operands: numbers, words, lists, and named entries."""


@dataclass(frozen=True, eq=False)
class Literal:
    """A constant of rank 0 that stands in the text: always replicated.

    Equal are those that are spelled alike: nan is nan, and -0.0 is not 0.0.
    """

    value: bool | int | float
    dtype: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return f"{_spell_number(self.value)}:{self.dtype}"


@dataclass(frozen=True)
class Value:
    """A value by its name, which is unlike any other in its graph.

    ``sharding`` is how it lies, in a sharded step; a step that one device would do says None.
    """

    name: str
    type: Type
    sharding: Sharding | None = None

    @property
    def spelled(self) -> str:
        """Its name and its type: ``v0: f32[8@data,16]``."""
        how = str(self.type) if self.sharding is None else self.type.sharded(self.sharding)
        return f"{self.name}: {how}"

    def __str__(self) -> str:
        return self.name


Operand = Value | Literal


class OperationForm:
    """What operations compute whose values have other names: equal ones have one form."""


@dataclass(frozen=True)
class Operation:
    """One primitive: what it reads, what it makes, its parameters, and where its user wrote it.

    ``body`` is what a ``scan`` repeats: its inputs are the constants, the carried values and one
    slice of each scanned operand; its outputs the carried values and one slice of each stacked
    result. ``line`` ("gpt.py:31") is for messages and is no part of what is computed.
    """

    primitive: str
    operands: tuple[Operand, ...]
    results: tuple[Value, ...]
    parameters: tuple[tuple[str, Parameter], ...] = ()
    body: Graph | None = None
    line: str = field(default="", compare=False)

    @cached_property
    def parameter(self) -> Mapping[str, Parameter]:
        """The parameters by name; InputError for one that the text of the step lacks."""
        return _Parameters(self)

    @cached_property
    def form(self) -> OperationForm:
        """Its primitive, its parameters, and the types of its values; a loop has one of its own.

        What follows from these alone is worked out once for all operations of a form.
        """
        if self.body is not None:
            return OperationForm()
        read = tuple(one.type if isinstance(one, Value) else one for one in self.operands)
        made = tuple(one.type for one in self.results)
        return _FORMS.setdefault((self.primitive, read, made, self.parameters), OperationForm())

    def lacks(self, name: str) -> InputError:
        """What is wrong where a parameter is not said."""
        problem = f"{self.primitive} has no parameter {name!r}"
        return InputError(
            problem, where=self.line, hint="it stands behind the operands, as JAX says"
        )

    def __str__(self) -> str:
        """``v1: f32[8] = reduce_sum(v0) axes=(1) @mlp.py:12``; a body stands in lines below."""
        made = ", ".join(one.spelled for one in self.results)
        read = ", ".join(map(str, self.operands))
        told = "".join(f" {name}={_spell_parameter(value)}" for name, value in self.parameters)
        body = "" if self.body is None else f" {{\n{indent(str(self.body), '  ')}}}"
        line = f" @{_BLANKS.sub('_', self.line)}" if self.line else ""
        return f"{made} = {self.primitive}({read}){told}{body}{line}"


_FORMS: WeakValueDictionary[object, OperationForm] = WeakValueDictionary()


class _Parameters(dict[str, Parameter]):
    def __init__(self, operation: Operation) -> None:
        super().__init__(operation.parameters)
        self._operation = operation

    def __missing__(self, name: str) -> Parameter:
        raise self._operation.lacks(name)


@dataclass(frozen=True)
class Graph:
    """A step, or the body of a repetition: operations in an order in which they can be done.

    Every operand is an input or the result of an operation before; names are unique.
    ``asserts`` say so, as graphs are made by our own front end and parser.
    """

    inputs: tuple[Value, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[Operand, ...]

    @cached_property
    def values(self) -> Mapping[str, Value]:
        """Inputs and results by name."""
        made = (value for operation in self.operations for value in operation.results)
        return {value.name: value for value in (*self.inputs, *made)}

    def everywhere(self) -> Iterator[Operation]:
        """All operations, those of bodies once, after the operation that repeats them."""
        for operation in self.operations:
            yield operation
            if operation.body is not None:
                yield from operation.body.everywhere()

    def __str__(self) -> str:
        """Inputs, operations and outputs, one a line."""
        return self.spelled([""] * len(self.inputs), [""] * len(self.outputs))

    def spelled(
        self, of_inputs: Sequence[str], of_outputs: Sequence[str], above: Sequence[str] = ()
    ) -> str:
        """The same, with words behind inputs and outputs, and perhaps above each operation."""
        inputs = (
            f"in {one.spelled}{more}\n" for one, more in zip(self.inputs, of_inputs, strict=True)
        )
        outputs = (f"out {one}{more}\n" for one, more in zip(self.outputs, of_outputs, strict=True))
        heads = above or ("",) * len(self.operations)
        done = (f"{head}{one}\n" for head, one in zip(heads, self.operations, strict=True))
        return "".join((*inputs, *done, *outputs))


@dataclass(frozen=True)
class Step:
    """A named training step: a graph whose inputs and outputs have parts to play.

    ``roles`` says of each input what it is: ``parameter``, ``moment``, ``batch``, ``state``,
    or ``cache`` (what inference keeps of each sample);
    ``updates`` which output comes back as which input in the next step, as pairs of places.
    ``labels`` are the names its user gave ("layers/0/attention/query").
    ``constants`` are the arrays that the model closes over: the bytes of an input by its name, in C
    order, little-endian. These inputs are states, with ``CONSTANT`` labels.
    """

    name: str
    graph: Graph
    roles: tuple[str, ...]
    labels: tuple[str, ...]
    updates: tuple[tuple[int, int], ...] = ()
    constants: tuple[tuple[str, bytes], ...] = ()

    def __str__(self) -> str:
        """The text that ``parse_step`` reads. A label that is the name is left out."""
        return self.spelled(f"step {_word(self.name)}")

    def spelled(self, head: str, above: Sequence[str] = ()) -> str:
        """The text below a first line, perhaps with words above each operation."""
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
"""The label of an array that the model closes over; of a part of it that one stage has, too."""


def _constant(data: bytes) -> str:
    """Values behind an input: on its line, or in lines of their own."""
    lines = [f'"{line}"' for line in pack(data)]
    return (
        f" = {lines[0]}"
        if len(lines) == 1
        else "".join([" = (\n", *(f"  {one}\n" for one in lines), ")"])
    )


EVERYWHERE = -1
"""The stage of what every stage does itself."""

PASSES = ("forward", "backward", "weight")
"""What is done of each microbatch; the half for weights of a backward pass may be apart."""
PIPELINE_MOMENTS = ("before", *PASSES, "after")
"""Once before all microbatches, in passes of each, and once after them."""


@dataclass(frozen=True)
class PipelinePosition:
    """On which stage an operation of a sharded step is done, and when: ``stage 1 forward``."""

    stage: int
    when: str

    def __str__(self) -> str:
        stage = "everywhere" if self.stage == EVERYWHERE else f"stage {self.stage}"
        return f"{stage} {self.when}"


@dataclass(frozen=True)
class ShardedStep:
    """A step as every device of some axes does it: each value says how it lies on them.

    A *redistribution* is an operation of its own, ``redistribute``: its result is the same value,
    lying otherwise; ``by`` says by which move (``all-reduce``, ``slice``) and ``over`` which axes.
    The axes are in the order of the placement.

    With microbatches, or in stages, ``places`` say of each operation where and when it is done.
    What a stage makes others do not have: a ``send`` is an operation, too, whose result is the same
    value on the stage that it goes ``to``.
    """

    axes: tuple[tuple[str, int], ...]
    step: Step
    places: tuple[PipelinePosition, ...] = ()

    @property
    def sizes(self) -> Mapping[str, int]:
        """The axes by name."""
        return dict(self.axes)

    def __str__(self) -> str:
        """The text that ``parse_sharded`` reads."""
        over = " ".join(f"{axis}={size}" for axis, size in self.axes)
        before = (None, *self.places[:-1]) if self.places else ()
        pairs = zip(self.places, before, strict=True)
        above = [f"{place}\n" if place != last else "" for place, last in pairs]
        return self.step.spelled(f"step {_word(self.step.name)} over {over}", above)


REDISTRIBUTE = "redistribute"
SEND = "send"
MOVING = (REDISTRIBUTE, SEND)
"""The operations of sharded steps that are no primitives: their result is what they read."""


def _spell_parameter(value: Parameter) -> str:
    """A parameter: ``3``, ``clip``, ``(0,1)``; entries that have names as ``{axis=1,size=2}``."""
    if isinstance(value, str):
        return _word(value)
    if not isinstance(value, tuple):
        return _spell_number(value)
    if value and all(map(_is_entry, value)):
        entries: Any = value
        return f"{{{','.join(f'{name}={_spell_parameter(one)}' for name, one in entries)}}}"
    return f"({','.join(map(_spell_parameter, value))})"


def _is_entry(value: Any) -> bool:
    """Whether it is a name and a value; a list of such pairs is one of named entries."""
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and isinstance(value[0], str)
        and _NAME.fullmatch(value[0]) is not None
    )


def _word(text: str) -> str:
    """A word as it stands, or in quotation marks where it would be read as something else."""
    bare = _NAME.fullmatch(text) and text not in ("true", "false", "inf", "nan")
    return text if bare else json.dumps(text)


def _spell_number(value: bool | int | float) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


_NAME = re.compile(r"[A-Za-z_][\w./-]*", re.ASCII)
_BLANKS = re.compile(r"[\s{}]")
