"""Disjoint sets: the connected parts of a graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item", int, str)


@dataclass(frozen=True)
class DisjointSets(Generic[Item]):
    """Sets that are joined pair by pair (union-find); at first each item is a separate set."""

    _parents: dict[Item, Item] = field(default_factory=dict)

    def find(self, item: Item) -> Item:
        """Return the representative of an item's set."""
        while self._parents.setdefault(item, item) != item:
            self._parents[item] = item = self._parents[self._parents[item]]
        return item

    def join(self, item: Item, into: Item) -> None:
        """Join the sets of two items; the representative of ``into`` represents both."""
        self._parents[self.find(item)] = self.find(into)
