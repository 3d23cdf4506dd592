"""What the busiest link of each level takes where links are not alike: for prices of a system.

The simulator lets one port stand for all ports of a level. Where some are slower or missing, every
link is loaded by itself (``footprint``) and the one that takes longest stands for its level.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np

from grammar import Collective
from hierarchies import InputError, System
from hierarchies.fabric import Cast, groups_of_children
from synth.algorithms import Algorithm
from synth.footprint import footprint
from synth.network import Floats, Numbers, Wiring
from synth.protocols import Protocol
from synth.schedule import Exchange

MOST_DEVICES = 2**16


@dataclass(frozen=True)
class _ByteAtATime:
    algorithm: Algorithm
    size_bytes: float = 1.0
    protocol: Protocol = Protocol.SIMPLE


class WornLinks:
    """The links of a system some of which are slower or missing."""

    def __init__(self, system: System) -> None:
        if system.devices > MOST_DEVICES:
            raise InputError(
                f"{system.devices} devices with exceptions", hint=f"at most {MOST_DEVICES}"
            )
        self._wiring = Wiring(system)

    def busy_seconds(
        self, collective: Collective, algorithm: Algorithm, roles: Cast
    ) -> tuple[float, ...]:
        """For each level how long its slowest link is busy for one byte of buffer.

        A link may be that of any group; all groups that the roles tell apart run at once.
        """
        groups = groups_of_children(tuple(chain(*roles)))
        one = footprint(Exchange(collective, groups, 1), _ByteAtATime(algorithm), self._wiring)
        return tuple(by_level(self._wiring, one.link, one.carried_bytes).tolist())


def by_level(wiring: Wiring, link: Numbers, carried_bytes: Floats) -> Floats:
    """Seconds of the link that is busy longest, level by level; what is put on a link is summed."""
    carried = np.bincount(link, carried_bytes, wiring.links)
    seconds = carried / wiring.bandwidths
    return np.array([seconds[a:b].max(initial=0.0) for a, b in levels_of(wiring)])


def levels_of(wiring: Wiring) -> list[tuple[int, int]]:
    """Where the links of each level begin and end."""
    return list(zip(wiring.firsts[:-1], wiring.firsts[1:], strict=True))
