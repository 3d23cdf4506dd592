"""Carries out a host's orders with plain sockets: rings step by step, chains piece by piece.

All-reduce, reduce-scatter and all-gather go around a ring in the order of members: in each of
k - 1 rounds a member sends one piece and receives another, whole, before the next round begins.
Reduce and broadcast go along a chain: what has come is passed on at once, after the addition of
the own numbers. An order is done when all has come and all that was sent has been received, which
receivers say by one byte; a send that the kernel has only put in a queue would share the links
with the next order. Nothing else is waited for: no barrier between orders.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Mapping, Sequence
from typing import assert_never

import numpy as np
import numpy.typing as npt

from grammar import Collective
from results.testbed.hosts.orders import ITEM_BYTES, Order, Part, Turn

_DONE = b"."
Numbers = npt.NDArray[np.uint32]
_MOST_AT_ONCE = 65536
"""Bytes that a member of a chain takes at most before it passes on what it has."""


def contribution(elements: int) -> Numbers:
    """An odd number for each element; host d contributes it times 2^d, modulo 2^32.

    The sum over hosts then says for every element who was added how often (up to 16 hosts).
    """
    number = 2 * np.arange(elements, dtype=np.uint32) + 1
    return number * np.uint32(0x9E3779B1)


class Host:
    """One host with its connections. Mutable: it owns its buffers, one of which is current.

    ``out`` and ``into`` have a socket for each host it sends to and receives from.
    """

    def __init__(
        self,
        device: int,
        out: Mapping[int, socket.socket],
        into: Mapping[int, socket.socket],
        elements: int,
    ) -> None:
        self._device, self._out, self._into = device, out, into
        self._spaces = [np.zeros(elements, dtype=np.uint32) for _ in range(2)]
        self._scratch = np.zeros(elements, dtype=np.uint32)
        self._own = contribution(elements)
        self._place = 0
        self._buffer = self._spaces[0]

    def prepare(self, elements: int) -> None:
        """Make the own contribution the current buffer."""
        self._place = 0
        self._buffer = self._spaces[0][:elements]
        np.multiply(self._own[:elements], np.uint32(1 << self._device), out=self._buffer)

    def right(self, elements: int, group: Sequence[int]) -> bool:
        """Whether the current buffer is the sum of the contributions of a group."""
        weight = np.uint32(sum(1 << device for device in group))
        return bool(np.array_equal(self._buffer, self._own[:elements] * weight))

    def carry_out(self, orders: Sequence[Order]) -> None:
        """Do all orders, one after the other."""
        for order in orders:
            match order:
                case Part():
                    self._take_part(order)
                case Turn():
                    view = self._buffer.reshape(*order.shape, -1)
                    turned = view.transpose(*order.axes, len(order.shape))
                    other = self._other(self._buffer.size)
                    other.reshape(turned.shape)[...] = turned
                    self._take(other)
                case _:
                    assert_never(order)

    def _other(self, elements: int) -> Numbers:
        """The beginning of the space that is not current."""
        return self._spaces[1 - self._place][:elements]

    def _take(self, other: Numbers) -> None:
        self._place, self._buffer = 1 - self._place, other

    def _take_part(self, part: Part) -> None:
        match part.collective:
            case Collective.ALL_REDUCE:
                pieces = np.array_split(self._buffer, len(part.members))
                self._reduce_scatter(part, pieces)
                self._all_gather(part, pieces)
                self._acknowledge(part.before, part.after)
            case Collective.REDUCE_SCATTER:
                pieces = np.array_split(self._buffer, len(part.members))
                self._reduce_scatter(part, pieces)
                self._acknowledge(part.before, part.after)
                self._buffer = pieces[part.rank]
            case Collective.ALL_GATHER:
                whole = self._other(self._buffer.size * len(part.members))
                pieces = np.array_split(whole, len(part.members))
                pieces[part.rank][:] = self._buffer
                self._all_gather(part, pieces)
                self._acknowledge(part.before, part.after)
                self._take(whole)
            case Collective.REDUCE:
                self._chain(part, adding=True)
            case Collective.BROADCAST:
                if part.rank:
                    self._take(self._other(part.elements))
                self._chain(part, adding=False)
            case _:
                raise NotImplementedError(part.collective.value)

    def _reduce_scatter(self, part: Part, pieces: Sequence[Numbers]) -> None:
        k = len(part.members)
        for step in range(1, k):
            mine = pieces[(part.rank - step - 1) % k]
            come = self._scratch[: mine.size]
            self._exchange(part, pieces[(part.rank - step) % k], come)
            np.add(mine, come, out=mine)

    def _all_gather(self, part: Part, pieces: Sequence[Numbers]) -> None:
        k = len(part.members)
        for step in range(k - 1):
            into = pieces[(part.rank - step - 1) % k]
            self._exchange(part, pieces[(part.rank - step) % k], into)

    def _exchange(self, part: Part, outgoing: Numbers, incoming: Numbers) -> None:
        """Send one piece to the next member while another comes from the one before."""
        out, into = self._out[part.after], self._into[part.before]
        send, receive = outgoing.data.cast("B"), incoming.data.cast("B")
        sent = got = 0
        while True:
            if sent < len(send):
                sent += _sent(out, send[sent:])
            if got < len(receive):
                got += _received(into, receive[got:])
            watched = select.poll()
            if sent < len(send):
                watched.register(out, select.POLLOUT)
            if got < len(receive):
                watched.register(into, select.POLLIN)
            elif sent == len(send):
                return
            watched.poll()

    def _chain(self, part: Part, *, adding: bool) -> None:
        """Pass the buffer along: towards the first member and summed up, or away from it."""
        last = len(part.members) - 1
        begins, ends = (last, 0) if adding else (0, last)
        source, target = (part.after, part.before) if adding else (part.before, part.after)
        receives, passes = part.rank != begins, part.rank != ends
        whole = self._buffer.data.cast("B")
        come = self._scratch[: self._buffer.size].data.cast("B") if adding else whole
        got = ready = sent = 0 if receives else len(whole)
        sent = 0 if passes else len(whole)
        while got < len(whole) or sent < len(whole):
            watched = select.poll()
            if got < len(whole):
                watched.register(self._into[source], select.POLLIN)
            if sent < ready and passes:
                watched.register(self._out[target], select.POLLOUT)
            watched.poll()
            if got < len(whole):
                got += _received(self._into[source], come[got : got + _MOST_AT_ONCE])
                until = got - got % ITEM_BYTES
                if adding and until > ready:
                    some = slice(ready // ITEM_BYTES, until // ITEM_BYTES)
                    self._buffer[some] += self._scratch[some]
                ready = until
            if passes and sent < ready:
                sent += _sent(self._out[target], whole[sent:ready])
        self._acknowledge(source if receives else None, target if passes else None)

    def _acknowledge(self, source: int | None, target: int | None) -> None:
        """Say that all has come, and wait for who has been sent to to say so."""
        if source is not None:
            self._into[source].send(_DONE)
        if target is not None:
            answers = select.poll()
            answers.register(self._out[target], select.POLLIN)
            answers.poll()
            if self._out[target].recv(1) != _DONE:
                raise ConnectionError("the receiver has gone")


def _sent(out: socket.socket, data: memoryview) -> int:
    try:
        return out.send(data)
    except BlockingIOError:
        return 0


def _received(into: socket.socket, data: memoryview) -> int:
    try:
        count = into.recv_into(data)
    except BlockingIOError:
        return 0
    if not count:
        raise ConnectionError("the sender has gone")
    return count
