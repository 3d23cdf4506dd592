"""Divides a device's tasks into passes of each stage: forward, backward, or once per step.

The program specifies the place and phase of each instruction; instructions without a stage run on
every stage. If one pass makes a value and another reads it, the stage keeps a copy for each
microbatch in between. Values that are read after all microbatches are summed in one buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from synth.step.sharding import InstructionPlace, StepPhase
from synth.step.sharding.program import EVERYWHERE, MICROBATCH_PHASES
from synth.step.simulation.device import Buffer, DeviceTasks
from synth.step.simulation.kinds import BufferKind

BACKWARD_PHASES = MICROBATCH_PHASES[1:]
"""The halves of a backward pass."""


class PassKey(NamedTuple):
    """A pass of a stage; ``turn``: for work done once, as in ``Task``."""

    stage: int
    when: StepPhase
    turn: int = 0


@dataclass(frozen=True, eq=False)
class Passes:
    """The tasks of a device by passes."""

    device: DeviceTasks

    @property
    def stages(self) -> Sequence[int]:
        """The stages that have tasks, in order; stage 0 if all tasks run everywhere."""
        return range(len(self.device.originals)) or self._written

    @cached_property
    def _written(self) -> Sequence[int]:
        """The stages whose tasks are written out."""
        stages = {task.place.stage for task in self.device.tasks} - {EVERYWHERE}
        return sorted(stages) or [0]

    def _original(self, stage: int) -> int:
        """Returns the stage whose tasks a stage has."""
        return self.device.originals[stage] if self.device.originals else stage

    def find_originals(self, keys: Iterable[PassKey]) -> tuple[PassKey, ...]:
        """Returns the passes whose tasks passes have: equal passes have equal originals."""
        return tuple(key._replace(stage=self._original(key.stage)) for key in keys)

    @cached_property
    def back(self) -> tuple[StepPhase, ...]:
        """The phases of a whole backward pass: a single phase, or two halves if it is split."""
        halves = any(key.when is StepPhase.WEIGHT for key in self._tasks)
        return BACKWARD_PHASES if halves else BACKWARD_PHASES[:1]

    @cached_property
    def _tasks(self) -> dict[PassKey, list[int]]:
        tasks: dict[PassKey, list[int]] = {}
        for number, task in enumerate(self.device.tasks):
            own = task.place.stage
            for stage in self._written if own == EVERYWHERE else (own,):
                tasks.setdefault(PassKey(stage, task.place.when, task.turn), []).append(number)
        return tasks

    def once(self, stage: int, when: StepPhase) -> list[PassKey]:
        """Returns the passes of a stage before or after all microbatches, in the order of turns."""
        own = self._original(stage)
        keys = (key for key in self._tasks if key.stage == own and key.when is when)
        return [key._replace(stage=stage) for key in sorted(keys, key=lambda key: key.turn)]

    def tasks(self, keys: Iterable[PassKey]) -> list[int]:
        """Returns the numbers of the tasks of the passes ``keys``."""
        own = self.find_originals(keys)
        return sorted(number for key in own for number in self._tasks.get(key, ()))

    def part(self, keys: Sequence[PassKey]) -> DeviceTasks:
        """Returns consecutive passes of a stage as the tasks of a separate device.

        Its buffers are those that no other pass reads.
        """
        chosen = self.tasks(keys)
        back = tuple(key.when for key in keys if key.when in BACKWARD_PHASES)
        places = {task: place for place, task in enumerate(chosen)}
        own = [
            number
            for task in chosen
            for number in self._made_by.get(task, ())
            if not self._outlives(number, back)
        ]
        numbers = {number: place for place, number in enumerate(own)}
        tasks = [
            task._replace(
                before=tuple(places[number] for number in task.before if number in places),
                reads=tuple(numbers[number] for number in task.reads if number in numbers),
            )
            for task in (self.device.tasks[number] for number in chosen)
        ]
        originals = (self.device.buffers[number] for number in own)
        buffers = [Buffer(b.name, b.kind, b.size_bytes, places[b.maker]) for b in originals]
        return DeviceTasks(tuple(tasks), tuple(buffers))

    @cached_property
    def _made_by(self) -> dict[int, list[int]]:
        """The buffers that each task makes."""
        made_by: dict[int, list[int]] = {}
        for number, buffer in enumerate(self.device.buffers):
            made_by.setdefault(buffer.maker, []).append(number)
        return made_by

    @cached_property
    def _readers(self) -> list[set[tuple[int, StepPhase]]]:
        """The stages and phases in which each buffer is read."""
        readers: list[set[tuple[int, StepPhase]]] = [set() for _ in self.device.buffers]
        for task in self.device.tasks:
            for number in task.reads:
                readers[number].add((task.place.stage, task.place.when))
        return readers

    def _outlives(self, number: int, together: Sequence[StepPhase] = ()) -> bool:
        """Whether a buffer is read by a pass other than the pass that makes it.

        Halves of a backward pass that are done ``together`` count as a single pass.
        """
        buffer = self.device.buffers[number]
        when = self.device.tasks[buffer.maker].place.when
        own = together if when in together else (when,)
        return buffer.kept or any(other not in own for _, other in self._readers[number])

    def state(self, stages: Sequence[int]) -> Iterator[tuple[BufferKind, int, str]]:
        """Yields the kind, bytes and name of each buffer that a rank of these stages always holds.

        These are the inputs, and values made from them before the first microbatch.
        """
        here = [*map(self._original, stages), EVERYWHERE]
        for number in self._before:
            buffer = self.device.buffers[number]
            made = buffer.maker >= 0
            home = self.device.tasks[buffer.maker].place.stage if made else buffer.home
            for _ in range(here.count(home)):
                yield buffer.kind, buffer.size_bytes, buffer.name

    @cached_property
    def _before(self) -> list[int]:
        """The buffers of inputs, and of values made from them once and kept."""
        return [
            number
            for number, buffer in enumerate(self.device.buffers)
            if buffer.maker < 0
            or (
                self.device.tasks[buffer.maker].place.when is StepPhase.BEFORE
                and self._outlives(number)
            )
        ]

    def accumulated(self, stage: int) -> Iterator[tuple[StepPhase, BufferKind, int, str]]:
        """Yields the buffers in which microbatches are summed, which are read after the last.

        For each: the first pass that holds it, at the earliest a backward pass; then its kind,
        bytes and name.
        """
        for number, buffer in self._made(stage, MICROBATCH_PHASES):
            if any(when is StepPhase.AFTER for _, when in self._readers[number]) or buffer.kept:
                made = self.device.tasks[buffer.maker].place.when
                last = made if made in BACKWARD_PHASES else StepPhase.BACKWARD
                yield last, buffer.kind, buffer.size_bytes, buffer.name

    def saved(self, stage: int) -> Iterator[tuple[tuple[StepPhase, StepPhase], Buffer]]:
        """Yields buffers that later passes of a microbatch read, with the first and last pass."""
        for number, buffer in self._made(stage, MICROBATCH_PHASES):
            made = self.device.tasks[buffer.maker].place.when
            readers = {when for _, when in self._readers[number]}
            later = [
                when
                for when in MICROBATCH_PHASES[MICROBATCH_PHASES.index(made) + 1 :]
                if when in readers
            ]
            if later:
                yield (made, later[-1]), buffer

    def _made(self, stage: int, phases: Sequence[StepPhase]) -> Iterator[tuple[int, Buffer]]:
        stages = {self._original(stage), EVERYWHERE}
        places = (InstructionPlace(stage, phase) for stage in stages for phase in phases)
        for number in sorted(chain(*(self._made_at.get(place, ()) for place in places))):
            yield number, self.device.buffers[number]

    @cached_property
    def _made_at(self) -> dict[InstructionPlace, list[int]]:
        """The buffers that are made at each place."""
        made_at: dict[InstructionPlace, list[int]] = {}
        for number, buffer in enumerate(self.device.buffers):
            if buffer.maker >= 0:
                made_at.setdefault(self.device.tasks[buffer.maker].place, []).append(number)
        return made_at
