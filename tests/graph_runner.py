"""A graph carried out by JAX, primitive by primitive: what was traced, kept and read still runs.

The inverse of the front end's way with parameters, and nothing else: if a parameter were lost, or
an operand exchanged, results would differ from those of the function that was traced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive, primitives

from grammar.tensors.operations import Graph, Literal, Operation

_FLOATS = {"f": "float", "bf": "bfloat", "i": "int", "u": "uint"}
_FOUND = jax.make_jaxpr(
    lambda x, n: (lax.ragged_dot(x, x[None], n), lax.split(x, (1, 1), axis=0)),
)(jnp.ones((2, 2)), jnp.array([2], jnp.int32))
PRIMITIVES: Mapping[str, Primitive] = {
    **{one.name: one for one in vars(primitives).values() if isinstance(one, Primitive)},
    **{one.primitive.name: one.primitive for one in _FOUND.jaxpr.eqns},
}
_ACCURATE = ("exp", "log", "tanh", "sin", "cos", "logistic", "rsqrt", "sqrt")
_NOTHING: Mapping[str, Mapping[str, Any]] = {
    **{name: {"accuracy": None} for name in _ACCURATE},
    "mul": {"out_dtype": None},
    "broadcast_in_dim": {"sharding": None},
    "iota": {"sharding": None},
    "reshape": {"sharding": None, "dimensions": None},
    "convert_element_type": {"sharding": None, "weak_type": False},
    "reduce_sum": {"out_sharding": None},
    "dot_general": {"precision": None, "preferred_element_type": None, "out_sharding": None},
    "conv_general_dilated": {
        "precision": None,
        "preferred_element_type": None,
        "out_sharding": None,
    },
    "ragged_dot_general": {
        "precision": None,
        "preferred_element_type": None,
        "group_offset": None,
        "out_sharding": None,
    },
    "gather": {"fill_value": None},
    "slice": {"strides": None},
    "scatter-add": {"update_jaxpr": None, "update_consts": ()},
    "scatter": {"update_jaxpr": None, "update_consts": ()},
}
_NUMBERS = {
    "gather": lax.GatherDimensionNumbers,
    "scatter-add": lax.ScatterDimensionNumbers,
    "scatter": lax.ScatterDimensionNumbers,
    "conv_general_dilated": lax.ConvDimensionNumbers,
}


def run(graph: Graph, given: Sequence[Any]) -> list[Any]:
    """The outputs of a graph, of these inputs."""
    known = dict(zip((one.name for one in graph.inputs), given, strict=True))

    def read(operand: Any) -> Any:
        if isinstance(operand, Literal):
            return jnp.asarray(operand.value, dtype(operand.dtype))
        return known[operand.name]

    for operation in graph.operations:
        made = _done(operation, [read(one) for one in operation.operands])
        for result, value in zip(operation.results, made, strict=True):
            assert value.shape == result.type.shape, operation
            assert value.dtype == dtype(result.type.dtype), operation
            known[result.name] = value
    return [read(one) for one in graph.outputs]


def dtype(name: str) -> Any:
    """The dtype of ``f32``."""
    for short, long in _FLOATS.items():
        if name.startswith(short) and name[len(short)].isdigit():
            return jnp.dtype(long + name.removeprefix(short))
    return jnp.dtype(name)


def _done(operation: Operation, operands: list[Any]) -> list[Any]:
    if operation.body is not None:
        return _repeated(operation, operation.body, operands)
    name = operation.primitive
    told = {**_NOTHING.get(name, {}), **operation.parameter}
    for key in ("new_dtype", "dtype", "index_dtype", "preferred_element_type"):
        if isinstance(told.get(key), str):
            told[key] = dtype(told[key])
    if name in _NUMBERS:
        told["dimension_numbers"] = _NUMBERS[name](**dict(told["dimension_numbers"]))
    if name == "ragged_dot_general":
        numbers = dict(told["ragged_dot_dimension_numbers"])
        told["ragged_dot_dimension_numbers"] = lax.RaggedDotDimensionNumbers(**numbers)
    if isinstance(told.get("mode"), str):
        told["mode"] = lax.GatherScatterMode[told["mode"].upper()]
    if name == "select_and_scatter_add":
        told["select_prim"] = PRIMITIVES[told["select_prim"]]
    if name == "scatter-add":  # how it adds is a jaxpr, which JAX's own function makes
        del told["update_jaxpr"], told["update_consts"]
        return [lax.scatter_add(*operands, **told)]
    primitive = PRIMITIVES[name]
    made = primitive.bind(*operands, **told)
    return list(made) if primitive.multiple_results else [made]


def _repeated(loop: Operation, body: Graph, operands: list[Any]) -> list[Any]:
    told: Mapping[str, Any] = loop.parameter
    consts, carried = told["num_consts"], told["num_carry"]
    kept = operands[:consts]

    def once(before: Any, slices: Any) -> Any:
        made = run(body, [*kept, *before, *slices])
        return tuple(made[:carried]), tuple(made[carried:])

    first, slices = tuple(operands[consts : consts + carried]), tuple(operands[consts + carried :])
    last, made = lax.scan(once, first, slices, length=told["length"], reverse=told["reverse"])
    return [*last, *made]
