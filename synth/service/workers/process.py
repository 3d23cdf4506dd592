"""The worker's side of a local process: orders come in over a pipe, reports and results go out."""

from __future__ import annotations

import json
import os
import queue
import signal
import threading
from multiprocessing.connection import Connection

from synth.service.workers.memory import MOST_KEPT_BYTES, data_bytes, limit_data
from synth.service.workers.problems import guarded
from synth.service.workers.reporting import Reporting
from synth.verbs.answers.parts import Json
from synth.verbs.partition import Piece, Shelf


def serve(pipe: Connection[bytes, bytes]) -> None:
    """Carry out one order after the other, until the other end of the pipe is closed.

    Orders: ``{"number", "piece", "budget_seconds", "memory_bytes"}`` with the piece as text, and
    ``{"stop": number}``. Answers: ``{"begun"}``, ``{"progress"}``, and at the end ``{"done",
    "keeps"}``, the text that ``opened`` reads and whether the process has kept too much memory to
    be used again.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    desk = _Desk(pipe)
    threading.Thread(target=desk.read, daemon=True).start()
    fresh_bytes = data_bytes()
    while True:
        order = desk.orders.get()
        desk.send({"begun": order["number"]})
        limit_data(order["memory_bytes"])
        told = _carried(desk, order)
        limit_data(None)
        keeps = '"kind": "memory"' in told[:40] or data_bytes() > fresh_bytes + MOST_KEPT_BYTES
        desk.send({"done": told, "keeps": keeps})


def _carried(desk: _Desk, order: Json) -> str:
    number = order["number"]
    watcher = Reporting(
        lambda progress: desk.send({"progress": progress}),
        lambda: desk.stopped >= number,
        order["budget_seconds"],
        part=Piece.of(order["piece"]).partial,
    )
    return guarded(order["piece"], watcher, order["memory_bytes"], desk.shelf)


class _Desk:
    """The pipe as this process sees it. A thread reads, so that a stop is heard during work."""

    def __init__(self, pipe: Connection[bytes, bytes]) -> None:
        self._pipe = pipe
        self.orders: queue.SimpleQueue[Json] = queue.SimpleQueue()
        self.stopped = 0
        self.shelf = Shelf()

    def read(self) -> None:
        """Read until nobody is there any more; then this process has no reason to be."""
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
