"""Reads the inside of a stage from two layers that are written out as the tasks of a device."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

import numpy as np

from grammar.tensors.operations import Step, Value
from grammar.tensors.sharding import Type, part_shape
from synth.step.search.composing.inside import Inside, ModelPart, PartCollective, PassWork
from synth.step.sharding import LocalOperation, Plan, StepPhase, StepProgram
from synth.step.sharding.layers.apart import find_stacks
from synth.step.sharding.plan import SAMPLE_ROLES, scan_operands_of
from synth.step.simulation import BufferKind, BufferLifetimes, DeviceTasks, simulate
from synth.step.simulation.collected import collectives_of
from synth.step.simulation.device import COMPUTE, Task
from synth.step.simulation.groups import CAST
from synth.step.simulation.passes import Passes, PassKey

ADD_PRIMITIVES = ("add", "add_any")
"""Primitives that sum the gradients of a parameter that is read in two places."""

LAYERS = 2
"""Number of layers of the traced model: one layer would not show communication between layers."""


@dataclass(frozen=True)
class StageReader:
    """A reader of a step of ``LAYERS`` layers, or in one piece, written as the tasks of a device.

    ``batch``: the axes that divide the batch.
    """

    step: Step
    plan: Plan
    program: StepProgram
    device: DeviceTasks
    layers: bool
    batch: tuple[str, ...]

    def inside(self) -> Inside:
        parameters, experts = self._parameters(experts=False), self._parameters(experts=True)
        stored = sum(
            (LAYERS if part is ModelPart.LAYER else 1) * sum(sizes)
            for by_part in (parameters, experts)
            for part, sizes in by_part.items()
        )
        moments = (buffer for buffer in self.device.buffers if buffer.kind is BufferKind.MOMENTS)
        update = sum(
            task.seconds
            for task in self.device.tasks
            if task.place.when is StepPhase.AFTER and task.stream == COMPUTE
        )
        return Inside(
            self._work(),
            parameters,
            experts,
            self._each(self._lasting(StepPhase.FORWARD, StepPhase.BACKWARD)),
            self._working(),
            self._waiting_bytes(),
            self._tied(),
            self._boundary(),
            sum(buffer.size_bytes for buffer in moments if buffer.maker < 0) / stored,
            sum(self._lasting(StepPhase.BACKWARD, StepPhase.AFTER).values()) / stored,
            sum(self._lasting(StepPhase.BEFORE, StepPhase.FORWARD, StepPhase.BACKWARD).values())
            / stored,
            update / stored,
            self._summing(),
        )

    def _each(self, totals: Counter[ModelPart]) -> Mapping[ModelPart, float]:
        """Divides the total of all layers by their number; other parts are unchanged."""
        return {
            part: totals[part] / (LAYERS if part is ModelPart.LAYER else 1) for part in ModelPart
        }

    @cached_property
    def _parts(self) -> Sequence[ModelPart]:
        """The part of each task; a backward pass begins with the last part."""
        parts, seen = [], set[StepPhase]()
        for task in self.device.tasks:
            phase = task.place.when
            before_layers = phase not in seen
            if task.layer >= 0:
                seen.add(phase)
                parts.append(ModelPart.LAYER)
            elif phase is StepPhase.BACKWARD:
                parts.append(ModelPart.LAST if before_layers else ModelPart.FIRST)
            else:
                parts.append(ModelPart.FIRST if before_layers else ModelPart.LAST)
        return parts

    def _work(self) -> Mapping[tuple[StepPhase, ModelPart], PassWork]:
        seconds: defaultdict[tuple[StepPhase, ModelPart], float] = defaultdict(float)
        sent: defaultdict[tuple[StepPhase, ModelPart], defaultdict[PartCollective, float]] = (
            defaultdict(lambda: defaultdict(float))
        )
        hiding_seconds = self._beside()
        for number, (task, part) in enumerate(zip(self.device.tasks, self._parts, strict=True)):
            key = task.place.when, part
            share = 1 / LAYERS if part is ModelPart.LAYER else 1.0
            if task.stream == COMPUTE:
                seconds[key] += task.seconds * (1 - self._summed(task)) * share
            for collective in collectives_of(task, self.plan):
                sent[key][PartCollective(*collective, hiding_seconds.get(number, 0.0))] += share
        return {
            (phase, part): PassWork(seconds[phase, part], sent[phase, part])
            for phase in (StepPhase.FORWARD, StepPhase.BACKWARD)
            for part in ModelPart
        }

    def _beside(self) -> Mapping[int, float]:
        """Returns the seconds of computation that can hide each communication task of a layer.

        The window ends at the first computation of the layer that reads the result. The next task
        on the same stream also ends it, because that task would be delayed.
        """
        tasks, hiding = self.device.tasks, dict[int, float]()
        of_layers = defaultdict[tuple[object, str], list[int]](list)
        for stream, queue in self.device.streams.items():
            for number in queue:
                of_layers[(tasks[number].layer, tasks[number].place), stream].append(number)
        for (layer, stream), queue in of_layers.items():
            compute = [tasks[number] for number in of_layers.get((layer, COMPUTE), ())]
            if stream == COMPUTE or tasks[queue[0]].layer < 0:
                continue
            for number, after in zip_longest(queue, queue[1:]):
                read = next((task.issue for task in compute if number in task.before), 0)
                end = read if after is None else min(read, tasks[after].issue)
                window = range(tasks[number].issue, end)
                hiding[number] = sum(task.seconds for task in compute if task.issue in window)
        return hiding

    def _summing(self) -> float:
        """Returns the seconds in which a layer's gradients are summed."""
        tasks = (task for task in self.device.tasks if task.stream == COMPUTE)
        return sum(task.seconds * self._summed(task) for task in tasks) / LAYERS

    def _summed(self, task: Task) -> float:
        """Returns the share, in bytes, of a backward task that casts and sums layers' gradients.

        These tasks are outside the layers and read stacks of the layers' results.
        """
        if task.layer >= 0 or task.place.when is not StepPhase.BACKWARD:
            return 0.0
        buffers = [self.device.buffers[number] for number in task.reads]
        layers = [self.device.tasks[b.maker].layer if b.maker >= 0 else -1 for b in buffers]
        times = Counter(b.name for b, layer in zip(buffers, layers, strict=True) if layer >= 0)
        stacked = sum(buffer.size_bytes for buffer in buffers if times[buffer.name] == LAYERS)
        return stacked / max(1, sum(buffer.size_bytes for buffer in buffers))

    @cached_property
    def _readers(self) -> Sequence[set[int]]:
        """The indices of the tasks that read each buffer."""
        readers: list[set[int]] = [set() for _ in self.device.buffers]
        for number, task in enumerate(self.device.tasks):
            for buffer in task.reads:
                readers[buffer].add(number)
        return readers

    @cached_property
    def _of_experts(self) -> frozenset[str]:
        """Inputs other than samples that an axis of the batch divides."""
        inputs = zip(self.step.graph.inputs, self.step.roles, self.plan.cuts.inputs, strict=True)
        return frozenset(
            value.name
            for value, role, sharding in inputs
            if role not in SAMPLE_ROLES and not set(sharding.axes).isdisjoint(self.batch)
        )

    def _parameters(self, *, experts: bool) -> Mapping[ModelPart, tuple[float, ...]]:
        """Returns the bytes of each parameter, by part; a slice of a stack belongs to a layer."""
        stacked = find_stacks(self.step) if self.layers else ()
        by_part: dict[ModelPart, list[float]] = {part: [] for part in ModelPart}
        for buffer in self.device.buffers:
            if buffer.maker >= 0 or buffer.kind is not BufferKind.PARAMETERS:
                continue
            if (buffer.name in self._of_experts) != experts:
                continue
            if buffer.name in stacked:
                by_part[ModelPart.LAYER].append(buffer.size_bytes / LAYERS)
            else:
                by_part[ModelPart.LAST if self._is_last(buffer.name) else ModelPart.FIRST].append(
                    buffer.size_bytes
                )
        return {part: tuple(sizes) for part, sizes in by_part.items()}

    def _is_last(self, name: str) -> bool:
        """Whether an input and its casts are read only after the first loop over layers."""
        if not self.layers:
            return False
        names, looped = {name}, False
        for operation in self.step.graph.operations:
            if names.intersection(map(str, operation.operands)):
                if operation.primitive == CAST:
                    names.update(value.name for value in operation.results)
                else:
                    return looped
            looped = looped or operation.body is not None
        return False

    def _lasting(self, first: StepPhase, *later: StepPhase) -> Counter[ModelPart]:
        """Returns the bytes made in the first pass and read in later passes, by producing part."""
        sizes = Counter[ModelPart]()
        for number, buffer in enumerate(self.device.buffers):
            if buffer.maker < 0 or self.device.tasks[buffer.maker].place.when is not first:
                continue
            if any(self.device.tasks[task].place.when in later for task in self._readers[number]):
                sizes[self._parts[buffer.maker]] += buffer.size_bytes
        return sizes

    def _working(self) -> tuple[float, float]:
        """Returns the peak working memory of a pass: in its layers alone, and in all of it.

        Excludes gradients that wait for the end of the pass, because their number depends on the
        number of layers.
        """
        most = [0.0, 0.0]
        for alone in (self._alone(StepPhase.FORWARD), self._backward):
            lives, waiting = simulate(alone).lives, _find_waiting(alone)
            inner = np.array([alone.tasks[b.maker].layer >= 0 for b in alone.buffers], bool)
            counted = np.array([number not in waiting for number in range(len(inner))], bool)
            for index, chosen in enumerate((counted & inner, counted)):
                lifetimes = BufferLifetimes(
                    lives.begins[chosen], lives.ends[chosen], lives.sizes[chosen]
                )
                most[index] = max(most[index], lifetimes.largest()[1])
        return most[0], most[1]

    def _waiting_bytes(self) -> float:
        """Returns the bytes of a layer's gradients before they are cast and summed with the others.

        They have the type of the layer's products.
        """
        alone = self._backward
        return sum(alone.buffers[number].size_bytes for number in _find_waiting(alone)) / LAYERS

    def _alone(self, phase: StepPhase) -> DeviceTasks:
        """Returns the tasks of one pass, with the buffers that no other pass reads."""
        passes = Passes(self.device)
        return passes.part([PassKey(stage, phase) for stage in passes.stages])

    @cached_property
    def _backward(self) -> DeviceTasks:
        return self._alone(StepPhase.BACKWARD)

    def _tied(self) -> Mapping[ModelPart, float]:
        """Returns the bytes of gradients that are added after the last pass, by part.

        A parameter that is read in two places has two gradients to add.
        """
        made, summed = set[str](), set[str]()
        # A step without microbatches has no places, so the loop is empty: nothing is added later.
        for instruction, place in zip(self.program.instructions, self.program.places, strict=False):
            if not isinstance(instruction, LocalOperation):
                continue
            operation = instruction.operation
            names = {str(operand) for operand in operation.operands}
            if place.when is StepPhase.BACKWARD:
                made.update(value.name for value in operation.results)
            elif (
                place.when is StepPhase.AFTER
                and operation.primitive in ADD_PRIMITIVES
                and names <= made
            ):
                summed |= names
        sizes = Counter[ModelPart]()
        for buffer in self.device.buffers:
            if buffer.name in summed and buffer.maker >= 0:
                sizes[self._parts[buffer.maker]] += buffer.size_bytes
        return {part: sizes[part] for part in ModelPart}

    def _boundary(self) -> float:
        """Returns the bytes that a layer hands to the next: those the first layer loop carries."""
        for instruction in self.program.instructions if self.layers else ():
            if isinstance(instruction, LocalOperation) and instruction.body is not None:
                loop = scan_operands_of(instruction.operation.parameter)
                carried = slice(loop.constants, loop.constants + loop.carried)
                carried_values = zip(
                    instruction.operation.operands[carried],
                    instruction.how.operands[carried],
                    strict=True,
                )
                return sum(
                    Type(value.type.dtype, part_shape(value.type, sharding, self.plan.parts)).bytes
                    for value, sharding in carried_values
                    if isinstance(value, Value)
                )
        return 0.0


def _find_waiting(alone: DeviceTasks) -> frozenset[int]:
    """Returns the gradients that layers of a pass make and that only later operations read."""
    inside, behind = set[int](), set[int]()
    for task in alone.tasks:
        (inside if task.layer >= 0 else behind).update(task.reads)
    return frozenset(
        number
        for number in behind - inside
        if alone.buffers[number].kind is BufferKind.GRADIENTS
        and alone.tasks[alone.buffers[number].maker].layer >= 0
    )
