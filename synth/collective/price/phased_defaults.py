"""Calls of a runtime that go in several phases: XLA's torus rings, and NCCL's two-level kernels.

The default of XLA over several dimensions of a torus: rings in all of them at once.

The payload is cut into one part per dimension. Each part is reduce-scattered by the rings of one
dimension after the other and gathered back in the reverse order, and each part begins with another
dimension, so that the links of all are always busy: an all-gather over N axes has N times the
bandwidth of one (the scaling book, jax-ml.github.io/scaling-book/sharding). An all-to-all also goes
along one dimension after the other, each message straight and by the shorter way; the book prices
one ring, and running several in sequence is our extension. XLA has no reduce to one device and no
broadcast of its own on a TPU: these have only chains as defaults. The better of the two orders of
dimensions counts, so placements that mirror each other have the same default.

Slices are joined by the data center network, which chips reach through their hosts: XLA hands each
chip's buffer to MegaScale for its peers in other slices, as a transfer of its own with the bytes of
a ring (github.com/elbertwang/google_support, commit db27ff9, dcn/v6e/ALGORITHM.md: dumps and
counters of NICs at 2 to 10 slices). So no ring goes through chips and slices. How XLA orders the
two where a group spans both is not published: taken here is the order that sends the fewest bytes
between slices, with pieces of what the chips of a slice share.

NCCL's own kernels of two levels: inside nodes and between them, in one call.

From ``nccl_versions`` on they exist for some collectives, but only for buffers that are registered
in symmetric windows: a plain call does not use them, so they are an option and no default. A
reduce-scatter goes inside the node first and then along the rails; an all-gather and an all-to-all
along the rails first (NVIDIA/nccl v2.30.7-1, src/sym_kernels.cc and src/ce_coll.cc). The price is
that of the program of these two calls, each by the runtime's fastest algorithm, without the
copies between them and in one segment: the kernels overlap chunks of both, so they may be faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from grammar import Collective, Goal
from hierarchies import Domain, Reduction
from hierarchies.fabric import count_members, roles_of
from synth.collective.algorithms.algorithms import Algorithm, innermost_network_level
from synth.collective.algorithms.nccl_versions import hierarchical_need, version_of
from synth.collective.algorithms.runtimes import CollectiveRuntime, runtime_of_system
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
    """The phases of rings in all dimensions, and of transfers between slices.

    Empty unless groups span several dimensions of a torus, or chips and slices of an XLA machine.
    """
    system = simulator.system
    dimensions = _dimensions(reduction)
    tori = [level for level in dimensions if system.links[level].domain is Domain.TORUS]
    slices = [level for level in dimensions if level not in tori]
    if len(dimensions) < 2 or not tori or goal not in _STAGES:
        return ()
    between = {digit for level in slices for digit in dimensions[level][1]}
    inside = [dimensions[level] for level in tori]
    if slices and (
        runtime_of_system(system) is not CollectiveRuntime.XLA
        or max(slices) > min(tori)
        or between & {digit for _, digits in inside for digit in digits}
    ):
        return ()
    found = []
    for order in (inside, inside[::-1]):
        first, last = _phases(simulator, reduction, payload_bytes, goal, order)
        far = []
        if slices:
            share = payload_bytes if goal.apart else payload_bytes / prod(m for m, _ in inside)
            far = [_transfer(simulator, reduction, share, goal, between)]
        found.append((*first, *far, *last))
    return min(found, key=total_seconds)


def _transfer(
    simulator: Simulator, reduction: Reduction, size: float, goal: Goal, digits: set[int]
) -> InstructionPrice:
    """The collective of each chip's pieces with its peers in other slices, all chips at once."""
    roles = roles_of(reduction, tuple(sorted(digits)), ())
    algorithm = Algorithm.DIRECT if goal.apart else Algorithm.RING
    line = simulator.by(Collective(goal.value), algorithm, roles)[0]
    return price_of_line(goal.value, line, size)


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
) -> tuple[list[InstructionPrice], list[InstructionPrice]]:
    """One phase per stage: each part is in another dimension, and the slowest is waited for.

    Apart: those before what goes between slices, and those after, which gather or exchange.
    """
    count = len(dimensions)
    before: list[InstructionPrice] = []
    after: list[InstructionPrice] = []
    for collective in _STAGES[goal]:
        phases = before if collective is _SCATTER else after
        stages = range(count)[::-1] if collective is _GATHER else range(count)
        for stage in stages:
            parts = []
            for first in range(count):
                order = [dimensions[(first + turn) % count] for turn in range(count)]
                done = [] if collective.apart else order[:stage]
                size = payload_bytes / count / prod(members for members, _ in done)
                roles = roles_of(reduction, order[stage][1], ())
                algorithm = Algorithm.DIRECT if collective.apart else Algorithm.RING
                # The first line is that of the Simple protocol; XLA has no others.
                line = simulator.by(collective, algorithm, roles)[0]
                parts.append(price_of_line(collective.value, line, size))
            phases.append(_combine_dimensions(parts))
    return before, after


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


def price_two_levels(
    simulator: Simulator, reduction: Reduction, payload_bytes: float, goal: Goal
) -> tuple[InstructionPrice, ...]:
    """The two phases; empty where the version has no such kernels, or groups span one level only.

    ``payload_bytes`` is the largest buffer of a device.
    """
    if not hierarchical_need(goal, version_of(simulator.system)):
        return ()
    network = innermost_network_level(simulator.system)
    inside, between = set[int](), set[int]()
    for level, parts in enumerate(reduction.parts):
        digits = {part.digit for part in parts if part.digit is not None}
        (between if level <= network else inside).update(digits)
    # A digit on both sides of the network cannot be split into the two calls.
    if not inside or not between or inside & between:
        return ()
    return tuple(_two_phases(simulator, reduction, payload_bytes, goal, inside, between))


def _two_phases(
    simulator: Simulator,
    reduction: Reduction,
    payload_bytes: float,
    goal: Goal,
    inside: set[int],
    between: set[int],
) -> Iterator[InstructionPrice]:
    near = roles_of(reduction, tuple(sorted(inside)), ())
    far = roles_of(reduction, tuple(sorted(between)), ())
    per_node = prod(count_members(slots) for slots in near)
    rail_bytes = payload_bytes if goal.apart else payload_bytes / per_node
    calls = [(far, rail_bytes), (near, payload_bytes)]
    for roles, size in reversed(calls) if goal is Goal.REDUCE_SCATTER else calls:
        yield simulator.of_runtimes.exchange(Collective(goal.value), roles, size)
