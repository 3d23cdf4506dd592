"""How long the slowest link of each level is busy, where links are not alike: for prices.

The simulator lets one port stand for all ports of a level. Where some are slower or missing, every
link is loaded by itself (``link_loads``) and the one that takes longest stands for its level.
"""

from __future__ import annotations

from itertools import chain

import numpy as np

from grammar import Collective
from hierarchies import InputError, System
from hierarchies.fabric import Cast, groups_of_children
from hierarchies.links import Floats, Wiring
from synth.collectives.algorithms import Algorithm
from synth.collectives.link_loads import Loads, carried_by_link
from synth.collectives.traffic import Shape

MOST_DEVICES = 2**16


class SlowestLinks:
    """The links of a system some of which are slower or missing."""

    def __init__(self, system: System) -> None:
        if system.devices > MOST_DEVICES:
            raise InputError(
                f"{system.devices} devices with exceptions", hint=f"at most {MOST_DEVICES}"
            )
        self._wiring = Wiring(system)
        self._shapes: dict[Cast, Shape] = {}

    def busy_seconds(
        self, collective: Collective, algorithm: Algorithm, roles: Cast
    ) -> tuple[float, ...]:
        """For each level how long its slowest link is busy for one byte of buffer.

        A link may be that of any group; all groups that the roles tell apart run at once.
        """
        loads = Loads(collective, algorithm, self._shape(roles), self._wiring)
        carried = carried_by_link(list(loads.entries()), self._wiring)
        return by_level(self._wiring, carried / self._wiring.bandwidths)

    def _shape(self, roles: Cast) -> Shape:
        if roles not in self._shapes:
            groups = groups_of_children(tuple(chain(*roles)))
            sizes = np.full(*groups.shape)
            self._shapes[roles] = Shape(self._wiring.system.hierarchy, sizes, groups.ravel())
        return self._shapes[roles]


def by_level(wiring: Wiring, each: Floats) -> tuple[float, ...]:
    """The maximum at each level of a number for every link; shape (links,) to one a level."""
    borders = zip(wiring.firsts[:-1], wiring.firsts[1:], strict=True)
    return tuple(float(each[a:b].max(initial=0.0)) for a, b in borders)
