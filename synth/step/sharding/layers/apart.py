"""Layers apart: a loop over layers as one loop for each stage, and their weights likewise.

Where layers are repeated, their parameters are stacks, one slice a layer. A stage needs its own
slices only. So the loop, and whatever runs over the same dimension (moments, updates), is written
once for each stage, of its share of the layers; what is carried goes from one to the next. The
step computes what it did; what was one input is one for each stage, labelled ``0/layers/...``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

from grammar.tensors.operations import Graph, Operand, Operation, Step, Value
from grammar.tensors.sharding import Type
from hierarchies import InputError
from synth.step.factors import Factor, factors_of
from synth.step.factors.parts import part_parameters
from synth.step.sharding.plan import scan_operands_of
from synth.step.sharding.recipes import share_layers, spell_shares

_ONE_BY_ONE = re.compile(r"(?:.*/)?layers/(\d+)/.*")
"""The label of a weight of one layer, where layers are written one by one."""

_SPLIT_HINT = "a stage has its own layers only: leave out what works on all layers at once"


def split_layers(
    step: Step, stages: int, layers: Sequence[int] = ()
) -> tuple[Step, dict[str, int]]:
    """The step with its layers on so many stages, and of what is a layer's the stage, by name.

    ``layers`` are those of each stage, if they have not as many. Raises InputError where there are
    no layers, where they are others or do not divide, and for what works on the layers of all
    stages at once.
    """
    loops = find_stacks(step)
    if loops:
        count = _layers(step, loops)
        return _LayerSplitter(step, count, _shares(count, stages, layers, step.name), loops).step()
    labelled = [_ONE_BY_ONE.fullmatch(label) for label in step.labels]
    numbers = [int(one[1]) for one in labelled if one]
    if not numbers:
        hint = "layers are a loop over stacked parameters, or have labels as layers/0/..."
        raise InputError(f"{step.name} has no layers for {stages} stages", where="plan", hint=hint)
    ends = [*accumulate(_shares(max(numbers) + 1, stages, layers, step.name))]
    found = zip(step.graph.inputs, labelled, strict=True)
    return step, {value.name: bisect_right(ends, int(one[1])) for value, one in found if one}


def find_stacks(step: Step) -> frozenset[str]:
    """The values whose first dimension is layers: those of loops that scan parameters."""
    joined = _join_dimensions(step.graph)
    roots = {
        joined.root((value.name, 0))
        for value, role in zip(step.graph.inputs, step.roles, strict=True)
        if role == "parameter" and value.type.shape
    }
    scanned = {
        joined.root((str(one), 0))
        for loop in step.graph.operations
        if loop.body is not None
        for one in _stacked_of(loop)
    }
    found = roots & scanned
    return frozenset(
        name
        for name, value in step.graph.values.items()
        if value.type.shape and joined.root((name, 0)) in found
    )


Dimension = tuple[str, int]


@dataclass
class _JoinedDimensions:
    """Dimensions of values that are one: an operation runs over them together."""

    of: dict[Dimension, Dimension] = field(default_factory=dict)

    def root(self, one: Dimension) -> Dimension:
        while one in self.of:
            one = self.of[one]
        return one

    def join(self, places: Sequence[Dimension]) -> None:
        for one, other in pairwise(places):
            first, second = self.root(one), self.root(other)
            if first != second:
                self.of[second] = first


def _join_dimensions(graph: Graph) -> _JoinedDimensions:
    found = _JoinedDimensions()
    for operation in graph.operations:
        if operation.body is not None:
            found.join([(str(one), 0) for one in _stacked_of(operation)])
            continue
        for factor in factors_of(operation):
            found.join(list(_places(operation, factor)))
    return found


def _places(operation: Operation, factor: Factor) -> Iterator[Dimension]:
    values = (*operation.operands, *operation.results)
    for one, place in zip(values, (*factor.operands, *factor.results), strict=True):
        if isinstance(one, Value) and place is not None and one.type.shape[place] == factor.size:
            yield one.name, place


def _stacked_of(loop: Operation) -> tuple[Operand, ...]:
    """What a loop scans, and what it stacks."""
    divided = scan_operands_of(loop.parameter)
    scanned = loop.operands[divided.constants + divided.carried :]
    return (*scanned, *loop.results[divided.carried :])


def _layers(step: Step, loops: frozenset[str]) -> int:
    """How many are repeated. Raises InputError for loops of several lengths."""
    sizes = {step.graph.values[name].type.shape[0] for name in loops}
    if len(sizes) > 1:
        problem = f"{step.name} has loops of {' and '.join(map(str, sorted(sizes)))}"
        raise InputError(f"{problem} layers", where="plan", hint="stages are of one loop")
    return sizes.pop()


def _shares(layers: int, stages: int, said: Sequence[int], name: str) -> Sequence[int]:
    """The layers of each stage: as is said, or as many on all."""
    if stages > layers:
        raise InputError(
            f"{stages} stages of the {layers} layers of {name}",
            where="plan",
            hint=f"every stage has a layer at least: {layers} stages at most",
        )
    like = f"stages of {spell_shares(share_layers(layers, stages))} layers"
    if said and sum(said) != layers:
        raise InputError(
            f"stages of {spell_shares(said)} layers, {sum(said)} in all, and {name} has {layers}",
            where="plan",
            hint=f"as in: {like}",
        )
    if not said and layers % stages:
        raise InputError(
            f"{stages} stages do not divide the {layers} layers of {name}",
            where="plan",
            hint=f"say how many each has: {like}",
        )
    return said or (layers // stages,) * stages


@dataclass
class _LayerSplitter:
    """Writes a step again, stage by stage where it works on stacks of layers."""

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
        inputs = [self.pieces(one) for one in graph.inputs]
        operations = [one for operation in graph.operations for one in self.operation(operation)]
        outputs = [self.pieces(one) for one in graph.outputs]
        first_input, first_output = _list_offsets(inputs), _list_offsets(outputs)
        found = Step(
            self.whole.name,
            Graph(
                tuple(one for some in inputs for one in some if isinstance(one, Value)),
                tuple(operations),
                tuple(one for some in outputs for one in some),
            ),
            tuple(r for r, some in zip(self.whole.roles, inputs, strict=True) for _ in some),
            tuple(
                f"{at}/{label}" if len(some) > 1 else label
                for label, some in zip(self.whole.labels, inputs, strict=True)
                for at in range(len(some))
            ),
            tuple(
                (first_output[out] + at, first_input[place] + at)
                for out, place in self.whole.updates
                for at in range(len(inputs[place]))
            ),
            tuple(part for one in self.whole.constants for part in self.constant(*one)),
        )
        return found, self.stage_of

    def constant(self, name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
        """The values of an input as its pieces have them."""
        if name not in self.stacks:
            yield name, data
            return
        ends = [end * (len(data) // self.layers) for end in (0, *accumulate(self.shares))]
        for at, (begin, end) in enumerate(pairwise(ends)):
            yield f"{name}.{at}", data[begin:end]

    def pieces(self, one: Operand) -> list[Operand]:
        """A stack for each stage; anything else as it is."""
        if str(one) not in self.stacks:
            return [one]
        return [self.piece(one, at) for at in range(self.stages)]

    def piece(self, one: Operand, stage: int) -> Operand:
        if not isinstance(one, Value) or one.name not in self.stacks:
            return one
        name = f"{one.name}.{stage}"
        self.stage_of[name] = stage
        shape = (self.shares[stage], *one.type.shape[1:])
        return Value(name, Type(one.type.dtype, shape))

    def operation(self, one: Operation) -> list[Operation]:
        if not any(str(value) in self.stacks for value in (*one.operands, *one.results)):
            return [one]
        if one.body is not None:
            return self.loop(one)
        for factor in factors_of(one):
            if self.fits(one, factor):
                return [self.share(one, factor, at) for at in range(self.stages)]
        problem = f"{one.primitive} works on the layers of all {self.stages} stages"
        raise InputError(problem, where=one.line, hint=_SPLIT_HINT)

    def fits(self, one: Operation, factor: Factor) -> bool:
        """Whether the factor runs over the layers of all stacks, and over no other dimension."""
        values = (*one.operands, *one.results)
        over = zip(values, (*factor.operands, *factor.results), strict=True)
        return (
            factor.index is None
            and not factor.partial
            and factor.size == self.layers
            and all((place == 0) == (str(value) in self.stacks) for value, place in over)
        )

    def share(self, one: Operation, factor: Factor, stage: int) -> Operation:
        results = tuple(self.piece(value, stage) for value in one.results)
        return replace(
            one,
            operands=tuple(self.piece(value, stage) for value in one.operands),
            results=tuple(value for value in results if isinstance(value, Value)),
            parameters=part_parameters(one, {factor: self.shares[stage]}),
        )

    def loop(self, loop: Operation) -> list[Operation]:
        divided = scan_operands_of(loop.parameter)
        kept = divided.constants + divided.carried
        if any(str(one) not in self.stacks for one in _stacked_of(loop)):
            problem = f"{loop.primitive} scans layers and something else at once"
            raise InputError(problem, where=loop.line, hint=_SPLIT_HINT)
        carried: Sequence[Operand] = loop.operands[divided.constants : kept]
        order = range(self.stages)[:: -1 if loop.parameter.get("reverse") else 1]
        found = []
        for stage in order:
            made = [
                value if stage == order[-1] else Value(f"{value.name}.{stage}", value.type)
                for value in loop.results[: divided.carried]
            ]
            self.stage_of.update((value.name, stage) for value in made)
            stacked = [self.piece(value, stage) for value in loop.results[divided.carried :]]
            scanned = [self.piece(one, stage) for one in loop.operands[kept:]]
            results = (*made, *(one for one in stacked if isinstance(one, Value)))
            operands = (*loop.operands[: divided.constants], *carried, *scanned)
            told = tuple(
                (key, self.shares[stage] if key == "length" else value)
                for key, value in loop.parameters
            )
            found.append(replace(loop, operands=operands, results=results, parameters=told))
            carried = made
        return found


def _list_offsets(several: Sequence[Sequence[object]]) -> list[int]:
    """Where each list begins if all are put one after the other."""
    found = [0]
    for one in several:
        found.append(found[-1] + len(one))
    return found
