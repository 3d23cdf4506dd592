"""Reads an MSCCL++ execution plan as the executor does, and resolves references by position.

The executor trusts its input. So everything that would overrun its arrays or connect the wrong
resources is checked here: the limits, positions, and that every channel has another end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TypeVar

from pydantic import ValidationError

from synth.collective.emit.mscclpp.schema import (
    PLAN,
    Copy,
    ExecutionPlan,
    Gpu,
    Operation,
    Put,
    Reduce,
    Sync,
)

MOST_OPERATIONS = 64
MOST_CHANNELS = 16
MOST_CHANNELS_PER_OPERATION = 8
MOST_BUFFERS_PER_OPERATION = 10
MOST_BYTES = 2**32 - 1
CHANNEL_TYPES = ("memory", "port")

T = TypeVar("T")
Channel = tuple[str, int, int]
"""The channel type, its rank, and its number among the rank's channels of the type."""


class WrongError(Exception):
    """A plan is invalid; ``race``: two accesses are unordered."""

    def __init__(self, reason: str, race: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.race = race


@dataclass
class BlockState:
    """A running threadblock: its segment's bit, and the segments before it.

    ``coming``, the segments that one of the threads has waited for, becomes past at the next
    ``nop``. ``puts`` are the puts passed to its proxies since the last ``nop``.
    """

    rank: int
    number: int
    ops: list[Operation]
    channels: dict[str, list[Channel]]
    buffers: dict[str, list[tuple[int, str]]]
    at: int = 0
    segment: int = 0
    past: int = 0
    coming: int = 0
    puts: list[tuple[Channel, int]] = field(default_factory=list)


def require(condition: bool, reason: str) -> None:
    """Raises WrongError if a condition does not hold."""
    if not condition:
        raise WrongError(reason)


def select_positions(items: list[T], positions: list[int]) -> list[T]:
    """Returns the items at some positions; negative positions in the JSON are errors."""
    require(min(positions, default=0) >= 0, f"positions {positions}")
    return [items[at] for at in positions]


def read(text: str) -> ExecutionPlan:
    """Parses a plan and checks its header. Raises WrongError for an invalid plan."""
    try:
        plan = PLAN.validate_json(text)
    except ValidationError as error:
        raise WrongError(_first_error(error)) from None
    _check_sizes(plan)
    return plan


def _first_error(error: ValidationError) -> str:
    """Returns the first error of an invalid plan."""
    first = error.errors(include_url=False)[0]
    match first:
        case {"type": "union_tag_invalid", "ctx": {"tag": name}, "loc": (_, gpu, _, block, _, at)}:
            where = f"rank {gpu}, threadblock {block}, operation {at}"
            return f"{where}: {name}: an operation that is not known here"
        case {"type": "missing", "loc": (*_, key)}:
            return f"not a plan: KeyError: {key!r}"
    return f"not a plan: {'.'.join(map(str, first['loc']))}: {first['msg']}"


def _check_sizes(plan: ExecutionPlan) -> None:
    """Checks that the judge knows the kind of header, and that offsets can express its sizes."""
    require(plan.name != "", "it has no name")
    require(plan.protocol == "Simple", f"protocol is {plan.protocol!r}")
    require(not plan.reuse_resources, "it puts into buffers that are not its own")
    least, most = plan.min_message_size, plan.max_message_size
    for rank, gpu in enumerate(plan.gpus):
        require(gpu.id == rank, f"gpu {rank} has another id")
        require(min(gpu.input_chunks, gpu.output_chunks) > 0, f"gpu {rank} has no chunks")
        chunks = gpu.output_chunks if plan.collective == "allgather" else gpu.input_chunks
        unit = chunks * plan.buffer_alignment
        require(0 < least <= most and least % unit == 0, f"gpu {rank}: sizes from {least}")
        longest = max(gpu.input_chunks, gpu.output_chunks, gpu.scratch_chunks)
        require(most // chunks * longest <= MOST_BYTES, f"gpu {rank}: offsets overflow")
        first = plan.gpus[0]
        same = (gpu.input_chunks, gpu.output_chunks) == (first.input_chunks, first.output_chunks)
        require(same, f"gpu {rank}: another number of chunks")


def rename_ranks(gpu: Gpu, place: Mapping[int, int]) -> Gpu:
    """Returns a GPU with the ranks it names replaced. Raises KeyError for an unknown rank."""
    channels = [
        replace(channel, connected_to=[place[peer] for peer in channel.connected_to])
        for channel in gpu.channels
    ]
    buffers = [replace(buffer, rank=place[buffer.rank]) for buffer in gpu.remote_buffers]
    return replace(gpu, id=place[gpu.id], channels=channels, remote_buffers=buffers)


def _peers(gpu: Gpu, kind: str) -> list[int]:
    """Returns the peers of a GPU's channels of a type, in the order of their numbers."""
    found = [channels for channels in gpu.channels if channels.channel_type == kind]
    return [peer for channels in found for peer in channels.connected_to]


def pair_channels(gpus: list[Gpu]) -> dict[Channel, Channel]:
    """Returns the other end of every channel: the k-th of a to b pairs with the k-th of b to a."""
    kth: dict[tuple[str, int, int, int], Channel] = {}
    for rank, gpu in enumerate(gpus):
        require(all(c.channel_type in CHANNEL_TYPES for c in gpu.channels), "channel types")
        for kind in CHANNEL_TYPES:
            count: dict[int, int] = {}
            for number, peer in enumerate(_peers(gpu, kind)):
                require(0 <= peer < len(gpus) and peer != rank, f"rank {rank} has no peer {peer}")
                kth[kind, rank, peer, count.get(peer, 0)] = (kind, rank, number)
                count[peer] = count.get(peer, 0) + 1
    for kind, rank, peer, number in kth:
        met = (kind, peer, rank, number) in kth
        require(met, f"{kind} channel {number} of rank {rank} to {peer} has no other end")
    return {end: kth[kind, peer, rank, k] for (kind, rank, peer, k), end in kth.items()}


def blocks_of(gpu: Gpu) -> Iterator[BlockState]:
    """Yields the threadblocks of a GPU, with references resolved and limits checked."""
    own = {kind: _peers(gpu, kind) for kind in CHANNEL_TYPES}
    for number, given in enumerate(gpu.threadblocks):
        where = f"rank {gpu.id}, threadblock {number}"
        require(given.id == number, f"{where} has another id")
        block = BlockState(gpu.id, number, given.ops, {k: [] for k in own}, {k: [] for k in own})
        for channels in given.channels:
            kind = channels.channel_type
            inside = all(0 <= at < len(own[kind]) for at in channels.channel_ids)
            require(inside, f"{where}: a {kind} channel that is not there")
            block.channels[kind].extend((kind, gpu.id, at) for at in channels.channel_ids)
        for refs in given.remote_buffer_refs:
            kind = refs.access_channel_type
            for buffer in select_positions(gpu.remote_buffers, refs.remote_buffer_ids):
                if kind not in buffer.access_channel_types:
                    raise WrongError(f"{where}: no {kind} access to {asdict(buffer)}")
                block.buffers[kind].append((buffer.rank, buffer.type))
        _check_limits(block, where)
        yield block


def _check_limits(block: BlockState, where: str) -> None:
    """Checks the sizes of the arrays that the executor copies a threadblock into."""
    require(0 < len(block.ops) <= MOST_OPERATIONS, f"{where}: {len(block.ops)} operations")
    for kind in CHANNEL_TYPES:
        require(len(block.channels[kind]) <= MOST_CHANNELS, f"{where}: too many channels")
        require(len(block.buffers[kind]) <= MOST_CHANNELS, f"{where}: too many remote buffers")
    for op in block.ops:
        if why := _excess(op):
            raise WrongError(f"{where}: {op.name} {why}")


def _excess(op: Operation) -> str:
    """Returns which limit an operation exceeds, or ""."""
    match op:
        case Put() | Sync() if len(op.channel_ids or ()) > MOST_CHANNELS_PER_OPERATION:
            return "of too many channels"
        case Put() | Copy() | Reduce() if len(op.src_buff) > MOST_BUFFERS_PER_OPERATION:
            return "with too long a src_buff"
        case Put() | Copy() | Reduce() if len(op.dst_buff) > MOST_BUFFERS_PER_OPERATION:
            return "with too long a dst_buff"
        case Sync() if len(set(op.channel_ids)) < len(op.channel_ids):
            return "names a channel twice"
    return ""


def check_owners(blocks: list[BlockState]) -> None:
    """Checks that no two threadblocks count the signals of one channel, which is not atomic."""
    used = [
        channel for block in blocks for kind in CHANNEL_TYPES for channel in block.channels[kind]
    ]
    require(len(set(used)) == len(used), "two threadblocks use one channel")
