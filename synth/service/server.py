"""One server of the service: store, crew, dispatcher, desk and app, begun and ended in order."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import FrameType

import uvicorn
from fastapi import FastAPI

from hierarchies import InputError
from synth.service.auth.keys import Keys
from synth.service.http.app import build
from synth.service.http.hall import Hall
from synth.service.jobs.broker import Desk
from synth.service.jobs.dispatcher import Dispatcher
from synth.service.jobs.notifications import Bell
from synth.service.metrics import Metrics
from synth.service.settings import Settings
from synth.service.store import Store, StoreError
from synth.service.threads import Threads
from synth.service.workers import Crew, LocalCrew, WorkError

_LAST_SECONDS = 5
_BACKLOG = 2048
_SWITCH_SECONDS = 0.0005
"""How long a thread keeps the others waiting: Python's 5 ms are longer than most answers take."""
log = logging.getLogger("collsynth.service")


class House:
    """Everything behind one address.

    ``app`` is what is served: work begins and ends with its lifespan. ``close`` ends all else.
    """

    def __init__(self, settings: Settings, store: Store, crew: Crew) -> None:
        metrics, bell = Metrics(), Bell()
        self.settings = settings
        self.store = store
        self.crew = crew
        self.bell = bell
        self.dispatcher = Dispatcher(store, crew, settings, metrics, bell.ring)
        wake, look = self.dispatcher.wake, self.dispatcher.look
        self.desk = Desk(store, settings, metrics, bell, wake, look)
        metrics.count_jobs_by(self._counts)
        self._key_threads = Threads(metrics)
        keys = Keys(store, self._key_threads, settings.limits) if settings.keys else None
        self.hall = Hall(settings, self.desk, self.dispatcher, metrics, keys)
        self.app = build(self.hall, self._life)

    @asynccontextmanager
    async def _life(self, app: FastAPI) -> AsyncIterator[None]:
        self.bell.bind()
        await asyncio.to_thread(self.dispatcher.start)
        try:
            yield
        finally:
            self.desk.drain()

    def _counts(self) -> dict[str, int]:
        """The jobs by status; nothing where the store does not tell."""
        try:
            return {status.value: count for status, count in self.store.counts().items()}
        except StoreError:
            return {}

    def close(self, grace_seconds: float) -> None:
        """End work, giving back what does not end in time, and let go of everything."""
        self.dispatcher.stop(grace_seconds)
        self.crew.close(0)
        self.desk.close()
        self._key_threads.close()
        self.store.close()


class Server(uvicorn.Server):
    """Stops in two steps: told once, it lets running work end while it still answers; told twice,
    it ends at once.
    """

    def __init__(self, config: uvicorn.Config, house: House) -> None:
        super().__init__(config)
        self._house = house
        self._told = 0
        self._drained = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal to stop came."""
        self._told += 1
        if self._told > 1:
            self.should_exit = self.force_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: begin to stop when told, and stop when there is nothing under way."""
        if self._told and not self._drained:
            self._drained = True
            log.info("stopping", extra={"told": {"under_way": self._house.dispatcher.under_way}})
            self._house.desk.drain()
            threading.Thread(target=self._drain, daemon=True).start()
        return await super().on_tick(counter)

    def _drain(self) -> None:
        self._house.dispatcher.drain(self._house.settings.grace_seconds)
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises InputError where nobody can listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once only where a socket says that it is TCP.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[0][4])
        made.listen(_BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        made.close()
        why = getattr(error, "strerror", None) or str(error)
        hint = "choose another with --port, or --host"
        raise InputError(f"cannot listen on {host}, port {port}: {why}", hint=hint) from None
    return made


def crew_of(settings: Settings) -> Crew:
    """Whoever works for a server. Raises InputError for an executor that is not known or there."""
    if settings.executor is None:
        return LocalCrew(settings.workers)
    scheme, found, address = settings.executor.partition("://")
    if scheme != "dask" or not found or not address:
        hint = "leave it out for processes here, or give dask://host:port"
        raise InputError(f"{settings.executor!r} is no executor", where="--executor", hint=hint)
    return _dask(address)


def _dask(address: str) -> Crew:
    # Not at the top of the file: dask is an extra, and a server without a cluster needs none of it.
    try:
        from synth.service.workers.dask import DaskCrew
    except ModuleNotFoundError as error:
        hint = "pip install 'collsynth[cluster]'"
        raise InputError(f"{error.name} is not installed", where="--executor", hint=hint) from None
    try:
        return DaskCrew(f"tcp://{address}")
    except WorkError as error:
        raise InputError(error.problem, where="--executor", hint=error.hint) from None


def serve(settings: Settings, told: Callable[[str], None]) -> None:
    """Serve until told to stop; ``told`` is called with the address when it is about to listen.

    Raises InputError for what cannot be used, before anything is begun.
    """
    store = Store(settings.store_url)
    sock: socket.socket | None = None
    try:
        store.migrate()
        _check_keys(settings, store)
        sock = listen(settings.host, settings.port)
        crew = crew_of(settings)
    except InputError:
        if sock is not None:
            sock.close()
        store.close()
        raise
    house = House(settings, store, crew)
    config = uvicorn.Config(
        house.app,
        log_config=None,
        access_log=False,
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=_LAST_SECONDS,
        ws="none",
        proxy_headers=False,
    )
    server = Server(config, house)
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.collect()
    gc.freeze()  # what was loaded stays: looking through it again would hold up answers
    told(address_of(sock, settings.host))
    try:
        server.run([sock])
    finally:
        house.close(0)
        sock.close()


def address_of(sock: socket.socket, host: str) -> str:
    """Where a listening socket is reached."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{sock.getsockname()[1]}/"


def _check_keys(settings: Settings, store: Store) -> None:
    """Nobody can be admitted where keys are needed and there are none."""
    known = store.keys()
    if settings.keys and not [key for key in known if not key.revoked]:
        told = f"{settings.host} asks for keys, and the store has none"
        hint = "make one with 'collsynth keys create TEAM'; on localhost none are needed"
        raise InputError(told, where="--host", hint=hint)
