"""A server for tests: really listening on a free port, in a thread of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from patience import PATIENCE_SECONDS
from synth.ask.answers.parts import Json
from synth.ask.partition import Piece, carry_out
from synth.service.connections import MOST_ACCEPTED, BoundedConnection
from synth.service.server import Server, Service, address_of, listen
from synth.service.settings import Settings
from synth.service.store import Store
from synth.service.workers import KilledError, Progress, Workers
from synth.service.workers.problems import outcome_text, result_of
from synth.service.workers.reporting import BudgetWatcher


class HereTicket:
    """A piece that is carried out in a thread of this process."""

    def __init__(self) -> None:
        self.future: Future[Json] = Future()
        self.stopped = threading.Event()

    def stop(self) -> None:
        self.stopped.set()

    def kill(self) -> None:
        self.stopped.set()
        if not self.future.done():
            self.future.set_exception(KilledError("killed on request"))


class ThreadWorkers:
    """Threads of this process: nothing to start, and nothing that can be lost."""

    lost = 0
    divides_sweeps = False

    def __init__(self, slots: int = 2) -> None:
        self.slots = slots
        self._pool = ThreadPoolExecutor(slots)
        self._tickets: list[HereTicket] = []

    @property
    def idle(self) -> int:
        return self.slots - sum(not ticket.future.done() for ticket in self._tickets)

    def submit(
        self,
        piece: Piece,
        *,
        budget_seconds: float | None = None,
        memory_bytes: int | None = None,
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> HereTicket:
        ticket = HereTicket()
        self._tickets.append(ticket)

        def work() -> None:
            part = piece.partial
            watcher = BudgetWatcher(on_progress, ticket.stopped.is_set, budget_seconds, part=part)
            try:
                found = result_of(outcome_text(piece.text, watcher))
            except Exception as error:
                if not ticket.future.done():
                    ticket.future.set_exception(error)
            else:
                if not ticket.future.done():
                    ticket.future.set_result(found)

        self._pool.submit(work)
        return ticket

    def close(self, grace_seconds: float = 5) -> None:
        self._pool.shutdown(cancel_futures=True)


class StuckWorkers:
    """Tells the best so far of every piece, and nothing more; who stops it has to end it."""

    slots = idle = 1
    lost = 0
    divides_sweeps = False

    def submit(
        self,
        piece: Piece,
        *,
        budget_seconds: float | None = None,
        memory_bytes: int | None = None,
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> HereTicket:
        def told(progress: Progress) -> None:
            if progress.best:
                on_progress(progress)

        ticket = StuckTicket()
        carry_out(piece, BudgetWatcher(told, lambda: False, None, part=piece.partial))
        return ticket

    def close(self, grace_seconds: float = 5) -> None:
        pass


class StuckTicket(HereTicket):
    """A piece that comes to no end."""

    def stop(self) -> None:
        self.kill()


@dataclass
class Served:
    """A server that runs, and somebody who asks it."""

    service: Service
    ask: httpx.Client

    @property
    def url(self) -> str:
        return str(self.ask.base_url)


@contextmanager
def served(
    folder: Path, workers: Workers | None = None, trial: Workers | None = None, **how: object
) -> Iterator[Served]:
    """A server with a store in a folder; ``how`` changes its settings."""
    url = f"sqlite:///{folder / 'service.db'}"
    given: dict[str, Any] = {"store_url": url, "name": "test", "port": 0, "grace_seconds": 2.0}
    settings = Settings(**{**given, **how})
    store = Store(settings.store_url)
    store.migrate()
    service = Service(settings, store, workers or ThreadWorkers(), trial)
    sock = listen("127.0.0.1", 0)
    config = uvicorn.Config(
        service.app,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=2,
        http=BoundedConnection,
        proxy_headers=False,
        backlog=MOST_ACCEPTED,
    )
    server = Server(config, service)
    thread = threading.Thread(target=server.run, args=([sock],))
    thread.start()
    try:
        address = address_of(sock, "127.0.0.1")
        with httpx.Client(base_url=address, timeout=PATIENCE_SECONDS, trust_env=False) as client:
            yield Served(service, client)
    finally:
        server.handle_exit(15, None)
        thread.join()
        service.close(0)
        sock.close()
