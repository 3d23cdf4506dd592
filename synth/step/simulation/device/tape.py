"""The tasks and buffers that are written, one after the other."""

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
"""Where everything is done of a program without places."""

ONCE_PHASES = (StepPhase.BEFORE, StepPhase.AFTER)


@dataclass
class Tape:
    """What is written so far; of each stage its tasks of compute, and how many before each layer.

    ``place`` and ``layer`` are those of what is now written.
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
        """The tasks of compute of this stage."""
        return self.compute.setdefault(self.place.stage, [])

    def unit(self) -> int:
        """One more layer, or what counts as one: its place among those of this stage."""
        units = self.units.setdefault(self.place.stage, [])
        units.append(len(self.own))
        return len(units) - 1

    def issued(self, unit: int, ahead: int) -> int:
        """How many tasks of compute come before what a layer reads, asked for so much ahead."""
        return self.units[self.place.stage][max(0, unit - ahead)]

    def after(self, task: int) -> int:
        """How many tasks of compute come before what follows this one."""
        one = self.tasks[task]
        return one.issue + (one.stream == COMPUTE)

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
        """One more task, by its number."""
        before = dict.fromkeys(maker for one in read for maker in one.makers)
        before.update(dict.fromkeys(after))
        reads = dict.fromkeys(number for one in read for number in one.buffers)
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
        same = (self.tasks[one] for one in before)
        return max((one.turn for one in same if one.place.when is self.place.when), default=0)

    def buffer(self, name: str, kind: Type, lies: Sharding, use: BufferKind, maker: int) -> int:
        """One more buffer, by its number."""
        self.buffers.append(Buffer(name, use, self.bytes_of(kind, lies), maker))
        return len(self.buffers) - 1

    def made(
        self, name: str, kind: Type, lies: Sharding, use: BufferKind, task: int
    ) -> BufferedValue:
        """What a task makes, in a buffer of its own."""
        return BufferedValue((self.buffer(name, kind, lies, use, task),), (task,))
