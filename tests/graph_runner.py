"""A graph carried out by JAX, primitive by primitive: what was traced, kept and read still runs.

If a parameter were lost on the way, or an operand exchanged, results would differ from those of
the function that was traced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from equations.executed import DTYPES, bound
from grammar.tensors.operations import Graph, Literal, Operation


def run(graph: Graph, given: Sequence[Any]) -> list[Any]:
    """The outputs of a graph, of these inputs."""
    known = dict(zip((one.name for one in graph.inputs), given, strict=True))

    def read(operand: Any) -> Any:
        if isinstance(operand, Literal):
            return jnp.asarray(operand.value, DTYPES[operand.dtype])
        return known[operand.name]

    for operation in graph.operations:
        operands = [read(one) for one in operation.operands]
        if operation.body is not None:
            made = _repeated(operation, operation.body, operands)
        else:
            made = bound(operation.primitive, operation.parameter, operands)
        for result, value in zip(operation.results, made, strict=True):
            assert value.shape == result.type.shape, operation
            assert value.dtype == DTYPES[result.type.dtype], operation
            known[result.name] = value
    return [read(one) for one in graph.outputs]


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
