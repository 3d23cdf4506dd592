"""Converts a jaxpr to our graph: inlines calls, and keeps loops over layers or time.

Operations are neither merged nor reordered: what rematerialisation computes twice stays twice.
Every error names the primitive and the line of the user's code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import PurePath
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from jax.extend.core import Literal as Constant
from jax.extend.source_info_util import summarize
from jax.random import key_data, key_impl

from grammar.tensors.operations import (
    REPEATED,
    REPLICATED,
    Graph,
    Literal,
    Operand,
    Operation,
    Value,
)
from grammar.tensors.sharding import Type
from hierarchies import InputError
from synth.primitives import PRIMITIVES, REPLICATED_ONLY
from synth.step.trace.parameters import dtype_name, number_of, parameters_of

INLINED_CALLS: Mapping[str, str] = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "composite": "jaxpr",
}
"""Calls, and the parameter that holds their jaxpr, by their names in several versions of JAX.

The table is explicit because other primitives also have a jaxpr: ``scatter-add`` has the jaxpr of
its addition.
"""

IDENTITIES = frozenset(
    ("sharding_constraint", "reshard", "layout_constraint", "device_put", "name", "random_clone")
)
"""Primitives whose results are their operands.

JAX's hints for the sharding of a value are dropped: the plan decides shardings.
"""


def read_jaxpr(
    closed: ClosedJaxpr, names: Sequence[str], unknown: Sequence[str] = ()
) -> tuple[Graph, tuple[Any, ...]]:
    """Returns the graph of a jaxpr, with names for its inputs, and the arrays that it captured.

    Captured arrays (such as a mask made by numpy) become inputs after the named inputs; a captured
    random key becomes the words it consists of. Primitives in ``unknown`` are kept, for every
    device to compute in full. Raises InputError for any other unknown primitive, with its name and
    the user's line.
    """
    reader = _JaxprReader(count(), frozenset(unknown))
    inputs = reader.name_inputs(closed.jaxpr.invars, names)
    outputs = reader.read(closed.jaxpr, closed.consts)
    captured = tuple(reader.captured)
    constants = tuple(value for value, _ in captured)
    graph = Graph((*inputs, *constants), tuple(reader.operations), outputs)
    return graph, tuple(array for _, array in captured)


_KINDS_OF_KEYS = {"threefry2x32": "fry", "unsafe_rbg": "urbg"}
"""Names of random number generators in ``random_wrap`` that differ from their names in keys."""


@dataclass
class _JaxprReader:
    """Reads one graph, either the whole step or the body of a loop; bodies share ``numbers``.

    ``line`` is the line of the call being inlined: JAX records no line for its own functions.
    """

    numbers: Iterator[int]
    unknown: frozenset[str]
    line: str = ""
    known: dict[Var, Operand] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    captured: list[tuple[Value, Any]] = field(default_factory=list)
    keys: list[tuple[Any, Value]] = field(default_factory=list)

    def name_inputs(self, variables: Sequence[Var], names: Sequence[str]) -> tuple[Value, ...]:
        """Makes values for inputs, with these names."""
        values = tuple(
            Value(name, _type(variable.aval, where=name))
            for variable, name in zip(variables, names, strict=True)
        )
        self.known.update(zip(variables, values, strict=True))
        return values

    def read(self, jaxpr: Jaxpr, consts: Sequence[Any]) -> tuple[Operand, ...]:
        """Reads a jaxpr whose inputs are known, and returns its outputs."""
        for variable, const in zip(jaxpr.constvars, consts, strict=True):
            self.known[variable] = self._constant(const)
        for equation in jaxpr.eqns:
            self._equation(equation)
        return tuple(map(self._operand, jaxpr.outvars))

    def _equation(self, equation: JaxprEqn) -> None:
        name = equation.primitive.name
        if name in INLINED_CALLS:
            self._inline(equation, equation.params[INLINED_CALLS[name]])
            return
        operands = tuple(map(self._operand, equation.invars))
        if not self._replace(equation, operands):
            self._append(equation, operands)

    def _replace(self, equation: JaxprEqn, operands: tuple[Operand, ...]) -> bool:
        """Replaces an equation that needs no operation of its own; returns whether it did."""
        name, platforms = equation.primitive.name, equation.params.get("platforms", ())
        if name in IDENTITIES:
            self.known.update(zip(equation.outvars, operands, strict=True))
        elif name == "platform_index" and None in platforms:
            # The default branch is correct on every platform; other branches are only faster.
            self.known[equation.outvars[0]] = Literal(platforms.index(None), "i32")
        elif name == "cond" and isinstance(operands[0], Literal):
            branches = equation.params["branches"]
            at = min(max(int(operands[0].value), 0), len(branches) - 1)
            self._inline(equation, branches[at], operands[1:])
        elif name == "reshape" and equation.params["dimensions"] is not None:
            self._reshape_transposed(equation, operands)
        elif name == "optimization_barrier":
            # One operation for each value: a row has one factor, and these values share none.
            for operand, variable in zip(operands, equation.outvars, strict=True):
                self._append(equation, (operand,), (variable,))
        else:
            return False
        return True

    def _reshape_transposed(self, equation: JaxprEqn, operands: tuple[Operand, ...]) -> None:
        """Splits ``lax.reshape(x, sizes, dimensions)``, which transposes first, into two."""
        order, line = equation.params["dimensions"], line_of(equation) or self.line
        before = _type(equation.invars[0].aval, where=line)
        shape = tuple(before.shape[at] for at in order)
        transposed = (Value(self._name(), Type(before.dtype, shape)),)
        permutation = (("permutation", tuple(map(int, order))),)
        self.operations.append(
            Operation("transpose", operands, transposed, permutation, None, line)
        )
        result = self._value(equation.outvars[0], line)
        sizes = (("new_sizes", result.type.shape),)
        self.operations.append(Operation("reshape", transposed, (result,), sizes, None, line))

    def _append(
        self,
        equation: JaxprEqn,
        operands: tuple[Operand, ...],
        variables: Sequence[Var] | None = None,
    ) -> None:
        """Appends an operation that computes ``variables``, by default all of the equation's."""
        name, where = equation.primitive.name, line_of(equation) or self.line
        row, is_allowed = PRIMITIVES.get(name), name in self.unknown
        if name != REPEATED and (row is None or not (row.rule or is_allowed)):
            raise _unknown_error(equation, where, is_allowed=is_allowed)
        _check_update(equation, where)
        parameters = parameters_of(equation.params, where=where)
        if row is not None and row.rule is None:
            parameters = (*parameters, (REPLICATED, True))
        body = None
        if name == REPEATED:
            body, captured = self._body(equation.params["jaxpr"])
            parameters, operands = _add_constants(parameters, operands, captured)
        results = tuple(self._value(var, where) for var in variables or equation.outvars)
        self.operations.append(Operation(name, operands, results, parameters, body, where))

    def _inline(
        self,
        equation: JaxprEqn,
        called: ClosedJaxpr | Jaxpr,
        operands: Sequence[Operand] | None = None,
    ) -> None:
        """Reads a call in place, with ``operands``, by default all of the equation's."""
        jaxpr, consts = (
            (called.jaxpr, called.consts) if isinstance(called, ClosedJaxpr) else (called, ())
        )
        given = list(map(self._operand, equation.invars)) if operands is None else operands
        self.known.update(zip(jaxpr.invars, given, strict=True))
        before, self.line = self.line, line_of(equation) or self.line
        results = self.read(jaxpr, consts)
        self.line = before
        self.known.update(zip(equation.outvars, results, strict=True))

    def _body(self, closed: ClosedJaxpr) -> tuple[Graph, list[Operand]]:
        """Reads the body of a loop; also returns the arrays it captured, its first constants."""
        inside = _JaxprReader(self.numbers, self.unknown, self.line)
        names = [self._name() for _ in closed.jaxpr.invars]
        inputs = inside.name_inputs(closed.jaxpr.invars, names)
        outputs = inside.read(closed.jaxpr, closed.consts)
        constants = tuple(value for value, _ in inside.captured)
        graph = Graph((*constants, *inputs), tuple(inside.operations), outputs)
        return graph, [self._constant(array) for _, array in inside.captured]

    def _operand(self, atom: Any) -> Operand:
        return self._constant(atom.val) if isinstance(atom, Constant) else self.known[atom]

    def _constant(self, given: Any) -> Operand:
        """Returns a literal for a number; an array, or a key, becomes another input, once."""
        kind = dtype_name(given.dtype if hasattr(given, "dtype") else np.asarray(given).dtype)
        if kind == "key":
            return self._key(given)
        if np.ndim(given) == 0:
            return Literal(number_of(given), kind)
        for value, array in self.captured:
            if array is given:
                return value
        value = Value(self._name(), Type(kind, tuple(np.shape(given))))
        self.captured.append((value, given))
        return value

    def _key(self, given: Any) -> Operand:
        """Returns a captured random key, built from its words where it is first read."""
        for key, value in self.keys:
            if key is given:
                return value
        words = self._constant(key_data(given))
        made = Value(self._name(), Type("key", tuple(np.shape(given))))
        impl = (("impl", _KINDS_OF_KEYS.get(str(key_impl(given)), str(key_impl(given)))),)
        self.operations.append(Operation("random_wrap", (words,), (made,), impl, None, self.line))
        self.keys.append((given, made))
        return made

    def _value(self, variable: Var, where: str) -> Value:
        value = Value(self._name(), _type(variable.aval, where=where))
        self.known[variable] = value
        return value

    def _name(self) -> str:
        return f"v{next(self.numbers)}"


def line_of(equation: JaxprEqn) -> str:
    """Returns the line of the user's code, ``gpt2.py:31``; empty if it is unknown."""
    place, _, _ = summarize(equation.source_info).partition(" ")
    path, _, line = place.partition(":")
    return f"{PurePath(path).name}:{line.partition(':')[0]}" if line else ""


def _add_constants(
    parameters: tuple[tuple[str, Any], ...], operands: tuple[Operand, ...], added: list[Operand]
) -> tuple[tuple[tuple[str, Any], ...], tuple[Operand, ...]]:
    """Returns parameters and operands of a loop with ``added`` constants before the others."""
    count = {"num_consts": dict(parameters)["num_consts"] + len(added)}
    return tuple((key, count.get(key, value)) for key, value in parameters), (*added, *operands)


def _type(aval: Any, *, where: str) -> Type:
    shape = tuple(getattr(aval, "shape", (None,)))
    if not all(isinstance(size, int) for size in shape):
        hint = "all shapes must be known before the step runs"
        raise InputError(f"a value has the shape {shape}", where=where, hint=hint)
    return Type(dtype_name(aval.dtype), shape)


def _check_update(equation: JaxprEqn, where: str) -> None:
    """Raises InputError for a scatter with a custom function: ``x.at[i].apply(f)``.

    Our graph keeps only the name of a scatter, not its function.
    """
    update = equation.params.get("update_jaxpr")
    if equation.primitive.name != "scatter" or update is None:
        return
    if update.eqns or update.outvars != update.invars[1:]:
        raise InputError(
            "a scatter with an update function",
            where=where,
            hint="instead of x.at[i].apply(f) write x.at[i].set(f(x[i]))",
        )


def _unknown_error(equation: JaxprEqn, where: str, *, is_allowed: bool) -> InputError:
    """Explains why a primitive cannot be part of a step, even if the model allows it replicated."""
    name = equation.primitive.name
    hint = _HINTS.get(name, "")
    if not hint and _holds_program(equation):
        hint = "a primitive that contains a program has no type rules"
    elif not hint and is_allowed:
        written = ", ".join(sorted(REPLICATED_ONLY))
        hint = f"no runtime can be given it, replicated or not; it can be {written}"
    elif not hint and name in REPLICATED_ONLY:
        hint = (
            f"replicated = ({name!r},) as an attribute of the model replicates it on every device"
        )
    return InputError(
        f"primitive {name!r} is not known",
        where=where,
        hint=hint or "write that line of the model with other functions of jax.numpy",
    )


def _holds_program(equation: JaxprEqn) -> bool:
    return any(
        isinstance(entry, (Jaxpr, ClosedJaxpr))
        for value in equation.params.values()
        for entry in (value if isinstance(value, (tuple, list)) else (value,))
    )


_HINTS = {
    "while": "the number of iterations must be known: use a fori_loop with fixed bounds, or a scan",
    "cond": "the branch depends on data: compute both and choose with jnp.where",
    "pallas_call": "a custom kernel has no sharding rules: write it with jax.numpy for the trace",
    "shard_map": "a step is traced for one device: the search finds its collectives",
    "debug_callback": "remove prints from the model",
}
