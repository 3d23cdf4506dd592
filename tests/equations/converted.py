"""Equations of a jaxpr as operations of our graph, for tests of single operations.

The plainest rule, by which parameters become plain values:

* None is dropped: the parameter is absent. So is what says nothing of the value computed: jaxprs
  (``update_jaxpr`` of a scatter, whose name says what it does), ``sharding``, ``weak_type``.
* booleans, whole numbers, numbers and words stay; numbers of numpy become those of Python.
* element types are their names as JAX prints them ("f32"), a primitive is its name, a
  mode its word in small letters ("fill_or_drop").
* lists and tuples are tuples; named tuples and dataclasses (``GatherDimensionNumbers``) are tuples
  of pairs (field, value), in the order of their fields, None dropped.

Parameters are in the order of their names. Anything else is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal as JaxLiteral
from jax.extend.core import Primitive

from grammar.tensors.operations import Literal, Operand, Operation, Parameter, Value
from grammar.tensors.sharding import Type

NAMES = {
    "bool": "bool",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    "bfloat16": "bf16",
}
"""Element types: numpy's name, and the one JAX prints."""

DROPPED = {"update_jaxpr", "update_consts", "sharding", "out_sharding", "impl"} | {
    "weak_type",
    "accuracy",
}


def operation(function: Callable[..., Any], *arguments: object, primitive: str) -> Operation:
    """The one equation with this primitive that JAX traces in a function."""
    jaxpr = jax.make_jaxpr(function)(*arguments)
    found = [one for one in _everywhere(jaxpr.jaxpr) if one.primitive.name == primitive]
    assert len(found) == 1, (primitive, str(jaxpr))
    names: dict[Any, str] = {}

    def named(var: Any) -> Value:
        return Value(names.setdefault(var, f"v{len(names)}"), typed(var.aval))

    def operand(var: Any) -> Operand:
        if isinstance(var, JaxLiteral):
            return Literal(np.asarray(var.val).item(), typed(var.aval).dtype)
        return named(var)

    return Operation(
        primitive,
        tuple(map(operand, found[0].invars)),
        tuple(map(named, found[0].outvars)),
        parameters(found[0].params),
    )


def _everywhere(jaxpr: Any) -> Any:
    for equation in jaxpr.eqns:
        if "jaxpr" in equation.params and equation.primitive.name in ("jit", "custom_jvp_call"):
            yield from _everywhere(equation.params["jaxpr"].jaxpr)
        else:
            yield equation


def typed(aval: Any) -> Type:
    return Type(dtype_name(aval.dtype), tuple(aval.shape))


def dtype_name(dtype: Any) -> str:
    return "key" if jax.dtypes.issubdtype(dtype, jax.dtypes.extended) else NAMES[str(dtype)]


def parameters(given: dict[str, Any]) -> tuple[tuple[str, Parameter], ...]:
    return tuple(
        (name, plain(value))
        for name, value in sorted(given.items())
        if value is not None and name not in DROPPED
    )


def plain(value: Any) -> Parameter:
    """One parameter by the rule above."""
    match value:
        case np.generic():
            return value.item()  # type: ignore[no-any-return]
        case Enum():  # before whole numbers: some are both
            return value.name.lower()
        case bool() | int() | float() | str():
            return value
        case Primitive():
            return value.name  # type: ignore[no-any-return]
        case np.dtype():
            return dtype_name(value)
        case tuple() | list() if not hasattr(value, "_fields"):
            return tuple(map(plain, value))
    names = getattr(value, "_fields", None) or [f.name for f in fields(value)]
    assert is_dataclass(value) or hasattr(value, "_fields"), value
    pairs = ((name, getattr(value, name)) for name in names)
    return tuple((name, plain(one)) for name, one in pairs if one is not None)
