"""The collectives of a simulated step: how often, how large, and what is hidden of each.

A job says the same. Here the hidden share is no guess but what the clock says: the part of a
collective's time in which its device computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from grammar import Goal
from grammar.tensors.sharding import Type, part_shape
from synth.step.redistribution import ShardingMove, pad_move
from synth.step.redistribution.requests import GOALS
from synth.step.sharding import Plan
from synth.step.simulation.device import Task
from synth.step.simulation.pipeline import PipelineTimeline
from synth.step.simulation.predicting import StepPrediction
from synth.step.simulation.simulation import DeviceTimeline


@dataclass(frozen=True)
class RankCollective:
    """A collective of a rank: over which axes, bytes of a device's largest buffer, how often.

    ``hidden``: the part of its time in which the device computes.
    """

    goal: Goal
    over: tuple[str, ...]
    size_bytes: int
    times: int
    hidden: float


def list_collectives(plan: Plan, found: StepPrediction) -> tuple[RankCollective, ...]:
    """The collectives of the busiest rank, those that take the most time first."""
    entries: dict[tuple[Goal, tuple[str, ...], int], list[float]] = {}
    for run, times in _runs(found):
        for number, task in enumerate(run.device.tasks):
            for key in collectives_of(task, plan):
                entry = entries.setdefault(key, [0.0, 0.0, 0.0])
                entry[0] += times
                entry[1] += times * run.took(number)
                entry[2] += times * run.exposed.get(number, 0.0)
    order = sorted(entries.items(), key=lambda one: (-one[1][1], str(one[0])))
    return tuple(
        RankCollective(*key, round(times), _hidden_share(seconds, exposed))
        for key, (times, seconds, exposed) in order
    )


def _hidden_share(seconds: float, exposed: float) -> float:
    return min(1.0, max(0.0, 1 - exposed / seconds)) if seconds else 0.0


def _runs(found: StepPrediction) -> Iterator[tuple[DeviceTimeline, int]]:
    """What a rank does, and how often."""
    if isinstance(found.run, DeviceTimeline):
        yield found.run, 1
        return
    assert isinstance(found.run, PipelineTimeline)
    keys = [span.keys for span in found.run.ranks[found.busiest]]
    for one in dict.fromkeys(keys):
        yield found.run.alone[one], keys.count(one)


def collectives_of(task: Task, plan: Plan) -> Iterator[tuple[Goal, tuple[str, ...], int]]:
    """What a task sends: goals, axes, and bytes of a device's largest buffer."""
    if task.moves is None:
        return
    kind, moves = task.moves
    for move in moves:
        if move.how in GOALS:
            over = tuple(axis for axis, _ in plan.axes if axis in move.axes)
            yield GOALS[move.how], over, _payload(kind, move, plan)


def _payload(kind: Type, move: ShardingMove, plan: Plan) -> int:
    """The largest buffer of a device, of a slice where the move is of a stack of them."""
    several = len(move.before.dimensions) - len(kind.shape)
    before, after = move.before, move.after
    for _ in range(several):
        before, after = before.slice(), after.slice()
    block, inside = pad_move(replace(move, before=before, after=after), kind, plan.parts)
    shapes = (part_shape(block, one, plan.parts) for one in (inside.before, inside.after))
    return max(prod(shape) for shape in shapes) * kind.bytes // max(1, kind.elements)
