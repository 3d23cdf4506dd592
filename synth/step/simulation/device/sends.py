"""Writes communication between devices of a stage, on the compute stream or on its own stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from grammar.tensors.sharding import Sharding, Type
from synth.step.redistribution import MoveKind, ShardingMove
from synth.step.redistribution.seconds import Occupancy
from synth.step.sharding import Plan, RedistributedValue
from synth.step.sharding.microbatches import strip_time
from synth.step.sharding.together.buckets import flatten_bucket
from synth.step.simulation.device.tape import Tape
from synth.step.simulation.device.tasks import COMPUTE, Overlap
from synth.step.simulation.device.values import (
    BufferedValue,
    join_pieces,
    slice_sharding,
    slice_type,
)
from synth.step.simulation.kinds import BufferKind, moved_kind

RedistributionSeconds = Callable[[Type, Sharding, Sharding], float]
"""Maps a value's type and its shardings before and after to seconds of the redistribution."""

LinkOccupancy = Callable[[Type, Sharding, Sharding], Occupancy]
"""Maps the same to the links that the redistribution keeps busy."""


def occupy_nothing(value: Type, source: Sharding, target: Sharding) -> Occupancy:
    """Returns no links: then redistributions do not slow each other."""
    return ()


class _RedistributionTask(NamedTuple):
    """The task of a redistribution of a value or a slice: its name, stream, seconds and moves."""

    name: str
    stream: str
    seconds: float
    request: str
    moves: tuple[Type, tuple[ShardingMove, ...]]
    target: Sharding
    occupancy: Occupancy


@dataclass
class RedistributionWriter:
    """A writer of redistributions on a tape; ``known`` caches their tasks."""

    tape: Tape
    plan: Plan
    sending: RedistributionSeconds
    overlap: Overlap
    occupancy: LinkOccupancy = occupy_nothing
    known: dict[tuple[int, bool], tuple[RedistributedValue, _RedistributionTask]] = field(
        default_factory=dict
    )

    def sent(
        self,
        redistributed: RedistributedValue,
        held: BufferedValue,
        unit: int | None,
        *,
        sliced: bool,
    ) -> BufferedValue:
        """Writes the redistribution of a value or a slice; ``unit`` is the unit of its layer."""
        key = id(redistributed), sliced
        if key not in self.known:
            self.known[key] = redistributed, self._task_of(redistributed, sliced)
        tape, (_, how) = self.tape, self.known[key]
        name, stream, seconds, request, moves, target, occupancy = how
        ahead = self.overlap.prefetch
        after: list[int] = []
        issue = None
        given, made = self.given(held), max(map(tape.after, held.makers), default=0)
        if given and ahead is not None:
            issue = max(tape.issued(tape.unit() if unit is None else unit, ahead), made)
            after = tape.own[issue - 1 : issue] if issue else []
        elif not given and self.overlap.sends:
            issue = made
            if unit and self._kept_since(held, made, unit):
                issue = max(tape.issued(unit, 0), len(tape.own) - 1)
                after = tape.own[issue - 1 : issue]
        else:
            stream = COMPUTE
        task = tape.task(
            name,
            stream,
            seconds,
            (held,),
            after,
            issue=issue,
            request=request,
            moves=moves,
            sends=(redistributed.value.name,),
            occupancy=occupancy,
        )
        return self._arrived(redistributed.value.name, moves, target, held, task)

    def together(
        self,
        bucket: Sequence[RedistributedValue],
        held: Sequence[Sequence[BufferedValue]],
        layers: int,
    ) -> list[list[BufferedValue]]:
        """Writes one request for a bucket, once all members, or some slices of each, are made."""
        kind, path = flatten_bucket(bucket, self.plan.sizes, Fraction(len(held[0]), layers))
        moves = path.requests(self.plan.sizes)
        request = ", ".join(map(str, moves))
        name = f"{request}: {bucket[0].value.name} and {len(bucket) - 1} more"
        sent = strip_time(kind, path.source, path.target, self.plan.parts)
        seconds, issue = self.sending(*sent), None
        every = [value for slices in held for value in slices]
        if self.overlap.sends:
            issue = max(map(self.tape.after, join_pieces(every).makers))
        stream = _stream_of(moves) if self.overlap.sends else COMPUTE
        task = self.tape.task(
            name,
            stream,
            seconds,
            every,
            issue=issue,
            request=request,
            moves=(kind, moves),
            sends=tuple(redistributed.value.name for redistributed in bucket),
            occupancy=self.occupancy(*sent),
        )
        arrived = []
        for redistributed, slices in zip(bucket, held, strict=True):
            kind, target = redistributed.value.type, redistributed.path.target
            if layers > 1:
                kind, target = slice_type(kind), slice_sharding(target)
            arrived.append(
                [
                    self._arrived(redistributed.value.name, (kind, moves), target, made, task)
                    for made in slices
                ]
            )
        return arrived

    def _arrived(
        self,
        name: str,
        moves: tuple[Type, tuple[ShardingMove, ...]],
        target: Sharding,
        held: BufferedValue,
        task: int,
    ) -> BufferedValue:
        """Returns a value after its redistribution; an all-reduce leaves it in the same buffer."""
        in_place = [move.how for move in moves[1]] == [MoveKind.ALL_REDUCE]
        if in_place and held.makers and not held.remade_bytes:
            return BufferedValue(held.buffers, (task,))
        kept = moved_kind(self.tape.buffers[held.buffers[0]].kind)
        return self.tape.made(name, moves[0], target, kept, task)

    def given(self, held: BufferedValue) -> bool:
        """Whether a value is an input or a copy of parameters."""
        copies = (self.tape.buffers[number].kind is BufferKind.COPIES for number in held.buffers)
        return not held.makers or all(copies)

    def _kept_since(self, held: BufferedValue, made: int, unit: int) -> bool:
        """Whether a value was made in another pass of its layer, or before the previous layer.

        A forward pass kept the value, or it belongs to the whole loop. If it were gathered when it
        was made, it would be in memory for all layers at once. So it is gathered during the task of
        this layer that precedes its reader (Megatron: during the gradient of the layer's input).
        """
        before, tasks = made <= self.tape.issued(unit, 0), self.tape.tasks
        again = before and any(tasks[maker].layer == self.tape.layer for maker in held.makers)
        return again or made < self.tape.issued(unit, 1)

    def _task_of(self, redistributed: RedistributedValue, sliced: bool) -> _RedistributionTask:
        kind, source, target = (
            redistributed.value.type,
            redistributed.path.source,
            redistributed.path.target,
        )
        if sliced:
            kind, source, target = slice_type(kind), slice_sharding(source), slice_sharding(target)
        moves = redistributed.path.requests(self.plan.sizes)
        request = ", ".join(map(str, moves))
        sent = strip_time(kind, source, target, self.plan.parts)
        name = f"{request}: {redistributed.value.name}"
        return _RedistributionTask(
            name,
            _stream_of(moves),
            self.sending(*sent),
            request,
            (kind, moves),
            target,
            self.occupancy(*sent),
        )


def _stream_of(moves: Sequence[ShardingMove]) -> str:
    """Returns the stream of overlapping communication over the axes of these moves."""
    return f"over {', '.join(dict.fromkeys(axis for move in moves for axis in move.axes))}"
