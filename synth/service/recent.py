"""A cache in memory that drops what was used longest ago (LRU), bounded in bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """The values used last, by key; together they never weigh more than ``most_bytes``.

    Not for several threads: everything that uses one runs on the same event loop.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._held: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    @property
    def held_bytes(self) -> int:
        """What all values weigh together."""
        return self._bytes

    def get(self, key: K) -> V | None:
        """The value, which is now the one used last."""
        found = self._held.get(key)
        if found is None:
            return None
        self._held.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, weight_bytes: int) -> None:
        """Hold a value, dropping those used longest ago; one above ``most_bytes`` is not held."""
        self.drop(key)
        if weight_bytes > self._most_bytes:
            return
        self._held[key] = (value, weight_bytes)
        self._bytes += weight_bytes
        while self._bytes > self._most_bytes:
            _, (_, gone) = self._held.popitem(last=False)
            self._bytes -= gone

    def drop(self, key: K) -> None:
        """Forget a value, if it is held."""
        found = self._held.pop(key, None)
        if found is not None:
            self._bytes -= found[1]
