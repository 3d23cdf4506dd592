"""Writes the operations of one threadblock of an MSCCL++ plan, and the resources they reference.

The threads of a block do not wait for each other between operations; only ``nop`` is a barrier. So
a ``nop`` precedes every signal (all threads must have put), and another follows every wait (one
thread waits for each channel) before the received data is used.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby
from typing import Literal, TypeVar

from synth.collective.emit.mscclpp.homes import BUFFERS, INPUT, SCRATCH, SPAN, place_number
from synth.collective.emit.mscclpp.moves import LocalMove, Message, Places
from synth.collective.emit.mscclpp.schema import (
    Copy,
    Local,
    Nop,
    Operation,
    Put,
    Reduce,
    Remote,
    Sync,
)

MOST_OPERATIONS = 64
MOST_CHANNELS = 16
MOST_REMOTE_BUFFERS = 16
MOST_CHANNELS_PER_OPERATION = 8
MOST_SOURCES_PER_REDUCE = 10

MEMORY, PORT = "memory", "port"

T = TypeVar("T")


@dataclass(frozen=True)
class Window:
    """The labels that a block works on, and which copy of the plan it belongs to.

    A copy is a part of every piece. ``pieces`` are the chunks of a piece in the input, the
    output and scratch; scratch is one piece.
    """

    first: int
    end: int
    copy: int = 0
    copies: int = 1
    pieces: tuple[int, int, int] = (1, 1, 1)

    def shift(self, places: Places) -> Places:
        """Returns where this copy has the data at given places of the plan's buffers."""
        if self.copies == 1:
            return places
        return tuple(map(self._shift_place, places))

    def _shift_place(self, at: int) -> int:
        buffer, index = divmod(at, SPAN)
        size = self.pieces[buffer]
        piece, within = divmod(index, size)
        return buffer * SPAN + (piece * self.copies + self.copy) * size + within


class ReadyWait(Enum):
    """When a rank waits for its receivers to signal that they are ready."""

    NEVER = "never"
    HOMES = "before each message that goes to homes"
    START = "once, for all messages of a launch"


@dataclass(frozen=True)
class RankRound:
    """A round of one rank: the messages it sends and receives, and its local move afterwards."""

    phase: int
    sent: list[Message]
    received: list[Message]
    keep: LocalMove | None = None


@dataclass(frozen=True)
class Excess:
    """A limit of the format that a block exceeds in a phase."""

    phase: int
    why: str


@dataclass
class BlockWriter:
    """A threadblock being written: operations, and the resources they reference by position.

    ``hosts[rank]`` decides between memory channels (same host) and port channels. ``channels`` and
    ``buffers`` map each used resource to its number within its channel type.
    """

    rank: int
    hosts: Sequence[int]
    window: Window
    asks: ReadyWait = ReadyWait.NEVER
    ops: list[Operation] = field(default_factory=list)
    channels: dict[str, dict[int, int]] = field(default_factory=lambda: {MEMORY: {}, PORT: {}})
    buffers: dict[str, dict[tuple[int, str], int]] = field(
        default_factory=lambda: {MEMORY: {}, PORT: {}}
    )

    def write(self, tasks: Sequence[RankRound]) -> Excess | None:
        """Appends the rank's work, round by round; stops at an exceeded limit."""
        rounds = [
            (
                task,
                self._select_messages(task.sent, [send.target for send in task.sent]),
                self._select_messages(task.received, [send.source for send in task.received]),
            )
            for task in tasks
        ]
        if self.asks is ReadyWait.START:
            for task, sent, received in rounds:
                for peer in (*(send.target for send in sent), *(send.source for send in received)):
                    self._channel(peer)
                if why := self._find_excess():
                    return Excess(task.phase, why)
            self._on_channels(
                "signal", _unique_peers(s.source for _, _, received in rounds for s in received)
            )
            self._on_channels(
                "wait", _unique_peers(s.target for _, sent, _ in rounds for s in sent)
            )
        for task, sent, received in rounds:
            self._round(task, sent, received)
            why = self._find_excess()
            if why:
                return Excess(task.phase, why)
        return None

    def _round(self, task: RankRound, sent: list[Message], received: list[Message]) -> None:
        self._await_ready(sent, received)
        if sent:
            self._append_barrier()
            self._copy(sent)
            self._put(sent)
            self._append_barrier()
            self._on_channels("signal", [send.target for send in sent])
        self._on_channels("wait", [send.source for send in received])
        if task.keep is not None:
            self._reduce_or_copy(task.keep, received)

    def _select_messages(self, sends: list[Message], peers: list[int]) -> list[Message]:
        """Returns the parts of messages in the window, from the next higher rank around.

        Each rank begins with a different peer, so that no peer gets all messages at once.
        """
        order = sorted(range(len(sends)), key=lambda at: (peers[at] - self.rank) % len(self.hosts))
        cut = [_message_in_window(sends[at], self.window) for at in order]
        return [send for send in cut if send.chunks]

    def _append_barrier(self) -> None:
        """Appends a barrier of the block's threads, unless the last operation is one."""
        if self.ops and not isinstance(self.ops[-1], Nop):
            self.ops.append(Nop())

    def _type(self, peer: int) -> str:
        return MEMORY if self.hosts[peer] == self.hosts[self.rank] else PORT

    def _channel(self, peer: int) -> int:
        known = self.channels[self._type(peer)]
        return known.setdefault(peer, len(known))

    def _remote(self, peer: int, at: int, size: int) -> Remote:
        buffer, index = divmod(at, SPAN)
        known = self.buffers[self._type(peer)]
        return Remote(known.setdefault((peer, BUFFERS[buffer]), len(known)), index, size)

    def _await_ready(self, sent: list[Message], received: list[Message]) -> None:
        """Signals that the own buffers are free to write, and waits until the targets' are."""
        askers = [send.source for send in received if self._needs_ready(send)]
        if askers:
            self._append_barrier()
            self._on_channels("signal", askers)
        self._on_channels("wait", [send.target for send in sent if self._needs_ready(send)])

    def _needs_ready(self, send: Message) -> bool:
        return self.asks is ReadyWait.HOMES and send.writes[0] // SPAN != BUFFERS.index(SCRATCH)

    def _copy(self, sent: list[Message]) -> None:
        """Copies the data that proxies will read to scratch, each stretch once."""
        pieces = {
            (writes, reads)
            for send in sent
            if send.stage is not None
            for writes, reads in zip(
                self._stage_places(send), self.window.shift(send.reads), strict=True
            )
        }
        if not pieces:
            return
        writes, reads = zip(*sorted(pieces), strict=True)
        self._copy_runs(reads, writes)
        self._append_barrier()

    def _copy_runs(self, reads: Places, writes: Places) -> None:
        for (here, there), size in _runs(reads, writes):
            self.ops.append(Copy(src_buff=[_local(here, size)], dst_buff=[_local(there, size)]))

    def _stage_places(self, send: Message) -> Places:
        first = place_number(SCRATCH, send.stage or 0)
        return self.window.shift(tuple(range(first, first + len(send.chunks))))

    def _put(self, sent: list[Message]) -> None:
        """Copies to the peers: threads write memory, port channels use their proxy.

        The executor takes all sources of one operation from the buffer of the first.
        """
        pieces: dict[str, list[tuple[Local, Remote, int]]] = {MEMORY: [], PORT: []}
        for send in sent:
            reads = (
                self.window.shift(send.reads) if send.stage is None else self._stage_places(send)
            )
            for (here, there), size in _runs(reads, self.window.shift(send.writes)):
                pieces[self._type(send.target)].append(
                    (
                        _local(here, size),
                        self._remote(send.target, there, size),
                        self._channel(send.target),
                    )
                )
        for kind, refs in pieces.items():
            refs.sort(key=lambda ref: ref[0].type)
            for _, from_buffer in groupby(refs, key=lambda ref: ref[0].type):
                for batch in _batches(list(from_buffer), MOST_CHANNELS_PER_OPERATION):
                    self.ops.append(
                        Put(
                            src_buff=[source for source, _, _ in batch],
                            dst_buff=[target for _, target, _ in batch],
                            channel_ids=[at for _, _, at in batch] if kind == PORT else None,
                            channel_type=kind,
                        )
                    )

    def _on_channels(self, name: Literal["signal", "wait"], peers: list[int]) -> None:
        for kind in (MEMORY, PORT):
            ids = [self._channel(peer) for peer in peers if self._type(peer) == kind]
            for batch in _batches(ids, MOST_CHANNELS_PER_OPERATION):
                self.ops.append(Sync(name, batch, kind))

    def _reduce_or_copy(self, keep: LocalMove, received: list[Message]) -> None:
        """Reduces received data with the rank's own values, or copies its own values."""
        low, high = _chunks_in_window(keep.chunks, self.window)
        own, writes = (self.window.shift(p[low:high]) for p in (keep.reads, keep.writes))
        if not own:
            return
        if not received:
            if any(at // SPAN != BUFFERS.index(INPUT) for at in own):
                self._append_barrier()
            self._copy_runs(own, writes)
        # One of the sources is always the rank's own value, or the sum so far.
        for batch in _batches(received, MOST_SOURCES_PER_REDUCE - 1):
            self._append_barrier()
            others = (self.window.shift(send.writes) for send in batch)
            for (there, *places), size in _runs(writes, own, *others):
                sources = [_local(at, size) for at in places]
                self.ops.append(Reduce(src_buff=sources, dst_buff=[_local(there, size)]))
            own = writes

    def _find_excess(self) -> str:
        """Returns which limit is exceeded, or ""."""
        if len(self.ops) > MOST_OPERATIONS:
            return f"{len(self.ops)} operations or more, the limit is {MOST_OPERATIONS}"
        for kind in (MEMORY, PORT):
            if len(self.channels[kind]) > MOST_CHANNELS:
                return too_many_channels(len(self.channels[kind]), kind)
            if (count := len(self.buffers[kind])) > MOST_REMOTE_BUFFERS:
                return f"{count} remote {kind} buffers, the limit is {MOST_REMOTE_BUFFERS}"
        return ""


def too_many_channels(count: int, kind: str) -> str:
    """Returns the message for a block with too many peers."""
    return f"{count} {kind} channels, the limit is {MOST_CHANNELS}"


def _unique_peers(peers: Iterable[int]) -> list[int]:
    """Returns each peer once, in order of first occurrence."""
    return list(dict.fromkeys(peers))


def _local(at: int, size: int) -> Local:
    buffer, index = divmod(at, SPAN)
    return Local(BUFFERS[buffer], index, size)


def _chunks_in_window(chunks: Sequence[int], window: Window) -> tuple[int, int]:
    """Returns the range of positions of ascending chunks in a window."""
    return bisect_left(chunks, window.first), bisect_left(chunks, window.end)


def _message_in_window(send: Message, window: Window) -> Message:
    """Returns the part of a message in a window."""
    low, high = _chunks_in_window(send.chunks, window)
    if (low, high) == (0, len(send.chunks)):
        return send
    parts = (send.chunks[low:high], send.reads[low:high], send.writes[low:high])
    stage = None if send.stage is None else send.stage + low
    return Message(send.source, send.target, *parts, stage)


def _runs(*places: Places) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yields stretches in which all places are consecutive: the first places, and the length."""
    rows = list(zip(*places, strict=True))
    start = 0
    for at in range(1, len(rows) + 1):
        if at == len(rows) or any(b != a + 1 for a, b in zip(rows[at - 1], rows[at], strict=True)):
            yield rows[start], at - start
            start = at


def _batches(items: list[T], most: int) -> Iterator[list[T]]:
    for first in range(0, len(items), most):
        yield items[first : first + most]
