"""Lists the collectives of a simulated step: their number of calls, bytes and hidden share.

They have the form of a workload's collectives. The hidden share, which a workload assumes, is
simulated here: the share of a collective's time during which its device computes.
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
    """A collective of a rank: its axes, bytes of a device's largest buffer, and number of calls.

    ``hidden``: the share of its time during which the device computes.
    """

    goal: Goal
    over: tuple[str, ...]
    size_bytes: int
    times: int
    hidden: float


def list_collectives(plan: Plan, prediction: StepPrediction) -> tuple[RankCollective, ...]:
    """Lists the collectives of the busiest rank, those with the most total seconds first."""
    entries: dict[tuple[Goal, tuple[str, ...], int], list[float]] = {}
    for run, times in _runs(prediction):
        for number, task in enumerate(run.device.tasks):
            for key in collectives_of(task, plan):
                entry = entries.setdefault(key, [0.0, 0.0, 0.0])
                entry[0] += times
                entry[1] += times * task.seconds
                entry[2] += times * run.exposed.get(number, 0.0)
    order = sorted(entries.items(), key=lambda item: (-item[1][1], str(item[0])))
    return tuple(
        RankCollective(*key, round(times), _hidden_share(seconds, exposed))
        for key, (times, seconds, exposed) in order
    )


def _hidden_share(seconds: float, exposed: float) -> float:
    return min(1.0, max(0.0, 1 - exposed / seconds)) if seconds else 0.0


def _runs(prediction: StepPrediction) -> Iterator[tuple[DeviceTimeline, int]]:
    """Yields each timeline that the busiest rank runs, and how often it runs it."""
    if isinstance(prediction.run, DeviceTimeline):
        yield prediction.run, 1
        return
    assert isinstance(prediction.run, PipelineTimeline)
    keys = [span.keys for span in prediction.run.ranks[prediction.busiest]]
    for key in dict.fromkeys(keys):
        yield prediction.run.alone[key], keys.count(key)


def collectives_of(task: Task, plan: Plan) -> Iterator[tuple[Goal, tuple[str, ...], int]]:
    """Yields the collectives of a task: goal, axes, and bytes of a device's largest buffer."""
    if task.moves is None:
        return
    kind, moves = task.moves
    for move in moves:
        if move.how in GOALS:
            over = tuple(axis for axis, _ in plan.axes if axis in move.axes)
            yield GOALS[move.how], over, _payload(kind, move, plan)


def _payload(kind: Type, move: ShardingMove, plan: Plan) -> int:
    """Returns the bytes of a device's largest buffer; of one slice if the move is of a stack."""
    stacked = len(move.before.dimensions) - len(kind.shape)
    before, after = move.before, move.after
    for _ in range(stacked):
        before, after = before.slice(), after.slice()
    # A value that is cut flat is sent with its padding.
    block, inside = pad_move(replace(move, before=before, after=after), kind, plan.parts)
    shapes = (part_shape(block, sharding, plan.parts) for sharding in (inside.before, inside.after))
    return max(prod(shape) for shape in shapes) * kind.bytes // max(1, kind.elements)
