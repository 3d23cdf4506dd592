"""How long the slowest link of each level is busy, where links or groups are not alike: for prices.

The simulator lets one port stand for all ports of a level. Where some are slower or missing, or
devices are, every link is loaded by itself (``link_loads``) and the one that takes longest stands
for its level.
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
"""Groups of devices: as a grid, by the roles of each level's children, or one by one."""


class SlowestLinks:
    """The links of a system, each by itself: some may be slower or missing, or devices may be."""

    def __init__(self, system: System) -> None:
        if system.devices > MOST_DEVICES:
            raise InputError(
                f"{system.devices} devices with exceptions", hint=f"at most {MOST_DEVICES}"
            )
        self._wiring = Wiring(system)
        self.shape = cache(self._shape)

    def loads(self, collective: Collective, algorithm: Algorithm, groups: Groups) -> Loads:
        """What all groups together, given by roles or as a list, put on links."""
        return Loads(collective, algorithm, self.shape(groups), self._wiring)

    def _shape(self, groups: Groups) -> GroupShape:
        """Where the members of groups are."""
        among: Devices | GroupList
        if isinstance(groups, GroupList):
            among = groups
        else:
            among = groups_of_children(tuple(chain(*groups)))
        return GroupShape.of(self._wiring.system.hierarchy, among)


def loads_per_level(
    loads: Loads,
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[tuple[float, float], ...]]:
    """For each level, and one byte of the largest buffer, the most that a link carries and the
    seconds for which its slowest is busy; and these seconds again for each way: of ports that send
    and that receive.
    """
    wiring = loads.wiring
    carried = sum_by_link(list(loads.entries()), wiring)
    busy = carried / wiring.bandwidths
    return (
        _max_per_level(wiring, carried),
        _max_per_level(wiring, busy),
        _max_per_direction(wiring, busy),
    )


def _max_per_level(wiring: Wiring, each: Floats) -> tuple[float, ...]:
    """The maximum at each level of a number for every link; shape (links,) to one a level."""
    borders = zip(wiring.firsts[:-1], wiring.firsts[1:], strict=True)
    return tuple(float(each[a:b].max(initial=0.0)) for a, b in borders)


def _max_per_direction(wiring: Wiring, each: Floats) -> tuple[tuple[float, float], ...]:
    """The same for links of even and of odd numbers: of a port, the way out and the way in."""
    borders = zip(wiring.firsts[:-1], wiring.firsts[1:], strict=True)
    rows = [each[a:b] for a, b in borders]
    return tuple(
        (float(row[::2].max(initial=0.0)), float(row[1::2].max(initial=0.0))) for row in rows
    )
