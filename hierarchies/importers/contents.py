"""The devices inside the units of an imported network, compared with a system put inside them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import prod

from hierarchies.importers.claims import Between, Claim
from hierarchies.system import System

MOST_IN_A_MACHINE = 32
_TRAYS = {"gb200-nvl72": 4, "gb300-nvl72": 4}
"""Devices of one machine in systems of the catalogue whose units hold several machines."""
_MACHINES = ("node", "host", "tray", "server")


@dataclass(frozen=True)
class Unit:
    """An innermost unit of a network: how many machines it is, and their devices, None unknown.

    ``path`` names the unit by the levels of the draft: ``leaf3/node14``. ``each``: the devices of
    its machines, in order, where the source says these.
    """

    path: str
    machines: int
    devices: int | None
    each: tuple[int, ...] = ()

    def held(self, most: int) -> set[int]:
        """Its devices by their numbers in the unit, of whose machines none has more than so many.

        Which ones a machine lacks no source says: the last ones are taken.
        """
        if self.each and max(self.each) <= most:
            return {at * most + one for at, has in enumerate(self.each) for one in range(has)}
        return {*range(self.machines * most if self.devices is None else self.devices)}


@dataclass(frozen=True)
class Contents:
    """The innermost units of a network, which are called ``unit``, as ``source`` counts them."""

    unit: str
    source: str
    units: tuple[Unit, ...]

    def claims(self, inner: System) -> list[Claim]:
        """The devices of the fullest unit and of a machine, by the file and by ``inner``."""
        place, devices = f"--inside {inner.name}", inner.hierarchy.devices_in_child(0)
        topic, each = f"devices in a {self.unit}", devices_of_machine(inner)
        words = f"{devices} ({_described(inner)})"
        found = [
            self._stated(topic, inner),
            Claim(topic, "", place, words, Between(devices, devices)),
        ]
        full = max(self.units, key=lambda unit: unit.devices or 0)
        if full.devices and each is not None:
            there = full.devices / full.machines
            topic = "devices in a machine"
            found.append(Claim(topic, "", self.source, f"{there:g}", Between(there, there)))
            found.append(Claim(topic, "", place, f"{each}", Between(each, each)))
        return found

    def agrees(self, inner: System) -> bool:
        """Whether the claims on the file and on ``inner`` can all hold."""
        pairs = combinations(self.claims(inner), 2)
        return not any(a.topic == b.topic and a.excludes(b) for a, b in pairs)

    def _stated(self, topic: str, inner: System) -> Claim:
        known = [unit.devices for unit in self.units if unit.devices is not None]
        if known:
            return Claim(topic, "", self.source, str(max(known)), Between(max(known), max(known)))
        machines = max(unit.machines for unit in self.units)
        each = devices_of_machine(inner)
        if each is not None:
            words = f"{machines * each} ({_several(machines, each)})"
            return Claim(topic, "", self.source, words, Between(machines * each, machines * each))
        most = machines * MOST_IN_A_MACHINE
        words = f"at most {most} ({_several(machines, MOST_IN_A_MACHINE)} at most)"
        if inner.hierarchy.devices_in_child(0) % machines:
            return Claim(topic, "", self.source, f"a multiple of {machines}", Between(most=0))
        return Claim(topic, "", self.source, words, Between(machines, most))

    def missing(self, inner: System) -> list[str]:
        """Paths of the devices that units with fewer than the fullest lack."""
        whole, levels = inner.hierarchy.devices_in_child(0), inner.hierarchy.levels[1:]
        each = devices_of_machine(inner) or whole // max(unit.machines for unit in self.units)
        found = []
        for unit in self.units:
            for device in sorted({*range(whole)} - unit.held(each)):
                steps, left = [], device
                for level in reversed(levels):
                    left, digit = divmod(left, level.cardinality)
                    steps.append(f"{level.name}{digit}")
                found.append("/".join((unit.path, *reversed(steps))))
        return found


def devices_of_machine(inner: System) -> int | None:
    """The devices of one machine of a system, None where that is not known."""
    names, counts = inner.hierarchy.names, inner.hierarchy.cardinalities
    inside = [position for position, name in enumerate(names[1:], 1) if name in _MACHINES]
    if inside:
        return prod(counts[inside[-1] + 1 :])
    if inner.name in _TRAYS:
        return _TRAYS[inner.name]
    whole = inner.hierarchy.devices_in_child(0)
    return whole if names[0] in _MACHINES and whole <= MOST_IN_A_MACHINE else None


def _several(machines: int, each: int) -> str:
    return f"{machines} machine{'s' if machines > 1 else ''} of {each}"


def _described(inner: System) -> str:
    counts = inner.hierarchy.levels[1:]
    inside = " x ".join(f"{level.cardinality} {level.name}" for level in counts)
    return f"a {inner.hierarchy.names[0]} of {inside or 'one device'}"
