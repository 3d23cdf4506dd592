"""A server: connects store, workers, dispatcher, broker and app; listens and shuts down."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from functools import partial
from types import FrameType
from typing import Any, TypeVar

import uvicorn
from fastapi import FastAPI

from hierarchies import InputError
from synth.service.app import build
from synth.service.auth.keys import Authenticator
from synth.service.auth.presence import Presence
from synth.service.auth.proxy import Proxy
from synth.service.connections import (
    MOST_ACCEPTED,
    BoundedConnection,
    handle_accept_errors,
)
from synth.service.http.state import AppState
from synth.service.jobs.broker import Broker
from synth.service.jobs.dispatcher import Dispatcher
from synth.service.jobs.notifications import Notifications
from synth.service.metrics import Metrics, StateCollector
from synth.service.settings import LOOPBACK, Settings
from synth.service.store import Store, StoreError
from synth.service.supervisor import Supervisor
from synth.service.threads import Threads
from synth.service.workers import ProcessWorkers, WorkError, Workers
from synth.service.workers.memory import give_back_large_blocks

_LAST_SECONDS = 5
_BACKLOG = 2048
_SWITCH_SECONDS = 0.0005
"""Python's thread switch interval: the default of 5 ms is longer than most answers take."""
T = TypeVar("T")
log = logging.getLogger("collsynth.service")


class Service:
    """All parts of one server, wired together.

    Work begins with the lifespan of ``app``; ``close`` releases the parts that outlive it.
    ``trial`` is the worker that tries possibly quick jobs while all others are busy.
    """

    def __init__(
        self, settings: Settings, store: Store, workers: Workers, trial: Workers | None = None
    ) -> None:
        metrics, notifications = Metrics(), Notifications()
        self.settings = settings
        self.store = store
        self.workers = workers
        self.notifications = notifications
        self._trial = trial
        notify = notifications.notify
        self.dispatcher = Dispatcher(store, workers, settings, metrics, notify, trial)
        self.broker = Broker(store, settings, metrics, notifications, self.dispatcher)
        metrics.registry.register(
            StateCollector(
                partial(_count_if_reached, store.jobs.counts),
                partial(_count_if_reached, store.jobs.queues),
                lambda: workers.lost,
                lambda: workers.idle,
            )
        )
        self._key_threads = Threads(metrics, "keys")
        keys = Authenticator(store, self._key_threads, settings.limits) if settings.keys else None
        proxy = _proxy_of(settings)
        presence = Presence(settings.limits)
        self.state = AppState(
            settings, self.broker, self.dispatcher, metrics, presence, keys, proxy
        )
        self.app = build(self.state, self._life)

    @asynccontextmanager
    async def _life(self, app: FastAPI) -> AsyncIterator[None]:
        handle_accept_errors(asyncio.get_running_loop())
        self.notifications.bind()
        await asyncio.to_thread(self.dispatcher.start)
        try:
            yield
        finally:
            self.broker.drain()

    def close(self, grace_seconds: float) -> None:
        """Stop all work, put unfinished jobs back in the queue, and release all resources."""
        self.dispatcher.stop(grace_seconds)
        self.workers.close(0)
        if self._trial is not None:
            self._trial.close(0)
        self.broker.close()
        self._key_threads.close()
        self.store.close()


def _proxy_of(settings: Settings) -> Proxy | None:
    """Return the trusted proxies; with a secret and no networks, those on this machine."""
    networks = settings.trusted_proxies or (LOOPBACK if settings.proxy_secret else ())
    if not networks:
        return None
    return Proxy(networks, settings.proxy_secret, settings.teams, settings.admins)


def _count_if_reached(count: Callable[[], Mapping[Any, T]]) -> Mapping[Any, T]:
    """Return the store's counts, or an empty mapping if it cannot be reached."""
    try:
        return count()
    except StoreError:
        return {}


class Server(uvicorn.Server):
    """A uvicorn server that stops in two steps.

    After the first signal, running jobs may finish while requests are still answered. The second
    signal stops the server at once.
    """

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self._supervisor = Supervisor()
        self._signals = 0
        self._drained = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen with a long kernel queue, although asyncio accepts few connections in one turn."""
        await super().startup(sockets)
        for sock in sockets or ():
            sock.listen(_BACKLOG)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Count a signal to stop."""
        self._signals += 1
        if self._signals > 1:
            self.should_exit = self.force_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Notify systemd, and begin to stop after a first signal.

        uvicorn calls this ten times a second on the event loop, so the watchdog notices a hang.
        """
        dispatcher = self._service.dispatcher
        self._supervisor.beat(lives=dispatcher.lives, trouble=dispatcher.unready())
        if self._signals and not self._drained:
            self._drained = True
            self._supervisor.stop()
            log.info(
                "stopping", extra={"logged": {"under_way": self._service.dispatcher.under_way}}
            )
            self._service.broker.drain()
            threading.Thread(target=self._drain, daemon=True).start()
        return await super().on_tick(counter)

    def _drain(self) -> None:
        self._service.dispatcher.drain(self._service.settings.grace_seconds)
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises InputError if the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets created with the protocol TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[0][4])
        listener.listen(_BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        listener.close()
        why = getattr(error, "strerror", None) or str(error)
        hint = "choose another with --port, or --host"
        raise InputError(f"cannot listen on {host}, port {port}: {why}", hint=hint) from None
    return listener


def workers_of(settings: Settings) -> Workers:
    """Create the workers of a server. Raises InputError if the executor cannot be reached."""
    if settings.executor is None:
        return ProcessWorkers(settings.workers)
    scheme, separator, address = settings.executor.partition("://")
    if scheme != "dask" or not separator or not address:
        hint = "leave it out for processes here, or give dask://host:port"
        raise InputError(f"{settings.executor!r} is not an executor", where="--executor", hint=hint)
    return _dask(address)


def _dask(address: str) -> Workers:
    # A late import: dask is an extra that a server without a cluster does not need.
    try:
        from synth.service.workers.dask import DaskWorkers
    except ModuleNotFoundError as error:
        hint = "pip install 'collsynth[cluster]'"
        raise InputError(f"{error.name} is not installed", where="--executor", hint=hint) from None
    try:
        return DaskWorkers(f"tcp://{address}")
    except WorkError as error:
        raise InputError(error.problem, where="--executor", hint=error.hint) from None


def serve(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until a signal to stop; calls ``announce`` with the address of the server.

    Raises InputError before anything starts if settings cannot be used.
    """
    with Store(settings.store_url) as store:
        store.migrate()
        _check_keys(settings, store)
        with closing(listen(settings.host, settings.port)) as sock:
            service = Service(settings, store, workers_of(settings), ProcessWorkers(1))
            give_back_large_blocks()
            sys.setswitchinterval(_SWITCH_SECONDS)
            gc.collect()
            gc.freeze()  # modules stay loaded: traversing them in each collection delays answers
            announce(address_of(sock, settings.host))
            try:
                Server(_config(service), service).run([sock])
            finally:
                service.close(0)


def _config(service: Service) -> uvicorn.Config:
    return uvicorn.Config(
        service.app,
        log_config=None,
        access_log=False,
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=_LAST_SECONDS,
        ws="none",
        http=BoundedConnection,
        proxy_headers=False,
        backlog=MOST_ACCEPTED,
    )


def address_of(sock: socket.socket, host: str) -> str:
    """Return the URL of a listening socket."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{sock.getsockname()[1]}/"


def _check_keys(settings: Settings, store: Store) -> None:
    """Raise InputError if keys are required and the store has no valid one."""
    keys = store.keys.known()
    if settings.keys and not settings.proxy_secret and not any(key.valid for key in keys):
        problem = f"{settings.host} requires keys, and the store has none"
        hint = "create one with 'collsynth keys create TEAM'; localhost needs none"
        raise InputError(problem, where="--host", hint=hint)
