"""An in-memory LRU cache bounded in bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """The most recently used values by key, at most ``most_bytes`` in total.

    Not thread-safe: all users run on one event loop.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._held: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    @property
    def held_bytes(self) -> int:
        """Total weight of all values."""
        return self._bytes

    def get(self, key: K) -> V | None:
        """Return the value, which becomes the most recently used, or None."""
        entry = self._held.get(key)
        if entry is None:
            return None
        self._held.move_to_end(key)
        return entry[0]

    def put(self, key: K, value: V, weight_bytes: int) -> None:
        """Store a value unless it exceeds ``most_bytes``; evict the least recently used for it."""
        self.drop(key)
        if weight_bytes > self._most_bytes:
            return
        self._held[key] = (value, weight_bytes)
        self._bytes += weight_bytes
        while self._bytes > self._most_bytes:
            _, (_, weight) = self._held.popitem(last=False)
            self._bytes -= weight

    def drop(self, key: K) -> None:
        """Evict a value if it is stored."""
        entry = self._held.pop(key, None)
        if entry is not None:
            self._bytes -= entry[1]
