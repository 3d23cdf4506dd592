"""Values that are kept from question to question: the latest in memory, all in the cache folder."""

from __future__ import annotations

from threading import Lock
from typing import Generic, TypeVar

from synth.cache.choice import is_kept
from synth.cache.codec import Codec
from synth.cache.folder import chosen_folder

T = TypeVar("T")


class KeptValues(Generic[T]):
    """Values of one kind by their keys. Mutable: it has the last ``most`` values in memory.

    A key names all that the value depends on, other than the code.
    """

    def __init__(self, kind: str, codec: Codec, most: int) -> None:
        self._kind, self._codec, self._most = kind, codec, most
        self._latest: dict[str, T] = {}
        self._lock = Lock()

    def find(self, key: str) -> T | None:
        """Returns a value; None if it is not kept, or if its entry cannot be read."""
        if not is_kept():
            return None
        if (found := self._latest.get(key)) is not None:
            return found
        folder = chosen_folder()
        if folder is None or (text := folder.find(f"{self._kind} {key}")) is None:
            return None
        try:
            value: T = self._codec.decode(text)
        except ValueError:
            return None
        self._remember(key, value)
        return value

    def keep(self, key: str, value: T) -> None:
        """Keeps a value for later questions, of this process and of others."""
        if is_kept():
            self._remember(key, value)
        if (folder := chosen_folder()) is not None:
            folder.keep(f"{self._kind} {key}", self._codec.encode(value))

    def forget(self) -> None:
        """Forgets the values in memory."""
        with self._lock:
            self._latest.clear()

    def _remember(self, key: str, value: T) -> None:
        with self._lock:
            self._latest[key] = value
            while len(self._latest) > self._most:
                del self._latest[next(iter(self._latest))]
