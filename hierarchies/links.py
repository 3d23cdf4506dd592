"""Every single link of a system: its number, readable name and bandwidth.

A link is one direction of a cable or port, a medium, or a device's memory. Links need not be
symmetric: any link may be slower or faster than the system's description says, as when one of a
thousand cables runs at half its speed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hierarchies import Domain, Fault, InputError, System

Numbers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
MOST_LINKS = 2**22
NEARLY = 1e-9
"""A link with at most this remaining share counts as missing."""


@dataclass(frozen=True)
class Wiring:
    """All links of a system, numbered: level by level, outermost first, then the memories.

    * switch: two links for each port, ``node3/port0 out`` and ``in``;
    * ring, torus: two links between neighbours, ``node3/gpu5-gpu6 forth`` and ``back`` (a single
      pair for two children; in a torus the inner digits follow, ``z0-z1/y2/x3 forth``);
    * mesh: two links between every two children;
    * bus: one link for both directions, ``node3/gpu-bus``;
    * memory: one link for each device, ``node3/gpu5/memory``.

    Raises InputError for more than ``MOST_LINKS`` links.
    """

    system: System

    def __post_init__(self) -> None:
        if self.links > MOST_LINKS:
            raise InputError(
                f"{self.system.name} has {self.links} links", hint=f"at most {MOST_LINKS}"
            )

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """The number of the first link of each level, and of the first memory."""
        firsts = [0]
        for level in range(len(self.system.links)):
            firsts.append(firsts[-1] + self._count(level))
        return tuple(firsts)

    @property
    def links(self) -> int:
        return self.firsts[-1] + self.system.devices

    @cached_property
    def bandwidths(self) -> Floats:
        """Bytes per second of every link, as the system is described; shape (links,).

        A slower link has its remaining bandwidth. A missing port keeps its own: its traffic is
        loaded on other ports (``detours``).
        """
        bandwidths = np.empty(self.links)
        for level, link in enumerate(self.system.links):
            switch = link.domain is Domain.SWITCH
            bandwidths[self.firsts[level] : self.firsts[level + 1]] = (
                self.system.port_bytes_per_second(level)
                if switch
                else link.bandwidth_bytes_per_second
            )
        bandwidths[self.firsts[-1] :] = self.system.memory_bytes_per_second
        for number, share in self._shares.items():
            bandwidths[number] *= share or 1.0
        return bandwidths

    @cached_property
    def _shares(self) -> dict[int, float]:
        """The remaining share of bandwidth of each link that has lost some."""
        shares: dict[int, float] = {}
        lost: dict[int, float] = {}
        for fault in self.system.faults:
            if fault.missing and fault.port is None:
                continue
            if fault.port is None:
                for link in self._links_of(fault):
                    shares[link] = shares.get(link, 1.0) * fault.share
                continue
            ports = self.system.ports_of_block(fault.level)
            for link in self._links_of(fault):
                lost[link] = lost.get(link, 0.0) + (1 - fault.share) / ports
        for link, part in lost.items():
            left = 1 - part
            shares[link] = shares.get(link, 1.0) * (left if left > NEARLY else 0.0)
        return shares

    def ports_left(self, level: int) -> Floats | None:
        """Return the ports that each block of devices has left; None if a level lacks none.

        The blocks are in the order of their links, shape (blocks of the level,).
        """
        missing = [
            fault
            for fault in self.system.faults
            if fault.level == level and fault.missing and fault.port is not None
        ]
        if not missing:
            return None
        each = self.system.ports_of_block(level)
        left = np.full(self._count(level) // 2, float(each))
        for fault in missing:
            [link, *_] = self._links_of(fault)
            left[(link - self.firsts[level]) // 2] -= 1
        return left

    def _links_of(self, fault: Fault) -> list[int]:
        """Return the links in both directions that a fault affects; for a unit, all its links."""
        level = fault.level
        unit = self.system.hierarchy.unit(fault.path)
        if self.system.links[level].domain is not Domain.SWITCH:
            return [link for link in self._of_level(level) if self._is_about(fault, link)]
        blocks = self.system.blocks(level)
        first = self.firsts[level] + 2 * unit * blocks
        ports = range(blocks)
        if fault.port is not None:
            port = fault.port // self.system.ports_of_block(level)
            ports = range(port, port + 1)
        return [first + 2 * port + way for port in ports for way in (0, 1)]

    def _of_level(self, level: int) -> range:
        return range(self.firsts[level], self.firsts[level + 1])

    def _is_about(self, fault: Fault, link: int) -> bool:
        """Whether a fault affects a link of a domain other than a switch."""
        names = self.system.hierarchy.names
        parts = self.cable(link).split("/")
        outer = [f"{n}{d}" for n, d in zip(names, fault.path, strict=False)][: fault.level]
        ends = parts[fault.level].split("-")
        wanted = fault.ends or (fault.path[fault.level],)
        return parts[: fault.level] == outer and {f"{names[fault.level]}{e}" for e in wanted} <= {
            *ends
        }

    @cached_property
    def detours(self) -> Mapping[int, tuple[tuple[int, float], ...]]:
        """For each missing link, the other links of its unit that carry its load, with shares.

        A missing port's traffic leaves by the unit's other ports, in proportion to their
        bandwidths, and no faster than by the port itself, so that a machine is never faster without
        the port. The path to the other ports is not counted.
        """
        detours = {}
        for link, share in self._shares.items():
            if share:
                continue
            level = bisect_right(self.firsts, link) - 1
            ports = self.system.blocks(level)
            place, way = divmod(link - self.firsts[level], 2)
            begin = self.firsts[level] + 2 * (place // ports * ports) + way
            others = [
                other
                for other in range(begin, begin + 2 * ports, 2)
                if self._shares.get(other, 1.0)
            ]
            total = float(self.bandwidths[others].sum())
            detours[link] = tuple((o, float(self.bandwidths[o]) / total) for o in others)
        return detours

    def _count(self, level: int) -> int:
        system = self.system
        children, inside = system.hierarchy.cardinalities[level], self._inside(level)
        domains = system.devices // (children * inside)
        match system.links[level].domain:
            case Domain.SWITCH:
                return 2 * system.devices // inside * system.blocks(level)
            case Domain.BUS:
                return domains
            case Domain.MESH:
                return domains * children * (children - 1)
            case Domain.RING:
                return domains * 2 * self.circle_pairs(level)
            case Domain.TORUS:
                return domains * inside * 2 * self.circle_pairs(level)

    def _inside(self, level: int) -> int:
        return self.system.hierarchy.devices_in_child(level)

    def _domain(self, level: int, devices: Numbers) -> Numbers:
        children = self.system.hierarchy.cardinalities[level]
        return devices // (children * self._inside(level))

    def ports(self, level: int, devices: Numbers) -> Numbers:
        """Return the link out of each device's port at a switch level; the link in follows it."""
        child, place = np.divmod(devices, self._inside(level))
        number = child * self.system.blocks(level) + place // self.system.block(level)
        return np.asarray(self.firsts[level] + 2 * number)

    def buses(self, level: int, devices: Numbers) -> Numbers:
        """Return the medium of each device."""
        return self.firsts[level] + self._domain(level, devices)

    def circles(self, level: int, devices: Numbers) -> Numbers:
        """Return for each device the first link of its ring, or of its circle in a torus dimension.

        Link ``2 a`` after it goes from child a to the next, ``2 a + 1`` comes back.
        """
        domain = self._domain(level, devices)
        if self.system.links[level].domain is Domain.TORUS:
            domain = domain * self._inside(level) + devices % self._inside(level)
        return self.firsts[level] + domain * 2 * self.circle_pairs(level)

    def circle_pairs(self, level: int) -> int:
        """Return the number of pairs of neighbours in a ring, or a torus's circle, at a level."""
        return circle_links(
            self.system.hierarchy.cardinalities[level], self.system.links[level].wraps
        )

    def meshes(self, level: int, devices: Numbers) -> Numbers:
        """Return for each device the first link of its mesh; ``mesh_link`` counts from there."""
        children = self.system.hierarchy.cardinalities[level]
        return self.firsts[level] + self._domain(level, devices) * children * (children - 1)

    def memories(self, devices: Numbers) -> Numbers:
        return self.firsts[-1] + devices

    def name(self, link: int) -> str:
        """Return the name of a link. Raises IndexError for a number out of range."""
        if not 0 <= link < self.links:
            raise IndexError(f"no link {link}")
        if link >= self.firsts[-1]:
            return "/".join([*self._path(link - self.firsts[-1]), "memory"])
        level = bisect_right(self.firsts, link) - 1
        return self._name(level, link - self.firsts[level])

    def cable(self, link: int) -> str:
        """Return the name of a link without its direction, which both directions share."""
        return self.name(link).rsplit(" ", 1)[0]

    def _path(self, device: int) -> list[str]:
        """Return the children that hold a device, outermost first."""
        names = self.system.hierarchy.names
        digits = self.system.hierarchy.digits(device)
        return [f"{name}{digit}" for name, digit in zip(names, digits, strict=True)]

    def _name(self, level: int, number: int) -> str:
        label = self.system.hierarchy.names[level]
        children, inside = self.system.hierarchy.cardinalities[level], self._inside(level)
        match self.system.links[level].domain:
            case Domain.SWITCH:
                port, way = divmod(number, 2)
                child, place = divmod(port, self.system.blocks(level))
                path = self._path(child * inside)[: level + 1]
                return "/".join([*path, f"port{place} {('out', 'in')[way]}"])
            case Domain.BUS:
                return "/".join([*self._path(number * children * inside)[:level], f"{label}-bus"])
            case Domain.MESH:
                domain, pair = divmod(number, children * (children - 1))
                here, rest = divmod(pair, children - 1)
                there = rest + (rest >= here)
                path = self._path(domain * children * inside)[:level]
                return "/".join([*path, _name_direction(label, here, there, here < there)])
            case Domain.RING | Domain.TORUS as domain_kind:
                circle, place = divmod(number, 2 * self.circle_pairs(level))
                torus = domain_kind is Domain.TORUS
                outer, inner = divmod(circle, inside) if torus else (circle, 0)
                path = self._path(outer * children * inside + inner)
                first, back = divmod(place, 2)
                ends = (first, (first + 1) % children)
                link = _name_direction(label, *(ends[::-1] if back else ends), not back)
                if not torus:
                    return "/".join([*path[:level], link])
                cable, sense = link.split(" ")
                return f"{'/'.join([*path[:level], cable, *path[level + 1 :]])} {sense}"


def circle_links(children: int, wraps: bool = True) -> int:
    """Return the number of pairs of neighbours in a circle: two children have one cable, not two.

    A line, whose ends are not joined, has one pair less.
    """
    return children if wraps and children > 2 else children - 1


def mesh_link(children: int, here: Numbers, there: Numbers) -> Numbers:
    """Return the link of a mesh from one child to another, counted within the mesh."""
    return here * (children - 1) + there - (there > here)


def _name_direction(label: str, here: int, there: int, forth: bool) -> str:
    ends = (here, there) if forth else (there, here)
    return f"{label}{ends[0]}-{label}{ends[1]} {'forth' if forth else 'back'}"


@dataclass(frozen=True, eq=False)
class Network:
    """The links of a system with their bandwidths, bytes per second, shape (links,)."""

    wiring: Wiring
    bandwidths: Floats

    @classmethod
    def of(cls, system: System) -> Network:
        """Return all links as the system is described.

        Raises InputError for more than ``MOST_LINKS``.
        """
        wiring = Wiring(system)
        return cls(wiring, wiring.bandwidths)

    @property
    def system(self) -> System:
        return self.wiring.system
