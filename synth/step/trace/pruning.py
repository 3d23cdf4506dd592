"""What nobody reads is dropped, also from the bodies of loops.

Tracing a gradient leaves results that are never used: a stacked result of a loop whose only
reader was a mean, the half of a pair. Of an operation with several results all stay if one is
read; a loop loses its dead results, and then what they needed inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import compress

from grammar.tensors.operations import Graph, Operand, Operation, Value
from grammar.tensors.primitives import REPEATED


def prune(graph: Graph) -> Graph:
    """The graph without operations that none of its outputs needs. Inputs all stay."""
    alive = set(_names(graph.outputs))
    kept: list[Operation] = []
    for operation in reversed(graph.operations):
        if alive.isdisjoint(_names(operation.results)):
            continue
        if operation.primitive == REPEATED:
            operation = _prune_loop(operation, alive)
        kept.append(operation)
        alive.update(_names(operation.operands))
    return replace(graph, operations=tuple(reversed(kept)))


def _prune_loop(loop: Operation, alive: set[str]) -> Operation:
    """The loop without results that are not alive; what is carried on for living ones stays."""
    body, carried = loop.body, int(str(loop.parameter["num_carry"]))
    consts = int(str(loop.parameter["num_consts"]))
    assert body is not None
    wanted = [result.name in alive for result in loop.results]
    while True:
        smaller = prune(replace(body, outputs=tuple(compress(body.outputs, wanted))))
        read = {name for one in smaller.operations for name in _names(one.operands)}
        read.update(_names(smaller.outputs))
        used = [value.name in read for value in body.inputs]
        more = [
            one or two for one, two in zip(wanted, used[consts : consts + carried], strict=False)
        ]
        more += wanted[carried:]
        if more == wanted:
            break
        wanted = more
    used[consts : consts + carried] = wanted[:carried]
    counts = {"num_consts": sum(used[:consts]), "num_carry": sum(wanted[:carried])}
    return replace(
        loop,
        operands=tuple(compress(loop.operands, used)),
        results=tuple(compress(loop.results, wanted)),
        parameters=tuple((key, counts.get(key, value)) for key, value in loop.parameters),
        body=replace(smaller, inputs=tuple(compress(body.inputs, used))),
    )


def _names(operands: Sequence[Operand]) -> Iterable[str]:
    return (one.name for one in operands if isinstance(one, Value))
