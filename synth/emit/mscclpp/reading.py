"""Reads an MSCCL++ execution plan as the executor does: references by position are resolved.

The executor trusts what it reads. So everything is checked here that would overrun its arrays or
join the wrong things: the limits, positions, and that every channel has another end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

MOST_OPERATIONS = 64
MOST_CHANNELS = 16
MOST_CHANNELS_PER_OPERATION = 8
MOST_BUFFERS_PER_OPERATION = 10
MOST_BYTES = 2**32 - 1
CHANNEL_TYPES = ("memory", "port")

T = TypeVar("T")
Json = dict[str, Any]
Channel = tuple[str, int, int]
"""The channel type, the rank it belongs to, its number among the rank's channels of the type."""


class WrongError(Exception):
    """What is wrong with a plan; ``race``: nothing but a missing order of two accesses."""

    def __init__(self, reason: str, race: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.race = race


@dataclass
class Block:
    """A threadblock under way: its segment's bit, and the segments before it.

    ``coming`` is past from the next ``nop`` on: what one of the threads has waited for. ``puts``
    are those its proxies have been told of since the last ``nop``.
    """

    rank: int
    number: int
    ops: list[Json]
    channels: dict[str, list[Channel]]
    buffers: dict[str, list[tuple[int, str]]]
    at: int = 0
    segment: int = 0
    past: int = 0
    coming: int = 0
    puts: list[tuple[Channel, int]] = field(default_factory=list)


def require(condition: bool, reason: str) -> None:
    """Raise WrongError if a condition does not hold."""
    if not condition:
        raise WrongError(reason)


def position(at: int) -> int:
    """A position in a list; in JSON there is none before the first."""
    require(at >= 0, f"position {at}")
    return at


def at_positions(items: list[T], some: list[int]) -> list[T]:
    """What stands at some positions in a list."""
    require(min(some, default=0) >= 0, f"positions {some}")
    return [items[at] for at in some]


def check_sizes(plan: Json) -> None:
    """The header: a plain all-reduce in place, of sizes that all offsets can say."""
    require(isinstance(plan["name"], str) and plan["name"] != "", "it has no name")
    known = {"collective": "allreduce", "protocol": "Simple", "inplace": True}
    for key, value in known.items():
        require(plan[key] == value, f"{key} is {plan[key]!r}")
    require(not plan.get("reuse_resources", False), "it puts into buffers that are not its own")
    least, most = plan["min_message_size"], plan["max_message_size"]
    for rank, gpu in enumerate(plan["gpus"]):
        require(gpu["id"] == rank, f"gpu {rank} has another id")
        chunks, scratch = gpu["input_chunks"], gpu["scratch_chunks"]
        require(chunks == gpu["output_chunks"] > 0, f"gpu {rank}: input and output differ")
        unit = chunks * plan.get("buffer_alignment", 16)
        require(0 < least <= most and least % unit == 0, f"gpu {rank}: sizes from {least}")
        require(max(most, most // chunks * scratch) <= MOST_BYTES, f"gpu {rank}: offsets overflow")
        require(chunks == plan["gpus"][0]["input_chunks"], f"gpu {rank}: another number of chunks")


def named(gpu: Json) -> set[int]:
    """The ranks a GPU names beside its own."""
    peers = {peer for channel in gpu["channels"] for peer in channel["connected_to"]}
    return peers | {buffer["rank"] for buffer in gpu["remote_buffers"]}


def renamed(gpu: Json, place: Mapping[int, int]) -> Json:
    """A GPU as it is, but for the ranks it names."""
    channels = [
        {**channel, "connected_to": [place[peer] for peer in channel["connected_to"]]}
        for channel in gpu["channels"]
    ]
    buffers = [{**buffer, "rank": place[buffer["rank"]]} for buffer in gpu["remote_buffers"]]
    return {**gpu, "id": place[gpu["id"]], "channels": channels, "remote_buffers": buffers}


def _channels(gpu: Json, kind: str) -> list[int]:
    """The peers of a GPU's channels of a type, in the order in which they are numbered."""
    found = [c for c in gpu["channels"] if c["channel_type"] == kind]
    return [peer for channel in found for peer in channel["connected_to"]]


def paired(gpus: list[Json]) -> dict[Channel, Channel]:
    """The other end of every channel: the k-th of a to b belongs to the k-th of b to a."""
    kth: dict[tuple[str, int, int, int], Channel] = {}
    for rank, gpu in enumerate(gpus):
        require(all(c["channel_type"] in CHANNEL_TYPES for c in gpu["channels"]), "channel types")
        for kind in CHANNEL_TYPES:
            count: dict[int, int] = {}
            for number, peer in enumerate(_channels(gpu, kind)):
                require(0 <= peer < len(gpus) and peer != rank, f"rank {rank} has no peer {peer}")
                kth[kind, rank, peer, count.get(peer, 0)] = (kind, rank, number)
                count[peer] = count.get(peer, 0) + 1
    for kind, rank, peer, number in kth:
        met = (kind, peer, rank, number) in kth
        require(met, f"{kind} channel {number} of rank {rank} to {peer} has no other end")
    return {end: kth[kind, peer, rank, k] for (kind, rank, peer, k), end in kth.items()}


def blocks_of(gpu: Json) -> Iterator[Block]:
    """The threadblocks of a GPU, what they refer to looked up, within the limits."""
    rank = gpu["id"]
    own = {kind: _channels(gpu, kind) for kind in CHANNEL_TYPES}
    remote = gpu["remote_buffers"]
    for number, told in enumerate(gpu["threadblocks"]):
        where = f"rank {rank}, threadblock {number}"
        require(told["id"] == number, f"{where} has another id")
        block = Block(rank, number, told["ops"], {k: [] for k in own}, {k: [] for k in own})
        for ref in told["channels"]:
            kind = ref["channel_type"]
            inside = all(0 <= at < len(own[kind]) for at in ref["channel_ids"])
            require(inside, f"{where}: a {kind} channel that is not there")
            block.channels[kind].extend((kind, rank, at) for at in ref["channel_ids"])
        for ref in told["remote_buffer_refs"]:
            kind = ref["access_channel_type"]
            for buffer in at_positions(remote, ref["remote_buffer_ids"]):
                if kind not in buffer["access_channel_types"]:
                    raise WrongError(f"{where}: no {kind} access to {buffer}")
                block.buffers[kind].append((buffer["rank"], buffer["type"]))
        _check_limits(block, where)
        yield block


def _check_limits(block: Block, where: str) -> None:
    """The sizes of the arrays that the executor copies a threadblock into."""
    require(0 < len(block.ops) <= MOST_OPERATIONS, f"{where}: {len(block.ops)} operations")
    for kind in CHANNEL_TYPES:
        require(len(block.channels[kind]) <= MOST_CHANNELS, f"{where}: too many channels")
        require(len(block.buffers[kind]) <= MOST_CHANNELS, f"{where}: too many remote buffers")
    for op in block.ops:
        if why := _excess(op):
            raise WrongError(f"{where}: {op['name']} {why}")


def _excess(op: Json) -> str:
    """Which limit an operation passes, if one."""
    used = op.get("channel_ids", ())
    if len(used) > MOST_CHANNELS_PER_OPERATION:
        return "of too many channels"
    for side in ("src_buff", "dst_buff"):
        if len(op.get(side, ())) > MOST_BUFFERS_PER_OPERATION:
            return f"with too long a {side}"
    twice = op["name"] != "put" and len(set(used)) < len(used)
    return "names a channel twice" if twice else ""


def check_owners(blocks: list[Block]) -> None:
    """No two threadblocks count the signals of one channel, which is not atomic."""
    used = [
        channel for block in blocks for kind in CHANNEL_TYPES for channel in block.channels[kind]
    ]
    require(len(set(used)) == len(used), "two threadblocks use one channel")
