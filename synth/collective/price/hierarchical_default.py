"""NCCL's own kernels of two levels: inside nodes and between them, in one call.

From ``nccl_versions`` on they exist for some collectives, but only for buffers that are registered
in symmetric windows: a plain call does not use them, so they are an option and no default. A
reduce-scatter goes inside the node first and then along the rails; an all-gather and an all-to-all
along the rails first (NVIDIA/nccl v2.30.7-1, src/sym_kernels.cc and src/ce_coll.cc). The price is
that of the program of these two calls, each by the runtime's fastest algorithm, without the
copies between them and in one segment: the kernels overlap chunks of both, so they may be faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from grammar import Collective, Goal
from hierarchies import Reduction
from hierarchies.fabric import count_members, roles_of
from synth.collective.algorithms.algorithms import innermost_network_level
from synth.collective.algorithms.nccl_versions import hierarchical_need, version_of
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import InstructionPrice


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
    return tuple(_phases(simulator, reduction, payload_bytes, goal, inside, between))


def _phases(
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
