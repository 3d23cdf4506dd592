"""Tasks of a device on streams, and the buffers that they use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from grammar.tensors.sharding import Type
from synth.events.longest_path import TaskOrder, arrange_tasks
from synth.step.redistribution import ShardingMove
from synth.step.redistribution.seconds import Occupancy
from synth.step.sharding import InstructionPlace, StepPhase
from synth.step.sharding.program import EVERYWHERE
from synth.step.simulation.kinds import BufferKind

COMPUTE = "compute"


@dataclass(frozen=True)
class Overlap:
    """The communication that overlaps computation, on a separate stream for each set of axes.

    ``sends``: values made in the step are sent as soon as they are made; otherwise before their
    first reader, on the compute stream. ``prefetch``: the number of layers by which inputs and
    copies of parameters are gathered before they are read (FSDP: 1), or, outside of loops, the
    number of redistributions; if None, they are gathered on the compute stream. With ``prefetch``,
    slices of a layer's parameters are freed after the layer, and gathered again for later reads.
    """

    sends: bool = False
    prefetch: int | None = None


class Task(NamedTuple):
    """An activity of a device on one stream.

    * ``before``: the tasks that it waits for;
    * ``place``: the place of its instruction;
    * ``issue``: the number of compute tasks of its stage that come before it;
    * ``request``: the request that it sends; empty for computation;
    * ``layer``: the iteration of the loop that it is part of, or whose slice it sends; -1 if none;
    * ``turn``: for work done once per step, how many stage-to-stage transfers came before it;
    * ``moves``: the communication, as a type and the moves that communicate;
    * ``sends``: the names of the values that are sent;
    * ``measured``: how many of its seconds were measured;
    * ``occupancy``: the links that it uses, each with the share of its seconds they are busy.
    """

    name: str
    stream: str
    seconds: float
    before: tuple[int, ...]
    place: InstructionPlace
    issue: int
    reads: tuple[int, ...] = ()
    request: str = ""
    layer: int = -1
    turn: int = 0
    moves: tuple[Type, tuple[ShardingMove, ...]] | None = None
    sends: tuple[str, ...] = ()
    measured: float = 0.0
    occupancy: Occupancy = ()


@dataclass(slots=True)
class Buffer:
    """A part of a value in memory; ``maker``: the task that makes it, -1 for inputs.

    ``kept``: whether it is kept until the end of the step. ``home``: the stage of an input.
    """

    name: str
    kind: BufferKind
    size_bytes: int
    maker: int
    kept: bool = False
    home: int = EVERYWHERE


@dataclass(frozen=True)
class StageSend:
    """A transfer from each device of a stage to its peer on another stage, in a phase and turn."""

    source: int
    target: int
    when: StepPhase
    turn: int


@dataclass(frozen=True)
class DeviceTasks:
    """Tasks, each after the tasks it waits for, and the buffers that they use.

    ``handed``: the bytes of each transfer between stages. With several stages, the tasks are not
    those of one device and cannot be timed directly; ``Passes`` must divide them first.
    ``originals``: for each stage of a pipeline, the stage whose tasks and buffers are also its own,
    if not every stage is written out.
    """

    tasks: tuple[Task, ...]
    buffers: tuple[Buffer, ...]
    handed: Mapping[StageSend, int] = field(default_factory=dict)
    originals: tuple[int, ...] = ()

    def count_stages(self, stage: int) -> int:
        """Returns the number of stages that have the tasks of a stage that is written out."""
        return self.originals.count(stage) or 1

    @cached_property
    def streams(self) -> Mapping[str, Sequence[int]]:
        """The tasks of each stream: computation in order, communication by its issue."""
        streams: dict[str, list[int]] = {COMPUTE: []}
        tasks = self.tasks
        for number in sorted(range(len(tasks)), key=lambda number: tasks[number].issue):
            streams.setdefault(tasks[number].stream, []).append(number)
        streams[COMPUTE].sort()
        return streams

    @cached_property
    def arranged(self) -> TaskOrder:
        """An order of all tasks in which each stream runs its tasks in turn."""
        return arrange_tasks([task.before for task in self.tasks], list(self.streams.values()))
