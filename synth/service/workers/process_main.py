"""The main loop of a worker process, and the messages of its pipe: orders in, reports out.

Both ends run the same code, so dataclasses are sent as they are.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TypeAlias

from synth.ask.partition import LibraryCache, Piece
from synth.service.workers.memory import MOST_KEPT_BYTES, data_bytes, limit_data
from synth.service.workers.pool import Progress
from synth.service.workers.problems import outcome_text, ran_out_of_memory
from synth.service.workers.reporting import BudgetWatcher


@dataclass(frozen=True)
class WorkOrder:
    """A piece to compute, as text, with its budget and memory limit."""

    number: int
    piece: str
    budget_seconds: float | None
    memory_bytes: int | None


@dataclass(frozen=True)
class StopRequest:
    """Asks the piece of this number, and all before it, to end."""

    number: int


@dataclass(frozen=True)
class ProcessGrant:
    """How many processes may work on the piece from now on, including this one."""

    processes: int


@dataclass(frozen=True)
class StartNotice:
    """Reports that an order has arrived: if the process dies from now on, the piece may be why."""


@dataclass(frozen=True)
class EndNotice:
    """Reports the end of a piece, with the text that ``result_of`` reads.

    ``replace``: the process holds so much memory that it should be replaced.
    """

    outcome: str
    replace: bool


Instruction: TypeAlias = WorkOrder | StopRequest | ProcessGrant
Message: TypeAlias = StartNotice | Progress | EndNotice


def serve(pipe: Connection[Message, Instruction]) -> None:
    """Carry out orders until the other end of the pipe is closed."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = _Channel(pipe)
    threading.Thread(target=channel.read, daemon=True).start()
    libraries = LibraryCache()
    fresh_bytes = data_bytes()
    while True:
        order = channel.orders.get()
        channel.send(StartNotice())
        limit_data(order.memory_bytes)
        outcome = _carry_out(channel, order, libraries)
        limit_data(None)
        spent = ran_out_of_memory(outcome) or data_bytes() > fresh_bytes + MOST_KEPT_BYTES
        channel.send(EndNotice(outcome, replace=spent))


def _carry_out(channel: _Channel, order: WorkOrder, libraries: LibraryCache) -> str:
    watcher = BudgetWatcher(
        channel.send,
        lambda: channel.stopped >= order.number,
        order.budget_seconds,
        part=Piece.of(order.piece).partial,
        may_use=lambda: channel.processes,
    )
    return outcome_text(order.piece, watcher, order.memory_bytes, libraries)


class _Channel:
    """This process's end of the pipe. A thread reads it, so that a stop arrives during work."""

    def __init__(self, pipe: Connection[Message, Instruction]) -> None:
        self._pipe = pipe
        self.orders: queue.SimpleQueue[WorkOrder] = queue.SimpleQueue()
        self.stopped = 0
        self.processes = 1

    def read(self) -> None:
        """Read until the other end is closed, then exit, because the server has gone."""
        try:
            while True:
                match self._pipe.recv():
                    case StopRequest(number):
                        self.stopped = max(self.stopped, number)
                    case ProcessGrant(processes):
                        self.processes = processes
                    case WorkOrder() as order:
                        self.orders.put(order)
        except (EOFError, OSError):
            os._exit(0)

    def send(self, message: Message) -> None:
        try:
            self._pipe.send(message)
        except OSError:
            os._exit(0)
