"""An object as a key: itself alone is equal to it, so that nothing is compared or hashed in depth.

For what is asked again and again of one step while its plans are tried.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class IdentityKey(Generic[T]):
    """A key for ``lru_cache``, which keeps the object alive with what is known of it."""

    def __init__(self, one: T) -> None:
        self.one = one

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and self.one is other.one

    def __hash__(self) -> int:
        return id(self.one)
