"""Stretches a device of five stages to more stages: all stages between the ends do the same work.

A pipeline of 96 stages has 94 stages with equal layers, and most of the time of a simulation is
spent to shard, apply and group each of them. So five stages are written out: the first, the second,
a middle stage, the last but one, and the last. A longer pipeline repeats the middle stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from synth.step.sharding.program import EVERYWHERE
from synth.step.simulation.device import Buffer, DeviceTasks, StageSend, Task

WRITTEN_STAGES = 5
"""Number of stages that are written out: enough that each has the neighbours it has in a longer
pipeline."""

Places = dict[tuple[int, int], int]
"""The number of a task or buffer in the longer device, by its number in the short device and its
stage in the longer."""


def stretch_device(device: DeviceTasks, stages: int) -> DeviceTasks | None:
    """Stretches a device of ``WRITTEN_STAGES`` stages to ``stages``.

    Returns None if a stage depends on more than its neighbours: on values sent farther than to the
    next stage, except between the two ends, or if work that runs everywhere depends on a stage.
    """
    originals = [0, 1, *[2] * (stages - WRITTEN_STAGES + 1), WRITTEN_STAGES - 2, WRITTEN_STAGES - 1]
    handed = dict(_stretch_sends(device, stages))
    if any(_is_far(send) and not _is_between_ends(send) for send in device.handed):
        return None
    copies: list[list[int]] = [[] for _ in range(WRITTEN_STAGES)]
    for stage, original in enumerate(originals):
        copies[original].append(stage)
    tasks: list[tuple[Task, int]] = []
    places: Places = {}
    for number, task in enumerate(device.tasks):
        for stage in _stages(task.place.stage, copies):
            places[number, stage] = len(tasks)
            tasks.append((task, stage))
    buffers: list[Buffer] = []
    numbers: Places = {}
    for number, buffer in enumerate(device.buffers):
        home = buffer.home if buffer.maker < 0 else device.tasks[buffer.maker].place.stage
        for stage in _stages(home, copies):
            numbers[number, stage] = len(buffers)
            maker = places[buffer.maker, stage] if buffer.maker >= 0 else -1
            home = stage if buffer.maker < 0 else buffer.home
            kept = buffer.kept
            buffers.append(Buffer(buffer.name, buffer.kind, buffer.size_bytes, maker, kept, home))

    def renumber(
        known: dict[tuple[int, int], int], old: Sequence[int], stage: int
    ) -> tuple[int, ...]:
        new = (known.get((number, stage), known.get((number, EVERYWHERE))) for number in old)
        return tuple(-1 if number is None else number for number in new)

    copied = tuple(
        task._replace(
            place=task.place._replace(stage=stage),
            before=renumber(places, task.before, stage),
            reads=renumber(numbers, task.reads, stage),
        )
        for task, stage in tasks
    )
    if any(-1 in (*task.before, *task.reads) for task in copied):
        return None
    return DeviceTasks(copied, tuple(buffers), handed)


def _stages(stage: int, copies: Sequence[Sequence[int]]) -> Sequence[int]:
    """Returns the stages that copy a stage; work that runs everywhere is not copied."""
    return (EVERYWHERE,) if stage == EVERYWHERE else copies[stage]


def _is_far(send: StageSend) -> bool:
    return abs(send.source - send.target) != 1


def _is_between_ends(send: StageSend) -> bool:
    return {send.source, send.target} == {0, WRITTEN_STAGES - 1}


def _stretch_sends(device: DeviceTasks, stages: int) -> Iterator[tuple[StageSend, int]]:
    """Yields the transfers between stages; each copy of the middle stage sends to the next copy."""
    more = stages - WRITTEN_STAGES
    for send, size in device.handed.items():
        # Stages after the middle stage, which is 2, shift by the number of its extra copies.
        source, target = (end + more * (end > 2) for end in (send.source, send.target))
        if {send.source, send.target} == {2, 3}:
            for step in range(more + 1):
                yield replace(send, source=send.source + step, target=send.target + step), size
        else:
            yield replace(send, source=source, target=target), size
