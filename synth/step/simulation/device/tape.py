"""Tasks and buffers of a device, written one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from grammar.tensors.sharding import Sharding, Type
from synth.step.redistribution import ShardingMove
from synth.step.sharding import InstructionPlace, StepPhase
from synth.step.simulation.device.tasks import COMPUTE, Buffer, Task
from synth.step.simulation.device.values import BufferedValue
from synth.step.simulation.groups import Sizes
from synth.step.simulation.kinds import BufferKind

SINGLE_PLACE = InstructionPlace(0, StepPhase.BEFORE)
"""The place of everything in a program without places."""

ONCE_PHASES = (StepPhase.BEFORE, StepPhase.AFTER)


@dataclass
class Tape:
    """Tasks and buffers so far; of each stage, its compute tasks, and how many before each layer.

    ``place`` and ``layer`` are those of what is written next.
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
        """Begins a layer, or what counts as one; returns its index on this stage."""
        units = self.units.setdefault(self.place.stage, [])
        units.append(len(self.own))
        return len(units) - 1

    def issued(self, unit: int, ahead: int) -> int:
        """Number of compute tasks before a layer's read that is issued ``ahead`` layers earlier."""
        return self.units[self.place.stage][max(0, unit - ahead)]

    def after(self, task: int) -> int:
        """Number of compute tasks before what follows a task."""
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
    ) -> int:
        """Appends a task; returns its number."""
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
            )
        )
        if stream == COMPUTE:
            own.append(number)
        return number

    def _turn(self, before: dict[int, None]) -> int:
        tasks = (self.tasks[number] for number in before)
        return max((task.turn for task in tasks if task.place.when is self.place.when), default=0)

    def buffer(self, name: str, kind: Type, sharding: Sharding, use: BufferKind, maker: int) -> int:
        """Appends a buffer; returns its number."""
        self.buffers.append(Buffer(name, use, self.bytes_of(kind, sharding), maker))
        return len(self.buffers) - 1

    def made(
        self, name: str, kind: Type, sharding: Sharding, use: BufferKind, task: int
    ) -> BufferedValue:
        """Appends a buffer for what a task makes; returns the value."""
        return BufferedValue((self.buffer(name, kind, sharding, use, task),), (task,))
