"""What one threadblock of an MSCCL++ plan does: the operations of its JSON, and what it needs.

The threads of a block do not wait for each other between operations; only ``nop`` makes them. So
one stands before every signal (all threads must have put), and behind every wait (one thread waits
for each channel) before what came is touched.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from synth.emit.mscclpp.moves import Chunks, Round, Send
from synth.emit.mscclpp.schema import Copy, Local, Nop, Operation, Put, Reduce, Remote, Sync

MOST_OPERATIONS = 64
MOST_CHANNELS = 16
MOST_REMOTE_BUFFERS = 16
MOST_CHANNELS_PER_OPERATION = 8
MOST_SOURCES_PER_REDUCE = 10

MEMORY, PORT = "memory", "port"
INPUT, SCRATCH = "i", "s"

T = TypeVar("T")


@dataclass(frozen=True)
class Window:
    """The chunks that a block works on, and where its copy of the plan lies in the buffers."""

    first: int
    end: int
    input_shift: int = 0
    scratch_shift: int = 0

    def shifted(self, kind: str, index: int) -> int:
        """Where the copy has what lies at an index of the plan's input or scratch."""
        return index + (self.input_shift if kind == INPUT else self.scratch_shift)


@dataclass(frozen=True)
class Excess:
    """A limit of the format that a block passes in a phase."""

    phase: int
    why: str


@dataclass
class Block:
    """A threadblock as it is written: operations, and what they refer to by position.

    ``hosts[rank]`` tells memory channels (same host) from port channels. With ``asks`` no
    rank puts into another's home before that rank has signalled that it is ready. ``channels`` and
    ``buffers`` map what is used to its number among those of its channel type.
    """

    rank: int
    hosts: Sequence[int]
    window: Window
    asks: bool = False
    ops: list[Operation] = field(default_factory=list)
    channels: dict[str, dict[int, int]] = field(default_factory=lambda: {MEMORY: {}, PORT: {}})
    buffers: dict[str, dict[tuple[int, str], int]] = field(
        default_factory=lambda: {MEMORY: {}, PORT: {}}
    )

    def write(self, rounds: Sequence[tuple[Round, list[Send], list[Send]]]) -> Excess | None:
        """Append the rounds, each with what goes out and what comes in; stop at a passed limit."""
        for round, outgoing, incoming in rounds:
            out = self._mine(outgoing, [send.target for send in outgoing])
            come = self._mine(incoming, [send.source for send in incoming])
            if not (out or come):
                continue
            if self.asks:
                self._ask(out, come)
            if out:
                self._meet()
                self._copy(out)
                self._put(out)
                self._meet()
                self._on_channels("signal", [send.target for send in out])
            self._on_channels("wait", [send.source for send in come])
            if come and come[0].scratch is not None:
                self._reduce(come)
            why = self._passed()
            if why:
                return Excess(round.phase, why)
        return None

    def _mine(self, sends: list[Send], peers: list[int]) -> list[Send]:
        """The parts of messages in the window, from the next higher rank around.

        As each rank begins with another peer, no peer gets all messages at once.
        """
        order = sorted(range(len(sends)), key=lambda at: (peers[at] - self.rank) % len(self.hosts))
        cut = [_cut(sends[at], self.window) for at in order]
        return [send for send in cut if send.chunks]

    def _meet(self) -> None:
        """A barrier of all threads of the block, if they have done anything since the last one."""
        if self.ops and not isinstance(self.ops[-1], Nop):
            self.ops.append(Nop())

    def _type(self, peer: int) -> str:
        return MEMORY if self.hosts[peer] == self.hosts[self.rank] else PORT

    def _channel(self, peer: int) -> int:
        known = self.channels[self._type(peer)]
        return known.setdefault(peer, len(known))

    def _buffer(self, peer: int, kind: str) -> int:
        known = self.buffers[self._type(peer)]
        return known.setdefault((peer, kind), len(known))

    def _local(self, kind: str, index: int, size: int) -> Local:
        return Local(kind, self.window.shifted(kind, index), size)

    def _remote(self, peer: int, kind: str, index: int, size: int) -> Remote:
        return Remote(self._buffer(peer, kind), self.window.shifted(kind, index), size)

    def _ask(self, out: list[Send], come: list[Send]) -> None:
        """Signal that the own home buffer is free to write, and wait until the targets' are."""
        askers = [send.source for send in come if send.scratch is None]
        if askers:
            self._meet()
            self._on_channels("signal", askers)
        self._on_channels("wait", [send.target for send in out if send.scratch is None])

    def _copy(self, out: list[Send]) -> None:
        """Lay out in scratch what proxies are to read, each stretch once."""
        pieces = {
            (send.stage + at + k, first + k)
            for send in out
            if send.stage is not None
            for at, first, size in _runs(send.chunks)
            for k in range(size)
        }
        if not pieces:
            return
        stages, homes = zip(*sorted(pieces), strict=True)
        for at, home, size in _runs(homes):
            came, goes = self._local(INPUT, home, size), self._local(SCRATCH, stages[at], size)
            self.ops.append(Copy(src_buff=[came], dst_buff=[goes]))
        self._meet()

    def _put(self, out: list[Send]) -> None:
        """Copy to the peers: threads to memory, and the proxy of a port channel by itself."""
        pieces: dict[str, list[tuple[Local, Remote, int]]] = {MEMORY: [], PORT: []}
        for send in out:
            for at, first, size in _runs(send.chunks):
                where = (INPUT, first) if send.scratch is None else (SCRATCH, send.scratch + at)
                come = (INPUT, first) if send.stage is None else (SCRATCH, send.stage + at)
                pieces[self._type(send.target)].append(
                    (
                        self._local(*come, size),
                        self._remote(send.target, *where, size),
                        self._channel(send.target),
                    )
                )
        for kind, refs in pieces.items():
            for some in _batches(refs, MOST_CHANNELS_PER_OPERATION):
                self.ops.append(
                    Put(
                        src_buff=[source for source, _, _ in some],
                        dst_buff=[target for _, target, _ in some],
                        channel_ids=[at for _, _, at in some] if kind == PORT else None,
                        channel_type=kind,
                    )
                )

    def _on_channels(self, name: Literal["signal", "wait"], peers: list[int]) -> None:
        for kind in (MEMORY, PORT):
            ids = [self._channel(peer) for peer in peers if self._type(peer) == kind]
            for some in _batches(ids, MOST_CHANNELS_PER_OPERATION):
                self.ops.append(Sync(name, some, kind))

    def _reduce(self, come: list[Send]) -> None:
        for some in _batches(come, MOST_SOURCES_PER_REDUCE - 1):
            self._meet()
            for at, first, size in _runs(some[0].chunks):
                own = self._local(INPUT, first, size)
                others = [self._local(SCRATCH, (send.scratch or 0) + at, size) for send in some]
                self.ops.append(Reduce(src_buff=[own, *others], dst_buff=[own]))

    def _passed(self) -> str:
        """Which limit is passed, if one is."""
        if len(self.ops) > MOST_OPERATIONS:
            return f"{len(self.ops)} operations or more, the limit is {MOST_OPERATIONS}"
        for kind in (MEMORY, PORT):
            if len(self.channels[kind]) > MOST_CHANNELS:
                return too_many_channels(len(self.channels[kind]), kind)
            if (count := len(self.buffers[kind])) > MOST_REMOTE_BUFFERS:
                return f"{count} remote {kind} buffers, the limit is {MOST_REMOTE_BUFFERS}"
        return ""


def too_many_channels(count: int, kind: str) -> str:
    """What a block would need whose peers are too many."""
    return f"{count} {kind} channels, the limit is {MOST_CHANNELS}"


def _cut(send: Send, window: Window) -> Send:
    """The part of a message that is in a window."""
    low, high = bisect_left(send.chunks, window.first), bisect_left(send.chunks, window.end)
    if (low, high) == (0, len(send.chunks)):
        return send
    scratch = None if send.scratch is None else send.scratch + low
    stage = None if send.stage is None else send.stage + low
    return Send(send.source, send.target, send.chunks[low:high], scratch, stage)


def _runs(chunks: Chunks) -> Iterator[tuple[int, int, int]]:
    """Stretches of consecutive chunks: position in ``chunks``, first chunk, length."""
    start = 0
    for at in range(1, len(chunks) + 1):
        if at == len(chunks) or chunks[at] != chunks[at - 1] + 1:
            yield start, chunks[start], at - start
            start = at


def _batches(items: list[T], most: int) -> Iterator[list[T]]:
    for first in range(0, len(items), most):
        yield items[first : first + most]
