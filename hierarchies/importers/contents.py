"""The devices inside the units of an imported network, compared with a system put inside them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import prod

from hierarchies.importers.claims import Claim, NumberRange, exact_claim
from hierarchies.system import System

MOST_IN_A_MACHINE = 32
_TRAYS = {"gb200-nvl72": 4, "gb300-nvl72": 4}
"""Devices of one machine in systems of the catalogue whose units contain several machines."""
_MACHINES = ("node", "host", "tray", "server")


@dataclass(frozen=True)
class Unit:
    """An innermost unit of a network: its number of machines and of devices, None if unknown.

    ``path`` names the unit by the levels of the draft: ``leaf3/node14``. ``each`` has the numbers
    of devices of its machines, in order, if the source states them.
    """

    path: str
    machines: int
    devices: int | None
    each: tuple[int, ...] = ()

    def held(self, most: int) -> set[int]:
        """Return the devices of the unit, numbered for machines of ``most`` devices each.

        The sources do not state which devices a machine lacks. It is assumed to lack the last.
        """
        if self.each and max(self.each) <= most:
            return {at * most + i for at, count in enumerate(self.each) for i in range(count)}
        return {*range(self.machines * most if self.devices is None else self.devices)}


@dataclass(frozen=True)
class Contents:
    """The innermost units of a network, which are called ``unit``, as ``source`` counts them."""

    unit: str
    source: str
    units: tuple[Unit, ...]

    def claims(self, inner: System) -> list[Claim]:
        """Return the file's and ``inner``'s claims about the fullest unit and about a machine."""
        place, devices = f"--inside {inner.name}", inner.hierarchy.devices_in_child(0)
        topic, per_machine = f"devices in a {self.unit}", devices_of_machine(inner)
        claims = [
            self._stated(topic, inner),
            exact_claim(topic, "", place, devices, f"{devices} ({_describe_inner(inner)})"),
        ]
        full = max(self.units, key=lambda unit: unit.devices or 0)
        if full.devices and per_machine is not None:
            average, topic = full.devices / full.machines, "devices in a machine"
            claims.append(exact_claim(topic, "", self.source, average, f"{average:g}"))
            claims.append(exact_claim(topic, "", place, per_machine))
        return claims

    def agrees(self, inner: System) -> bool:
        """Whether no claims of the file and of ``inner`` exclude each other."""
        pairs = combinations(self.claims(inner), 2)
        return not any(a.topic == b.topic and a.excludes(b) for a, b in pairs)

    def _stated(self, topic: str, inner: System) -> Claim:
        known = [unit.devices for unit in self.units if unit.devices is not None]
        if known:
            return exact_claim(topic, "", self.source, max(known))
        machines = max(unit.machines for unit in self.units)
        per_machine = devices_of_machine(inner)
        if per_machine is not None:
            devices = machines * per_machine
            words = f"{devices} ({_count_machines(machines, per_machine)})"
            return exact_claim(topic, "", self.source, devices, words)
        if inner.hierarchy.devices_in_child(0) % machines:
            return Claim(topic, "", self.source, f"a multiple of {machines}", NumberRange(most=0))
        most = machines * MOST_IN_A_MACHINE
        words = f"at most {most} ({_count_machines(machines, MOST_IN_A_MACHINE)} at most)"
        return Claim(topic, "", self.source, words, NumberRange(machines, most))

    def missing(self, inner: System) -> list[str]:
        """Paths of the devices that other units lack compared with the fullest."""
        whole, levels = inner.hierarchy.devices_in_child(0), inner.hierarchy.levels[1:]
        per_machine = devices_of_machine(inner) or whole // max(
            unit.machines for unit in self.units
        )
        paths = []
        for unit in self.units:
            for device in sorted({*range(whole)} - unit.held(per_machine)):
                steps, left = [], device
                for level in reversed(levels):
                    left, digit = divmod(left, level.cardinality)
                    steps.append(f"{level.name}{digit}")
                paths.append("/".join((unit.path, *reversed(steps))))
        return paths


def devices_of_machine(inner: System) -> int | None:
    """Return the number of devices of one machine of a system, None if unknown."""
    names, counts = inner.hierarchy.names, inner.hierarchy.cardinalities
    inside = [position for position, name in enumerate(names[1:], 1) if name in _MACHINES]
    if inside:
        return prod(counts[inside[-1] + 1 :])
    if inner.name in _TRAYS:
        return _TRAYS[inner.name]
    devices = inner.hierarchy.devices_in_child(0)
    return devices if names[0] in _MACHINES and devices <= MOST_IN_A_MACHINE else None


def _count_machines(machines: int, devices: int) -> str:
    return f"{machines} machine{'s' if machines > 1 else ''} of {devices}"


def _describe_inner(inner: System) -> str:
    counts = inner.hierarchy.levels[1:]
    inside = " x ".join(f"{level.cardinality} {level.name}" for level in counts)
    return f"a {inner.hierarchy.names[0]} of {inside or 'one device'}"
