"""Execution plans for MSCCL++'s executor: an all-reduce in place, in chunks, by all GPUs at once.

A plan reduces inside each reduction group, so with replicas it is not the plain all-reduce of its
communicator, which must span the whole machine. Ranks, channels and buffers are known by position:
an operation's ``channel_ids`` and ``buffer_id`` count the channels and remote buffers of its type
that its threadblock lists, and those lists count the GPU's, the channels again per type.

Facts are from microsoft/mscclpp at commit 00668b4a41acbf25214c03df74d743849d8518e8, the reader
src/core/executor/execution_plan.cc (keys, units, alignment), src/core/include/execution_common.hpp
(limits, all of them per threadblock or per operation) and execution_kernel.hpp (what operations
do), and at commit 011094ce26936e685f4d0dd18cbab4d2d0a24f18, src/core/executor/executor.cc (which
channels are joined, scratch). What follows from them:

* ``index`` and ``size`` count chunks of input size / ``input_chunks``; the input must be a multiple
  of ``buffer_alignment`` x chunks, so ``min_message_size`` is one unit of that.
* Offsets are 32 bits wide. Scratch is made for the whole allocation the input lies in, up to
  ``max_message_size``, so that one bounds the scratch to 64 MiB where the payload lets it.
* ``reuse_resources`` shares channels among user buffers, which a plan must not do that puts into
  them; so it is off, and the 64 MB of shared scratch are no limit.
* A proxy that puts from the input counts from the start of the allocation it lies in, where threads
  count from the input itself. So what goes to other hosts is copied to scratch first.
* ``flush`` looks at the number of its targets, not of its channels, so it does nothing in plans as
  the project's own language writes them; ``pwsf`` passes the address of the source offsets for an
  offset. Neither is used: what proxies read is written again only after the data were answered.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from hierarchies import Devices
from synth.emit.launchers import places
from synth.emit.mscclpp.blocks import MEMORY, PORT, Block, Excess, Window
from synth.emit.mscclpp.moves import Moves, Round, Send, chunks_of, moves
from synth.emit.mscclpp.peers import crowded
from synth.emit.mscclpp.proof import Failure, prove
from synth.emit.mscclpp.schema import (
    GPU,
    PLAN,
    BufferRefs,
    ChannelRefs,
    Channels,
    Gpu,
    Nop,
    Plan,
    RemoteBuffer,
    Threadblock,
)
from synth.emit.source import CannotExpressError, Files, Source, cannot
from synth.semantics.schedule import padded

ALIGNMENT = 16
MOST_BYTES = 2**32 - 1
SPARE_SCRATCH_BYTES = 2**26
MOST_BLOCKS = 64
MOST_BLOCKS_OF_ALL = 2048
BYTES_PER_COPY = 2**18
MOST_COPIES = 8
MOST_RANK_COPIES = 32

Work = list[tuple[Round, list[Send], list[Send]]]


@dataclass(frozen=True)
class Layout:
    """How the work of a GPU is cut into threadblocks.

    The payload is cut into ``copies``, which are treated alike side by side, for speed; each
    copy's chunks into ``lanes``, where one threadblock alone would pass a limit of the format.
    All threadblocks of a GPU must run at once, or one could wait for a peer's that does not; so
    there are at most ``MOST_BLOCKS``, fewer than any such GPU has processors. In all there are at
    most ``MOST_BLOCKS_OF_ALL``, and ``MOST_RANK_COPIES`` copies, for the sake of the proof's time.
    """

    copies: int
    lanes: int


@dataclass(frozen=True)
class Group:
    """What a reduction group does, its ranks counted in ascending order: their rounds, and hosts.

    All groups do the same, side by side, and lie on the machine in the same way.
    """

    moves: Moves
    work: list[Work]
    hosts: list[int]


def write(source: Source) -> Files:
    """The plan, proved by symbolic execution, as one file.

    In most programs what a rank is sent depends on what it sent itself, so it comes when the rank
    is ready for it. Where that is not so the proof finds a race, and the plan is written again with
    ranks that ask first.

    Raises CannotExpressError for a step that passes a limit of the format, for payloads beyond its
    offsets, and for ranks that are not numbered host by host.
    """
    groups = _groups(source)
    group = _group(source, groups)
    failure: Failure | None = None
    for asks in (False, True):
        layout, blocks = _blocks(source, group, asks)
        sizes = _sizes(source, group.moves, layout)
        name, text = _plan(sizes, _gpus(group, groups, layout, blocks))
        failure = prove(text, groups.tolist())
        if failure is None:
            return {f"{name}.json": text}
        if not failure.race:
            break
    raise AssertionError(f"the plan is wrong: {failure}")


def check(source: Source) -> None:
    """Raise what ``write`` raises, without writing or proving a plan that surely can be written.

    Ranks that ask first need more than others, so a plan in which they do tells of both.
    """
    group = _group(source, _groups(source))
    try:
        layout, _ = _blocks(source, group, asks=True)
        _sizes(source, group.moves, layout)
    except CannotExpressError:
        write(source)


def _groups(source: Source) -> Devices:
    """The ranks of every reduction group, ascending: shape (groups, members)."""
    return np.sort(source.mesh.ranks(source.schedule.reduction.grid()), axis=1)


def _group(source: Source, groups: Devices) -> Group:
    """What every group does. Steps with too many peers are refused before messages are made."""
    schedule, mesh = source.schedule, source.mesh
    hosts = _hosts(source)
    excess = crowded(schedule, places(source)[:, 0])
    if excess is not None:
        raise _passed(source, excess, _numbers_of_lanes(source, chunks_of(schedule))[-1])
    crossed = np.diff(np.array(hosts)[groups], axis=1) != 0
    if (crossed != crossed[0]).any():
        raise AssertionError("the reduction groups lie on the hosts in different ways")
    own = [hosts[rank] for rank in groups[0]]
    found = moves(schedule, mesh, groups[0], own)
    _sizes(source, found, Layout(1, 1))
    return Group(found, _work(found, len(own)), own)


def _plan(sizes: tuple[int, int], gpus: list[Gpu]) -> tuple[str, str]:
    """The name and the text of a plan for messages of these sizes, a line for each GPU.

    The name is the plan's own: the executor knows plans by names.
    """
    plan = Plan(
        name="",
        collective="allreduce",
        protocol="Simple",
        inplace=True,
        min_message_size=sizes[0],
        max_message_size=sizes[1],
        gpus=[],
    )
    lines = [GPU.dump_json(gpu, exclude_none=True).decode() for gpu in gpus]
    head = json.dumps(PLAN.dump_python(plan, exclude={"name", "gpus"}))
    digest = hashlib.sha256("\n".join([head, *lines]).encode()).hexdigest()[:12]
    named, listed = replace(plan, name=f"collsynth-allreduce-{digest}"), ",\n".join(lines)
    text = PLAN.dump_json(named).decode().replace("[]", f"[\n{listed}\n]")
    return named.name, text + "\n"


def _hosts(source: Source) -> list[int]:
    """The host of every rank. The executor takes equal blocks of consecutive ranks for hosts."""
    hosts: list[int] = places(source)[source.mesh.devices, 0].tolist()
    if hosts != sorted(hosts):
        raise CannotExpressError(
            "ranks that do not go host by host", where="rank order", hint="number them by machine"
        )
    return hosts


def _work(found: Moves, ranks: int) -> list[Work]:
    """For every rank its rounds, each with what it sends and what it gets."""
    work: list[Work] = [[] for _ in range(ranks)]
    for round in found.rounds:
        sent: dict[int, tuple[list[Send], list[Send]]] = {}
        for send in round.sends:
            sent.setdefault(send.source, ([], []))[0].append(send)
            sent.setdefault(send.target, ([], []))[1].append(send)
        for rank, (out, come) in sent.items():
            work[rank].append((round, out, come))
    return work


def _blocks(source: Source, group: Group, asks: bool) -> tuple[Layout, list[list[Block]]]:
    """The layout with the fewest lanes that keep to the limits; its blocks, a row for each window.

    Raises CannotExpressError for the phase that passes a limit however many lanes there are.
    """
    excess, lanes = None, 1
    for lanes in _numbers_of_lanes(source, group.moves.chunks):
        blocks, excess = _written(group, _windows(group.moves, Layout(1, lanes)), asks)
        if excess is None:
            break
    if excess is not None:
        raise _passed(source, excess, lanes)
    layout = Layout(_copies(source, lanes) if group.moves.rounds else 1, lanes)
    others, excess = _written(group, _windows(group.moves, layout)[lanes:], asks)
    if excess is not None:
        raise AssertionError("a block passes a limit that was checked before")
    return layout, blocks + others


def _written(
    group: Group, windows: list[Window], asks: bool
) -> tuple[list[list[Block]], Excess | None]:
    """The blocks of every window, one for each rank; up to the first that passes a limit."""
    rows: list[list[Block]] = []
    for window in windows:
        rows.append([])
        for rank, work in enumerate(group.work):
            block = Block(rank, group.hosts, window, asks)
            excess = block.write(work)
            if excess is not None:
                return rows, excess
            rows[-1].append(block)
    return rows, None


def _numbers_of_lanes(source: Source, chunks: int) -> list[int]:
    """Into how many lanes the chunks may be cut, fewest first."""
    most = min(chunks, MOST_BLOCKS, max(1, MOST_BLOCKS_OF_ALL // source.schedule.devices))
    return [lanes for lanes in range(1, most + 1) if chunks % lanes == 0]


def _passed(source: Source, excess: Excess, lanes: int) -> CannotExpressError:
    blocks = "one threadblock" if lanes == 1 else f"even each of {lanes} threadblocks"
    return cannot(source, excess.phase, f"{blocks} would need {excess.why}")


def _copies(source: Source, lanes: int) -> int:
    """How many copies are worth while: a threadblock alone moves some tens of GB/s."""
    most = min(MOST_COPIES, MOST_BLOCKS // lanes, MOST_RANK_COPIES // source.schedule.devices)
    copies = 1
    while 2 * copies <= most and source.schedule.payload_bytes >= 2 * copies * BYTES_PER_COPY:
        copies *= 2
    return copies


def _windows(found: Moves, layout: Layout) -> list[Window]:
    size = found.chunks // layout.lanes
    most = max(found.scratch)
    return [
        Window(lane * size, (lane + 1) * size, copy * found.chunks, copy * most)
        for copy in range(layout.copies)
        for lane in range(layout.lanes)
    ]


def _sizes(source: Source, found: Moves, layout: Layout) -> tuple[int, int]:
    """The smallest and largest message; raises CannotExpressError for offsets beyond 32 bits."""
    chunks, scratch = found.chunks * layout.copies, max(found.scratch) * layout.copies
    payload = padded(source.schedule.payload_bytes, chunks * ALIGNMENT)

    def largest(scratch_bytes: int) -> int:
        chunk = min(MOST_BYTES // chunks, scratch_bytes // max(1, scratch))
        return chunk // ALIGNMENT * ALIGNMENT * chunks

    if payload > largest(MOST_BYTES):
        need = f"{payload} bytes and {payload // chunks * scratch} of scratch"
        raise CannotExpressError(f"{need}: offsets have 32 bits", where="payload")
    return ALIGNMENT * chunks, max(payload, largest(SPARE_SCRATCH_BYTES))


def _gpus(group: Group, groups: Devices, layout: Layout, blocks: list[list[Block]]) -> list[Gpu]:
    """All GPUs by rank. GPUs at the same place in their groups differ only in ranks named."""
    chunks, scratch = group.moves.chunks * layout.copies, max(group.moves.scratch) * layout.copies
    found = []
    for place in range(len(group.hosts)):
        used = _Used({MEMORY: [], PORT: []}, {})
        own = [used.by(number, row[place]) for number, row in enumerate(blocks)]
        for ranks in groups.tolist():
            channels = [
                Channels(kind, [ranks[peer] for peer in peers])
                for kind, peers in used.channels.items()
                if peers
            ]
            buffers = [
                RemoteBuffer(ranks[peer], buffer, [kind]) for peer, buffer, kind in used.buffers
            ]
            found.append(Gpu(ranks[place], chunks, chunks, scratch, own, channels, buffers))
    return sorted(found, key=attrgetter("id"))


@dataclass(frozen=True)
class _Used:
    """What the threadblocks of a GPU name by position: channels of each type, remote buffers."""

    channels: dict[str, list[int]]
    buffers: dict[tuple[int, str, str], int]

    def by(self, number: int, block: Block) -> Threadblock:
        """A threadblock as it is written; enters its channels and remote buffers in the lists."""
        channel_refs, buffer_refs = [], []
        for kind in (MEMORY, PORT):
            if peers := list(block.channels[kind]):
                first = len(self.channels[kind])
                self.channels[kind].extend(peers)
                ids = list(range(first, first + len(peers)))
                channel_refs.append(ChannelRefs(kind, ids))
            if block.buffers[kind]:
                ids = [
                    self.buffers.setdefault((peer, buffer, kind), len(self.buffers))
                    for peer, buffer in block.buffers[kind]
                ]
                buffer_refs.append(BufferRefs(kind, ids))
        return Threadblock(number, block.ops or [Nop()], channel_refs, buffer_refs)
