"""A device's tasks by passes: what a stage does of a microbatch forward, backward, or once.

The program says where and when each instruction is done. What every stage does, each does. Of what
one pass makes and another reads, the stage keeps a copy for each microbatch between the two; what
is read when all are done is added up in one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from synth.step.sharding import InstructionPlace, StepPhase
from synth.step.sharding.program import EVERYWHERE, MICROBATCH_PHASES
from synth.step.simulation.device import Buffer, DeviceTasks
from synth.step.simulation.kinds import BufferKind

BACKWARD_PHASES = MICROBATCH_PHASES[1:]
"""The halves of a backward pass."""


@dataclass(frozen=True)
class PassKey:
    """What a stage does at one time; ``turn``, of what is done once, as ``Task`` says."""

    stage: int
    when: StepPhase
    turn: int = 0


@dataclass(frozen=True, eq=False)
class Passes:
    """The tasks of a device by passes."""

    device: DeviceTasks

    @cached_property
    def stages(self) -> Sequence[int]:
        """The stages that do something, in their order; one, if all is done everywhere."""
        found = {task.place.stage for task in self.device.tasks} - {EVERYWHERE}
        return sorted(found) or [0]

    @cached_property
    def back(self) -> tuple[StepPhase, ...]:
        """What a whole backward pass is: one piece, or its halves, where the program has them."""
        halves = any(key.when is StepPhase.WEIGHT for key in self._tasks)
        return BACKWARD_PHASES if halves else BACKWARD_PHASES[:1]

    @cached_property
    def _tasks(self) -> dict[PassKey, list[int]]:
        found: dict[PassKey, list[int]] = {}
        for number, task in enumerate(self.device.tasks):
            mine = task.place.stage
            for stage in self.stages if mine == EVERYWHERE else (mine,):
                found.setdefault(PassKey(stage, task.place.when, task.turn), []).append(number)
        return found

    def once(self, stage: int, when: StepPhase) -> list[PassKey]:
        """What a stage does before or after all microbatches, turn by turn."""
        found = (key for key in self._tasks if key.stage == stage and key.when is when)
        return sorted(found, key=lambda key: key.turn)

    def tasks(self, keys: Iterable[PassKey]) -> list[int]:
        """The numbers of the tasks of some passes of a stage."""
        return sorted(number for key in keys for number in self._tasks.get(key, ()))

    def part(self, keys: Sequence[PassKey]) -> DeviceTasks:
        """Some passes of a stage, one after the other, as a device of their own.

        Its buffers are those that nothing else reads.
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
                before=tuple(places[one] for one in task.before if one in places),
                reads=tuple(numbers[one] for one in task.reads if one in numbers),
            )
            for task in (self.device.tasks[number] for number in chosen)
        ]
        whole = (self.device.buffers[number] for number in own)
        buffers = [Buffer(one.name, one.kind, one.size_bytes, places[one.maker]) for one in whole]
        return DeviceTasks(tuple(tasks), tuple(buffers))

    @cached_property
    def _made_by(self) -> dict[int, list[int]]:
        """The buffers that each task makes."""
        found: dict[int, list[int]] = {}
        for number, one in enumerate(self.device.buffers):
            found.setdefault(one.maker, []).append(number)
        return found

    @cached_property
    def _readers(self) -> list[set[tuple[int, StepPhase]]]:
        """For each buffer where and when it is read."""
        found: list[set[tuple[int, StepPhase]]] = [set() for _ in self.device.buffers]
        for task in self.device.tasks:
            for number in task.reads:
                found[number].add((task.place.stage, task.place.when))
        return found

    def _outlives(self, number: int, together: Sequence[StepPhase] = ()) -> bool:
        """Whether a buffer is read by another pass than the one that makes it.

        Halves of a backward pass that are done ``together`` are one.
        """
        one = self.device.buffers[number]
        when = self.device.tasks[one.maker].place.when
        own = together if when in together else (when,)
        return one.kept or any(other not in own for _, other in self._readers[number])

    def state(self, stages: Sequence[int]) -> Iterator[tuple[BufferKind, int, str]]:
        """What a rank of some stages has all the time: their inputs, and what they make of these
        before the first microbatch. Kinds, bytes, names.
        """
        here = {*stages, EVERYWHERE}
        for number in self._before:
            one = self.device.buffers[number]
            made = one.maker >= 0
            if (self.device.tasks[one.maker].place.stage if made else one.home) in here:
                yield one.kind, one.size_bytes, one.name

    @cached_property
    def _before(self) -> list[int]:
        """The buffers of inputs, and of what is made of them once and kept."""
        return [
            number
            for number, one in enumerate(self.device.buffers)
            if one.maker < 0
            or (
                self.device.tasks[one.maker].place.when is StepPhase.BEFORE
                and self._outlives(number)
            )
        ]

    def accumulated(self, stage: int) -> Iterator[tuple[StepPhase, BufferKind, int, str]]:
        """Into what microbatches add up, until it is read when all are done.

        In which pass that is, a backward one at the earliest; then kinds, bytes, names.
        """
        for number, one in self._made(stage, MICROBATCH_PHASES):
            if any(when is StepPhase.AFTER for _, when in self._readers[number]) or one.kept:
                made = self.device.tasks[one.maker].place.when
                last = made if made in BACKWARD_PHASES else StepPhase.BACKWARD
                yield last, one.kind, one.size_bytes, one.name

    def saved(self, stage: int) -> Iterator[tuple[tuple[StepPhase, StepPhase], Buffer]]:
        """Buffers that later passes of a microbatch read, with those that make and last read it."""
        for number, one in self._made(stage, MICROBATCH_PHASES):
            made = self.device.tasks[one.maker].place.when
            readers = {when for _, when in self._readers[number]}
            later = [
                when
                for when in MICROBATCH_PHASES[MICROBATCH_PHASES.index(made) + 1 :]
                if when in readers
            ]
            if later:
                yield (made, later[-1]), one

    def _made(self, stage: int, whens: Sequence[StepPhase]) -> Iterator[tuple[int, Buffer]]:
        places = (InstructionPlace(one, when) for one in {stage, EVERYWHERE} for when in whens)
        for number in sorted(chain(*(self._made_at.get(place, ()) for place in places))):
            yield number, self.device.buffers[number]

    @cached_property
    def _made_at(self) -> dict[InstructionPlace, list[int]]:
        """The buffers that are made at each place."""
        found: dict[InstructionPlace, list[int]] = {}
        for number, one in enumerate(self.device.buffers):
            if one.maker >= 0:
                found.setdefault(self.device.tasks[one.maker].place, []).append(number)
        return found
