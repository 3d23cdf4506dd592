"""The byte model: which host sends how much to whom, and what that puts on every cable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from grammar import Collective
from testbed.orders import ITEM_BYTES, Order, Orders, Turn, sends
from testbed.wiring import Wiring


def sent_bytes(order: Order) -> int:
    """The payload that a host sends in one order, if it sends anything."""
    if isinstance(order, Turn):
        return 0
    k, elements = len(order.members), order.elements
    last = (order.rank + 1) % k
    match order.collective:
        case Collective.ALL_REDUCE:
            left_out = _piece(elements, k, order.rank) + _piece(elements, k, last)
            return (2 * elements - left_out) * ITEM_BYTES
        case Collective.REDUCE_SCATTER:
            return (elements - _piece(elements, k, order.rank)) * ITEM_BYTES
        case Collective.ALL_GATHER:
            return (elements - _piece(elements, k, last)) * ITEM_BYTES
        case _:
            return elements * ITEM_BYTES


def _piece(elements: int, k: int, number: int) -> int:
    """The length of a piece, where the first ones take what does not divide evenly."""
    return elements // k + (number < elements % k)


def flows(program: Orders) -> Counter[tuple[int, int]]:
    """The payload bytes from every host to every other."""
    found: Counter[tuple[int, int]] = Counter()
    for device, mine in enumerate(program):
        for order in mine:
            for target in sends(order):
                found[device, target] += sent_bytes(order)
    return found


def by_level(wiring: Wiring, programs: Iterable[tuple[Orders, int]]) -> list[int]:
    """Payload bytes that went up the cables of each level, of programs and how often each ran."""
    levels = len(wiring.system.links)
    inside = [wiring.system.hierarchy.devices_in_child(level) for level in range(levels)]
    found = [0] * levels
    for program, runs in programs:
        for (source, target), count in flows(program).items():
            for level in range(levels):
                if source // inside[level] != target // inside[level]:
                    found[level] += runs * count
    return found
