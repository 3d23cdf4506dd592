"""How long the slowest link of each level is busy, where links or groups are not alike.

The simulator lets one port stand for all ports of a level. Where links are slower or missing, or
devices are missing, every link is loaded by itself (``link_loads``) and the slowest link stands for
its level.
"""

from __future__ import annotations

from functools import cache
from itertools import chain

from grammar import Collective
from hierarchies import Devices, InputError, System
from hierarchies.fabric import Cast, groups_of_children
from hierarchies.links import Floats, Wiring
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.link_loads import Loads, sum_by_link
from synth.collective.algorithms.traffic import GroupShape
from synth.collective.semantics.schedule import GroupList

MOST_DEVICES = 2**16
Groups = Cast | GroupList
"""Groups of devices: a grid, by the roles of each level's children, or an explicit list."""


class SlowestLinks:
    """The links of a system, each by itself. Raises InputError above ``MOST_DEVICES``."""

    def __init__(self, system: System) -> None:
        if system.devices > MOST_DEVICES:
            raise InputError(
                f"{system.devices} devices with exceptions", hint=f"at most {MOST_DEVICES}"
            )
        self._wiring = Wiring(system)
        # One cache per object: a decorator on the method would keep every object alive.
        self.shape = cache(self._shape)

    def loads(self, collective: Collective, algorithm: Algorithm, groups: Groups) -> Loads:
        """The loads of all groups together, given by roles or as a list."""
        return Loads(collective, algorithm, self.shape(groups), self._wiring)

    def _shape(self, groups: Groups) -> GroupShape:
        """The places of the members of groups."""
        among: Devices | GroupList
        if isinstance(groups, GroupList):
            among = groups
        else:
            among = groups_of_children(tuple(chain(*groups)))
        return GroupShape.of(self._wiring.system.hierarchy, among)


def loads_per_level(
    loads: Loads,
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[tuple[float, float], ...]]:
    """For each level and one byte of the largest buffer: the greatest load of a link, the seconds
    its slowest link is busy, and these seconds for ports that send and ports that receive.
    """
    wiring = loads.wiring
    carried = sum_by_link(list(loads.entries()), wiring)
    busy = carried / wiring.bandwidths
    return (
        _max_per_level(wiring, carried),
        _max_per_level(wiring, busy),
        _max_per_direction(wiring, busy),
    )


def _max_per_level(wiring: Wiring, values: Floats) -> tuple[float, ...]:
    """The maximum at each level of a number per link; shape (links,)."""
    borders = zip(wiring.firsts[:-1], wiring.firsts[1:], strict=True)
    return tuple(float(values[a:b].max(initial=0.0)) for a, b in borders)


def _max_per_direction(wiring: Wiring, values: Floats) -> tuple[tuple[float, float], ...]:
    """The maximum for even and odd link numbers: a port's outgoing and incoming link."""
    borders = zip(wiring.firsts[:-1], wiring.firsts[1:], strict=True)
    rows = [values[a:b] for a, b in borders]
    return tuple(
        (float(row[::2].max(initial=0.0)), float(row[1::2].max(initial=0.0))) for row in rows
    )
