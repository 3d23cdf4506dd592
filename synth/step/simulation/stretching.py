"""Stretches a device of a few stages to more stages: stages with equal layers do the same work.

A pipeline of 96 stages has 94 inner stages of one or two kinds, and most of the time of a
simulation is spent to shard, apply and group each of them. So only some stages are written out: the
first two and the last two, because the ends hand each other what no other stage has, and one stage
of each number of layers between them. A longer pipeline repeats these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from synth.step.sharding.program import EVERYWHERE
from synth.step.simulation.device import Buffer, DeviceTasks, StageSend, Task

ENDS = 2
"""Number of stages at each end that stand for no other stage."""

Places = dict[tuple[int, int], int]
"""The number of a task or buffer in the longer device, by its number in the short device and its
stage in the longer."""


def choose_stages(layers: Sequence[int]) -> Sequence[int]:
    """Returns the stages to write out of a pipeline with so many ``layers`` in each stage."""
    inner = range(ENDS, len(layers) - ENDS)
    firsts = {layers[stage]: stage for stage in reversed(inner)}
    ends = (stage for stage in range(len(layers)) if stage not in inner)
    return sorted({*ends, *firsts.values()})


def stretch_device(device: DeviceTasks, layers: Sequence[int]) -> DeviceTasks | None:
    """Stretches a device of the stages of ``choose_stages(layers)`` to all stages.

    Returns None if a stage depends on more than its neighbours: on values sent farther than to the
    next stage, except between the two ends, or if work that runs everywhere depends on a stage.
    """
    written = choose_stages(layers)
    stand_in = {layers[stage]: number for number, stage in enumerate(written[ENDS:-ENDS], ENDS)}
    originals = [
        written.index(stage) if stage in written else stand_in[layers[stage]]
        for stage in range(len(layers))
    ]
    handed = _stretch_sends(device.handed, len(written), len(layers))
    if handed is None:
        return None
    copies: list[list[int]] = [[] for _ in written]
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


def _stretch_sends(
    handed: Mapping[StageSend, int], written: int, stages: int
) -> dict[StageSend, int] | None:
    """Returns the transfers between all stages; None if some are not between neighbours or ends.

    Each inner stage hands as much to the next as the first inner stage.
    """
    inner, more = range(ENDS, written - ENDS), stages - written
    longer: dict[StageSend, int] = {}
    for send, size in handed.items():
        low = min(send.source, send.target)
        if {send.source, send.target} == {0, written - 1}:
            source, target = ((stages - 1) * bool(end) for end in (send.source, send.target))
            longer[replace(send, source=source, target=target)] = size
        elif abs(send.source - send.target) != 1 or (
            low in inner and handed.get(_move(send, ENDS - low)) != size
        ):
            return None
        elif low in inner:
            steps = range(len(inner) + more) if low == ENDS else ()
            longer.update((_move(send, step), size) for step in steps)
        else:
            longer[_move(send, more * (low > inner[-1]))] = size
    return longer


def _move(send: StageSend, stages: int) -> StageSend:
    """Returns the same transfer between stages that come later by ``stages``."""
    return replace(send, source=send.source + stages, target=send.target + stages)
