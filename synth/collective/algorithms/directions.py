"""Levels whose links are two resources, because a step may keep one half busy and not the other.

At a switch that reduces a port's two directions are apart (``ways.has_two_directions``). On a line,
a ring or torus whose ends are not joined, the link at one end is apart from the link at the other:
in a reduce-scatter all pieces but one leave an end, and one arrives; in an all-gather it is the
other way round. On the links between, loads change evenly from one end to the other. So where both
collectives are in flight for different segments, no link carries more than those at the ends, and a
reduce-scatter followed by an all-gather needs half of what their largest loads sum to.
"""

from __future__ import annotations

from collections.abc import Sequence

from grammar import Collective
from hierarchies import Domain, System
from synth.collective.algorithms.algorithms import Algorithm


def is_line(system: System, level: int) -> bool:
    """Whether the children of a level are in a row without joined ends, and all links alike."""
    link = system.links[level]
    row = link.domain in (Domain.RING, Domain.TORUS) and not link.wraps
    return row and not system.faults and system.hierarchy.cardinalities[level] > 2


def loads_of_ends(
    collective: Collective, algorithm: Algorithm, children: int, members: Sequence[int], level: int
) -> tuple[float, float]:
    """Returns what leaves the end of a line and what arrives there, as shares of its busiest link.

    Groups with ``members`` at every level load both ends alike, unless each is the whole line of
    ``children``, whose pieces a ring carries straight to their places.
    """
    whole = all(m == (children if other == level else 1) for other, m in enumerate(members))
    if algorithm is not Algorithm.RING or not whole or not collective.in_pieces:
        return 1.0, 1.0
    least = 1 / (children - 1)
    return (1.0, least) if collective.scatters else (least, 1.0)
