"""A jaxpr to our graph: calls replaced by what they call, loops over layers or time kept.

Nothing is merged and nothing moved: what rematerialisation computes twice stays twice. Every
refusal names the primitive and the line where its user wrote it.
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

from grammar.tensors.operations import Graph, Literal, Operand, Operation, Value
from grammar.tensors.primitives import KNOWN, REPEATED, REPLICATED, WHOLE
from grammar.tensors.sharding import Type
from hierarchies import InputError
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
"""Calls, and the parameter that holds what they call; names of several versions of JAX. A list,
no guess: ``scatter-add`` carries a jaxpr, too (how it adds), and is no call.
"""

IDENTITIES = frozenset(
    ("sharding_constraint", "reshard", "layout_constraint", "device_put", "name", "random_clone")
)
"""Results are the operands. Where JAX is to hold a value is no part of the value: how values are
cut is what a plan says.
"""


def read_jaxpr(
    closed: ClosedJaxpr, names: Sequence[str], unknown: Sequence[str] = ()
) -> tuple[Graph, tuple[Any, ...]]:
    """The graph of a jaxpr whose inputs are to have these names, and the arrays it captured.

    Captured arrays (a mask made by numpy) are inputs after those that have names; of a captured key
    it is the words that a key is made of. Primitives
    that are ``unknown`` are kept, for every device to do whole. Raises InputError for any other,
    by its name and its user's line.
    """
    reader = _JaxprReader(count(), frozenset(unknown))
    inputs = reader.named(closed.jaxpr.invars, names)
    outputs = reader.called(closed.jaxpr, closed.consts)
    captured = tuple(reader.captured)
    held = tuple(value for value, _ in captured)
    graph = Graph((*inputs, *held), tuple(reader.operations), outputs)
    return graph, tuple(array for _, array in captured)


_KINDS_OF_KEYS = {"threefry2x32": "fry", "unsafe_rbg": "urbg"}
"""The names of kinds of random numbers as ``random_wrap`` has them, where these are others."""


@dataclass
class _JaxprReader:
    """Reads one graph, the whole step or the body of a loop; ``numbers`` go on in the bodies.

    ``line`` is that of the call that is being replaced: JAX knows no line of its own functions.
    """

    numbers: Iterator[int]
    unknown: frozenset[str]
    line: str = ""
    known: dict[Var, Operand] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    captured: list[tuple[Value, Any]] = field(default_factory=list)
    keys: list[tuple[Any, Value]] = field(default_factory=list)

    def named(self, variables: Sequence[Var], names: Sequence[str]) -> tuple[Value, ...]:
        """Values for inputs, with these names."""
        found = tuple(
            Value(name, _type(one.aval, where=name))
            for one, name in zip(variables, names, strict=True)
        )
        self.known.update(zip(variables, found, strict=True))
        return found

    def called(self, jaxpr: Jaxpr, consts: Sequence[Any]) -> tuple[Operand, ...]:
        """Read what a jaxpr does, whose inputs are known, and give what it returns."""
        for variable, const in zip(jaxpr.constvars, consts, strict=True):
            self.known[variable] = self._constant(const)
        for equation in jaxpr.eqns:
            self._equation(equation)
        return tuple(map(self._operand, jaxpr.outvars))

    def _equation(self, equation: JaxprEqn) -> None:
        name = equation.primitive.name
        if name in INLINED_CALLS:
            self._inlined(equation, equation.params[INLINED_CALLS[name]])
            return
        operands = tuple(map(self._operand, equation.invars))
        if not self._replaced(equation, operands):
            self._leaf(equation, operands)

    def _replaced(self, equation: JaxprEqn, operands: tuple[Operand, ...]) -> bool:
        """Whether an equation needs no operation of its own: it moves nothing, or is decided."""
        name, platforms = equation.primitive.name, equation.params.get("platforms", ())
        if name in IDENTITIES:
            self.known.update(zip(equation.outvars, operands, strict=True))
        elif name == "platform_index" and None in platforms:
            # The branch for every platform is right on each one; the others are only faster.
            self.known[equation.outvars[0]] = Literal(platforms.index(None), "i32")
        elif name == "cond" and isinstance(operands[0], Literal):
            branches = equation.params["branches"]
            at = min(max(int(operands[0].value), 0), len(branches) - 1)
            self._inlined(equation, branches[at], operands[1:])
        elif name == "reshape" and equation.params["dimensions"] is not None:
            self._reshape_transposed(equation, operands)
        elif name == "optimization_barrier":
            # One operation for each value: a row has one factor, and these values share none.
            for operand, variable in zip(operands, equation.outvars, strict=True):
                self._leaf(equation, (operand,), (variable,))
        else:
            return False
        return True

    def _reshape_transposed(self, equation: JaxprEqn, operands: tuple[Operand, ...]) -> None:
        """``lax.reshape(x, sizes, dimensions)`` transposes first: as two operations."""
        order, line = equation.params["dimensions"], line_of(equation) or self.line
        before = _type(equation.invars[0].aval, where=line)
        turned = Value(self._name(), Type(before.dtype, tuple(before.shape[at] for at in order)))
        permutation = (("permutation", tuple(map(int, order))),)
        self.operations.append(Operation("transpose", operands, (turned,), permutation, None, line))
        shaped = (self._value(equation.outvars[0], line),)
        sizes = (("new_sizes", shaped[0].type.shape),)
        self.operations.append(Operation("reshape", (turned,), shaped, sizes, None, line))

    def _leaf(
        self,
        equation: JaxprEqn,
        operands: tuple[Operand, ...],
        variables: Sequence[Var] | None = None,
    ) -> None:
        """One more operation, which makes ``variables``: all of the equation's unless given."""
        name, where = equation.primitive.name, line_of(equation) or self.line
        if name not in KNOWN and not (name in self.unknown and name in WHOLE):
            raise _refusal_of(equation, where, asked=name in self.unknown)
        _check_update(equation, where)
        parameters = parameters_of(equation.params, where=where)
        if name not in KNOWN:
            parameters = (*parameters, (REPLICATED, True))
        body = None
        if name == REPEATED:
            body, more = self._body(equation.params["jaxpr"])
            parameters, operands = _add_constants(parameters, operands, more)
        results = tuple(self._value(one, where) for one in variables or equation.outvars)
        self.operations.append(Operation(name, operands, results, parameters, body, where))

    def _inlined(
        self,
        equation: JaxprEqn,
        what: ClosedJaxpr | Jaxpr,
        operands: Sequence[Operand] | None = None,
    ) -> None:
        """Read a call in place, of these ``operands``: all of the equation's unless given."""
        jaxpr, consts = (what.jaxpr, what.consts) if isinstance(what, ClosedJaxpr) else (what, ())
        given = list(map(self._operand, equation.invars)) if operands is None else operands
        self.known.update(zip(jaxpr.invars, given, strict=True))
        before, self.line = self.line, line_of(equation) or self.line
        made = self.called(jaxpr, consts)
        self.line = before
        self.known.update(zip(equation.outvars, made, strict=True))

    def _body(self, closed: ClosedJaxpr) -> tuple[Graph, list[Operand]]:
        """The body of a loop, and what it captured, which it takes before everything else."""
        inside = _JaxprReader(self.numbers, self.unknown, self.line)
        names = [self._name() for _ in closed.jaxpr.invars]
        inputs = inside.named(closed.jaxpr.invars, names)
        outputs = inside.called(closed.jaxpr, closed.consts)
        held = tuple(value for value, _ in inside.captured)
        graph = Graph((*held, *inputs), tuple(inside.operations), outputs)
        return graph, [self._constant(array) for _, array in inside.captured]

    def _operand(self, atom: Any) -> Operand:
        return self._constant(atom.val) if isinstance(atom, Constant) else self.known[atom]

    def _constant(self, given: Any) -> Operand:
        """A number stands in the text; an array, or a key, becomes one more input, once."""
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
        """A captured key, made of its words where it is read first."""
        for key, value in self.keys:
            if key is given:
                return value
        words = self._constant(key_data(given))
        made = Value(self._name(), Type("key", tuple(np.shape(given))))
        told = (("impl", _KINDS_OF_KEYS.get(str(key_impl(given)), str(key_impl(given)))),)
        self.operations.append(Operation("random_wrap", (words,), (made,), told, None, self.line))
        self.keys.append((given, made))
        return made

    def _value(self, variable: Var, where: str) -> Value:
        value = Value(self._name(), _type(variable.aval, where=where))
        self.known[variable] = value
        return value

    def _name(self) -> str:
        return f"v{next(self.numbers)}"


def line_of(equation: JaxprEqn) -> str:
    """``gpt2.py:31``, the line of its user's code; empty where none is known."""
    place, _, _ = summarize(equation.source_info).partition(" ")
    path, _, line = place.partition(":")
    return f"{PurePath(path).name}:{line.partition(':')[0]}" if line else ""


def _add_constants(
    parameters: tuple[tuple[str, Any], ...], operands: tuple[Operand, ...], more: list[Operand]
) -> tuple[tuple[tuple[str, Any], ...], tuple[Operand, ...]]:
    """A loop that takes ``more`` constants before its others."""
    held = {"num_consts": dict(parameters)["num_consts"] + len(more)}
    return tuple((key, held.get(key, value)) for key, value in parameters), (*more, *operands)


def _type(aval: Any, *, where: str) -> Type:
    shape = tuple(getattr(aval, "shape", (None,)))
    if not all(isinstance(size, int) for size in shape):
        hint = "all shapes must be known before the step runs"
        raise InputError(f"a value has the shape {shape}", where=where, hint=hint)
    return Type(dtype_name(aval.dtype), shape)


def _check_update(equation: JaxprEqn, where: str) -> None:
    """Refuse a scatter that writes another function of what it finds: ``x.at[i].apply(f)``.

    Of how a scatter updates, only its name is kept.
    """
    update = equation.params.get("update_jaxpr")
    if equation.primitive.name != "scatter" or update is None:
        return
    if update.eqns or update.outvars != update.invars[1:]:
        raise InputError(
            "a scatter with a function of its own",
            where=where,
            hint="instead of x.at[i].apply(f) write x.at[i].set(f(x[i]))",
        )


def _refusal_of(equation: JaxprEqn, where: str, *, asked: bool) -> InputError:
    """Why a primitive cannot be part of a step, also where it was ``asked`` for replicated."""
    name = equation.primitive.name
    hint = _HINTS.get(name, "")
    if not hint and _holds_program(equation):
        hint = "a primitive that holds a program of its own cannot be typed"
    elif not hint and asked:
        hint = f"no runtime is written with it, replicated or not: {', '.join(sorted(WHOLE))} are"
    elif not hint and name in WHOLE:
        hint = f"replicated = ({name!r},) as an attribute of the model has every device do it whole"
    return InputError(
        f"primitive {name!r} is not known",
        where=where,
        hint=hint or "write that line of the model with other functions of jax.numpy",
    )


def _holds_program(equation: JaxprEqn) -> bool:
    return any(
        isinstance(one, (Jaxpr, ClosedJaxpr))
        for value in equation.params.values()
        for one in (value if isinstance(value, (tuple, list)) else (value,))
    )


_HINTS = {
    "while": "how often it goes round must be known: a fori_loop with fixed bounds, or a scan",
    "cond": "which branch is taken depends on data: compute both and choose with jnp.where",
    "pallas_call": "a kernel of one's own cannot be cut: write it with jax.numpy for the trace",
    "shard_map": "a step is traced for one device: its collectives are what is to be found",
    "debug_callback": "take prints out of the model",
}
