"""Trims a plan so that only the part of a value that is read is computed.

``follow`` chooses rows in program order, so an operation whose operands are whole makes a whole
result, whatever reads it: the zeros that a ``scatter-add`` adds to, the gradient of a
``take_along_axis`` of logits, the mask of a one-hot. Each device then computes and stores the whole
value, and slices it. Trimming walks back from the readers. If a result is whole along an axis and
all readers slice it in the same way, it is computed in these slices, provided the operation has a
row for them that needs no communication of its operands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction
from math import inf

from grammar.tensors.operations import Graph, Operation, Step, Value
from grammar.tensors.sharding import Sharding, Split
from hierarchies import InputError
from synth.step.factors import OperationSharding, Row, list_rows, shard_operation
from synth.step.redistribution.paths import CostPriority
from synth.step.sharding.microbatches import find_redistribution
from synth.step.sharding.plan import Cuts, Rows, scan_operands_of, stack_sharding


def trim_cuts(step: Step, cuts: Cuts, sizes: Mapping[str, int]) -> Cuts:
    """Returns cuts in which operations compute no more of a result than is read.

    The shardings of inputs and outputs do not change, and no redistribution sends more. ``sizes``
    has the sizes of all axes by name.
    """
    ends = {out: cuts.inputs[place] for out, place in step.updates}
    return _Trimmer(sizes).graph(step.graph, cuts, ends)[0]


class _Trimmer:
    """Walks graphs backwards; loops that share a body and its cuts are trimmed once."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes
        self._bodies: dict[tuple[int, int], tuple[Cuts, tuple[Sharding, ...]]] = {}

    def graph(
        self, graph: Graph, cuts: Cuts, ends: Mapping[int, Sharding]
    ) -> tuple[Cuts, tuple[Sharding, ...]]:
        """Returns trimmed cuts and the shardings of a graph's outputs; ``ends`` sets some."""
        typings = [*map(self._typing, graph.operations, cuts.operations)]
        made = {
            value.name: sharding for value, sharding in zip(graph.inputs, cuts.inputs, strict=True)
        }
        for operation, typing in zip(graph.operations, typings, strict=True):
            names = (value.name for value in operation.results)
            made.update(zip(names, typing.results, strict=True))
        outputs = tuple(
            ends.get(at, made[output.name]) if isinstance(output, Value) else Sharding(())
            for at, output in enumerate(graph.outputs)
        )
        read: defaultdict[str, set[Sharding]] = defaultdict(set)
        for output, sharding in zip(graph.outputs, outputs, strict=True):
            read[str(output)].add(sharding)
        chosen = list(cuts.operations)
        for at in reversed(range(len(chosen))):
            operation, choice, typing = graph.operations[at], chosen[at], typings[at]
            if isinstance(choice, Cuts):
                assert operation.body is not None
                chosen[at] = self._body(operation, operation.body, choice)[0]
            else:
                chosen[at], typing = self._rows(operation, choice, typing, made, read)
            for operand, sharding in zip(operation.operands, typing.operands, strict=True):
                read[str(operand)].add(sharding)
        return Cuts(cuts.inputs, tuple(chosen)), outputs

    def _typing(self, operation: Operation, choice: Rows | Cuts) -> OperationSharding:
        if not isinstance(choice, Cuts):
            return shard_operation(operation, dict(choice), self._sizes)
        assert operation.body is not None
        divided = scan_operands_of(operation.parameter)
        _, outputs = self._body(operation, operation.body, choice)
        results = (*outputs[: divided.carried], *map(stack_sharding, outputs[divided.carried :]))
        return OperationSharding(divided.of_operands(choice.inputs), results, ())

    def _body(self, loop: Operation, body: Graph, cuts: Cuts) -> tuple[Cuts, tuple[Sharding, ...]]:
        key = id(body), id(cuts)
        if key not in self._bodies:
            carry = scan_operands_of(loop.parameter).carry(cuts.inputs)
            self._bodies[key] = self.graph(body, cuts, dict(enumerate(carry)))
        return self._bodies[key]

    def _rows(
        self,
        operation: Operation,
        choice: Rows,
        typing: OperationSharding,
        made: dict[str, Sharding],
        read: Mapping[str, set[Sharding]],
    ) -> tuple[Rows, OperationSharding]:
        """Returns an operation's trimmed rows and its shardings; updates ``made``."""
        names = [value.name for value in operation.results]
        for axis in self._sizes:
            wanted = [_parts(read[name], axis) for name in names]
            if None in wanted or any(result.along(axis) is not None for result in typing.results):
                continue
            for row in list_rows(operation):
                if list(row.results) != wanted:
                    continue
                trimmed = self._shard(operation, dict((*choice, (axis, row))))
                if trimmed is None or not self._is_free(operation, typing, trimmed, made, read):
                    continue
                choice, typing = tuple(trimmed.rows), trimmed
                made.update(zip(names, trimmed.results, strict=True))
                break
        return choice, typing

    def _is_free(
        self,
        operation: Operation,
        before: OperationSharding,
        after: OperationSharding,
        made: Mapping[str, Sharding],
        read: Mapping[str, set[Sharding]],
    ) -> bool:
        """Whether the new rows need no more communication than the present rows.

        Each operand must be read as before, as another reader reads it, or as a slice of the value.
        """
        operands = zip(operation.operands, before.operands, after.operands, strict=True)
        results = zip(operation.results, before.results, after.results, strict=True)
        return all(
            new in (old, *read[str(value)])
            or not isinstance(value, Value)
            or _slices(made[value.name], new)
            for value, old, new in operands
        ) and all(
            self._sent_share(value, new, target) <= self._sent_share(value, old, target)
            for value, old, new in results
            for target in read[value.name]
        )

    def _sent_share(self, value: Value, source: Sharding, target: Sharding) -> Fraction | float:
        """Returns the least share of a value's bytes that a device sends; ``inf`` if impossible."""
        if _slices(source, target):
            return 0.0
        try:
            path = find_redistribution(value, source, target, self._sizes, CostPriority.BYTES)
        except InputError:
            return inf
        return path.least(self._sizes)

    def _shard(self, operation: Operation, by_axis: Mapping[str, Row]) -> OperationSharding | None:
        try:
            return shard_operation(operation, by_axis, self._sizes)
        except InputError:
            return None


def _parts(shardings: set[Sharding], axis: str) -> Split | None:
    """Returns how all readers split a value along an axis; None if they differ or do not split."""
    cuts = {sharding.along(axis) for sharding in shardings}
    [only, *others] = cuts or {None}
    return only if isinstance(only, Split) and not others else None


def _slices(source: Sharding, target: Sharding) -> bool:
    """Whether a redistribution only slices the part that each device has."""
    pairs = zip(source.dimensions, target.dimensions, strict=True)
    return source.partial == target.partial and all(
        cut[: len(before)] == before for before, cut in pairs
    )
