"""What a local worker process runs: orders come in by a pipe, progress and results go out."""

from __future__ import annotations

import json
import os
import queue
import signal
import threading
from multiprocessing.connection import Connection

from synth.service.workers.memory import MOST_KEPT_BYTES, data_bytes, limit_data
from synth.service.workers.problems import outcome_text
from synth.service.workers.reporting import Reporting
from synth.verbs.answers.parts import Json
from synth.verbs.partition import LibraryCache, Piece


def serve(pipe: Connection[bytes, bytes]) -> None:
    """Carry out one order after the other, until the other end of the pipe is closed.

    Orders: ``{"number", "piece", "budget_seconds", "memory_bytes"}`` with the piece as text, and
    ``{"stop": number}``. Answers: ``{"begun"}``, ``{"progress"}``, and at the end ``{"done",
    "keeps"}``: the text that ``result_of`` reads, and whether the process has kept so much memory
    that it should be replaced.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = _Channel(pipe)
    threading.Thread(target=channel.read, daemon=True).start()
    fresh_bytes = data_bytes()
    while True:
        order = channel.orders.get()
        channel.send({"begun": order["number"]})
        limit_data(order["memory_bytes"])
        outcome = _carried_out(channel, order)
        limit_data(None)
        keeps = '"kind": "memory"' in outcome[:40] or data_bytes() > fresh_bytes + MOST_KEPT_BYTES
        channel.send({"done": outcome, "keeps": keeps})


def _carried_out(channel: _Channel, order: Json) -> str:
    number = order["number"]
    watcher = Reporting(
        lambda progress: channel.send({"progress": progress}),
        lambda: channel.stopped >= number,
        order["budget_seconds"],
        part=Piece.of(order["piece"]).partial,
    )
    return outcome_text(order["piece"], watcher, order["memory_bytes"], channel.libraries)


class _Channel:
    """This process's end of the pipe. A thread reads it, so that a stop arrives during work."""

    def __init__(self, pipe: Connection[bytes, bytes]) -> None:
        self._pipe = pipe
        self.orders: queue.SimpleQueue[Json] = queue.SimpleQueue()
        self.stopped = 0
        self.libraries = LibraryCache()

    def read(self) -> None:
        """Read until the other end is closed; then end this process, as nobody needs it."""
        try:
            while True:
                said = json.loads(self._pipe.recv_bytes())
                if "stop" in said:
                    self.stopped = max(self.stopped, said["stop"])
                else:
                    self.orders.put(said)
        except (EOFError, OSError):
            os._exit(0)

    def send(self, said: Json) -> None:
        try:
            self._pipe.send_bytes(json.dumps(said).encode())
        except OSError:
            os._exit(0)
