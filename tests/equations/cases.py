"""The equations that rows are judged by: each primitive, in the shapes that matter.

Sizes are multiples of 6 where a dimension may be cut, so that 2 and 3 parts and both together
divide them. Every operand says how it is drawn: a constant, or one that is always positive, would
make wrong rows pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from equations.executed import DTYPES
from equations.laid_out import Draws, fractions
from grammar.tensors.operations import Literal, Operation, Value
from synth.step.trace.reading import read_jaxpr

Draw = Callable[[Draws, Sequence[int], Any], Any]


@dataclass(frozen=True)
class Case:
    """An equation, and how each of its operands is drawn."""

    name: str
    operation: Operation
    draws: tuple[Draw, ...]

    def drawn(self, draws: Draws) -> list[Any]:
        """Whole operands, fresh."""
        found = []
        for operand, draw in zip(self.operation.operands, self.draws, strict=True):
            if isinstance(operand, Literal):
                found.append(np.asarray(operand.value, DTYPES[operand.dtype]))
            else:
                dtype = DTYPES.get(operand.type.dtype)
                found.append(draw(draws, operand.type.shape, dtype))
        return found


@dataclass(frozen=True)
class Given:
    """An argument: element type, shape, how it is drawn."""

    shape: tuple[int, ...]
    dtype: str = "f32"
    draw: Draw = fractions


def given(*shape: int, dtype: str = "f32", draw: Draw = fractions) -> Given:
    return Given(shape, dtype, draw)


def positive(draws: Draws, shape: Sequence[int], dtype: Any) -> Any:
    found = np.abs(fractions(draws, shape, dtype))
    return (found + np.asarray(0.125, dtype)).astype(dtype)


def nonzero(draws: Draws, shape: Sequence[int], dtype: Any) -> Any:
    found = fractions(draws, shape, dtype)
    return np.where(found == 0, np.asarray(1, dtype), found)


def below(limit: int, low: int = 0) -> Draw:
    return lambda draws, shape, dtype: draws.integers(low, limit, shape).astype(dtype)


def different(limit: int) -> Draw:
    """Indices of which no two are equal, of shape (n, 1)."""
    return lambda draws, shape, dtype: draws.permutation(limit)[: shape[0], None].astype(dtype)


def groups(total: int) -> Draw:
    """Sizes of groups which together are the total."""

    def draw(draws: Draws, shape: Sequence[int], dtype: Any) -> Any:
        cuts = np.sort(draws.integers(0, total + 1, shape[0] - 1))
        return np.diff(np.concatenate([[0], cuts, [total]])).astype(dtype)

    return draw


def key(draws: Draws, shape: Sequence[int], dtype: Any) -> Any:
    return jax.random.key(int(draws.integers(2**31)))


def case(name: str, function: Callable[..., Any], *arguments: Given, of: str = "") -> Case:
    """An equation of a function; ``of`` is its primitive where the name does not begin with it."""
    abstract = [_abstract(one) for one in arguments]
    found = operation(function, abstract, primitive=of or name.split(" ")[0])
    values = iter(arguments)
    draws = [
        next(values).draw if isinstance(operand, Value) else fractions for operand in found.operands
    ]
    return Case(name, found, tuple(draws))


def operation(
    function: Callable[..., Any], arguments: Sequence[object], *, primitive: str
) -> Operation:
    """The one operation with this primitive that JAX traces in a function."""
    closed = jax.make_jaxpr(function)(*arguments)
    names = [f"x{at}" for at in range(len(arguments))]
    graph, _ = read_jaxpr(closed, names, [primitive])
    found = [one for one in graph.operations if one.primitive == primitive]
    assert len(found) == 1, (primitive, str(closed))
    return found[0]


def _abstract(one: Given) -> Any:
    if one.dtype == "key":
        return jax.random.key(0)
    return jax.ShapeDtypeStruct(one.shape, DTYPES[one.dtype])


A, B = given(6, 12), given(12, 6)
INTEGERS, WORDS = given(6, 12, dtype="i32"), given(6, 12, dtype="u32")
BOOLS = given(6, 12, dtype="bool")
SIGNED_ZEROS = given(6, 12, draw=lambda *drawn: _signed_zeros(*drawn))
POSITIVE, NONZERO = given(6, 12, draw=positive), given(6, 12, draw=nonzero)


def elementwise() -> list[Case]:
    one = {
        "neg": lax.neg,
        "exp": lax.exp,
        "tanh": lax.tanh,
        "logistic": lax.logistic,
        "sign": lax.sign,
        "floor": lax.floor,
        "ceil": lax.ceil,
        "round": lax.round,
        "erf": lax.erf,
        "cbrt": lax.cbrt,
        "stop_gradient": lax.stop_gradient,
        "abs": lax.abs,
        "square": lax.square,
        "sin": lax.sin,
        "cos": lax.cos,
        "tan": lax.tan,
        "exp2": lax.exp2,
        "expm1": lax.expm1,
        "erfc": lax.erfc,
        "is_finite": lax.is_finite,
        "reduce_precision": lambda x: lax.reduce_precision(x, 8, 3),
        "copy": _copy,
        "sinh": lax.sinh,
        "cosh": lax.cosh,
        "atan": lax.atan,
        "asinh": lax.asinh,
        "bessel_i0e": lax.bessel_i0e,
        "bessel_i1e": lax.bessel_i1e,
        "optimization_barrier": lax.optimization_barrier,
    }
    two = {"add": lax.add, "sub": lax.sub, "max": lax.max, "min": lax.min, "mul": lax.mul}
    two |= {"atan2": lax.atan2}
    compared = {"eq": lax.eq, "lt": lax.lt, "ge": lax.ge, "gt": lax.gt, "le": lax.le, "ne": lax.ne}
    return [
        *(case(name, function, A) for name, function in one.items()),
        *(
            case(name, function, POSITIVE)
            for name, function in (
                ("log", lax.log),
                ("sqrt", lax.sqrt),
                ("rsqrt", lax.rsqrt),
                ("log1p", lax.log1p),
                ("lgamma", lax.lgamma),
                ("digamma", lax.digamma),
            )
        ),
        *(
            case(name, function, given(6, 12, draw=_within_one))
            for name, function in (
                ("erf_inv", lax.erf_inv),
                ("asin", lax.asin),
                ("acos", lax.acos),
                ("atanh", lax.atanh),
            )
        ),
        *(
            case(name, function, POSITIVE, POSITIVE)
            for name, function in (("igamma", lax.igamma), ("igammac", lax.igammac))
        ),
        case("acosh", lax.acosh, given(6, 12, draw=_beyond_one)),
        case("zeta", lax.zeta, given(6, 12, draw=_beyond_one), POSITIVE),
        case("polygamma", lax.polygamma, given(6, 12, draw=_orders), POSITIVE),
        *(
            case(name, getattr(lax, f"{name}_p").bind, SIGNED_ZEROS, SIGNED_ZEROS)
            for name in ("eq_to", "le_to", "lt_to")
        ),
        case("population_count", lax.population_count, WORDS),
        case("population_count of integers", lax.population_count, INTEGERS),
        case("nextafter", lax.nextafter, A, A),
        *(case(name, function, A, A) for name, function in two.items()),
        *(case(name, function, INTEGERS, INTEGERS) for name, function in compared.items()),
        case("rem", lax.rem, A, NONZERO),
        case("shift_left", lax.shift_left, WORDS, given(6, 12, dtype="u32", draw=below(31))),
        case(
            "shift_right_arithmetic",
            lax.shift_right_arithmetic,
            INTEGERS,
            given(6, 12, dtype="i32", draw=below(31)),
        ),
        case("add of words", lax.add, WORDS, WORDS),
        case("neg of words", lax.neg, WORDS),
        case("add of a number", lambda x: x + 1.5, A),
        case("add of a row", lambda x, y: x + y, A, given(1, 12)),
        case("sub of a column", lambda x, y: x - y, A, given(6, 1)),
        case("mul of row and column", lambda x, y: x * y, given(6, 1), given(1, 12)),
        case("mul of integers", lax.mul, INTEGERS, INTEGERS),
        case("mul by a number", lambda x: x * -2.5, A),
        case("max with zero", lambda x: jnp.maximum(x, 0.0), A),
        case("add_any", _add_any, A, A),
        case("div", lax.div, A, NONZERO),
        case("div of integers", lax.div, INTEGERS, given(6, 12, dtype="i32", draw=nonzero)),
        case("div of a number", lambda x: 1.0 / x, NONZERO),
        case("pow", lax.pow, POSITIVE, given(6, 12)),
        case("integer_pow odd", lambda x: lax.integer_pow(x, 3), A),
        case("integer_pow even", lambda x: lax.integer_pow(x, 2), A),
        case("integer_pow negative", lambda x: lax.integer_pow(x, -1), NONZERO),
        case("or", lax.bitwise_or, BOOLS, BOOLS),
        case("and", lax.bitwise_and, BOOLS, BOOLS),
        case("xor of words", lax.bitwise_xor, WORDS, WORDS),
        case("not", lax.bitwise_not, BOOLS),
        case(
            "shift_right_logical",
            lax.shift_right_logical,
            WORDS,
            given(6, 12, dtype="u32", draw=below(31)),
        ),
        case("select_n", lax.select_n, BOOLS, A, A),
        case("select_n by one", lax.select_n, given(dtype="bool"), A, A),
        case("select_n of bools", lax.select_n, BOOLS, BOOLS, BOOLS),
        case("clamp", lax.clamp, given(), A, given(draw=positive)),
        case("clamp by arrays", lax.clamp, A, A, A),
        case("convert_element_type to bf16", lambda x: x.astype(jnp.bfloat16), A),
        case("convert_element_type to i32", lambda x: x.astype(jnp.int32), A),
        case("convert_element_type to bool", lambda x: x.astype(bool), INTEGERS),
        case("convert_element_type of bool", lambda x: x.astype(jnp.float32), BOOLS),
        case("convert_element_type of i32", lambda x: x.astype(jnp.float32), INTEGERS),
        case("bitcast_convert_type", lambda x: lax.bitcast_convert_type(x, jnp.uint32), A),
        case(
            "bitcast_convert_type narrower",
            lambda x: lax.bitcast_convert_type(x, jnp.uint16),
            WORDS,
        ),
    ]


def _beyond_one(draws: Draws, shape: Sequence[int], dtype: Any) -> Any:
    return positive(draws, shape, dtype) + 1


def _orders(draws: Draws, shape: Sequence[int], dtype: Any) -> Any:
    return draws.integers(0, 4, shape).astype(dtype)


def _signed_zeros(draws: Draws, shape: Sequence[int], dtype: Any) -> Any:
    """Fractions among which are zeros of both signs: an order of all floats tells them apart."""
    found = fractions(draws, shape, dtype)
    return np.where(draws.integers(0, 3, shape) == 0, np.copysign(0, found), found).astype(dtype)


def _within_one(draws: Draws, shape: Sequence[int], dtype: Any) -> Any:
    return fractions(draws, shape, dtype) / 4


def _copy(a: Any) -> Any:
    return jax.extend.core.primitives.copy_p.bind(a)


def _add_any(a: Any, b: Any) -> Any:
    return lax_add_any.bind(a, b)


lax_add_any = jax.extend.core.primitives.add_jaxvals_p


def moving() -> list[Case]:
    return [
        case("transpose", lambda x: lax.transpose(x, (2, 0, 1)), given(6, 2, 12)),
        case("transpose of bools", lambda x: lax.transpose(x, (1, 0)), BOOLS),
        case("rev", lambda x: lax.rev(x, (1,)), A),
        case("squeeze", lambda x: lax.squeeze(x, (1,)), given(6, 1, 12)),
        case("reshape splits", lambda x: x.reshape(6, 6, 2), A),
        case("reshape joins", lambda x: x.reshape(12, 6), given(2, 6, 6)),
        case("reshape by gcd", lambda x: x.reshape(18, 4), A),
        case("reshape with ones", lambda x: x.reshape(1, 6, 1, 12), A),
        case("reshape blocks", lambda x: x.reshape(12, 6, 2), given(6, 2, 12)),
        case("broadcast_in_dim new", lambda x: lax.broadcast_in_dim(x, (6, 4, 12), (0, 2)), A),
        case(
            "broadcast_in_dim wider",
            lambda x: lax.broadcast_in_dim(x, (6, 12), (0, 1)),
            given(6, 1),
        ),
        case("broadcast_in_dim of one", lambda x: lax.broadcast_in_dim(x, (6, 12), ()), given()),
        case("slice", lambda x: lax.slice(x, (0, 2), (6, 8)), A),
        case("slice by strides", lambda x: lax.slice(x, (0, 0), (6, 12), (1, 2)), A),
        case("split", lambda x: lax.split(x, (4, 8), 1), A),
        case("stack", lambda x, y: jnp.stack((x, y), 1), A, A),
        case("stack last", lambda x, y, z: jnp.stack((x, y, z), -1), A, A, A, of="stack"),
        case("stack of bools", lambda x, y: jnp.stack((x, y)), BOOLS, BOOLS),
        case("unstack", lambda x: jnp.unstack(x, axis=1), given(6, 2, 12)),
        case("tile", lambda x: lax.tile(x, (1, 6)), A),
        case("tile of one", lambda x: lax.tile(x, (6, 1)), given(1, 12)),
        case("concatenate", lambda x, y: lax.concatenate((x, y), 1), A, A),
        case("pad by zero", lambda x: lax.pad(x, 0.0, ((0, 0, 0), (1, 2, 0))), A, of="pad"),
        case("pad", lambda x, y: lax.pad(x, y, ((0, 0, 0), (1, 2, 1))), A, given()),
        case("iota", lambda: lax.broadcasted_iota(jnp.int32, (6, 12), 1)),
        case("iota of floats", lambda: lax.broadcasted_iota(jnp.float32, (12,), 0)),
        case(
            "dynamic_slice",
            lambda x, i, j: lax.dynamic_slice(x, (i, j), (6, 4)),
            A,
            given(dtype="i32", draw=below(8)),
            given(dtype="i32", draw=below(9)),
        ),
        case(
            "dynamic_update_slice",
            lambda x, y, i, j: lax.dynamic_update_slice(x, y, (i, j)),
            A,
            given(6, 4),
            given(dtype="i32", draw=below(8)),
            given(dtype="i32", draw=below(9)),
        ),
    ]


def reducing() -> list[Case]:
    return [
        case("reduce_sum", lambda x: lax.reduce_sum(x, (0, 2)), given(6, 12, 6)),
        case("reduce_max", lambda x: lax.reduce_max(x, (1,)), A),
        case("reduce_min", lambda x: lax.reduce_min(x, (1,)), A),
        case("reduce_prod", lambda x: lax.reduce_prod(x, (1,)), given(6, 6)),
        case(
            "reduce_and",
            lambda x: lax.reduce_and(x, (1,)),
            given(6, 6, dtype="bool", draw=_mostly(True)),
        ),
        case(
            "reduce_or",
            lambda x: lax.reduce_or(x, (1,)),
            given(6, 6, dtype="bool", draw=_mostly(False)),
        ),
        case(
            "reduce_and of integers",
            lambda x: lax.reduce_and(x, (1,)),
            given(6, 12, dtype="i32", draw=_all_bits_but_one),
        ),
        case(
            "reduce_or of integers",
            lambda x: lax.reduce_or(x, (1,)),
            given(6, 12, dtype="i32", draw=_one_bit),
        ),
        case("argmax", lambda x: lax.argmax(x, 1, jnp.int32), A),
        case("argmin", lambda x: lax.argmin(x, 0, jnp.int32), A),
        case("cumsum", lambda x: lax.cumsum(x, 1), A),
        case("cumsum reversed", lambda x: lax.cumsum(x, 0, reverse=True), A),
        case("cummax", lambda x: lax.cummax(x, 1), A),
        case("cummin", lambda x: lax.cummin(x, 1), A),
        case("cumprod", lambda x: lax.cumprod(x, 1), given(6, 6)),
        case("cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1), A),
        case("sort", lambda x: lax.sort(x, dimension=1), A),
        case("sort with payload", lambda x, y: lax.sort((x, y), dimension=1, num_keys=1), A, A),
        case("top_k", lambda x: lax.top_k(x, 4), A),
        case("approx_top_k", lambda x: lax.approx_max_k(x, 4), A),
        case(
            "approx_top_k of the least", lambda x: lax.approx_min_k(x, 4, reduction_dimension=0), A
        ),
    ]


def _one_bit(draws: Draws, shape: Sequence[int], dtype: Any) -> Any:
    return np.left_shift(1, draws.integers(0, 31, shape)).astype(dtype)


def _all_bits_but_one(draws: Draws, shape: Sequence[int], dtype: Any) -> Any:
    return ~_one_bit(draws, shape, dtype)


def _mostly(value: bool) -> Draw:
    return lambda draws, shape, dtype: (draws.integers(0, 6, shape) == 0) ^ value


def products() -> list[Case]:
    numbers = lax.RaggedDotDimensionNumbers
    image, square = ("NHWC", "HWIO", "NHWC"), (2, 2)

    def convolution(
        strides: Any = (1, 1), padding: Any = "VALID", **others: Any
    ) -> Callable[..., Any]:
        return lambda x, w: lax.conv_general_dilated(
            x, w, strides, padding, dimension_numbers=image, **others
        )

    return [
        case(
            "dot_general",
            lambda x, y: lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))),
            given(6, 4, 12),
            given(6, 12, 2),
        ),
        case(
            "dot_general of two",
            lambda x, y: lax.dot_general(x, y, (((1, 2), (0, 1)), ((), ()))),
            given(6, 2, 12),
            given(2, 12, 6),
        ),
        case("dot_general of integers", lambda x, y: x @ y, INTEGERS, given(12, 6, dtype="i32")),
        case(
            "dot_general in bf16",
            lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.float32),
            given(6, 12, dtype="bf16"),
            given(12, 6, dtype="bf16"),
        ),
        case(
            "ragged_dot_general",
            lax.ragged_dot,
            A,
            given(2, 12, 6),
            given(2, dtype="i32", draw=groups(6)),
        ),
        case(
            "ragged_dot_general contracting",
            lambda x, y, g: lax.ragged_dot_general(
                x, y, g, numbers((((0,), (0,)), ((), ())), [0], [])
            ),
            A,
            given(6, 4),
            given(2, dtype="i32", draw=groups(6)),
        ),
        case(
            "conv_general_dilated",
            convolution(padding="SAME"),
            given(2, 6, 6, 4),
            given(3, 3, 4, 6),
        ),
        case(
            "conv_general_dilated of patches",
            convolution(square),
            given(2, 12, 12, 2),
            given(2, 2, 2, 6),
        ),
        case("conv_general_dilated by one", convolution(), given(2, 6, 6, 4), given(1, 1, 4, 6)),
        case(
            "conv_general_dilated in groups",
            convolution(padding="SAME", feature_group_count=6),
            given(2, 4, 4, 12),
            given(3, 3, 2, 6),
        ),
        case(
            "conv_general_dilated of batches",
            convolution(padding="SAME", batch_group_count=6),
            given(12, 4, 4, 2),
            given(3, 3, 2, 6),
        ),
        case("reduce_window_max", _pool, given(2, 12, 6, 2)),
        case(
            "reduce_window_max overlapping",
            lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3, 1), (1, 1), "SAME"),
            A,
        ),
        case("reduce_window_min", lambda x: _windows(x, jnp.inf, lax.min), A),
        case("reduce_window_sum", lambda x: _windows(x, 0.0, lax.add), A),
        case("select_and_scatter_add", _unpool, given(2, 6, 6, 2), given(2, 12, 6, 2)),
    ]


def _windows(x: Any, start: float, function: Any) -> Any:
    return lax.reduce_window(x, start, function, (1, 2), (1, 2), "VALID")


def _pool(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 1, 1), (1, 2, 1, 1), "VALID")


def _unpool(y: Any, x: Any) -> Any:
    return jax.vjp(_pool, x)[1](y)


EXTREMES = {
    "sub": lax.scatter_sub,
    "mul": lax.scatter_mul,
    "min": lax.scatter_min,
    "max": lax.scatter_max,
}
"""How scatters put together what they find and what they are given."""


def indexed() -> list[Case]:
    few = given(6, 1, dtype="i32", draw=below(5, -2))  # so that several are equal
    rows, some = (
        given(6, 1, dtype="i32", draw=below(12)),
        given(6, 1, dtype="i32", draw=below(15, -3)),
    )
    lookup = lax.GatherDimensionNumbers((1,), (0,), (0,))
    pairs = lax.GatherDimensionNumbers((), (0, 1), (0, 1))
    batched = lax.GatherDimensionNumbers((1,), (1,), (1,), (0,), (0,))
    into = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    into_pairs = lax.ScatterDimensionNumbers((), (0, 1), (0, 1))
    into_batches = lax.ScatterDimensionNumbers((1,), (1,), (1,), (0,), (0,))

    def gather(
        numbers: Any, sizes: tuple[int, ...], mode: str, **others: Any
    ) -> Callable[..., Any]:
        return lambda x, i: lax.gather(x, i, numbers, sizes, mode=mode, **others)

    def scatter(function: Any, mode: str, numbers: Any = into, **others: Any) -> Callable[..., Any]:
        return lambda x, i, y: function(x, i, y, numbers, mode=mode, **others)

    return [
        case("gather", gather(lookup, (1, 6), "promise_in_bounds"), B, rows),
        case("gather clipped", gather(lookup, (1, 6), "clip"), B, some),
        case("gather filled", gather(lookup, (1, 6), "fill"), B, some),
        case("gather filled with zero", gather(lookup, (1, 6), "fill", fill_value=0), B, some),
        case(
            "gather of pairs",
            gather(pairs, (1, 1), "clip"),
            B,
            given(6, 2, dtype="i32", draw=below(8, -2)),
        ),
        case(
            "gather of batches",
            gather(batched, (1, 1, 6), "clip"),
            given(6, 12, 6),
            given(6, 2, 1, dtype="i32", draw=below(12)),
        ),
        case(
            "gather of windows",
            gather(lax.GatherDimensionNumbers((1, 2), (), (0,)), (3, 6), "clip"),
            B,
            some,
        ),
        case("scatter-add", scatter(lax.scatter_add, "drop"), B, some, given(6, 6)),
        case("scatter-add clipped", scatter(lax.scatter_add, "clip"), B, some, given(6, 6)),
        case(
            "scatter-add of pairs clipped",
            scatter(lax.scatter_add, "clip", into_pairs),
            B,
            given(6, 2, dtype="i32", draw=below(14, -2)),
            given(6),
        ),
        case(
            "scatter-add in batches",
            scatter(lax.scatter_add, "clip", into_batches),
            given(6, 12, 6),
            given(6, 2, 1, dtype="i32", draw=below(12)),
            given(6, 6, 2),
        ),
        case(
            "scatter unique",
            scatter(lax.scatter, "drop", unique_indices=True),
            B,
            given(6, 1, dtype="i32", draw=different(12)),
            given(6, 6),
        ),
        case("scatter", scatter(lax.scatter, "drop"), B, rows, given(6, 6)),
        *(
            case(f"scatter-{name}{' clipped' * (mode == 'clip')}", scatter(function, mode), *of)
            for name, function in EXTREMES.items()
            for mode, of in (("drop", (B, some, given(6, 6))), ("clip", (B, few, given(6, 6))))
        ),
        case(
            "scatter-max in batches",
            scatter(lax.scatter_max, "clip", into_batches),
            given(6, 12, 6),
            given(6, 2, 1, dtype="i32", draw=below(12)),
            given(6, 6, 2),
        ),
    ]


def random() -> list[Case]:
    return [
        case("random_bits", lambda k: jax.random.bits(k, (6, 12)), given(dtype="key", draw=key)),
        case("random_seed", jax.random.key, given(dtype="u32")),
        case("random_split", jax.random.split, given(dtype="key", draw=key)),
        case(
            "random_fold_in", jax.random.fold_in, given(dtype="key", draw=key), given(dtype="u32")
        ),
        case("random_unwrap", jax.random.key_data, given(dtype="key", draw=key)),
        case("random_wrap", lambda x: jax.random.wrap_key_data(x), given(6, 2, dtype="u32")),
    ]


@cache
def cases() -> tuple[Case, ...]:
    """All of them, traced once."""
    return (*elementwise(), *moving(), *reducing(), *products(), *indexed(), *random())
