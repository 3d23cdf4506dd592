"""Converts parameters of primitives from JAX's objects to numbers, words and lists.

``GatherDimensionNumbers(offset_dims=(2,), ...)`` becomes named entries, ``float32`` becomes
"f32", a mode becomes its name in lower case. Parameters that are None are omitted, and so are
parameters that do not affect the computed value: JAX's choice of devices, or the unrolling of a
loop.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
from jax.extend.core import Primitive
from jax.numpy import dtype as dtype_of

from grammar.tensors.operations import Parameter
from hierarchies import InputError

IGNORED_PARAMETERS = frozenset(
    [
        "sharding",
        "out_sharding",
        "accuracy",
        "weak_type",
        "jaxpr",
        "update_jaxpr",
        "update_consts",
        "unroll",
        "linear",
        "_split_transpose",
    ]
)


def parameters_of(given: Mapping[str, Any], *, where: str) -> tuple[tuple[str, Parameter], ...]:
    """Returns the parameters of an equation, sorted by name.

    Raises InputError for a parameter that cannot be converted.
    """
    return tuple(
        (name, _parameter_of(value, name, where))
        for name, value in sorted(given.items())
        if name not in IGNORED_PARAMETERS and value is not None
    )


def dtype_name(dtype: Any) -> str:
    """Returns ``f32`` for ``float32``, as JAX prints it in types, and ``key`` for random keys."""
    name = str(getattr(dtype, "name", dtype))
    if name.startswith("key<"):
        return "key"
    for long, short in _SHORT.items():
        if name.startswith(long):
            return short + name.removeprefix(long)
    return name


def number_of(given: Any) -> bool | int | float:
    """Converts to the shortest Python number of the dtype: 0.9, not 0.8999999761581421.

    A nan is always ``math.nan``, so that containers of it equal containers parsed from text.
    """
    exact: bool | int | float = np.asarray(given).item()
    if not isinstance(exact, float):
        return exact
    if math.isnan(exact):
        return math.nan
    short = float(str(np.asarray(given)[()]))
    return short if np.asarray(short).astype(given.dtype) == given else exact


def _parameter_of(value: Any, name: str, where: str) -> Parameter:
    if isinstance(value, Enum):
        return str(value.name).lower()
    match value.item() if isinstance(value, np.generic) else value:
        case bool() | int() | str() as plain:
            return plain
        case float() as number:
            return math.nan if math.isnan(number) else number
        case None:
            return "none"
        case np.dtype() | type():
            return dtype_name(dtype_of(value))
        case Primitive():
            return str(value.name)
        case tuple() | list() if not hasattr(value, "_fields"):
            return tuple(_parameter_of(item, name, where) for item in value)
        case _ if name == "impl":  # a random number generator: functions, and a short name
            return str(getattr(value, "tag", value))
    named = dict(_list_entries(value))
    if not named:
        problem = f"parameter {name} is a {type(value).__name__}"
        raise InputError(
            problem, where=where, hint="only numbers, strings, lists and types can be recorded"
        )
    return tuple(
        (key, _parameter_of(item, name, where)) for key, item in named.items() if item is not None
    )


def _list_entries(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the entries of a dataclass or a named tuple."""
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield field.name, getattr(value, field.name)
    elif hasattr(value, "_fields"):
        for name in value._fields:
            yield name, getattr(value, name)


_SHORT = {"float": "f", "bfloat": "bf", "uint": "u", "int": "i"}
