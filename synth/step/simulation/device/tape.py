"""A tape on which the tasks and buffers of a device are written one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from grammar.tensors.sharding import Sharding, Type
from synth.step.redistribution import ShardingMove
from synth.step.redistribution.seconds import Occupancy
from synth.step.sharding import InstructionPlace, StepPhase
from synth.step.simulation.device.tasks import COMPUTE, Buffer, Task
from synth.step.simulation.device.values import BufferedValue
from synth.step.simulation.groups import Sizes
from synth.step.simulation.kinds import BufferKind

SINGLE_PLACE = InstructionPlace(0, StepPhase.BEFORE)
"""The place of all tasks of a program without places."""

ONCE_PHASES = (StepPhase.BEFORE, StepPhase.AFTER)


@dataclass
class Tape:
    """The tasks and buffers written so far.

    ``compute``: the compute tasks of each stage. ``units``: for each stage, the number of compute
    tasks before each layer. ``place`` and ``layer`` are those of the next task.
    """

    bytes_of: Sizes
    tasks: list[Task] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    compute: dict[int, list[int]] = field(default_factory=dict)
    units: dict[int, list[int]] = field(default_factory=dict)
    place: InstructionPlace = SINGLE_PLACE
    layer: int = -1

    @property
    def own(self) -> list[int]:
        """The compute tasks of this stage."""
        return self.compute.setdefault(self.place.stage, [])

    def unit(self) -> int:
        """Begins a layer, or another unit of prefetching; returns its index on this stage."""
        units = self.units.setdefault(self.place.stage, [])
        units.append(len(self.own))
        return len(units) - 1

    def issued(self, unit: int, ahead: int) -> int:
        """Returns the number of compute tasks before the layer ``ahead`` layers earlier.

        A gather for layer ``unit`` is issued at that point.
        """
        return self.units[self.place.stage][max(0, unit - ahead)]

    def after(self, task: int) -> int:
        """Returns the number of compute tasks before the successor of a task."""
        maker = self.tasks[task]
        return maker.issue + (maker.stream == COMPUTE)

    def task(
        self,
        name: str,
        stream: str,
        seconds: float,
        read: Sequence[BufferedValue],
        after: Sequence[int] = (),
        *,
        issue: int | None = None,
        turn: int | None = None,
        request: str = "",
        moves: tuple[Type, tuple[ShardingMove, ...]] | None = None,
        sends: tuple[str, ...] = (),
        measured: float = 0.0,
        occupancy: Occupancy = (),
    ) -> int:
        """Appends a task and returns its number."""
        before = dict.fromkeys(maker for value in read for maker in value.makers)
        before.update(dict.fromkeys(after))
        reads = dict.fromkeys(number for value in read for number in value.buffers)
        number, own = len(self.tasks), self.own
        if turn is None:
            turn = self._turn(before) if self.place.when in ONCE_PHASES else 0
        self.tasks.append(
            Task(
                name,
                stream,
                seconds,
                tuple(before),
                self.place,
                len(own) if issue is None else issue,
                tuple(reads),
                request,
                self.layer,
                turn,
                moves,
                sends,
                measured,
                occupancy,
            )
        )
        if stream == COMPUTE:
            own.append(number)
        return number

    def _turn(self, before: dict[int, None]) -> int:
        tasks = (self.tasks[number] for number in before)
        return max((task.turn for task in tasks if task.place.when is self.place.when), default=0)

    def buffer(self, name: str, kind: Type, sharding: Sharding, use: BufferKind, maker: int) -> int:
        """Appends a buffer and returns its number."""
        self.buffers.append(Buffer(name, use, self.bytes_of(kind, sharding), maker))
        return len(self.buffers) - 1

    def made(
        self, name: str, kind: Type, sharding: Sharding, use: BufferKind, task: int
    ) -> BufferedValue:
        """Appends a buffer for the result of a task and returns its value."""
        return BufferedValue((self.buffer(name, kind, sharding, use, task),), (task,))
