"""Execution plans for MSCCL++'s executor: an all-reduce in place, in chunks, by all GPUs at once.

A plan reduces inside each reduction group, so with replicas it is not the plain all-reduce of its
communicator, which must span the whole machine. Ranks, channels and buffers are told by position:
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
from collections.abc import Sequence
from dataclasses import dataclass

from synth.emit.launchers import places
from synth.emit.mscclpp_blocks import MEMORY, PORT, Block, Excess, Op, Window
from synth.emit.mscclpp_moves import Moves, Round, Send, moves
from synth.emit.mscclpp_proof import Failure, prove
from synth.emit.source import CannotExpressError, Files, Source, cannot
from synth.schedule import padded

ALIGNMENT = 16
MOST_BYTES = 2**32 - 1
SPARE_SCRATCH_BYTES = 2**26
MOST_BLOCKS = 64
MOST_BLOCKS_OF_ALL = 2048
THREADS = 1024
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
    ``asks`` is explained at ``write``.
    """

    copies: int
    lanes: int
    asks: bool


def write(source: Source) -> Files:
    """The plan, proved by symbolic execution, as one file.

    In most programs what a rank is sent depends on what it sent itself, so it comes when the rank
    is ready for it. Where that is not so the proof finds a race, and the plan is written again with
    ranks that ask first.

    Raises CannotExpressError for a step that passes a limit of the format, for payloads beyond its
    offsets, and for ranks that are not numbered host by host.
    """
    hosts = _hosts(source)
    groups = source.mesh.ranks(source.schedule.reduction.grid()).tolist()
    found = moves(source.schedule, source.mesh, hosts)
    failure: Failure | None = None
    for asks in (False, True):
        name, text = _plan(source, found, hosts, asks)
        failure = prove(json.loads(text), groups)
        if failure is None:
            return {f"{name}.json": text}
        if not failure.race:
            break
    raise AssertionError(f"the plan is wrong: {failure}")


def _plan(source: Source, found: Moves, hosts: Sequence[int], asks: bool) -> tuple[str, str]:
    """The name and the text of a plan. The name is its own: the executor tells plans by names."""
    work = _work(found, len(hosts))
    lanes = _lanes(source, found, work, hosts, asks)
    layout = Layout(_copies(source, lanes) if found.rounds else 1, lanes, asks)
    head = _head(source, found, layout)
    gpus = [
        json.dumps(_gpu(rank, found, work[rank], hosts, layout), separators=(",", ":"))
        for rank in range(len(hosts))
    ]
    digest = hashlib.sha256("\n".join([json.dumps(head), *gpus]).encode()).hexdigest()[:12]
    name = f"collsynth-allreduce-{digest}"
    top = json.dumps({"name": name, **head}, separators=(",", ":"))
    return name, top[:-1] + ',"gpus":[\n' + ",\n".join(gpus) + "\n]}\n"


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


def _lanes(source: Source, found: Moves, work: list[Work], hosts: Sequence[int], asks: bool) -> int:
    """The fewest lanes with which every threadblock keeps to the limits."""
    excess: Excess | None = None
    tried = 1
    most = min(found.chunks, MOST_BLOCKS, max(1, MOST_BLOCKS_OF_ALL // len(hosts)))
    for lanes in range(1, most + 1):
        if found.chunks % lanes:
            continue
        windows = _windows(found, Layout(1, lanes, asks))
        attempts = (
            Block(rank, hosts, window, asks).write(work[rank])
            for window in windows
            for rank in range(len(hosts))
        )
        excess, tried = next((a for a in attempts if a), None), lanes
        if excess is None:
            return lanes
    if excess is None:
        raise AssertionError("no number of lanes was tried")
    blocks = "one threadblock" if tried == 1 else f"even each of {tried} threadblocks"
    raise cannot(source, excess.phase, f"{blocks} would need {excess.why}")


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


def _head(source: Source, found: Moves, layout: Layout) -> Op:
    """What stands before the GPUs; raises CannotExpressError for offsets beyond 32 bits."""
    chunks, scratch = found.chunks * layout.copies, max(found.scratch) * layout.copies
    payload = padded(source.schedule.payload_bytes, chunks * ALIGNMENT)

    def largest(scratch_bytes: int) -> int:
        chunk = min(MOST_BYTES // chunks, scratch_bytes // max(1, scratch))
        return chunk // ALIGNMENT * ALIGNMENT * chunks

    if payload > largest(MOST_BYTES):
        need = f"{payload} bytes and {payload // chunks * scratch} of scratch"
        raise CannotExpressError(f"{need}: offsets have 32 bits", where="payload")
    return {
        "collective": "allreduce",
        "protocol": "Simple",
        "inplace": True,
        "reuse_resources": False,
        "num_threads_per_block": THREADS,
        "use_double_scratch_buffer": False,
        "buffer_alignment": ALIGNMENT,
        "min_message_size": ALIGNMENT * chunks,
        "max_message_size": max(payload, largest(SPARE_SCRATCH_BYTES)),
    }


def _gpu(rank: int, found: Moves, work: Work, hosts: Sequence[int], layout: Layout) -> Op:
    """One GPU: its threadblocks, and the channels and remote buffers they name by position."""
    channels: dict[str, list[int]] = {MEMORY: [], PORT: []}
    buffers: dict[tuple[int, str, str], int] = {}
    blocks = []
    for number, window in enumerate(_windows(found, layout)):
        block = Block(rank, hosts, window, layout.asks)
        if block.write(work):
            raise AssertionError("a block passes a limit that was checked before")
        blocks.append(_block(number, block, channels, buffers))
    return {
        "id": rank,
        "input_chunks": found.chunks * layout.copies,
        "output_chunks": found.chunks * layout.copies,
        "scratch_chunks": max(found.scratch) * layout.copies,
        "threadblocks": blocks,
        "channels": [
            {"channel_type": kind, "connected_to": peers}
            for kind, peers in channels.items()
            if peers
        ],
        "remote_buffers": [
            {"rank": peer, "type": kind, "access_channel_types": [channel]}
            for peer, kind, channel in buffers
        ],
        "semaphores": [],
    }


def _block(
    number: int,
    block: Block,
    channels: dict[str, list[int]],
    buffers: dict[tuple[int, str, str], int],
) -> Op:
    """A threadblock's JSON; enters its channels and remote buffers in the GPU's lists."""
    channel_refs, buffer_refs = [], []
    for kind in (MEMORY, PORT):
        if peers := list(block.channels[kind]):
            first = len(channels[kind])
            channels[kind].extend(peers)
            ids = list(range(first, first + len(peers)))
            channel_refs.append({"channel_type": kind, "channel_ids": ids})
        if block.buffers[kind]:
            ids = [
                buffers.setdefault((peer, buffer, kind), len(buffers))
                for peer, buffer in block.buffers[kind]
            ]
            buffer_refs.append({"access_channel_type": kind, "remote_buffer_ids": ids})
    return {
        "id": number,
        "ops": block.ops or [{"name": "nop"}],
        "channels": channel_refs,
        "remote_buffer_refs": buffer_refs,
    }
