"""Executes one operation on arrays: by numpy where that is simple, else by jax's own primitive.

It is told by the operation's parameters only and takes the shapes that the arrays have: so it
executes the part of an operation as it does the whole. It knows no factors. Raises some exception
where arrays and parameters do not fit together; as in JAX, dimensions of one element repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.extend.core.primitives as public
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.lax import lax as _lax
from scipy.special import erf, erfc, erfinv

from grammar.tensors.operations import REPLICATED
from synth.step.trace.parameters import dtype_name

Array = Any
DTYPES = {
    dtype_name(one): one
    for one in map(
        jnp.dtype,
        (
            "bool",
            *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
            *(f"float{bits}" for bits in (16, 32, 64)),
            "bfloat16",
        ),
    )
}
"""Element types by the names that JAX prints."""


def execute(name: str, told: Mapping[str, Any], operands: Sequence[Array]) -> list[Array]:
    """The results of a primitive."""
    if name in ELEMENTWISE:
        if len({np.ndim(one) for one in operands} - {0}) > 1:
            raise ValueError(f"{name} of {list(map(np.shape, operands))}")
        with np.errstate(all="ignore"):
            return [_as(operands, ELEMENTWISE[name](told, *operands), name)]
    if name in NUMPY:
        found = NUMPY[name](told, *operands)
        return list(found) if isinstance(found, list) else [np.asarray(found)]
    return by_jax(name, told, operands)


def by_jax(name: str, told: Mapping[str, Any], operands: Sequence[Array]) -> list[Array]:
    """The same by jax, of every primitive."""
    arrays = [one if is_key(one) else jnp.asarray(one) for one in operands]
    return [one if is_key(one) else np.asarray(one) for one in bound(name, told, arrays)]


def bound(name: str, told: Mapping[str, Any], arrays: Sequence[Array]) -> list[Array]:
    """The same of arrays of jax, which it may trace."""
    if name == "random_wrap":
        return [jax.random.wrap_key_data(arrays[0])]
    if name == "random_seed":
        return [jnp.vectorize(jax.random.key)(arrays[0])]
    if name == "random_unwrap":
        return [jax.random.key_data(arrays[0])]
    if name in SCATTERS:
        return [_scatter(name, told, *arrays)]
    restored = {
        **ABSENT.get(name, {}),
        **{key: _value(name, key, one) for key, one in told.items() if key != REPLICATED},
    }
    found = PRIMITIVES[name].bind(*arrays, **restored)
    return list(found) if isinstance(found, list | tuple) else [found]


def is_key(array: Array) -> bool:
    return isinstance(array, jax.Array) and jnp.issubdtype(array.dtype, jax.dtypes.extended)


def _as(operands: Sequence[Array], found: Array, name: str) -> Array:
    """Of the element type of the operands; numpy makes wider ones of some."""
    found = np.asarray(found)
    if found.dtype == bool or name == "convert_element_type":
        return found
    return found.astype(np.asarray(operands[-1]).dtype, copy=False)


# -- numpy


def _div(told: Mapping[str, Any], a: Array, b: Array) -> Array:
    if np.issubdtype(np.asarray(a).dtype, np.integer):
        return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))
    return a / b


def _round(told: Mapping[str, Any], a: Array) -> Array:
    if told["rounding_method"] == "to_nearest_even":
        return np.round(a)
    return np.sign(a) * np.floor(np.abs(a) + 0.5)


def _plain(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda told, *operands: function(*operands)


ELEMENTWISE: Mapping[str, Callable[..., Array]] = {
    **{
        name: _plain(getattr(np, other))
        for name, other in {
            "add": "add",
            "add_any": "add",
            "sub": "subtract",
            "mul": "multiply",
            "max": "maximum",
            "min": "minimum",
            "neg": "negative",
            "exp": "exp",
            "log": "log",
            "tanh": "tanh",
            "sqrt": "sqrt",
            "square": "square",
            "sin": "sin",
            "cos": "cos",
            "tan": "tan",
            "exp2": "exp2",
            "expm1": "expm1",
            "log1p": "log1p",
            "atan2": "arctan2",
            "rem": "fmod",
            "is_finite": "isfinite",
            "sign": "sign",
            "floor": "floor",
            "ceil": "ceil",
            "cbrt": "cbrt",
            "pow": "power",
            "abs": "abs",
            "eq": "equal",
            "ne": "not_equal",
            "lt": "less",
            "le": "less_equal",
            "gt": "greater",
            "ge": "greater_equal",
            "and": "bitwise_and",
            "or": "bitwise_or",
            "xor": "bitwise_xor",
            "not": "bitwise_not",
        }.items()
    },
    "div": _div,
    "shift_right_logical": lambda told, a, by: np.where(by > 31, 0, a >> np.minimum(by, 31)),
    "rsqrt": lambda told, a: 1 / np.sqrt(a),
    "logistic": lambda told, a: 1 / (1 + np.exp(-a)),
    "erf": lambda told, a: erf(a),
    "round": _round,
    "integer_pow": lambda told, a: a ** np.asarray(told["y"], np.asarray(a).dtype),
    "select_n": lambda told, which, *of: np.choose(np.asarray(which, np.intp), of),
    "clamp": lambda told, low, a, high: np.minimum(np.maximum(a, low), high),
    "convert_element_type": lambda told, a: np.asarray(a).astype(DTYPES[told["new_dtype"]]),
    "stop_gradient": lambda told, a: a,
    "copy": lambda told, a: a,
    "erfc": lambda told, a: erfc(a),
    "erf_inv": lambda told, a: erfinv(a),
}


def _broadcast(told: Mapping[str, Any], a: Array) -> Array:
    shape, places = told["shape"], told["broadcast_dimensions"]
    spread = [1] * len(shape)
    for size, place in zip(a.shape, places, strict=True):
        spread[place] = size
    return np.broadcast_to(np.reshape(a, spread), shape)


def _dot(told: Mapping[str, Any], a: Array, b: Array) -> Array:
    (left, right), (batch_left, batch_right) = told["dimension_numbers"]
    letters_a, letters_b = list(range(a.ndim)), [a.ndim + at for at in range(b.ndim)]
    for at_a, at_b in zip((*left, *batch_left), (*right, *batch_right), strict=True):
        if a.shape[at_a] != b.shape[at_b]:
            raise ValueError(f"dot_general of {a.shape} and {b.shape}")
        letters_b[at_b] = at_a
    kept_a = [one for one in letters_a if one not in (*left, *batch_left)]
    kept_b = [one for at, one in enumerate(letters_b) if at not in (*right, *batch_right)]
    wanted = DTYPES[told["preferred_element_type"]] if "preferred_element_type" in told else a.dtype
    if a.dtype == DTYPES["bf16"]:
        a, b = a.astype(np.float32), b.astype(np.float32)
    found = np.einsum(a, letters_a, b, letters_b, [*batch_left, *kept_a, *kept_b])
    return found.astype(wanted)


def _slice(told: Mapping[str, Any], a: Array) -> Array:
    strides = told.get("strides", (1,) * a.ndim)
    for limit, size in zip(told["limit_indices"], a.shape, strict=True):
        if limit > size:
            raise ValueError(f"slice to {limit} of {size}")
    bounds = zip(told["start_indices"], told["limit_indices"], strides, strict=True)
    return a[tuple(slice(*one) for one in bounds)]


def _split(told: Mapping[str, Any], a: Array) -> list[Array]:
    if sum(told["sizes"]) != a.shape[told["axis"]]:
        raise ValueError(f"split of {a.shape}")
    return list(np.split(a, np.cumsum(told["sizes"])[:-1], told["axis"]))


def _iota(told: Mapping[str, Any]) -> Array:
    shape = [1] * len(told["shape"])
    shape[told["dimension"]] = -1
    numbers = np.arange(told["shape"][told["dimension"]], dtype=DTYPES[told["dtype"]])
    return np.broadcast_to(numbers.reshape(shape), told["shape"])


def _reduced(function: Callable[..., Array]) -> Callable[..., Array]:
    def found(told: Mapping[str, Any], a: Array) -> Array:
        return np.asarray(function(a, axis=tuple(told["axes"]))).astype(a.dtype)

    return found


def _along(function: Callable[..., Array]) -> Callable[..., Array]:
    def found(told: Mapping[str, Any], a: Array) -> Array:
        way = slice(None, None, -1 if told["reverse"] else 1)
        at = (slice(None),) * told["axis"] + (way,)
        return function(a[at], axis=told["axis"]).astype(a.dtype)[at]

    return found


def _best(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda told, a: function(a, axis=told["axes"][0]).astype(DTYPES[told["index_dtype"]])


NUMPY: Mapping[str, Callable[..., Any]] = {
    "transpose": lambda told, a: np.transpose(a, told["permutation"]),
    "reshape": lambda told, a: np.reshape(a, told["new_sizes"]),
    "squeeze": lambda told, a: np.squeeze(a, tuple(told["dimensions"])),
    "rev": lambda told, a: np.flip(a, tuple(told["dimensions"])),
    "broadcast_in_dim": _broadcast,
    "dot_general": _dot,
    "slice": _slice,
    "split": _split,
    "concatenate": lambda told, *parts: np.concatenate(parts, told["dimension"]),
    "iota": _iota,
    "reduce_sum": _reduced(np.sum),
    "reduce_prod": _reduced(np.prod),
    "reduce_max": _reduced(np.max),
    "reduce_min": _reduced(np.min),
    "reduce_and": _reduced(np.bitwise_and.reduce),
    "reduce_or": _reduced(np.bitwise_or.reduce),
    "cumsum": _along(np.cumsum),
    "cumprod": _along(np.cumprod),
    "cummax": _along(np.maximum.accumulate),
    "cummin": _along(np.minimum.accumulate),
    "argmax": _best(np.argmax),
    "argmin": _best(np.argmin),
}

# -- jax

PRIMITIVES: Mapping[str, Any] = {
    one.name: one
    for one in (
        *(getattr(public, name) for name in dir(public) if name.endswith("_p")),
        _lax.split_p,
        _lax.stack_p,
        _lax.unstack_p,
        _lax.tile_p,
        lax.optimization_barrier_p,
        _lax.ragged_dot_general_p,
    )
}

ACCURATE = "exp exp2 expm1 log log1p tanh logistic sin cos tan sqrt rsqrt cbrt"
ABSENT: Mapping[str, Mapping[str, Any]] = {
    **{
        name: {"precision": None, "preferred_element_type": None, "out_sharding": None}
        for name in ("dot_general", "conv_general_dilated")
    },
    "ragged_dot_general": {
        "precision": None,
        "preferred_element_type": None,
        "group_offset": None,
        "out_sharding": None,
    },
    "gather": {"fill_value": None},
    "slice": {"strides": None},
    "reshape": {"dimensions": None, "sharding": None},
    "broadcast_in_dim": {"sharding": None},
    "iota": {"sharding": None},
    "convert_element_type": {"sharding": None, "weak_type": False},
    "reduce_sum": {"out_sharding": None},
    **{name: {"accuracy": None} for name in ACCURATE.split()},
}
"""Parameters that are None, or were dropped."""

SCATTERS = {
    "scatter": lax.scatter,
    **{
        f"scatter-{one}": getattr(lax, f"scatter_{one}")
        for one in ("add", "sub", "mul", "min", "max")
    },
}
NUMBERS = {
    "gather": lax.GatherDimensionNumbers,
    "conv_general_dilated": lax.ConvDimensionNumbers,
    "ragged_dot_general": lax.RaggedDotDimensionNumbers,
}


def _value(name: str, key: str, value: Any) -> Any:
    """A parameter as jax wants it."""
    if key.endswith("dimension_numbers") and name in NUMBERS:
        return NUMBERS[name](**dict(value))
    if key == "mode":
        return lax.GatherScatterMode[value.upper()]
    if key == "rounding_method":
        return lax.RoundingMethod[value.upper()]
    if key == "select_prim":
        return PRIMITIVES[value]
    if key.endswith("dtype") or key == "preferred_element_type":
        return DTYPES[value]
    return value


def _scatter(name: str, told: Mapping[str, Any], *arrays: Array) -> Array:
    numbers = lax.ScatterDimensionNumbers(**dict(told["dimension_numbers"]))
    others = {key: told[key] for key in ("indices_are_sorted", "unique_indices")}
    mode = lax.GatherScatterMode[told["mode"].upper()]
    return SCATTERS[name](*arrays, numbers, mode=mode, **others)
