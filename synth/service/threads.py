"""Thread pools for blocking calls, such as calls to the store; store errors become refusals."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from typing import TypeVar
from weakref import WeakValueDictionary

from synth.service.errors import RefusalError, unavailable
from synth.service.metrics import Metrics
from synth.service.store import ConflictError, StoreError

T = TypeVar("T")
_READERS = 2
_THREADS = 8
_LATELY_SECONDS = 5.0
log = logging.getLogger("collsynth.service")


class Threads:
    """Runs blocking calls in threads, off the event loop.

    ``purpose`` labels the seconds of store calls in the metrics; None if there are no store calls.
    """

    def __init__(self, metrics: Metrics, purpose: str | None, count: int = _THREADS) -> None:
        self._metrics = metrics
        self._purpose = purpose
        self._failed: tuple[float, StoreError] | None = None
        self._pool = ThreadPoolExecutor(count, "collsynth-threads")

    async def do(self, call: Callable[..., T], *arguments: object) -> T:
        """Call a function in a thread.

        Raises RefusalError if the store cannot be used (503), or if an idempotency key was used
        with another question (409).
        """
        with self._refuse_store_errors():
            return await asyncio.get_running_loop().run_in_executor(
                self._pool, self._call_timed, call, *arguments
            )

    def at_once(self, call: Callable[..., T], *arguments: object) -> T:
        """Call a function that is faster than a thread, on the event loop. Raises as ``do``."""
        with self._refuse_store_errors():
            return self._call_timed(call, *arguments)

    def _call_timed(self, call: Callable[..., T], *arguments: object) -> T:
        if self._purpose is None:
            return call(*arguments)
        begun = time.perf_counter()
        try:
            return call(*arguments)
        finally:
            seconds = time.perf_counter() - begun
            self._metrics.store_seconds.labels(self._purpose).observe(seconds)

    @contextmanager
    def _refuse_store_errors(self) -> Iterator[None]:
        try:
            yield
        except ConflictError as error:
            raise RefusalError(
                HTTPStatus.CONFLICT, error.problem, where="Idempotency-Key", hint=error.hint
            ) from None
        except StoreError as error:
            self._metrics.store_errors.inc()
            self._failed = time.monotonic(), error
            log.error("the store failed: %s", error)
            raise unavailable("the store cannot be used now") from error

    def check_lately(self) -> None:
        """Raise RefusalError if the store failed within the last seconds."""
        if self._failed and time.monotonic() - self._failed[0] < _LATELY_SECONDS:
            raise unavailable("the store has just failed") from self._failed[1]

    def close(self) -> None:
        """Wait for running calls and end the threads."""
        self._pool.shutdown()


class Readers:
    """Threads for expensive parsing and checking, one call at a time for each team.

    A team's input therefore waits for at most one call of each other team.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._threads = Threads(metrics, None, _READERS)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def do(self, team: str, call: Callable[..., T], *arguments: object) -> T:
        """Call a function in a thread when it is the team's turn, and raise what it raises."""
        # A weak dictionary drops a team's lock with its last waiter, so that teams do not pile up.
        turn = self._turns.get(team) or asyncio.Lock()
        self._turns[team] = turn
        async with turn:
            return await self._threads.do(call, *arguments)

    def close(self) -> None:
        """Wait for running calls and end the threads."""
        self._threads.close()
