"""Execution plans for MSCCL++'s executor: a collective in chunks, run by all GPUs at once.

A plan works inside each reduction group, so with replicas it differs from the plain collective of
its communicator, which must span the whole machine. Channels and buffers are referenced by
position: an operation's ``channel_ids`` and ``buffer_id`` index the channels and remote buffers of
its type that its threadblock lists, and those lists index the GPU's, the channels again per type.

Sources are microsoft/mscclpp at commit 00668b4a41acbf25214c03df74d743849d8518e8, the reader
src/core/executor/execution_plan.cc (keys, units, alignment), src/core/include/execution_common.hpp
(limits, all of them per threadblock or per operation) and execution_kernel.hpp (the effects of
operations), and at commit 011094ce26936e685f4d0dd18cbab4d2d0a24f18, src/core/executor/executor.cc
(which channels are joined, scratch). They imply:

* ``index`` and ``size`` count chunks of input size / ``input_chunks``, which must be output size /
  ``output_chunks``. Both must be a multiple of ``buffer_alignment`` x chunks, so
  ``min_message_size`` is one unit of that: of the output of an all-gather, else of the input.
* The name of the ``collective`` and ``inplace`` only choose the plan for a caller of the NCCL
  interface (src/ext/nccl/nccl.cc and, at 03599e27d78e4c662bb068fb75859c06ee437e4e,
  algorithm_selector.cc). It selects broadcasts too, but ignores the root; there is no reduce at
  all. A reduce-scatter whose output is a piece of its input does not count as in place there. It
  does not select all-to-alls yet: their plans are for the executor itself.
* Offsets are 32 bits wide. Scratch is allocated for the whole allocation that contains the input,
  up to ``max_message_size``, so this size limits scratch to 64 MiB where the payload allows it. For
  an all-gather it is the size of the output, so the input counts once per member.
* ``reuse_resources`` shares channels among user buffers, which is wrong in a plan that puts into
  them; so it is off, and the 64 MB of shared scratch are no limit.
* A proxy that puts from the input counts from the start of the input's allocation, while threads
  count from the input itself. So data for other hosts is copied to scratch first.
* ``flush`` checks the number of its targets, not of its channels, so it does nothing in plans as
  the project's own language writes them; ``pwsf`` passes the address of the source offsets as an
  offset. Neither is used: data that proxies read is overwritten only after a reply to it, or after
  the target has signalled in the next launch that it is ready.
* A peer's input or output is assumed to begin at the same offset in its allocation as the rank's
  own.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from grammar.tensors.sharding import ReductionKind
from hierarchies import Devices
from synth.collective.emit.launchers import places
from synth.collective.emit.mscclpp.blocks import (
    MEMORY,
    PORT,
    BlockWriter,
    Excess,
    RankRound,
    ReadyWait,
    Window,
)
from synth.collective.emit.mscclpp.homes import NAMES, REFUSED, Homes
from synth.collective.emit.mscclpp.layout import (
    BlockLayout,
    copies_of,
    message_sizes,
    numbers_of_lanes,
    windows_of,
)
from synth.collective.emit.mscclpp.moves import GroupMessages, Message, chunks_of, messages_of
from synth.collective.emit.mscclpp.peers import find_crowded_phase
from synth.collective.emit.mscclpp.proof import PlanFailure, prove
from synth.collective.emit.mscclpp.schema import (
    GPU,
    PLAN,
    BufferRefs,
    ChannelRefs,
    Channels,
    ExecutionPlan,
    Gpu,
    Nop,
    RemoteBuffer,
    Threadblock,
)
from synth.collective.emit.source import CannotExpressError, EmitSource, Files, inexpressible_error

Work = list[RankRound]


@dataclass(frozen=True)
class GroupRounds:
    """A reduction group's messages, each rank's rounds, and the ranks' hosts, in ascending order.

    All groups do the same concurrently, and are placed on the machine in the same way.
    """

    moves: GroupMessages
    work: list[Work]
    hosts: list[int]


def write(source: EmitSource) -> Files:
    """Returns the plan, proved by symbolic execution, as one file.

    In most all-reduces the data that a rank receives depends on the data it sent, so it arrives
    when the rank is ready. Otherwise the proof finds a race, and the plan is written again with
    receivers that signal readiness first. In other collectives a receiver may never reply to a
    rank, and may still be reading data of the previous launch: so all receivers signal at the
    start.

    Raises CannotExpressError for a request or operation that MSCCL++ has no plans for, for a
    step that exceeds a limit of the format, for payloads beyond its offsets, and for ranks that
    are not numbered host by host.
    """
    groups = _groups(source)
    group = _group(source, groups)
    failure: PlanFailure | None = None
    for asks in _ready_waits(group.moves.homes):
        layout, blocks = _blocks(source, group, asks)
        sizes = message_sizes(source, group.moves, layout)
        name, text = _plan(group.moves.homes, sizes, _gpus(group, groups, layout, blocks))
        failure = prove(text, groups.tolist(), NAMES[source.schedule.goal])
        if failure is None:
            return {f"{name}.json": text}
        if not failure.race:
            break
    raise AssertionError(f"the plan is wrong: {failure}")


def check(source: EmitSource) -> None:
    """Raises the errors of ``write``, without writing or proving a plan that can surely be written.

    Ready signals need more resources, so a plan with them covers the plan without.
    """
    group = _group(source, _groups(source))
    try:
        layout, _ = _blocks(source, group, _ready_waits(group.moves.homes)[-1])
        message_sizes(source, group.moves, layout)
    except CannotExpressError:
        write(source)


def _ready_waits(homes: Homes) -> tuple[ReadyWait, ...]:
    """Returns how ranks may have to wait for readiness, least first."""
    return (ReadyWait.NEVER, ReadyWait.HOMES) if homes.inplace else (ReadyWait.START,)


def _groups(source: EmitSource) -> Devices:
    """Returns the ranks of every reduction group, ascending, in shape (groups, members)."""
    goal = source.schedule.goal
    if source.schedule.op is not ReductionKind.SUM:
        raise CannotExpressError(f"a {source.schedule.op.value}: its plans add", where="--op")
    if goal in REFUSED:
        raise CannotExpressError(f"a program for {goal.value}: {REFUSED[goal]}")
    return np.sort(source.mesh.ranks(source.schedule.reduction.grid()), axis=1)


def _group(source: EmitSource, groups: Devices) -> GroupRounds:
    """Returns every group's rounds; refuses steps with too many peers before building messages."""
    schedule, mesh = source.schedule, source.mesh
    hosts = _hosts(source)
    excess = find_crowded_phase(schedule, places(source)[:, 0])
    if excess is not None:
        raise _excess_error(source, excess, numbers_of_lanes(source, chunks_of(schedule))[-1])
    crossed = np.diff(np.array(hosts)[groups], axis=1) != 0
    if (crossed != crossed[0]).any():
        raise AssertionError("the reduction groups lie on the hosts in different ways")
    own = [hosts[rank] for rank in groups[0]]
    found = messages_of(schedule, mesh, groups[0], own)
    message_sizes(source, found, BlockLayout(1, 1))
    return GroupRounds(found, _work(found, len(own)), own)


def _plan(homes: Homes, sizes: tuple[int, int], gpus: list[Gpu]) -> tuple[str, str]:
    """Returns the name and text of a plan for messages of these sizes, with a line for each GPU.

    The name contains a hash of the plan, because the executor knows plans by names.
    """
    plan = ExecutionPlan(
        name="",
        collective=NAMES[homes.goal],
        protocol="Simple",
        inplace=homes.inplace,
        min_message_size=sizes[0],
        max_message_size=sizes[1],
        gpus=[],
    )
    lines = [GPU.dump_json(gpu, exclude_none=True).decode() for gpu in gpus]
    head = json.dumps(PLAN.dump_python(plan, exclude={"name", "gpus"}))
    digest = hashlib.sha256("\n".join([head, *lines]).encode()).hexdigest()[:12]
    named, listed = replace(plan, name=f"collsynth-{plan.collective}-{digest}"), ",\n".join(lines)
    # ``gpus`` is the only empty list of the header.
    text = PLAN.dump_json(named).decode().replace("[]", f"[\n{listed}\n]")
    return named.name, text + "\n"


def _hosts(source: EmitSource) -> list[int]:
    """Returns each rank's host. The executor takes equal blocks of consecutive ranks for hosts."""
    hosts: list[int] = places(source)[source.mesh.devices, 0].tolist()
    if hosts != sorted(hosts):
        raise CannotExpressError(
            "ranks that do not go host by host", where="rank order", hint="number them by machine"
        )
    return hosts


def _work(found: GroupMessages, ranks: int) -> list[Work]:
    """Returns every rank's rounds, each with its sends, receives and local move."""
    work: list[Work] = [[] for _ in range(ranks)]
    for round in found.rounds:
        sent: dict[int, list[Message]] = {}
        received: dict[int, list[Message]] = {}
        for send in round.sends:
            sent.setdefault(send.source, []).append(send)
            received.setdefault(send.target, []).append(send)
        keeps = {keep.rank: keep for keep in round.keeps}
        for rank in sorted({*sent, *received, *keeps}):
            task = RankRound(
                round.phase, sent.get(rank, []), received.get(rank, []), keeps.get(rank)
            )
            work[rank].append(task)
    return work


def _blocks(
    source: EmitSource, group: GroupRounds, asks: ReadyWait
) -> tuple[BlockLayout, list[list[BlockWriter]]]:
    """Returns the layout with the fewest lanes within the limits, and its blocks by window.

    Raises CannotExpressError for the phase that exceeds a limit with any number of lanes. Where
    there are pieces, a copy has a part of each, so it may exceed a limit that the whole does
    not.
    """
    excess, lanes = None, 1
    for lanes in numbers_of_lanes(source, group.moves.homes.message):
        blocks, excess = _write_blocks(group, windows_of(group.moves, BlockLayout(1, lanes)), asks)
        if excess is None:
            break
    if excess is not None:
        raise _excess_error(source, excess, lanes)
    copies = copies_of(source, lanes) if group.moves.rounds else 1
    while copies > 1:
        layout = BlockLayout(copies, lanes)
        rows, excess = _write_blocks(group, windows_of(group.moves, layout), asks)
        if excess is None:
            return layout, rows
        copies //= 2
    return BlockLayout(1, lanes), blocks


def _write_blocks(
    group: GroupRounds, windows: list[Window], asks: ReadyWait
) -> tuple[list[list[BlockWriter]], Excess | None]:
    """Returns the blocks of every window, one for each rank, up to the first over a limit."""
    rows: list[list[BlockWriter]] = []
    for window in windows:
        rows.append([])
        for rank, work in enumerate(group.work):
            block = BlockWriter(rank, group.hosts, window, asks)
            excess = block.write(work)
            if excess is not None:
                return rows, excess
            rows[-1].append(block)
    return rows, None


def _excess_error(source: EmitSource, excess: Excess, lanes: int) -> CannotExpressError:
    blocks = "one threadblock" if lanes == 1 else f"even each of {lanes} threadblocks"
    return inexpressible_error(source, excess.phase, f"{blocks} would need {excess.why}")


def _gpus(
    group: GroupRounds, groups: Devices, layout: BlockLayout, blocks: list[list[BlockWriter]]
) -> list[Gpu]:
    """Returns all GPUs by rank. GPUs at one place in their groups differ only in ranks named."""
    homes = group.moves.homes
    lengths = homes.inputs, homes.outputs, max(group.moves.scratch)
    inputs, outputs, scratch = (length * layout.copies for length in lengths)
    found = []
    for place in range(len(group.hosts)):
        used = _GpuResources({MEMORY: [], PORT: []}, {})
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
            found.append(Gpu(ranks[place], inputs, outputs, scratch, own, channels, buffers))
    return sorted(found, key=attrgetter("id"))


@dataclass(frozen=True)
class _GpuResources:
    """Resources that threadblocks reference by position: channels by type, remote buffers."""

    channels: dict[str, list[int]]
    buffers: dict[tuple[int, str, str], int]

    def by(self, number: int, block: BlockWriter) -> Threadblock:
        """Returns a block's final form; adds its channels and remote buffers to the lists."""
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
