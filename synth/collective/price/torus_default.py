"""The default of XLA over several dimensions of a torus: rings in all of them at once.

The payload is cut into one part per dimension. Each part is reduce-scattered by the rings of one
dimension after the other and gathered back in the reverse order, and each part begins with another
dimension, so that the links of all are always busy: an all-gather over N axes has N times the
bandwidth of one (the scaling book, jax-ml.github.io/scaling-book/sharding). An all-to-all also goes
along one dimension after the other, each message straight and by the shorter way; the book prices
one ring, and running several in sequence is our extension. XLA has no reduce to one device and no
broadcast of its own on a TPU: these have only chains as defaults. The better of the two orders of
dimensions counts, so placements that mirror each other have the same default.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from grammar import Collective, Goal
from hierarchies import Domain, Reduction
from hierarchies.fabric import count_members, roles_of
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import InstructionPrice, price_of_line, sum_by_name, total_seconds

_SCATTER, _GATHER = Collective.REDUCE_SCATTER, Collective.ALL_GATHER
_STAGES = {
    Goal.ALL_REDUCE: (_SCATTER, _GATHER),
    Goal.REDUCE_SCATTER: (_SCATTER,),
    Goal.ALL_GATHER: (_GATHER,),
    Goal.ALL_TO_ALL: (Collective.ALL_TO_ALL,),
}
_Dimension = tuple[int, tuple[int, ...]]
"""The number of members of a group along a dimension, and the tree's digits there."""


def price_torus_rings(
    simulator: Simulator, reduction: Reduction, payload_bytes: float, goal: Goal
) -> tuple[InstructionPrice, ...]:
    """The phases of rings in all dimensions; empty unless groups span several of a torus."""
    system = simulator.system
    dimensions = _dimensions(reduction)
    tori = all(system.links[level].domain is Domain.TORUS for level in dimensions)
    if len(dimensions) < 2 or not tori or goal not in _STAGES:
        return ()
    levels_in_order = list(dimensions.values())
    orders = (levels_in_order, levels_in_order[::-1])
    return min((_phases(simulator, reduction, payload_bytes, goal, order) for order in orders),
               key=total_seconds)  # fmt: skip


def _dimensions(reduction: Reduction) -> dict[int, _Dimension]:
    """The members and digits at each level that groups span."""
    dimensions: dict[int, _Dimension] = {}
    for level, parts in enumerate(reduction.parts):
        digits = tuple(dict.fromkeys(part.digit for part in parts if part.digit is not None))
        if digits:
            dimensions[level] = (count_members(roles_of(reduction, digits, ())[level]), digits)
    return dimensions


def _phases(
    simulator: Simulator,
    reduction: Reduction,
    payload_bytes: float,
    goal: Goal,
    dimensions: Sequence[_Dimension],
) -> tuple[InstructionPrice, ...]:
    """One phase per stage: each part is in another dimension, and the slowest is waited for."""
    count, phases = len(dimensions), []
    for collective in _STAGES[goal]:
        stages = range(count)[::-1] if collective is _GATHER else range(count)
        for stage in stages:
            parts = []
            for first in range(count):
                order = [dimensions[(first + turn) % count] for turn in range(count)]
                before = [] if collective.apart else order[:stage]
                size = payload_bytes / count / prod(members for members, _ in before)
                roles = roles_of(reduction, order[stage][1], ())
                algorithm = Algorithm.DIRECT if collective.apart else Algorithm.RING
                # The first line is that of the Simple protocol; XLA has no others.
                line = simulator.by(collective, algorithm, roles)[0]
                parts.append(price_of_line(collective.value, line, size))
            phases.append(_combine_dimensions(parts))
    return tuple(phases)


def _combine_dimensions(parts: Sequence[InstructionPrice]) -> InstructionPrice:
    """Combines concurrent phases in different dimensions: the slowest, with all busy times.

    Memory is shared, so the whole takes at least the sum of the parts' memory traffic.
    """
    slowest = max(parts, key=lambda part: part.seconds)
    carried = sum_by_name(part.bytes_per_port for part in parts)
    busy = sum_by_name(part.busy_seconds for part in parts)
    busiest = max(busy, key=lambda name: busy[name])
    return InstructionPrice(
        slowest.what,
        slowest.algorithm,
        slowest.size_bytes,
        max(slowest.seconds, slowest.latency_seconds + busy[busiest]),
        slowest.latency_seconds,
        busiest if busy[busiest] > max(dict(slowest.busy_seconds).values()) else slowest.busiest,
        tuple(carried.items()),
        tuple(busy.items()),
        slowest.protocol,
        slowest.members,
    )
