"""A pipeline of such stages on the clock: the passes of every rank in an order, then the update.

Passes are blocks: each is timed once, alone, and holds its rank until all of it has ended, so what
is found is an upper bound where the next could begin before. Of what comes before or after another
stage's pass only the transfer between them is known; it runs beside compute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hierarchies import InputError
from synth.events.blocks import Block, composed
from synth.train.orders import Action, Order, Pass, Transfers, scheduled
from synth.train.simulation.device import Device
from synth.train.simulation.kinds import Kind
from synth.train.simulation.memory import Lives, Moment
from synth.train.simulation.simulation import Row
from synth.train.simulation.stages import Phase, Stages

_PHASES = {Pass.FORWARD: Phase.FORWARD, Pass.BACKWARD: Phase.BACKWARD}
UPDATE = "update"


@dataclass(frozen=True)
class PassSpan:
    """A pass, or the update (None), of a stage: when it begins and ends."""

    stage: int
    action: Action | None
    begin_seconds: float
    end_seconds: float

    def __str__(self) -> str:
        return str(self.action or f"{self.stage} {UPDATE}")


@dataclass(frozen=True, eq=False)
class Pipelined:
    """A step on a pipeline: for each rank what it does, in its order."""

    stages: Stages
    order: Order
    ranks: tuple[tuple[PassSpan, ...], ...]

    @property
    def seconds(self) -> float:
        """Until the last update has ended."""
        return max(one.end_seconds for row in self.ranks for one in row)

    @property
    def idle_shares(self) -> tuple[float, ...]:
        """For each rank the part of the time in which it does nothing: its bubble."""
        whole = self.seconds
        busy = (sum(one.end_seconds - one.begin_seconds for one in row) for row in self.ranks)
        return tuple(max(0.0, 1 - one / whole) if whole else 0.0 for one in busy)

    def rows(self) -> Iterator[Row]:
        """The timeline, a stream for each rank."""
        for rank, spans in enumerate(self.ranks):
            for one in spans:
                yield Row(f"rank {rank}", str(one), one.begin_seconds, one.end_seconds)

    @cached_property
    def largest_moments(self) -> tuple[Moment, ...]:
        """For each rank the most memory, and what it is made of."""
        return tuple(self._largest(rank) for rank in range(len(self.ranks)))

    def _largest(self, rank: int) -> Moment:
        held = list(self._held(rank))
        lives = Lives(*(np.array([one[at] for one in held]) for at in (1, 2, 3)))
        seconds, most = lives.largest()
        kinds: dict[Kind, int] = {}
        names: dict[str, int] = {}
        for number in lives.at(seconds).tolist():
            kind, _, _, size, name = held[number]
            kinds[kind] = kinds.get(kind, 0) + size
            names[name] = names.get(name, 0) + size
        largest = sorted(names.items(), key=lambda one: -one[1])
        return Moment(seconds, most, tuple(kinds.items()), tuple(largest[:10]))

    def _held(self, rank: int) -> Iterator[tuple[Kind, float, float, int, str]]:
        """What a rank has in memory: its kind, from when until when, bytes, and a name."""
        stages, spans, end = self.stages, self.ranks[rank], self.seconds
        begun = {one.action: one for one in spans}
        for stage in {one.stage for one in spans}:
            for kind, size in stages.state(stage):
                yield kind, 0.0, end, size, f"{kind.value} of stage {stage}"
            first = next(one for one in spans if one.stage == stage and _is(one, Pass.BACKWARD))
            size = stages.gradients(stage)
            yield Kind.GRADIENTS, first.begin_seconds, end, size, f"gradients of stage {stage}"
        buffers = stages.device.buffers
        saved = {
            stage: sum(buffers[number].size_bytes for number in stages.saved(stage))
            for stage in {one.stage for one in spans}
        }
        working = {
            (stage, phase): stages.working(stage, phase) for stage in saved for phase in Phase
        }
        for one in spans:
            phase = Phase.UPDATE if one.action is None else _PHASES[one.action.kind]
            size = working[one.stage, phase]
            yield Kind.WORKING, one.begin_seconds, one.end_seconds, size, f"{one} at work"
            if one.action is not None and one.action.kind is Pass.BACKWARD:
                forward = begun[Action(one.stage, Pass.FORWARD, one.action.microbatch)]
                name = f"kept by {forward}"
                size = saved[one.stage]
                yield Kind.ACTIVATIONS, forward.begin_seconds, one.end_seconds, size, name


def pipelined(device: Device, order: Order, transfers: Transfers | None = None) -> Pipelined:
    """A step in stages, of whose passes each rank does some; ``device`` does one microbatch.

    Raises InputError for an order whose backward passes are in halves, for layers that are not
    dealt out evenly, and where blocking transfers stand still.
    """
    halves = next((one for one in order.actions if one.kind not in _PHASES), None)
    if halves is not None:
        raise InputError(
            f"{halves}: nobody says which part of a backward pass it is",
            hint="give an order of whole ones",
        )
    transfers, stages = transfers or Transfers(), Stages(device, order.stages)
    made = {
        (stage, phase): stages.block(stage, phase)
        for stage in range(order.stages)
        for phase in Phase
    }
    graph = scheduled(order, transfers.protocol)
    _ = graph.tasks
    blocks = [made[one.stage, _PHASES[one.kind]] for one in order.actions]
    blocks += [Block((0,), ((),), (transfers.seconds,))] * len(graph.transfers)
    what: list[tuple[int, Action | None]] = [(one.stage, one) for one in order.actions]
    what += [(0, None)] * len(graph.transfers)
    before, queues = list(graph.before), [list(queue) for queue in graph.queues]
    for stage, rank in sorted(order.rank_of.items()):
        queues[rank].append(len(blocks))
        blocks.append(made[stage, Phase.UPDATE])
        what.append((stage, None))
        before.append([])
    begins, ends = composed(before, queues, blocks)
    return Pipelined(stages, order, tuple(_row(queue, what, begins, ends) for queue in queues))


def _row(
    queue: Sequence[int],
    what: Sequence[tuple[int, Action | None]],
    begins: Sequence[float],
    ends: Sequence[float],
) -> tuple[PassSpan, ...]:
    return tuple(PassSpan(*what[task], begins[task], ends[task]) for task in queue)


def _is(one: PassSpan, kind: Pass) -> bool:
    return one.action is not None and one.action.kind is kind
