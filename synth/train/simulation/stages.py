"""A device's step cut in stages: the tasks of every stage's passes, and what each keeps.

Layers are dealt out evenly, in their order. What comes before them is done by every stage that
reads it (the embedding by the first, a mask by all), what comes between forward and backward layers
by the last. Passes are done once for each microbatch; what begins with complete gradients (their
reductions, and the update) once a step. Of what works on the stacked parameters of all layers each
stage does its share. Where first and last stage share parameters, as a tied embedding, both hold
them, and that their gradients are added is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import chain

import numpy as np

from hierarchies import InputError
from synth.events.blocks import Block
from synth.train.simulation.device import Device
from synth.train.simulation.kinds import Kind
from synth.train.simulation.memory import Lives

SCALAR = 8
"""Bytes of what every stage makes for itself rather than its share of."""


class Phase(Enum):
    """When a task is done: in a pass of each microbatch, or once in the end."""

    FORWARD = "forward"
    BACKWARD = "backward"
    UPDATE = "update"


@dataclass(frozen=True, eq=False)
class Stages:
    """A device's tasks by stages. Raises InputError where layers cannot be dealt out evenly."""

    device: Device
    count: int

    def __post_init__(self) -> None:
        layers = self.device.layers
        if self.count > 1 and not layers:
            raise InputError(
                f"{self.count} stages of a step without a loop of layers",
                hint="trace the model with its layers as a loop (scan)",
            )
        if layers % self.count:
            fits = [n for n in range(1, layers + 1) if layers % n == 0]
            raise InputError(
                f"{layers} layers in {self.count} stages",
                hint=f"stages are alike: {', '.join(map(str, fits))}",
            )

    @cached_property
    def phases(self) -> Sequence[Phase]:
        """The phase of each task."""
        device, complete = self.device, (Kind.GRADIENTS, Kind.MOMENTS)
        found = [Phase.FORWARD] * device.forward
        for task in device.tasks[device.forward :]:
            reads = any(device.buffers[number].kind in complete for number in task.reads)
            late = reads or any(found[one] is Phase.UPDATE for one in task.before)
            found.append(Phase.UPDATE if late else Phase.BACKWARD)
        needed = {
            one.maker
            for one in device.buffers
            if one.kind is Kind.GRADIENTS and one.maker >= 0 and found[one.maker] is Phase.BACKWARD
        }
        for number in range(len(found) - 1, device.forward - 1, -1):
            if number in needed:
                needed.update(device.tasks[number].before)
            elif found[number] is Phase.BACKWARD:
                found[number] = Phase.UPDATE
        return found

    @cached_property
    def shares(self) -> Sequence[dict[int, float]]:
        """For each task the stages that do it, and the part of it that each does."""
        tasks, phases = self.device.tasks, self.phases
        passed = dict.fromkeys(Phase, False)
        homes: list[set[int]] = []
        stacked: list[bool] = []
        for task, phase in zip(tasks, phases, strict=True):
            above = phase is Phase.UPDATE and any(stacked[one] for one in task.before)
            stacked.append(task.layer >= 0 or above)
            if task.layer >= 0:
                passed[phase] = True
                homes.append({self._stage(task.layer)})
            elif phase is Phase.UPDATE:
                homes.append({stage for one in task.before for stage in homes[one]})
            elif passed[phase]:
                homes.append({self.count - 1 if phase is Phase.FORWARD else 0})
            else:
                homes.append({self.count - 1} if phase is Phase.BACKWARD else set())
        self._share_backwards(homes, stacked)
        return [
            dict.fromkeys(sorted(some), 1.0 / self.count if alike else 1.0)
            for some, alike in (
                (some, many and phase is Phase.UPDATE and task.layer < 0)
                for task, phase, some, many in zip(tasks, phases, homes, stacked, strict=True)
            )
        ]

    def _stage(self, layer: int) -> int:
        return min(layer * self.count // max(1, self.device.layers), self.count - 1)

    def _share_backwards(self, homes: list[set[int]], stacked: list[bool]) -> None:
        """What waits for no layer and for no gradient is done where it is read, by each of them."""
        large = {one.maker for one in self.device.buffers if one.size_bytes > SCALAR}
        own = [bool(some) for some in homes]
        for number in range(len(homes) - 1, -1, -1):
            homes[number] = homes[number] or set(range(self.count))
            for one in self.device.tasks[number].before:
                if not own[one]:
                    homes[one] |= homes[number]
                    stacked[one] |= stacked[number] and one in large

    @cached_property
    def _tasks(self) -> dict[tuple[int, Phase], list[int]]:
        found: dict[tuple[int, Phase], list[int]] = {}
        for queue in self.device.streams.values():
            for task in queue:
                for stage in self.shares[task]:
                    found.setdefault((stage, self.phases[task]), []).append(task)
        return found

    def tasks(self, stage: int, phase: Phase) -> Sequence[int]:
        """The tasks of a stage in a phase, stream by stream in their order."""
        return self._tasks.get((stage, phase), ())

    def block(self, stage: int, phase: Phase) -> Block:
        """They as a block: streams are numbered as the device's are."""
        chosen, tasks = self.tasks(stage, phase), self.device.tasks
        streams = {stream: number for number, stream in enumerate(self.device.streams)}
        places = {task: place for place, task in enumerate(chosen)}
        return Block(
            tuple(streams[tasks[task].stream] for task in chosen),
            tuple(
                tuple(places[one] for one in tasks[task].before if one in places) for task in chosen
            ),
            tuple(tasks[task].seconds * self.shares[task][stage] for task in chosen),
        )

    def state(self, stage: int) -> Iterator[tuple[Kind, int]]:
        """What a stage has all the time, in bytes: its inputs."""
        shares: dict[int, float] = {}
        for task in chain.from_iterable(self.tasks(stage, phase) for phase in Phase):
            for number in self.device.tasks[task].reads:
                stacked = self.device.buffers[number].stacked
                part = 1.0 / self.count if stacked else self.shares[task][stage]
                shares[number] = max(shares.get(number, 0.0), part)
        for number, part in shares.items():
            one = self.device.buffers[number]
            if one.maker < 0:
                yield one.kind, round(part * one.size_bytes)

    def gradients(self, stage: int) -> int:
        """Bytes into which microbatches add up, until the update."""
        return sum(
            one.size_bytes
            for one in self.device.buffers
            if one.kind is Kind.GRADIENTS
            and one.maker >= 0
            and self.phases[one.maker] is Phase.BACKWARD
            and stage in self.shares[one.maker]
        )

    def saved(self, stage: int) -> frozenset[int]:
        """The buffers that a forward pass keeps for a stage's backward pass."""
        return frozenset(
            number
            for task in self.tasks(stage, Phase.BACKWARD)
            for number in self.device.tasks[task].reads
            if 0 <= self.device.buffers[number].maker < self.device.forward
        )

    def working(self, stage: int, phase: Phase) -> int:
        """The most bytes that a pass makes and lets go of again."""
        chosen, block = self.tasks(stage, phase), self.block(stage, phase)
        begins, ends = (dict(zip(chosen, times, strict=True)) for times in block.times)
        until: dict[int, float] = {}
        for task in chosen:
            for number in self.device.tasks[task].reads:
                until[number] = max(until.get(number, 0.0), ends[task])
        kept = self.saved(stage)
        lives = [
            (
                begins[one.maker],
                max(ends[one.maker], until.get(number, 0.0)),
                self._part(number, stage),
            )
            for number, one in enumerate(self.device.buffers)
            if one.maker in begins and number not in kept and one.kind is not Kind.GRADIENTS
        ]
        table = np.array(lives).reshape(-1, 3).T
        return Lives(table[0], table[1], table[2].astype(np.int64)).largest()[1]

    def _part(self, number: int, stage: int) -> float:
        one = self.device.buffers[number]
        return one.size_bytes * self.shares[one.maker][stage]
