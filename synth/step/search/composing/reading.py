"""Reads the inside of a stage off two layers that are written out as the tasks of a device."""

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
"""What sums the gradients of a parameter that is read in two places."""

LAYERS = 2
"""Of the model that is traced: with one there is nothing between layers."""


@dataclass(frozen=True)
class StageReader:
    """A step as the tasks of a device, to be read by parts: of ``LAYERS``, or in one piece.

    ``batch``: the axes that cut it.
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
            for several in (parameters, experts)
            for part, sizes in several.items()
        )
        moments = (one for one in self.device.buffers if one.kind is BufferKind.MOMENTS)
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
            sum(one.size_bytes for one in moments if one.maker < 0) / stored,
            sum(self._lasting(StepPhase.BACKWARD, StepPhase.AFTER).values()) / stored,
            sum(self._lasting(StepPhase.BEFORE, StepPhase.FORWARD, StepPhase.BACKWARD).values())
            / stored,
            update / stored,
            self._summing(),
        )

    def _each(self, found: Counter[ModelPart]) -> Mapping[ModelPart, float]:
        """Of one layer, where it is of all."""
        return {one: found[one] / (LAYERS if one is ModelPart.LAYER else 1) for one in ModelPart}

    @cached_property
    def _parts(self) -> Sequence[ModelPart]:
        """The part of each task: forward what comes before the layers is first, backward last."""
        found, seen = [], set[StepPhase]()
        for task in self.device.tasks:
            when = task.place.when
            early = when not in seen
            if task.layer >= 0:
                seen.add(when)
                found.append(ModelPart.LAYER)
            elif when is StepPhase.BACKWARD:
                found.append(ModelPart.LAST if early else ModelPart.FIRST)
            else:
                found.append(ModelPart.FIRST if early else ModelPart.LAST)
        return found

    def _work(self) -> Mapping[tuple[StepPhase, ModelPart], PassWork]:
        seconds: defaultdict[tuple[StepPhase, ModelPart], float] = defaultdict(float)
        sent: defaultdict[tuple[StepPhase, ModelPart], defaultdict[PartCollective, float]] = (
            defaultdict(lambda: defaultdict(float))
        )
        beside = self._beside()
        for number, (task, part) in enumerate(zip(self.device.tasks, self._parts, strict=True)):
            key = task.place.when, part
            share = 1 / LAYERS if part is ModelPart.LAYER else 1.0
            if task.stream == COMPUTE:
                seconds[key] += task.seconds * (1 - self._summed(task)) * share
            for one in collectives_of(task, self.plan):
                sent[key][PartCollective(*one, beside.get(number, 0.0))] += share
        return {
            (when, part): PassWork(seconds[when, part], sent[when, part])
            for when in (StepPhase.FORWARD, StepPhase.BACKWARD)
            for part in ModelPart
        }

    def _beside(self) -> Mapping[int, float]:
        """Of what a layer sends and reads: seconds of its computing between the two.

        What it sends next on the same stream ends that, too: it would go as late.
        """
        tasks, found = self.device.tasks, dict[int, float]()
        of_layers = defaultdict[tuple[object, str], list[int]](list)
        for stream, several in self.device.streams.items():
            for one in several:
                of_layers[(tasks[one].layer, tasks[one].place), stream].append(one)
        for (layer, stream), several in of_layers.items():
            own = [tasks[one] for one in of_layers.get((layer, COMPUTE), ())]
            if stream == COMPUTE or tasks[several[0]].layer < 0:
                continue
            for one, after in zip_longest(several, several[1:]):
                read = next((each.issue for each in own if one in each.before), 0)
                end = read if after is None else min(read, tasks[after].issue)
                window = range(tasks[one].issue, end)
                found[one] = sum(each.seconds for each in own if each.issue in window)
        return found

    def _summing(self) -> float:
        """Seconds of a layer's gradients."""
        tasks = (one for one in self.device.tasks if one.stream == COMPUTE)
        return sum(one.seconds * self._summed(one) for one in tasks) / LAYERS

    def _summed(self, task: Task) -> float:
        """The share of a backward task that casts and adds up gradients of layers, by bytes.

        It reads stacks of what the layers made, and is none of them.
        """
        if task.layer >= 0 or task.place.when is not StepPhase.BACKWARD:
            return 0.0
        read = [self.device.buffers[one] for one in task.reads]
        layers = [self.device.tasks[one.maker].layer if one.maker >= 0 else -1 for one in read]
        times = Counter(one.name for one, layer in zip(read, layers, strict=True) if layer >= 0)
        stacked = sum(one.size_bytes for one in read if times[one.name] == LAYERS)
        return stacked / max(1, sum(one.size_bytes for one in read))

    @cached_property
    def _readers(self) -> Sequence[set[int]]:
        """For each buffer the tasks that read it."""
        found: list[set[int]] = [set() for _ in self.device.buffers]
        for number, task in enumerate(self.device.tasks):
            for buffer in task.reads:
                found[buffer].add(number)
        return found

    @cached_property
    def _of_experts(self) -> frozenset[str]:
        """Inputs that an axis cuts which cuts the batch, too."""
        both = zip(self.step.graph.inputs, self.step.roles, self.plan.cuts.inputs, strict=True)
        return frozenset(
            value.name
            for value, role, lies in both
            if role not in SAMPLE_ROLES and not set(lies.axes).isdisjoint(self.batch)
        )

    def _parameters(self, *, experts: bool) -> Mapping[ModelPart, tuple[float, ...]]:
        """Slices of stacks are of a layer; the others are where they are read first."""
        stacked = find_stacks(self.step) if self.layers else ()
        found: dict[ModelPart, list[float]] = {part: [] for part in ModelPart}
        for one in self.device.buffers:
            if one.maker >= 0 or one.kind is not BufferKind.PARAMETERS:
                continue
            if (one.name in self._of_experts) != experts:
                continue
            if one.name in stacked:
                found[ModelPart.LAYER].append(one.size_bytes / LAYERS)
            else:
                found[ModelPart.LAST if self._is_last(one.name) else ModelPart.FIRST].append(
                    one.size_bytes
                )
        return {part: tuple(sizes) for part, sizes in found.items()}

    def _is_last(self, name: str) -> bool:
        """Whether an input, or casts of it, are read behind the first loop over layers only."""
        if not self.layers:
            return False
        names, looped = {name}, False
        for one in self.step.graph.operations:
            if names.intersection(map(str, one.operands)):
                if one.primitive == CAST:
                    names.update(value.name for value in one.results)
                else:
                    return looped
            looped = looped or one.body is not None
        return False

    def _lasting(self, first: StepPhase, *later: StepPhase) -> Counter[ModelPart]:
        """Bytes that are made in one pass and read in others, by the part that makes them."""
        found = Counter[ModelPart]()
        for number, one in enumerate(self.device.buffers):
            if one.maker < 0 or self.device.tasks[one.maker].place.when is not first:
                continue
            if any(self.device.tasks[task].place.when in later for task in self._readers[number]):
                found[self._parts[one.maker]] += one.size_bytes
        return found

    def _working(self) -> tuple[float, float]:
        """The most that a pass needs of its own: in its layers alone, and in all of it.

        Without gradients that wait for the end of the pass, as these are as many as layers.
        """
        most = [0.0, 0.0]
        for alone in (self._alone(StepPhase.FORWARD), self._backward):
            lives, waiting = simulate(alone).lives, _find_waiting(alone)
            inner = np.array([alone.tasks[one.maker].layer >= 0 for one in alone.buffers], bool)
            counted = np.array([at not in waiting for at in range(len(inner))], bool)
            for at, chosen in enumerate((counted & inner, counted)):
                some = BufferLifetimes(
                    lives.begins[chosen], lives.ends[chosen], lives.sizes[chosen]
                )
                most[at] = max(most[at], some.largest()[1])
        return most[0], most[1]

    def _waiting_bytes(self) -> float:
        """Gradients of a layer in the type of its products, until all are cast to be summed."""
        alone = self._backward
        return sum(alone.buffers[number].size_bytes for number in _find_waiting(alone)) / LAYERS

    def _alone(self, when: StepPhase) -> DeviceTasks:
        """The tasks of one pass, with the buffers that no other reads."""
        passes = Passes(self.device)
        return passes.part([PassKey(stage, when) for stage in passes.stages])

    @cached_property
    def _backward(self) -> DeviceTasks:
        return self._alone(StepPhase.BACKWARD)

    def _tied(self) -> Mapping[ModelPart, float]:
        """Gradients whose sum with others of their parameter is done after all microbatches."""
        made, summed = set[str](), set[str]()
        # A step without microbatches has no places: nothing is summed after the last.
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
        found = Counter[ModelPart]()
        for one in self.device.buffers:
            if one.name in summed and one.maker >= 0:
                found[self._parts[one.maker]] += one.size_bytes
        return {part: found[part] for part in ModelPart}

    def _boundary(self) -> float:
        """Bytes that a layer hands to the next: what the first loop over layers carries."""
        for one in self.program.instructions if self.layers else ():
            if isinstance(one, LocalOperation) and one.body is not None:
                loop = scan_operands_of(one.operation.parameter)
                carried = slice(loop.constants, loop.constants + loop.carried)
                both = zip(one.operation.operands[carried], one.how.operands[carried], strict=True)
                return sum(
                    Type(value.type.dtype, part_shape(value.type, lies, self.plan.parts)).bytes
                    for value, lies in both
                    if isinstance(value, Value)
                )
        return 0.0


def _find_waiting(alone: DeviceTasks) -> frozenset[int]:
    """Gradients that layers of a pass make and only what follows the layers reads."""
    inside, behind = set[int](), set[int]()
    for task in alone.tasks:
        (inside if task.layer >= 0 else behind).update(task.reads)
    return frozenset(
        number
        for number in behind - inside
        if alone.buffers[number].kind is BufferKind.GRADIENTS
        and alone.tasks[alone.buffers[number].maker].layer >= 0
    )
