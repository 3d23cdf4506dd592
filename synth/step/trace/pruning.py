"""Dead code elimination, also in the bodies of loops.

Tracing a gradient leaves unused results: a stacked result of a loop whose only reader was a mean,
or half of a pair. An operation keeps all of its results if one of them is read. A loop loses its
dead results, and then the operations in its body that only they needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import compress

from grammar.tensors.operations import REPEATED, Graph, Operand, Operation, Value


def prune(graph: Graph) -> Graph:
    """Returns the graph without operations that no output needs. All inputs stay."""
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
    """Drops the dead results of a loop, but keeps carried values that others depend on."""
    body, carried = loop.body, int(str(loop.parameter["num_carry"]))
    consts = int(str(loop.parameter["num_consts"]))
    assert body is not None
    kept = [result.name in alive for result in loop.results]
    # To a fixed point: a carry that stays alive may make other carries of the body alive.
    while True:
        smaller = prune(replace(body, outputs=tuple(compress(body.outputs, kept))))
        read = {name for operation in smaller.operations for name in _names(operation.operands)}
        read.update(_names(smaller.outputs))
        used = [value.name in read for value in body.inputs]
        carries = zip(kept, used[consts : consts + carried], strict=False)
        more = [is_kept or is_used for is_kept, is_used in carries] + kept[carried:]
        if more == kept:
            break
        kept = more
    used[consts : consts + carried] = kept[:carried]
    counts = {"num_consts": sum(used[:consts]), "num_carry": sum(kept[:carried])}
    return replace(
        loop,
        operands=tuple(compress(loop.operands, used)),
        results=tuple(compress(loop.results, kept)),
        parameters=tuple((key, counts.get(key, value)) for key, value in loop.parameters),
        body=replace(smaller, inputs=tuple(compress(body.inputs, used))),
    )


def _names(operands: Sequence[Operand]) -> Iterable[str]:
    return (operand.name for operand in operands if isinstance(operand, Value))
