"""Threads for calls that block, as to the store; its errors become refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from typing import TypeVar

from synth.service.errors import RefusalError, unavailable
from synth.service.metrics import Metrics
from synth.service.store import ConflictError, StoreError

T = TypeVar("T")
_THREADS = 8


class Threads:
    """Runs calls that block in threads, so that the event loop goes on."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._pool = ThreadPoolExecutor(_THREADS, "collsynth-store")

    async def do(self, call: Callable[..., T], *given: object) -> T:
        """Call a function in a thread.

        Raises RefusalError where the store cannot be used (503), and where an idempotency key came
        with another question (409).
        """
        with self._refusing():
            return await asyncio.get_running_loop().run_in_executor(self._pool, call, *given)

    def at_once(self, call: Callable[..., T], *given: object) -> T:
        """Call a function on the loop: one faster than a thread would be. Raises as ``do``."""
        with self._refusing():
            return call(*given)

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
            raise unavailable("the store cannot be used now") from error

    def close(self) -> None:
        """Wait for calls under way, and end the threads."""
        self._pool.shutdown()
