"""Values that are kept from question to question: the latest in memory, all in the cache folder."""

from __future__ import annotations

from threading import Lock
from typing import Generic, TypeVar

from synth.cache.choice import is_kept
from synth.cache.codec import Codec
from synth.cache.folder import chosen_folder

T = TypeVar("T")


class LatestValues(Generic[T]):
    """The last ``most`` values of one kind, in memory. Mutable."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._latest: dict[str, T] = {}
        self._lock = Lock()

    def find(self, key: str) -> T | None:
        """Returns a value; None if it is not kept."""
        return self._latest.get(key) if is_kept() else None

    def keep(self, key: str, value: T) -> None:
        """Keeps a value for later questions of this process."""
        if is_kept():
            with self._lock:
                self._latest[key] = value
                while len(self._latest) > self._most:
                    del self._latest[next(iter(self._latest))]

    def forget(self) -> None:
        """Forgets all values in memory."""
        with self._lock:
            self._latest.clear()


class KeptValues(LatestValues[T]):
    """Values of one kind by their keys: the latest in memory, all in the cache folder. Mutable.

    A key names all that the value depends on, other than the code.
    """

    def __init__(self, kind: str, codec: Codec, most: int) -> None:
        super().__init__(most)
        self._kind, self._codec = kind, codec

    def find(self, key: str) -> T | None:
        """Returns a value; None if it is not kept, or if its entry cannot be read."""
        folder = chosen_folder()
        if (found := super().find(key)) is not None or folder is None:
            return found
        if (text := folder.find(f"{self._kind} {key}")) is None:
            return None
        try:
            value: T = self._codec.decode(text)
        except ValueError:
            return None
        super().keep(key, value)
        return value

    def keep(self, key: str, value: T) -> None:
        """Keeps a value for later questions, of this process and of others."""
        super().keep(key, value)
        if (folder := chosen_folder()) is not None:
            folder.keep(f"{self._kind} {key}", self._codec.encode(value))
