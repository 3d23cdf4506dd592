"""The byte model: which host sends how much to whom, and what that puts on every cable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from grammar import Collective
from results.testbed.hosts.orders import ITEM_BYTES, Order, Orders, Turn, by_host, sends
from results.testbed.hosts.wiring import Wiring
from synth.collective.semantics.schedule import Schedule


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


def busiest_seconds(wiring: Wiring, schedule: Schedule) -> float:
    """The byte model's price: phase after phase, the cable that is busy longest, at its rate."""
    system = wiring.system
    inside = [system.hierarchy.devices_in_child(level) for level in range(len(system.links))]
    whole = 0.0
    for phase in schedule.phases:
        busy: Counter[tuple[int, int, str]] = Counter()
        for pair, count in flows(by_host([phase], schedule.devices)).items():
            for level, devices in enumerate(inside):
                source, target = (device // devices for device in pair)
                if source != target:
                    busy[level, source, "up"] += count
                    busy[level, target, "down"] += count
        whole += max(
            (count / system.port_bytes_per_second(level) for (level, *_), count in busy.items()),
            default=0.0,
        )
    return whole


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
