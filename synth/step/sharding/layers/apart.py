"""Splits a loop over layers, and the stacks of their weights, by stage.

Parameters of repeated layers are stacks with a slice for each layer, and a stage needs only the
slices of its layers. So the loop, and all operations over the same dimension (moments, updates),
are written once for each stage, for its share of the layers. Carried values go from one loop to the
next. The step computes the same values. A split input becomes several, one for each stage, labelled
``0/layers/...``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate, pairwise

from grammar.tensors.operations import Graph, Operand, Operation, Step, Value
from grammar.tensors.sharding import Type
from hierarchies import InputError
from synth.step.factors import Factor, factors_of
from synth.step.factors.parts import part_parameters
from synth.step.same import IdentityKey
from synth.step.sharding.plan import scan_operands_of
from synth.step.sharding.recipes import share_layers, spell_shares

_ONE_BY_ONE = re.compile(r"(?:.*/)?layers/(\d+)/.*")
"""The label of a weight of one layer in a step without a loop over layers."""

_SPLIT_HINT = "a stage has only its own layers: remove operations on all layers at once"


def split_layers(
    step: Step, stages: int, layers: Sequence[int] = ()
) -> tuple[Step, dict[str, int]]:
    """Splits the layers of a step over stages; also returns the stage of each value of a layer.

    ``layers`` has the number of layers of each stage if they differ. Raises InputError if the step
    has no layers, a different number of layers or a number that stages do not divide, and if an
    operation works on the layers of all stages at once.
    """
    loops = find_stacks(step)
    if loops:
        count = _layers(step, loops)
        return _LayerSplitter(step, count, _shares(count, stages, layers, step.name), loops).step()
    labelled = [_ONE_BY_ONE.fullmatch(label) for label in step.labels]
    numbers = [int(match[1]) for match in labelled if match]
    if not numbers:
        hint = "put layers in a loop over stacked parameters, or label them layers/0/..."
        raise InputError(f"{step.name} has no layers for {stages} stages", where="plan", hint=hint)
    ends = [*accumulate(_shares(max(numbers) + 1, stages, layers, step.name))]
    pairs = zip(step.graph.inputs, labelled, strict=True)
    return step, {value.name: bisect_right(ends, int(match[1])) for value, match in pairs if match}


def find_stacks(step: Step) -> frozenset[str]:
    """Returns the values whose first dimension is layers: the stacks of loops over parameters."""
    return _find_stacks(IdentityKey(step))


@lru_cache(maxsize=16)
def _find_stacks(key: IdentityKey[Step]) -> frozenset[str]:
    # Cached because recipes, buckets and the reader of a stage all ask for the stacks of a step.
    step = key.one
    joined = _join_dimensions(step.graph)
    roots = {
        joined.root((value.name, 0))
        for value, role in zip(step.graph.inputs, step.roles, strict=True)
        if role == "parameter" and value.type.shape
    }
    scanned = {
        joined.root((str(stack), 0))
        for loop in step.graph.operations
        if loop.body is not None
        for stack in _stacked_of(loop)
    }
    layer_roots = roots & scanned
    return frozenset(
        name
        for name, value in step.graph.values.items()
        if value.type.shape and joined.root((name, 0)) in layer_roots
    )


Dimension = tuple[str, int]


@dataclass
class _JoinedDimensions:
    """A union-find of dimensions over which an operation iterates together."""

    parents: dict[Dimension, Dimension] = field(default_factory=dict)

    def root(self, dimension: Dimension) -> Dimension:
        while dimension in self.parents:
            dimension = self.parents[dimension]
        return dimension

    def join(self, dimensions: Sequence[Dimension]) -> None:
        for dimension, other in pairwise(dimensions):
            first, second = self.root(dimension), self.root(other)
            if first != second:
                self.parents[second] = first


def _join_dimensions(graph: Graph) -> _JoinedDimensions:
    joined = _JoinedDimensions()
    for operation in graph.operations:
        if operation.body is not None:
            joined.join([(str(stack), 0) for stack in _stacked_of(operation)])
            continue
        for factor in factors_of(operation):
            joined.join(list(_dimensions(operation, factor)))
    return joined


def _dimensions(operation: Operation, factor: Factor) -> Iterator[Dimension]:
    """Yields the dimensions of values that a factor covers entirely."""
    values = (*operation.operands, *operation.results)
    for value, at in zip(values, (*factor.operands, *factor.results), strict=True):
        if isinstance(value, Value) and at is not None and value.type.shape[at] == factor.size:
            yield value.name, at


def _stacked_of(loop: Operation) -> tuple[Operand, ...]:
    """Returns the stacks that a loop scans, and the stacks that it makes."""
    divided = scan_operands_of(loop.parameter)
    scanned = loop.operands[divided.constants + divided.carried :]
    return (*scanned, *loop.results[divided.carried :])


def _layers(step: Step, loops: frozenset[str]) -> int:
    """Returns the number of repeated layers. Raises InputError for loops of several lengths."""
    sizes = {step.graph.values[name].type.shape[0] for name in loops}
    if len(sizes) > 1:
        problem = f"{step.name} has loops of {' and '.join(map(str, sorted(sizes)))}"
        raise InputError(f"{problem} layers", where="plan", hint="stages divide one loop")
    return sizes.pop()


def _shares(layers: int, stages: int, given: Sequence[int], name: str) -> Sequence[int]:
    """Returns the number of layers of each stage: as given, or equal on all stages."""
    if stages > layers:
        raise InputError(
            f"{stages} stages of the {layers} layers of {name}",
            where="plan",
            hint=f"every stage needs a layer: at most {layers} stages",
        )
    example = f"stages of {spell_shares(share_layers(layers, stages))} layers"
    if given and sum(given) != layers:
        raise InputError(
            f"stages of {spell_shares(given)} layers, {sum(given)} in all, and {name} has {layers}",
            where="plan",
            hint=f"as in: {example}",
        )
    if not given and layers % stages:
        raise InputError(
            f"{stages} stages do not divide the {layers} layers of {name}",
            where="plan",
            hint=f"give the layers of each stage: {example}",
        )
    return given or (layers // stages,) * stages


@dataclass
class _LayerSplitter:
    """Rewrites a step: splits all operations on stacks of layers by stage."""

    whole: Step
    layers: int
    shares: Sequence[int]
    stacks: frozenset[str]
    stage_of: dict[str, int] = field(default_factory=dict)

    @property
    def stages(self) -> int:
        return len(self.shares)

    def step(self) -> tuple[Step, dict[str, int]]:
        graph = self.whole.graph
        inputs = [self.pieces(value) for value in graph.inputs]
        operations = [piece for whole in graph.operations for piece in self.operation(whole)]
        outputs = [self.pieces(output) for output in graph.outputs]
        first_input, first_output = _list_offsets(inputs), _list_offsets(outputs)
        split = Step(
            self.whole.name,
            Graph(
                tuple(piece for pieces in inputs for piece in pieces if isinstance(piece, Value)),
                tuple(operations),
                tuple(piece for pieces in outputs for piece in pieces),
            ),
            tuple(
                role for role, pieces in zip(self.whole.roles, inputs, strict=True) for _ in pieces
            ),
            tuple(
                f"{at}/{label}" if len(pieces) > 1 else label
                for label, pieces in zip(self.whole.labels, inputs, strict=True)
                for at in range(len(pieces))
            ),
            tuple(
                (first_output[out] + at, first_input[place] + at)
                for out, place in self.whole.updates
                for at in range(len(inputs[place]))
            ),
            tuple(piece for constant in self.whole.constants for piece in self.constant(*constant)),
        )
        return split, self.stage_of

    def constant(self, name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
        """Yields the pieces of a constant input, with their data."""
        if name not in self.stacks:
            yield name, data
            return
        ends = [end * (len(data) // self.layers) for end in (0, *accumulate(self.shares))]
        for at, (begin, end) in enumerate(pairwise(ends)):
            yield f"{name}.{at}", data[begin:end]

    def pieces(self, operand: Operand) -> list[Operand]:
        """Returns a stack's piece for each stage; other operands unchanged."""
        if str(operand) not in self.stacks:
            return [operand]
        return [self.piece(operand, at) for at in range(self.stages)]

    def piece(self, operand: Operand, stage: int) -> Operand:
        if not isinstance(operand, Value) or operand.name not in self.stacks:
            return operand
        name = f"{operand.name}.{stage}"
        self.stage_of[name] = stage
        shape = (self.shares[stage], *operand.type.shape[1:])
        return Value(name, Type(operand.type.dtype, shape))

    def operation(self, whole: Operation) -> list[Operation]:
        if not any(str(value) in self.stacks for value in (*whole.operands, *whole.results)):
            return [whole]
        if whole.body is not None:
            return self.loop(whole)
        for factor in factors_of(whole):
            if self.fits(whole, factor):
                return [self.share(whole, factor, at) for at in range(self.stages)]
        problem = f"{whole.primitive} works on the layers of all {self.stages} stages"
        raise InputError(problem, where=whole.line, hint=_SPLIT_HINT)

    def fits(self, operation: Operation, factor: Factor) -> bool:
        """Whether a factor covers the layers of all stacks, and no other dimension."""
        values = (*operation.operands, *operation.results)
        places = zip(values, (*factor.operands, *factor.results), strict=True)
        return (
            factor.index is None
            and not factor.partial
            and factor.size == self.layers
            and all((place == 0) == (str(value) in self.stacks) for value, place in places)
        )

    def share(self, operation: Operation, factor: Factor, stage: int) -> Operation:
        results = tuple(self.piece(value, stage) for value in operation.results)
        return replace(
            operation,
            operands=tuple(self.piece(value, stage) for value in operation.operands),
            results=tuple(value for value in results if isinstance(value, Value)),
            parameters=part_parameters(operation, {factor: self.shares[stage]}),
        )

    def loop(self, loop: Operation) -> list[Operation]:
        divided = scan_operands_of(loop.parameter)
        kept = divided.constants + divided.carried
        if any(str(stack) not in self.stacks for stack in _stacked_of(loop)):
            problem = f"{loop.primitive} scans layers and something else at once"
            raise InputError(problem, where=loop.line, hint=_SPLIT_HINT)
        carried: Sequence[Operand] = loop.operands[divided.constants : kept]
        order = range(self.stages)[:: -1 if loop.parameter.get("reverse") else 1]
        loops = []
        for stage in order:
            made = [
                value if stage == order[-1] else Value(f"{value.name}.{stage}", value.type)
                for value in loop.results[: divided.carried]
            ]
            self.stage_of.update((value.name, stage) for value in made)
            stacked = [self.piece(value, stage) for value in loop.results[divided.carried :]]
            scanned = [self.piece(operand, stage) for operand in loop.operands[kept:]]
            results = (*made, *(value for value in stacked if isinstance(value, Value)))
            operands = (*loop.operands[: divided.constants], *carried, *scanned)
            parameters = tuple(
                (key, self.shares[stage] if key == "length" else value)
                for key, value in loop.parameters
            )
            loops.append(replace(loop, operands=operands, results=results, parameters=parameters))
            carried = made
        return loops


def _list_offsets(lists: Sequence[Sequence[object]]) -> list[int]:
    """Returns the offset of each list in their concatenation."""
    return [0, *accumulate(map(len, lists))]
