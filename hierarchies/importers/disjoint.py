"""Disjoint sets: parts of a graph that links join."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item", int, str)


@dataclass(frozen=True)
class DisjointSets(Generic[Item]):
    """Sets that are joined pair by pair (union-find); an item is first in a set of its own."""

    _parents: dict[Item, Item] = field(default_factory=dict)

    def find(self, item: Item) -> Item:
        """The item that stands for the whole set."""
        while self._parents.setdefault(item, item) != item:
            self._parents[item] = item = self._parents[self._parents[item]]
        return item

    def join(self, item: Item, into: Item) -> None:
        """Join the sets of two items; what stood for the second stands for both."""
        self._parents[self.find(item)] = self.find(into)
