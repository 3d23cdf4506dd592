"""Tasks of a device on streams, and the buffers that they use."""

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
    """Which communication overlaps with compute, on streams of its own for each set of axes.

    ``sends``: values made in the step are sent as soon as they are made; else where they are first
    read, on the compute stream. ``prefetch``: inputs, and copies of parameters, are gathered so
    many layers before they are read (FSDP: 1), or, outside of loops, so many redistributions
    before; if None, on the compute stream. With ``prefetch``, slices of a layer's parameters are
    freed after the layer, and gathered again where they are read again.
    """

    sends: bool = False
    prefetch: int | None = None


class Task(NamedTuple):
    """What a device does at one time on one stream; ``request``: what it sends, or empty.

    ``place``: that of its instruction. ``issue``: how many compute tasks of its stage come before
    it. ``turn``: for what is done once, how often values went from stage to stage before.
    ``layer``: the iteration of the loop that it is part of, or whose slice it sends; else -1.
    ``moves``: what is sent, as a type and the moves that communicate. ``sends``: the names of the
    values that are sent. ``measured``: how many of its seconds were measured.
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
    """A part of a value in memory; ``maker``: the task that makes it, -1 for inputs.

    ``kept``: until the end of the step. ``home``: the stage of an input.
    """

    name: str
    kind: BufferKind
    size_bytes: int
    maker: int
    kept: bool = False
    home: int = EVERYWHERE


@dataclass(frozen=True)
class StageSend:
    """Bytes that a device of a stage hands to its twin on another stage, in one phase and turn."""

    source: int
    target: int
    when: StepPhase
    turn: int


@dataclass(frozen=True)
class DeviceTasks:
    """Tasks, each after those it waits for, and the buffers that they use.

    ``handed``: bytes from stage to stage. With several stages this is not one device that could be
    timed, but must be divided by ``Passes``.
    """

    tasks: tuple[Task, ...]
    buffers: tuple[Buffer, ...]
    handed: Mapping[StageSend, int] = field(default_factory=dict)

    @cached_property
    def streams(self) -> Mapping[str, Sequence[int]]:
        """The tasks of each stream: compute in order, communication by when it is issued."""
        streams: dict[str, list[int]] = {COMPUTE: []}
        tasks = self.tasks
        for number in sorted(range(len(tasks)), key=lambda number: tasks[number].issue):
            streams.setdefault(tasks[number].stream, []).append(number)
        streams[COMPUTE].sort()
        return streams

    @cached_property
    def arranged(self) -> TaskOrder:
        """An order of all tasks in which each stream does its own in turn."""
        return arrange_tasks([task.before for task in self.tasks], list(self.streams.values()))
