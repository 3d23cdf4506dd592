"""Executes an MSCCL++ execution plan symbolically: a judge that knows only the JSON.

A value is a chunk and the set of ranks that contributed to it. All threadblocks run at once,
ordered only by what the plan enforces. A *segment* is a stretch of a threadblock's operations
between two ``nop``; its threads do not wait for each other inside it. Each put of a port channel is
a segment too, because a proxy does it later. The past of a segment is a bit set of segments, and of
two accesses to one chunk, one of them a write, one must be in the other's past.

The plan is launched twice, with new input that the rank's user writes as soon as its own kernel has
ended; the output then belongs to the user as well. So any access still in flight, such as a peer's
late write or a proxy's late read, is a race, and so is a write to the output of a rank whose user
still reads it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

from synth.collective.emit.mscclpp.reading import (
    BlockState,
    Channel,
    WrongError,
    blocks_of,
    check_owners,
    pair_channels,
    read,
    rename_ranks,
    require,
    select_positions,
)
from synth.collective.emit.mscclpp.schema import (
    Copy,
    Gpu,
    Local,
    Nop,
    Operation,
    Put,
    Reduce,
    Remote,
    Sync,
)
from synth.collective.emit.mscclpp.wanted import IN_PLACE, Value, expected_output, initial_input

LAUNCHES = 2


@dataclass(frozen=True)
class PlanFailure:
    """Why a plan is not the collective of the groups; ``race``: two accesses are unordered."""

    reason: str
    race: bool = False


@dataclass(slots=True)
class _Cell:
    """A chunk of memory: its chunk number, contributing ranks, writer and readers."""

    chunk: int = -1
    ranks: int = 0
    writer: int = 0
    readers: int = 0


def prove(
    text: str, groups: Iterable[Sequence[int]], collective: str = "allreduce"
) -> PlanFailure | None:
    """Returns None if a plan's text is a race-free collective inside each group of ranks.

    Pieces are in the order of ranks. It also checks that a separate input is only read, keys,
    positions and sizes, the limits of the format, that channels are paired, that no threadblock
    deadlocks, and that no signal is left over. If no group names another's ranks, groups are
    executed one by one, and equal groups (up to ranks) only once; errors then count the ranks
    inside the group.
    """
    try:
        plan = read(text)
        require(plan.collective == collective, f"collective is {plan.collective!r}")
        require(plan.inplace == IN_PLACE[collective], f"inplace is {plan.inplace!r}")
        for gpus, members in _split_into_parts(plan.gpus, [sorted(group) for group in groups]):
            machine = _PlanExecutor(gpus, members, collective)
            for _ in range(LAUNCHES):
                machine.launch()
                machine.compare()
    except WrongError as wrong:
        return PlanFailure(wrong.reason, wrong.race)
    except (KeyError, IndexError, ValueError) as error:
        return PlanFailure(f"not a plan: {type(error).__name__}: {error}")
    return None


def _check_order(earlier: int, past: int, reason: str) -> None:
    """Raises a race unless all segments in ``earlier`` are past."""
    if earlier & ~past:
        raise WrongError(reason, race=True)


def _read(cells: list[_Cell], segment: int, past: int) -> None:
    """Records that a segment reads; the segment that wrote must be past."""
    earlier = 0
    for cell in cells:
        if cell.chunk < 0:
            raise WrongError("reads what nobody wrote")
        earlier |= cell.writer
        cell.readers |= segment
    _check_order(earlier, past, "reads while another writes")


def _write(cells: list[_Cell], segment: int, past: int) -> None:
    """Records that a segment writes; segments that wrote or read before must be past."""
    earlier = 0
    for cell in cells:
        earlier |= cell.writer | cell.readers
        cell.writer, cell.readers = segment, 0
    _check_order(earlier, past, "writes while another reads or writes")


def _move(came: list[_Cell], goes: list[_Cell], segment: int, past: int) -> None:
    require(len(came) == len(goes), "sizes differ")
    _read(came, segment, past)
    _write(goes, segment, past)
    for here, there in zip(came, goes, strict=True):
        there.chunk, there.ranks = here.chunk, here.ranks


def _sum(cells: Sequence[_Cell]) -> tuple[int, int]:
    """Returns the chunk that all cells hold, and their ranks; no rank may occur twice."""
    chunk, ranks = cells[0].chunk, 0
    for cell in cells:
        if cell.chunk != chunk:
            raise WrongError(f"adds chunk {cell.chunk} to chunk {chunk}")
        if ranks & cell.ranks:
            raise WrongError(f"adds a rank twice to chunk {chunk}")
        ranks |= cell.ranks
    return chunk, ranks


def _split_into_parts(
    gpus: list[Gpu], groups: list[list[int]]
) -> list[tuple[list[Gpu], list[list[int]]]]:
    """Splits the GPUs into parts that name only their own ranks; drops equal parts.

    A part is a group if no group names another's ranks, else all GPUs.
    """
    seen = sorted(rank for group in groups for rank in group)
    require(
        seen == list(range(len(gpus))), f"{len(seen)} ranks in groups, not once each of the plan"
    )
    parts: list[tuple[list[Gpu], list[list[int]]]] = []
    for group in groups:
        place = {rank: at for at, rank in enumerate(group)}
        try:
            part = [rename_ranks(gpus[rank], place) for rank in group], [list(range(len(group)))]
        except KeyError:
            return [(gpus, groups)]
        if part not in parts:
            parts.append(part)
    return parts


class _PlanExecutor:
    """The memory, channels and threadblocks of all ranks."""

    def __init__(self, gpus: list[Gpu], groups: list[list[int]], collective: str) -> None:
        self.given: dict[int, list[Value]] = {}
        self.wanted: dict[int, list[Value]] = {}
        for group in groups:
            for rank in group:
                chunks = gpus[rank].input_chunks
                self.given[rank] = initial_input(collective, group, rank, chunks)
                self.wanted[rank] = expected_output(collective, group, rank, chunks)
                same = len(self.wanted[rank]) == gpus[rank].output_chunks
                require(same, f"gpu {rank}: not an output for {chunks} chunks of input")
        self.memory = [_memory(gpu, IN_PLACE[collective]) for gpu in gpus]
        self.peers = pair_channels(gpus)
        self.signals: dict[Channel, deque[int]] = {channel: deque() for channel in self.peers}
        self.proxies: dict[Channel, int] = dict.fromkeys(self.peers, 0)
        self.users, self.wrote = [0] * len(gpus), [0] * len(gpus)
        self.blocks = [block for gpu in gpus for block in blocks_of(gpu)]
        self._next = 0
        check_owners(self.blocks)

    def _segment(self) -> int:
        self._next += 1
        return 1 << self._next

    def launch(self) -> None:
        """Writes new input, runs all threadblocks to their end, and checks leftover signals."""
        for rank, cells in enumerate(self.memory):
            user = self._segment()
            for own in _buffers_of_users(cells):
                _write(own, user, self.users[rank])
                for cell in own:
                    cell.chunk = -1
            for cell, (chunk, ranks) in zip(cells["i"], self.given[rank], strict=True):
                cell.chunk, cell.ranks = chunk, ranks
            self.users[rank] |= user
            self.wrote[rank] = user
        for block in self.blocks:
            block.at, block.past, block.coming = 0, self.users[block.rank], 0
            block.segment = self._segment()
        self._run()
        for block in self.blocks:
            self._settle(block)
            self.users[block.rank] |= block.past
        left = [channel for channel, signals in self.signals.items() if signals]
        require(not left, f"signals are left over on channel {left[:1]}")

    def _run(self) -> None:
        """Advances every threadblock in turn until all are done; raises on a deadlock."""
        waiting = self.blocks
        while waiting:
            moved = [self._advance(block) for block in waiting]
            waiting = [block for block in waiting if block.at < len(block.ops)]
            if waiting and not any(moved):
                names = ", ".join(f"{b.rank}.{b.number} at {b.at}" for b in waiting[:4])
                raise WrongError(f"threadblocks wait for ever: {names}")

    def _advance(self, block: BlockState) -> bool:
        start = block.at
        while block.at < len(block.ops):
            op = block.ops[block.at]
            if op.name == "wait" and not all(self.signals[c] for c in _used_channels(op, block)):
                break
            try:
                self._carry_out(op, block)
            except WrongError as wrong:
                where = f"rank {block.rank}, threadblock {block.number}, operation {block.at}"
                raise WrongError(f"{where}: {op.name}: {wrong.reason}", wrong.race) from None
            block.at += 1
        return block.at > start

    def _carry_out(self, op: Operation, block: BlockState) -> None:
        match op:
            case Nop():
                self._settle(block)
                block.segment = self._segment()
            case Put():
                self._put(op, block)
            case Copy():
                (source,), (target,) = op.src_buff, op.dst_buff
                came, goes = self._own(source, block), self._own(target, block)
                _move(came, goes, block.segment, block.past)
            case Sync(name="signal"):
                for channel in _used_channels(op, block):
                    self.signals[self.peers[channel]].append(block.past | self.proxies[channel])
            case Sync():
                for channel in _used_channels(op, block):
                    block.coming |= self.signals[channel].popleft()
            case Reduce():
                self._reduce(op, block)
            case _:
                assert_never(op)

    def _settle(self, block: BlockState) -> None:
        """Moves everything that the threads of a block did or saw into the past, at a barrier."""
        block.past |= block.segment | block.coming
        block.coming = 0
        for channel, bit in block.puts:
            self.proxies[channel] |= bit
        block.puts.clear()

    def _put(self, op: Put, block: BlockState) -> None:
        sources, targets, kind = op.src_buff, op.dst_buff, op.channel_type
        channels = _used_channels(op, block) if kind == "port" else [None] * len(targets)
        require(len(sources) == len(targets) == len(channels), "lists of different lengths")
        for source, target, channel in zip(sources, targets, channels, strict=True):
            allowed = "s" if kind == "port" else sources[0].type
            require(source.type == allowed, f"from buffer {source.type}")
            require(target.buffer_id >= 0, f"position {target.buffer_id}")
            rank, buffer = block.buffers[kind][target.buffer_id]
            segment, past = block.segment, block.past
            if channel is not None:
                require(self.peers[channel][1] == rank, "a channel to another rank")
                segment, past = self._segment(), past | self.proxies[channel]
                block.puts.append((channel, segment | past))
            came, goes = self._own(source, block), self._slice(rank, buffer, target)
            _move(came, goes, segment, past)

    def _reduce(self, op: Reduce, block: BlockState) -> None:
        require(op.reduce_op == "sum", "not the sum")
        (target,) = op.dst_buff
        goes = self._own(target, block)
        sources = [self._own(source, block) for source in op.src_buff]
        require(all(len(came) == len(goes) for came in sources), "sizes differ")
        pairs = [pair for came in sources for pair in zip(came, goes, strict=True)]
        others = [cell for cell, out in pairs if cell is not out]
        shifted = {id(cell) for cell in others} & {id(out) for out in goes}
        require(not shifted, "onto what it reads for another place")
        sums = [_sum(cells) for cells in zip(*sources, strict=True)]
        _read(others, block.segment, block.past)
        _write(goes, block.segment, block.past)
        for there, (chunk, ranks) in zip(goes, sums, strict=True):
            there.chunk, there.ranks = chunk, ranks

    def _own(self, chunks: Local, block: BlockState) -> list[_Cell]:
        return self._slice(block.rank, chunks.type, chunks)

    def _slice(self, rank: int, kind: str, chunks: Local | Remote) -> list[_Cell]:
        """Returns the cells that an operation names."""
        cells = self.memory[rank][kind]
        first, size = chunks.index, chunks.size
        if first < 0 or size <= 0 or first + size > len(cells):
            raise WrongError(f"{kind}[{first}:{first + size}] of rank {rank} is not there")
        return cells[first : first + size]

    def compare(self) -> None:
        """Checks that every result chunk is right and settled, and that inputs were only read."""
        for rank, cells in enumerate(self.memory):
            written = 0
            for at, (cell, value) in enumerate(zip(cells["o"], self.wanted[rank], strict=True)):
                if (cell.chunk, cell.ranks) != value:
                    raise WrongError(f"rank {rank}, chunk {at}: not what it is to end with")
                written |= cell.writer
            _check_order(written, self.users[rank], "the result is written too late")
            if cells["i"] is not cells["o"]:
                kept = all(cell.writer == self.wrote[rank] for cell in cells["i"])
                require(kept, f"rank {rank}: the input is written")


def _memory(gpu: Gpu, inplace: bool) -> dict[str, list[_Cell]]:
    """Returns the chunks of a GPU's buffers; in place, the output is the input."""
    inputs, outputs, scratch = (
        [_Cell() for _ in range(size)]
        for size in (gpu.input_chunks, gpu.output_chunks, gpu.scratch_chunks)
    )
    return {"i": inputs, "o": inputs if inplace else outputs, "s": scratch}


def _buffers_of_users(memory: dict[str, list[_Cell]]) -> list[list[_Cell]]:
    """Returns the distinct buffers other than scratch."""
    return [memory["i"]] if memory["i"] is memory["o"] else [memory["i"], memory["o"]]


def _used_channels(op: Put | Sync, block: BlockState) -> list[Channel]:
    """Returns the channels of an operation."""
    return select_positions(block.channels[op.channel_type], op.channel_ids or [])
