"""Threads for calls that block, as to the store; its errors become refusals."""

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
    """Runs calls that block in threads, so that the event loop goes on.

    ``purpose``: what the store is asked for, under which the metrics have the seconds of calls;
    None where the calls are not to the store.
    """

    def __init__(self, metrics: Metrics, purpose: str | None, count: int = _THREADS) -> None:
        self._metrics = metrics
        self._purpose = purpose
        self._failed: tuple[float, StoreError] | None = None
        self._pool = ThreadPoolExecutor(count, "collsynth-threads")

    async def do(self, call: Callable[..., T], *given: object) -> T:
        """Call a function in a thread.

        Raises RefusalError where the store cannot be used (503), and where an idempotency key came
        with another question (409).
        """
        with self._refusing():
            return await asyncio.get_running_loop().run_in_executor(
                self._pool, self._timed, call, *given
            )

    def at_once(self, call: Callable[..., T], *given: object) -> T:
        """Call a function on the loop: one faster than a thread would be. Raises as ``do``."""
        with self._refusing():
            return self._timed(call, *given)

    def _timed(self, call: Callable[..., T], *given: object) -> T:
        if self._purpose is None:
            return call(*given)
        begun = time.perf_counter()
        try:
            return call(*given)
        finally:
            self._metrics.asked_store(self._purpose, time.perf_counter() - begun)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except ConflictError as error:
            raise RefusalError(
                HTTPStatus.CONFLICT, error.problem, where="Idempotency-Key", hint=error.hint
            ) from None
        except StoreError as error:
            self._metrics.store_failed()
            self._failed = time.monotonic(), error
            log.error("the store failed: %s", error)
            raise unavailable("the store cannot be used now") from error

    def check_lately(self) -> None:
        """Raises RefusalError where the store has failed within the last seconds."""
        if self._failed and time.monotonic() - self._failed[0] < _LATELY_SECONDS:
            raise unavailable("the store has just failed") from self._failed[1]

    def close(self) -> None:
        """Wait for calls under way, and end the threads."""
        self._pool.shutdown()


class Readers:
    """Threads for what takes long to read or to check; a team has one at a time.

    So whatever a team sends, what another asks is read at once, or behind one thing of each team.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._threads = Threads(metrics, None, _READERS)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def do(self, team: str, call: Callable[..., T], *given: object) -> T:
        """Call a function in a thread when it is the team's turn. Raises what it raises."""
        turn = self._turns.get(team) or asyncio.Lock()
        self._turns[team] = turn
        async with turn:
            return await self._threads.do(call, *given)

    def close(self) -> None:
        """Wait for calls under way, and end the threads."""
        self._threads.close()
