"""A cache key that compares objects by identity.

Steps and cuts are large frozen dataclasses, whose own ``==`` and ``hash`` visit every operation.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class IdentityKey(Generic[T]):
    """A key for ``lru_cache``. It keeps the object alive, so its id cannot be reused."""

    def __init__(self, one: T) -> None:
        self.one = one

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and self.one is other.one

    def __hash__(self) -> int:
        return id(self.one)
