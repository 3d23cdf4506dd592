"""Tasks of a device, on streams, and the buffers that they use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from grammar.tensors.sharding import Type
from synth.events.longest_path import TaskOrder, arrange_tasks
from synth.step.redistribution import ShardingMove
from synth.step.sharding import InstructionPlace, StepPhase
from synth.step.sharding.program import EVERYWHERE
from synth.step.simulation.kinds import BufferKind

COMPUTE = "compute"


@dataclass(frozen=True)
class Overlap:
    """What is sent beside compute, on streams of its own, one for each set of axes.

    ``sends``: what is made in the step is sent as soon as it is made; else where it is first read,
    on the compute stream. ``prefetch``: inputs, and copies of parameters, are put together so many
    layers before they are read (FSDP: 1), or, outside of loops, so many redistributions before;
    None, on the compute stream. Slices of a layer's parameters are let go when it is done, and put
    together again where they are read again, if they are prefetched.
    """

    sends: bool = False
    prefetch: int | None = None


class Task(NamedTuple):
    """What a device does at one time on one stream; ``request``, what it sends, or nothing.

    ``place`` is that of its instruction. ``issue``: how many tasks of compute come before it on its
    stage. ``turn``: of what is done once, how often something was sent from stage to stage before.
    ``layer`` is the iteration of the loop that it is part of, or whose slice it sends; -1, of none.
    ``moves``: what is sent, as a type and the moves that send something; ``sends``: the names of
    the values that are. ``measured``: how many of its seconds somebody measured.
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


@dataclass(slots=True)
class Buffer:
    """A part of a value in memory; ``maker`` is the task that makes it, -1 for inputs.

    ``kept``: until the end of the step; ``home``: the stage that an input lies on.
    """

    name: str
    kind: BufferKind
    size_bytes: int
    maker: int
    kept: bool = False
    home: int = EVERYWHERE


@dataclass(frozen=True)
class StageSend:
    """Bytes that a device of a stage hands to its twin on another, at one time."""

    source: int
    target: int
    when: StepPhase
    turn: int


@dataclass(frozen=True)
class DeviceTasks:
    """Tasks, after what they wait for, and buffers they use.

    ``handed``: what goes from stage to stage, in bytes. Of several stages it is no device that
    could be timed, but what ``Passes`` takes apart.
    """

    tasks: tuple[Task, ...]
    buffers: tuple[Buffer, ...]
    handed: Mapping[StageSend, int] = field(default_factory=dict)

    @cached_property
    def streams(self) -> Mapping[str, Sequence[int]]:
        """The tasks of each: of compute in their order, of what is sent beside when they may be."""
        found: dict[str, list[int]] = {COMPUTE: []}
        tasks = self.tasks
        for number in sorted(range(len(tasks)), key=lambda one: tasks[one].issue):
            found.setdefault(tasks[number].stream, []).append(number)
        found[COMPUTE].sort()
        return found

    @cached_property
    def arranged(self) -> TaskOrder:
        """One order for all tasks, in which each stream does its own in turn."""
        return arrange_tasks([one.before for one in self.tasks], list(self.streams.values()))
