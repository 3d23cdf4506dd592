"""A database and its transactions: every method of the store is one, from any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime
from threading import Lock

from sqlalchemy import Connection

from synth.service.store import engines


class Database:
    """Transactions that read, and such that write; ``now`` is the clock they go by."""

    def __init__(self, url: str, now: Callable[[Connection], datetime]) -> None:
        self.engine = engines.engine(url)
        self.now = now
        self._writer = engines.for_writing(self.engine)
        one_writer = self.engine.dialect.name == "sqlite"
        self._turn: Lock | nullcontext[None] = Lock() if one_writer else nullcontext()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that reads. Raises StoreError where the database cannot be used."""
        with engines.as_store_errors(self.engine), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes: whole, or not at all. Raises as ``reading``."""
        with self._turn, engines.as_store_errors(self.engine), self._writer.begin() as connection:
            yield connection
