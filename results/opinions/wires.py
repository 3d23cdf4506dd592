"""A system as links and ways for messages, written for the second opinion from what a System says.

Every port of a switch level is a link out and a link in; a circle has a link each way between
neighbours, a mesh one between every two children; a bus is one link, a device's memory another.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod

from hierarchies import Domain, System
from synth.collective.algorithms.protocols import Protocol

Key = tuple[object, ...]


@dataclass(frozen=True)
class Way:
    """Links that a share of a message crosses, and the levels that it waits at, once per hop."""

    share: float
    links: tuple[int, ...]
    hops: tuple[tuple[int, int], ...]


class Wires:
    """Numbers the links as messages first cross them."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.bytes_per_second: list[float] = []
        self._numbers: dict[Key, int] = {}
        self._counts = system.hierarchy.cardinalities
        self._ways: dict[tuple[int, int], tuple[Way, ...]] = {}

    def memory(self, device: int) -> int:
        """The link to what a device has stored."""
        return self._link(("memory", device), self.system.memory_bytes_per_second)

    def ways(self, sender: int, receiver: int) -> tuple[Way, ...]:
        """How a message goes; two ways, half on each, where both around a circle are as short."""
        if (sender, receiver) not in self._ways:
            self._ways[sender, receiver] = tuple(self._found(sender, receiver))
        return self._ways[sender, receiver]

    def seconds(self, way: Way, protocol: Protocol) -> float:
        """What a message waits for on its way, besides its bytes."""
        links = self.system.links
        return sum(hops * protocol.seconds(links[level]) for level, hops in way.hops)

    def digits(self, device: int) -> tuple[int, ...]:
        found = []
        for count in reversed(self._counts):
            device, digit = divmod(device, count)
            found.append(digit)
        return tuple(reversed(found))

    def _found(self, sender: int, receiver: int) -> list[Way]:
        pairs = zip(self.digits(sender), self.digits(receiver), strict=True)
        level = next(i for i, (here, there) in enumerate(pairs) if here != there)
        link = self.system.links[level]
        if link.domain is Domain.TORUS:
            return self._around_and_on(level, sender, receiver)
        if link.domain is Domain.RING:
            return [
                Way(one.share, self._passing(level, sender, receiver, one.links), one.hops)
                for one in self._around(level, sender, self.digits(receiver)[level])
            ]
        own: tuple[int, ...] = ()
        here, there = self.digits(sender)[: level + 1], self.digits(receiver)[: level + 1]
        rate = link.bandwidth_bytes_per_second
        if link.domain is Domain.MESH:
            own = (self._link((level, here, there), rate),)
        elif link.domain is Domain.BUS:
            own = (self._link((level, here[:-1]), rate),)
        else:
            own = self._ports(level, sender, receiver)
        return [Way(1.0, self._passing(level, sender, receiver, own), ((level, 1),))]

    def _passing(
        self, level: int, sender: int, receiver: int, own: tuple[int, ...]
    ) -> tuple[int, ...]:
        """The links of a level between those of the inner levels that it is reached through."""
        ends: list[int] = []
        for inner in self.system.through(level):
            if self.system.links[inner].domain is Domain.BUS:
                rate = self.system.links[inner].bandwidth_bytes_per_second
                buses = {self.digits(one)[:inner] for one in (sender, receiver)}
                ends += [self._link((inner, bus), rate) for bus in sorted(buses)]
            else:
                ends += self._ports(inner, sender, receiver)
        return (*own, *ends)

    def _ports(self, level: int, sender: int, receiver: int) -> tuple[int, ...]:
        """Out of the sender's port and into the receiver's."""
        link, inside = self.system.links[level], prod(self._counts[level + 1 :])
        rate, block = link.bandwidth_bytes_per_second, 1
        if link.ports > inside:
            rate *= link.ports // inside
        else:
            block = inside // link.ports
        return (
            self._link((level, sender // block, "out"), rate),
            self._link((level, receiver // block, "in"), rate),
        )

    def _around(self, level: int, sender: int, target: int) -> list[Way]:
        """From one child of a circle to another, the shorter way or both; of a line the only."""
        count, digits = self._counts[level], self.digits(sender)
        ahead = (target - digits[level]) % count
        senses = [(1, ahead), (-1, count - ahead)]
        if not self.system.links[level].wraps:
            senses = senses[:1] if target > digits[level] else senses[1:]
        least = min(hops for _, hops in senses)
        senses = [one for one in senses if one[1] == least]
        if count == 2:
            senses = senses[:1]
        torus = self.system.links[level].domain is Domain.TORUS
        rest = digits[level + 1 :] if torus else ()
        rate = self.system.links[level].bandwidth_bytes_per_second
        ways = []
        for sense, hops in senses:
            stops = [(digits[level] + sense * i) % count for i in range(hops + 1)]
            links = tuple(
                self._link((level, digits[:level], a, b, rest), rate) for a, b in pairwise(stops)
            )
            ways.append(Way(1 / len(senses), links, ((level, hops),)))
        return ways

    def _around_and_on(self, level: int, sender: int, receiver: int) -> list[Way]:
        """Along one dimension of a torus, then along the inner ones."""
        target = self.digits(receiver)[level]
        inside = prod(self._counts[level + 1 :])
        corner = sender + (target - self.digits(sender)[level]) * inside
        first = self._around(level, sender, target)
        if corner == receiver:
            return first
        return [
            Way(a.share * b.share, a.links + b.links, a.hops + b.hops)
            for a in first
            for b in self.ways(corner, receiver)
        ]

    def _link(self, key: Key, rate: float) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.bytes_per_second)
            self.bytes_per_second.append(rate)
        return self._numbers[key]
