"""What a sharded step asks of a network, and what it holds: alike requests are one, many times.

Requests over the same axes for buffers of the same size have the same answer, so they are put
together: the 12 gradients of one shape are one request, 12 times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from fractions import Fraction
from itertools import repeat

from grammar.tensors.operations import ShardedStep, Step
from grammar.tensors.sharding import ReductionKind, Type, part_shape
from synth.compute.flops import flops_of
from synth.step.redistribution import MoveKind, RedistributionPath, ShardingMove, pad_move
from synth.step.redistribution.seconds import PricedCommunication, Redistributor
from synth.step.sharded_step.device import split_stages, to_device_step, unshard
from synth.step.sharded_step.meanings import find_gradients
from synth.step.sharded_step.redistributed import StepMove, list_step_moves, times_of
from synth.step.sharding.microbatches import to_microbatch
from synth.step.sharding.plan import TIME
from synth.step.work import count_primitives, peak_bytes


@dataclass(frozen=True)
class StepRequest:
    """A request and the moves that need it; ``answered`` on a machine, else None.

    ``size_bytes`` is the largest buffer of a device, ``least_bytes`` what one must send or receive
    at least: both of one request, of which a step has ``times``.
    """

    how: MoveKind
    reduction: ReductionKind | None
    axes: tuple[str, ...]
    size_bytes: int
    least_bytes: Fraction
    moved: tuple[StepMove, ...]
    answered: PricedCommunication | None = None

    @property
    def times(self) -> int:
        return sum(one.times for one in self.moved)

    @property
    def seconds(self) -> float | None:
        """Of one request."""
        return None if self.answered is None else self.answered.seconds


def list_step_requests(
    sharded: ShardedStep, redistributor: Redistributor | None = None
) -> tuple[StepRequest, ...]:
    """The requests of a step, the most bytes first; with answers if there is a machine."""
    sizes, found = sharded.sizes, dict[tuple[object, ...], list[StepMove]]()
    for one in list_step_moves(sharded):
        if _sends(one.move, sizes):
            move, types = one.move, (one.value.type, sizes)
            key = (move.how, _reduction(move), frozenset(move.axes), _largest_bytes(move, *types))
            found.setdefault((*key, _least_bytes(move, *types)), []).append(one)
    requests = [_request_of(several, sizes, redistributor) for several in found.values()]
    return tuple(sorted(requests, key=lambda one: -one.least_bytes * one.times))


def local_moves(sharded: ShardedStep) -> Counter[MoveKind]:
    """How often a step redistributes without sending anything, by kind."""
    found: Counter[MoveKind] = Counter()
    for one in list_step_moves(sharded):
        if not _sends(one.move, sharded.sizes):
            found[one.move.how] += one.times
    return found


def _sends(move: ShardingMove, sizes: Mapping[str, int]) -> bool:
    """Whether devices exchange something; from microbatch to microbatch none does."""
    return bool(move.least({**sizes, TIME: 1}))


def _request_of(
    several: list[StepMove], sizes: Mapping[str, int], redistributor: Redistributor | None
) -> StepRequest:
    first, answered = several[0], None
    move, value = first.move, first.value.type
    if redistributor is not None:
        inside, part = to_microbatch(move, value, sizes) or (move, value)
        path = RedistributionPath(inside.before, inside.after, (inside,))
        [answered] = redistributor.along(path, part).requests
    return StepRequest(
        move.how,
        _reduction(move),
        tuple(axis for axis in sizes if axis in move.axes),
        _largest_bytes(move, value, sizes),
        _least_bytes(move, value, sizes),
        tuple(several),
        answered,
    )


def _reduction(move: ShardingMove) -> ReductionKind | None:
    return move.kind if move.how in (MoveKind.ALL_REDUCE, MoveKind.REDUCE_SCATTER) else None


def _largest_bytes(move: ShardingMove, value: Type, sizes: Mapping[str, int]) -> int:
    block, inside = pad_move(move, value, sizes)
    ends = (inside.before, inside.after)
    held = (Type(block.dtype, part_shape(block, one, sizes)) for one in ends)
    return max(one.bytes for one in held)


def _least_bytes(move: ShardingMove, value: Type, sizes: Mapping[str, int]) -> Fraction:
    return move.least_bytes(value, sizes)


@dataclass(frozen=True)
class DeviceMemory:
    """Bytes in the memory of one device, by role; ``values`` as ``work.peak_bytes`` says."""

    parameter: int
    gradient: int
    moment: int
    state: int
    batch: int
    values: int

    @property
    def all(self) -> int:
        """All together."""
        return sum(astuple(self))


@dataclass(frozen=True)
class Share:
    """What a device holds of a step, and how many operations it does.

    Of microbatches all of the batch is there, and values of one at a time: how many are under way
    depends on the order of passes.
    """

    held: DeviceMemory
    flops: int


def unsharded_share(sharded: ShardedStep) -> Share:
    """Of one device that does the whole step."""
    return _share(unshard(sharded), _gradients(sharded, sharded.step), repeat(1))


def list_shares(sharded: ShardedStep) -> tuple[Share, ...]:
    """Of each device of a stage, by stages; without any there is one."""
    found = []
    for stage in split_stages(sharded):
        part = to_device_step(stage)
        one = _share(part, _gradients(stage, part), times_of(stage))
        batch = one.held.batch * stage.sizes.get(TIME, 1)
        found.append(replace(one, held=replace(one.held, batch=batch)))
    return tuple(found)


def _gradients(sharded: ShardedStep, step: Step) -> int:
    """Bytes of the gradients of a sharded step as they are in a step of the same names."""
    return sum(step.graph.values[one.name].type.bytes for one in find_gradients(sharded.step))


def _share(step: Step, gradient: int, each: Iterable[int]) -> Share:
    of: Counter[str] = Counter()
    for role, value in zip(step.roles, step.graph.inputs, strict=True):
        of[role] += value.type.bytes
    values = peak_bytes(step)
    held = DeviceMemory(of["parameter"], gradient, of["moment"], of["state"], of["batch"], values)
    return Share(
        held, sum(count * flops_of(one) for one, count in count_primitives(step.graph, each))
    )
