"""Network requests of a sharded step, and the memory and FLOPs of its devices.

Requests over the same axes for buffers of the same size have the same price, so they are grouped:
the 12 gradients of one shape are one request, repeated 12 times.
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
from synth.step.redistribution.seconds import NetworkPrices, PricedCommunication
from synth.step.sharded_step.device import split_stages, to_device_step, unshard
from synth.step.sharded_step.meanings import find_gradients
from synth.step.sharded_step.redistributed import StepMove, list_step_moves, times_of
from synth.step.sharding.microbatches import to_microbatch
from synth.step.sharding.plan import TIME
from synth.step.work import count_primitives, peak_bytes


@dataclass(frozen=True)
class StepRequest:
    """A request and the moves that need it; ``answered`` has its price on a machine, if any.

    ``size_bytes`` is the largest buffer of a device, ``least_bytes`` the least that a device sends
    or receives. Both are for one request; a step has ``times`` such requests.
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
        return sum(move.times for move in self.moved)

    @property
    def seconds(self) -> float | None:
        """Seconds of one request."""
        return None if self.answered is None else self.answered.seconds


def list_step_requests(
    sharded: ShardedStep, network: NetworkPrices | None = None
) -> tuple[StepRequest, ...]:
    """Returns the requests of a step, most bytes first; with prices if ``network`` is given."""
    sizes, groups = sharded.sizes, dict[StepRequest, list[StepMove]]()
    for moved in list_step_moves(sharded):
        if _sends(moved.move, sizes):
            groups.setdefault(_request_of(moved, sizes), []).append(moved)
    requests = [
        replace(request, moved=tuple(moves), answered=_answer(moves[0], sizes, network))
        for request, moves in groups.items()
    ]
    return tuple(sorted(requests, key=lambda request: -request.least_bytes * request.times))


def local_moves(sharded: ShardedStep) -> Counter[MoveKind]:
    """Counts the moves of a step that do not communicate, by kind."""
    counts: Counter[MoveKind] = Counter()
    for moved in list_step_moves(sharded):
        if not _sends(moved.move, sharded.sizes):
            counts[moved.move.how] += moved.times
    return counts


def _sends(move: ShardingMove, sizes: Mapping[str, int]) -> bool:
    """Returns whether a move communicates; a move between microbatches does not."""
    return bool(move.least({**sizes, TIME: 1}))


def _request_of(moved: StepMove, sizes: Mapping[str, int]) -> StepRequest:
    """Returns a move's request, without the moves that share it."""
    move, value = moved.move, moved.value.type
    reduces = move.how in (MoveKind.ALL_REDUCE, MoveKind.REDUCE_SCATTER)
    axes = tuple(axis for axis in sizes if axis in move.axes)
    size = _largest_bytes(move, value, sizes), move.least_bytes(value, sizes)
    return StepRequest(move.how, move.kind if reduces else None, axes, *size, ())


def _answer(
    moved: StepMove, sizes: Mapping[str, int], network: NetworkPrices | None
) -> PricedCommunication | None:
    if network is None:
        return None
    inside, part = to_microbatch(moved.move, moved.value.type, sizes) or (
        moved.move,
        moved.value.type,
    )
    path = RedistributionPath(inside.before, inside.after, (inside,))
    [answered] = network.along(path, part).requests
    return answered


def _largest_bytes(move: ShardingMove, value: Type, sizes: Mapping[str, int]) -> int:
    block, inside = pad_move(move, value, sizes)
    ends = (inside.before, inside.after)
    parts = (Type(block.dtype, part_shape(block, end, sizes)) for end in ends)
    return max(part.bytes for part in parts)


@dataclass(frozen=True)
class DeviceMemory:
    """Bytes in the memory of one device, by role; ``values`` is the peak by ``peak_bytes``."""

    parameter: int
    gradient: int
    moment: int
    state: int
    batch: int
    values: int

    @property
    def all(self) -> int:
        """Bytes of all roles."""
        return sum(astuple(self))


@dataclass(frozen=True)
class Share:
    """Memory and FLOPs of one device.

    With microbatches the memory has the whole batch, and the values of one microbatch: the number
    of microbatches in flight depends on the pipeline schedule.
    """

    held: DeviceMemory
    flops: int


def unsharded_share(sharded: ShardedStep) -> Share:
    """Returns the share of a single device that runs the whole step."""
    return _share(unshard(sharded), _gradients(sharded, sharded.step), repeat(1))


def list_shares(sharded: ShardedStep) -> tuple[Share, ...]:
    """Returns the share of one device per stage; without a pipeline there is a single share."""
    shares = []
    for stage in split_stages(sharded):
        part = to_device_step(stage)
        share = _share(part, _gradients(stage, part), times_of(stage))
        batch = share.held.batch * stage.sizes.get(TIME, 1)
        shares.append(replace(share, held=replace(share.held, batch=batch)))
    return tuple(shares)


def _gradients(sharded: ShardedStep, step: Step) -> int:
    """Returns the bytes of a sharded step's gradients, by the types in ``step``."""
    return sum(step.graph.values[value.name].type.bytes for value in find_gradients(sharded.step))


def _share(step: Step, gradient: int, times: Iterable[int]) -> Share:
    of: Counter[str] = Counter()
    for role, value in zip(step.roles, step.graph.inputs, strict=True):
        of[role] += value.type.bytes
    values = peak_bytes(step)
    held = DeviceMemory(of["parameter"], gradient, of["moment"], of["state"], of["batch"], values)
    counts = count_primitives(step.graph, times)
    return Share(held, sum(count * flops_of(operation) for operation, count in counts))
