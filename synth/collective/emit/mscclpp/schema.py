"""The JSON of an MSCCL++ execution plan, as the types that write and read it.

Keys are in the order of the file. Defaults are those of the executor's own reader. These are
dataclasses, not models, because a plan has up to a million parts, which the proof compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter


class PlanPart:
    """Base of all parts: strict types, no unknown keys."""

    __slots__ = ()
    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)


@dataclass(frozen=True, slots=True)
class Local(PlanPart):
    """Chunks of the GPU's own buffer: i, the input, o, the output, or s, the scratch."""

    type: str
    index: int
    size: int


@dataclass(frozen=True, slots=True)
class Remote(PlanPart):
    """Chunks of a peer's buffer, by its position among the threadblock's remote buffers."""

    buffer_id: int
    index: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Nop(PlanPart):
    """A barrier of all threads of a block."""

    name: Literal["nop"] = "nop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(PlanPart):
    """A copy inside a GPU."""

    name: Literal["copy"] = "copy"
    src_buff: list[Local]
    dst_buff: list[Local]


@dataclass(frozen=True, slots=True, kw_only=True)
class Put(PlanPart):
    """Copies to peers: by the threads themselves, or by the proxies of the channels named."""

    name: Literal["put"] = "put"
    src_buff: list[Local]
    dst_buff: list[Remote]
    channel_ids: list[int] | None = None
    channel_type: str


@dataclass(frozen=True, slots=True)
class Sync(PlanPart):
    """Signals channels' other ends that all earlier work is done, or waits for their signals."""

    name: Literal["signal", "wait"]
    channel_ids: list[int]
    channel_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduce(PlanPart):
    """Sums chunks of the own buffers."""

    name: Literal["re"] = "re"
    src_buff: list[Local]
    dst_buff: list[Local]
    reduce_op: str = "sum"


Operation = Annotated[Nop | Copy | Put | Sync | Reduce, Field(discriminator="name")]


@dataclass(frozen=True, slots=True)
class ChannelRefs(PlanPart):
    """A threadblock's channels of a type, by their positions in the GPU's."""

    channel_type: str
    channel_ids: list[int]


@dataclass(frozen=True, slots=True)
class BufferRefs(PlanPart):
    """A threadblock's remote buffers for channels of a type, by their positions in the GPU's."""

    access_channel_type: str
    remote_buffer_ids: list[int]


@dataclass(frozen=True, slots=True)
class Threadblock(PlanPart):
    """A threadblock's operations, and what they reference by position."""

    id: int
    ops: list[Operation]
    channels: list[ChannelRefs]
    remote_buffer_refs: list[BufferRefs]


@dataclass(frozen=True, slots=True)
class Channels(PlanPart):
    """A GPU's channels of one type: the ranks at their other ends."""

    channel_type: str
    connected_to: list[int]


@dataclass(frozen=True, slots=True)
class RemoteBuffer(PlanPart):
    """A buffer of another rank, and the types of channels that reach it."""

    rank: int
    type: str
    access_channel_types: list[str]


@dataclass(frozen=True, slots=True)
class Gpu(PlanPart):
    """The buffers, threadblocks and channels of one GPU."""

    id: int
    input_chunks: int
    output_chunks: int
    scratch_chunks: int
    threadblocks: list[Threadblock]
    channels: list[Channels]
    remote_buffers: list[RemoteBuffer]
    semaphores: tuple[()] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPlan(PlanPart):
    """A plan: its collective, its message sizes, and the work of every GPU."""

    name: str
    collective: str
    protocol: str
    inplace: bool
    reuse_resources: bool = False
    num_threads_per_block: int = 1024
    use_double_scratch_buffer: bool = False
    buffer_alignment: int = 16
    min_message_size: int
    max_message_size: int
    gpus: list[Gpu]


PLAN, GPU = TypeAdapter(ExecutionPlan), TypeAdapter(Gpu)
