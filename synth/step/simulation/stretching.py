"""Stretches a device of a few stages to more stages: stages with equal layers do the same work.

A pipeline of 96 stages has 94 inner stages of one or two kinds, and most of the time of a
simulation is spent to shard, apply and group each of them. So only some stages are written out: the
first two and the last two, because the ends hand each other what no other stage has, and one stage
of each number of layers between them. The others have the tasks of these (``originals``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from synth.step.sharding.program import EVERYWHERE
from synth.step.simulation.device import DeviceTasks, StageSend

ENDS = 2
"""Number of stages at each end that stand for no other stage."""


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
    originals = tuple(
        written.index(stage) if stage in written else stand_in[layers[stage]]
        for stage in range(len(layers))
    )
    handed = _stretch_sends(device.handed, len(written), len(layers))
    if handed is None:
        return None
    place_of = [task.place.stage for task in device.tasks]
    home_of = [place_of[b.maker] if b.maker >= 0 else b.home for b in device.buffers]
    for task in device.tasks:
        used = {*map(place_of.__getitem__, task.before), *map(home_of.__getitem__, task.reads)}
        if used - {task.place.stage, EVERYWHERE}:
            return None
    return replace(device, handed=handed, originals=originals)


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
