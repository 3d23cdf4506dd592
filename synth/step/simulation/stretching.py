"""A device of many stages from one of five: those between the ends all do the same.

A pipeline of 96 stages has 94 whose layers are alike, and cutting, applying and grouping each is
what a simulation takes longest for. So five stages are written out: the first, the one behind it,
one of those between, the one before the last, and the last. A longer pipeline has the same ones,
and the third as often as it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from synth.step.sharding.program import EVERYWHERE
from synth.step.simulation.device import Buffer, DeviceTasks, StageSend, Task

WRITTEN_STAGES = 5
"""Stages that are written out: each has its neighbours as a longer pipeline has them."""

Places = dict[tuple[int, int], int]
"""The number of a task or buffer in the longer device, by its number and stage."""


def stretch_device(device: DeviceTasks, stages: int) -> DeviceTasks | None:
    """A device of ``WRITTEN_STAGES`` stages as one of more.

    None where more than its neighbours depends on which stage a stage is: what goes further than to
    the next, but from one end to the other, or what is done everywhere from what one stage has.
    """
    stands = [0, 1, *[2] * (stages - WRITTEN_STAGES + 1), WRITTEN_STAGES - 2, WRITTEN_STAGES - 1]
    handed = dict(_stretch_sends(device, stages))
    if any(_is_far(one) and not _is_between_ends(one) for one in device.handed):
        return None
    copies: list[list[int]] = [[] for _ in range(WRITTEN_STAGES)]
    for stage, like in enumerate(stands):
        copies[like].append(stage)
    tasks: list[tuple[Task, int]] = []
    places: Places = {}
    for number, task in enumerate(device.tasks):
        for stage in _stages(task.place.stage, copies):
            places[number, stage] = len(tasks)
            tasks.append((task, stage))
    buffers: list[Buffer] = []
    numbers: Places = {}
    for number, one in enumerate(device.buffers):
        home = one.home if one.maker < 0 else device.tasks[one.maker].place.stage
        for stage in _stages(home, copies):
            numbers[number, stage] = len(buffers)
            maker = places[one.maker, stage] if one.maker >= 0 else -1
            home = stage if one.maker < 0 else one.home
            buffers.append(replace(one, maker=maker, home=home))

    def found(
        known: dict[tuple[int, int], int], many: Sequence[int], stage: int
    ) -> tuple[int, ...]:
        several = (known.get((one, stage), known.get((one, EVERYWHERE))) for one in many)
        return tuple(-1 if one is None else one for one in several)

    copied = tuple(
        task._replace(
            place=replace(task.place, stage=stage),
            before=found(places, task.before, stage),
            reads=found(numbers, task.reads, stage),
        )
        for task, stage in tasks
    )
    if any(-1 in (*task.before, *task.reads) for task in copied):
        return None
    return DeviceTasks(copied, tuple(buffers), handed)


def _stages(one: int, copies: Sequence[Sequence[int]]) -> Sequence[int]:
    """The stages for which a stage stands; what is everywhere is once."""
    return (EVERYWHERE,) if one == EVERYWHERE else copies[one]


def _is_far(one: StageSend) -> bool:
    return abs(one.source - one.target) != 1


def _is_between_ends(one: StageSend) -> bool:
    return {one.source, one.target} == {0, WRITTEN_STAGES - 1}


def _stretch_sends(device: DeviceTasks, stages: int) -> Iterator[tuple[StageSend, int]]:
    """What goes from stage to stage: between two of those between, what they hand to the next."""
    more = stages - WRITTEN_STAGES
    for one, size in device.handed.items():
        source, target = (end + more * (end > 2) for end in (one.source, one.target))
        if {one.source, one.target} == {2, 3}:
            for step in range(more + 1):
                yield replace(one, source=one.source + step, target=one.target + step), size
        else:
            yield replace(one, source=source, target=target), size
