"""What XLA does by itself over several dimensions of a torus: rings in all of them at once.

The payload is cut into as many parts as there are dimensions. Each is reduced and scattered by the
rings of one dimension after the other and gathered back in the reverse order, and each begins with
another dimension, so that the links of all are busy all the time: an all-gather over N axes has N
times the bandwidth of one (the scaling book, jax-ml.github.io/scaling-book/sharding). What all send
to all goes along one dimension after the other too, in each straight and by the shorter way; the
book prices one ring, and that several follow each other is ours. XLA has no reduction to one device
and no broadcast of its own on a TPU: for these there is nothing to go by but chains. The order in
which dimensions follow each other is the better one of the two ways round, so placements that are
each other's mirror image have the same default.
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
"""How many members a group has along a dimension, and the tree's digits there."""


def price_torus_rings(
    simulator: Simulator, reduction: Reduction, payload_bytes: float, goal: Goal
) -> tuple[InstructionPrice, ...]:
    """The phases by rings in all dimensions; none where groups do not span several of a torus."""
    system = simulator.system
    dimensions = _dimensions(reduction)
    tori = all(system.links[level].domain is Domain.TORUS for level in dimensions)
    if len(dimensions) < 2 or not tori or goal not in _STAGES:
        return ()
    around = list(dimensions.values())
    orders = (around, around[::-1])
    return min((_phases(simulator, reduction, payload_bytes, goal, one) for one in orders),
               key=total_seconds)  # fmt: skip


def _dimensions(reduction: Reduction) -> dict[int, _Dimension]:
    """The levels that groups span."""
    found: dict[int, _Dimension] = {}
    for level, parts in enumerate(reduction.parts):
        digits = tuple(dict.fromkeys(part.digit for part in parts if part.digit is not None))
        if digits:
            found[level] = (count_members(roles_of(reduction, digits, ())[level]), digits)
    return found


def _phases(
    simulator: Simulator,
    reduction: Reduction,
    payload_bytes: float,
    goal: Goal,
    around: Sequence[_Dimension],
) -> tuple[InstructionPrice, ...]:
    """One phase a stage: each part is in another dimension, and the slowest is waited for."""
    many, found = len(around), []
    for collective in _STAGES[goal]:
        stages = range(many)[::-1] if collective is _GATHER else range(many)
        for stage in stages:
            parts = []
            for first in range(many):
                order = [around[(first + turn) % many] for turn in range(many)]
                before = [] if collective.apart else order[:stage]
                size = payload_bytes / many / prod(count for count, _ in before)
                roles = roles_of(reduction, order[stage][1], ())
                algorithm = Algorithm.DIRECT if collective.apart else Algorithm.RING
                line = simulator.by(collective, algorithm, roles)[0]
                parts.append(price_of_line(collective.value, line, size))
            found.append(_combine_dimensions(parts))
    return tuple(found)


def _combine_dimensions(parts: Sequence[InstructionPrice]) -> InstructionPrice:
    """Phases in different dimensions at once, as the slowest that keeps the links of all busy.

    Memory is the same for all: what they do to it together takes at least so long.
    """
    slowest = max(parts, key=lambda one: one.seconds)
    carried = sum_by_name(one.bytes_per_port for one in parts)
    busy = sum_by_name(one.busy_seconds for one in parts)
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
