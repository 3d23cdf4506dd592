"""The store, asked from the event loop: in threads of its own, its errors told as refusals."""

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
    """What blocks, done beside the event loop."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._pool = ThreadPoolExecutor(_THREADS, "collsynth-broker")

    async def do(self, call: Callable[..., T], *given: object) -> T:
        """Call it in a thread.

        Raises RefusalError where the store cannot be used (503), and where an idempotency key came
        with another question (409).
        """
        with self._refusing():
            return await asyncio.get_running_loop().run_in_executor(self._pool, call, *given)

    def at_once(self, call: Callable[..., T], *given: object) -> T:
        """Call it on the loop, as it is over sooner than a thread would begin. Raises as ``do``."""
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
        """Wait for what is being done, and do no more."""
        self._pool.shutdown()
