"""The default of the runtime: NCCL's algorithms for one collective, and its choice.

Each algorithm is priced by our simulator, like any step of a program: rings and trees over all
rails, switches that reduce (NVLS), and over several nodes these with trees between (NVLS-tree). An
algorithm runs by the protocol that NCCL's model finds fastest for it, and the model chooses among
the algorithms; the model's own seconds are never shown. A program's step may take any algorithm and
protocol at the same prices, so the program that is the plain collective alone never has a higher
price. Over several dimensions of a torus XLA uses the links of all, in several phases
(``phased_defaults``); that is the runtime's choice there and may beat any program. On a calibrated
system the runtime chooses as its rows show: the fastest algorithm or that of NCCL's model, and the
fastest protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from grammar import Collective, Goal
from hierarchies import Reduction
from hierarchies.calibration import FASTEST
from hierarchies.fabric import Cast, count_members, roles_of
from synth.collective.algorithms.algorithms import Algorithm, Choice, offered_algorithms
from synth.collective.algorithms.nccl_model import (
    MOST_LL_BYTES,
    NVLS,
    NVLS_TREE,
    RING,
    TREE,
    Ranks,
    has_algorithm,
)
from synth.collective.algorithms.nccl_versions import DEFAULT, NcclVersion, stated_by, version_of
from synth.collective.algorithms.protocols import Protocol
from synth.collective.algorithms.runtimes import CollectiveRuntime, runtime_of_system
from synth.collective.price.phased_defaults import price_torus_rings, price_two_levels
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import InstructionPrice, price_of_line, total_seconds
from synth.collective.price.ways import PriceLine, pick_fastest, usable_protocols

DIRECT, XLA = "direct", "xla"
HIERARCHICAL: Final = "hierarchical"
ALGORITHMS = {
    RING: Algorithm.RING,
    TREE: Algorithm.TREE,
    NVLS: Algorithm.IN_NETWORK,
    NVLS_TREE: Algorithm.IN_NETWORK,
    DIRECT: Algorithm.DIRECT,
}


@dataclass(frozen=True)
class RuntimeDefaults:
    """The plain collective over whole reduction groups, by each algorithm of the runtime.

    ``options`` holds those of ring, tree, nvls, nvls_tree (for an all-to-all: direct), hierarchical
    (never chosen: its buffers must be registered) and xla that exist, in this order; where there is
    nothing to do, a ring without steps. ``chosen`` is the choice of ``runtime``; ``later`` holds
    the options and choice of NCCL from ``NVLS_OF_TWO`` on, where no version is stated and its
    choice differs. ``version`` is that of NCCL, whatever the runtime.
    """

    options: Mapping[str, tuple[InstructionPrice, ...]]
    chosen: str
    runtime: CollectiveRuntime = CollectiveRuntime.NCCL
    later: RuntimeDefaults | None = None
    version: NcclVersion = DEFAULT

    @property
    def seconds(self) -> dict[str, float]:
        """The price of each option."""
        return {name: total_seconds(prices) for name, prices in self.options.items()}

    @property
    def baseline(self) -> tuple[InstructionPrice, ...]:
        """The prices of the runtime's choice."""
        return self.options[self.chosen]

    @property
    def protocol(self) -> Protocol:
        """The protocol of the runtime's choice."""
        return self.baseline[0].protocol if self.baseline else Protocol.SIMPLE


def defaults(
    simulator: Simulator,
    reduction: Reduction,
    payload_bytes: float,
    goal: Goal = Goal.ALL_REDUCE,
) -> RuntimeDefaults:
    """Returns the runtime's options for a goal on a placement, and its choice.

    ``payload_bytes`` is the largest buffer of a device, as in ``Goal``. The simulator's choice of
    algorithms is about the steps of programs: here all options are priced, and the runtime decides.
    """
    if not reduction.tree.digits:
        return RuntimeDefaults({RING: ()}, RING)
    roles = roles_of(reduction, tuple(range(len(reduction.tree.digits))), ())
    default = defaults_of_call(simulator, Collective(goal.value), roles, payload_bytes)
    if kernels := price_two_levels(simulator, reduction, payload_bytes, goal):
        default = replace(default, options={**default.options, HIERARCHICAL: kernels})
    if prices := price_torus_rings(simulator, reduction, payload_bytes, goal):
        return replace(default, options={**default.options, XLA: prices}, chosen=XLA)
    return default


def defaults_of_call(
    simulator: Simulator, collective: Collective, roles: Cast, size_bytes: float
) -> RuntimeDefaults:
    """Returns NCCL's options for one call on some groups, and its choice; no torus rings.

    ``size_bytes`` is of the largest buffer of a member.
    """
    goal = Goal(collective.value)
    ranks = Ranks(simulator.system, tuple(count_members(slots) for slots in roles))
    names = available_algorithms(ranks, goal, later=True)
    lines = {name: simulator.by(collective, ALGORITHMS[name], roles) for name in names}
    now = {name: lines[name] for name in available_algorithms(ranks, goal)}
    default = choose_default(ranks, goal, now, size_bytes)
    if len(now) == len(lines) or stated_by(simulator.system) != "default":
        return default
    later = choose_default(ranks, goal, lines, size_bytes)
    return default if later.chosen == default.chosen else replace(default, later=later)


def choose_default(
    ranks: Ranks,
    goal: Goal,
    lines: Mapping[str, Sequence[PriceLine]],
    payload_bytes: float,
) -> RuntimeDefaults:
    """The runtime's choice: a protocol for each algorithm among its lines, then an algorithm.

    The protocol is the fastest by NCCL's model; short sends and receives take LL. On a calibrated
    system the fastest line is chosen.
    """
    measured = ranks.system.calibration
    short = goal.apart and payload_bytes / ranks.ranks <= MOST_LL_BYTES
    picked: dict[str, PriceLine] = {}
    for name, candidates in lines.items():
        if measured:
            picked[name] = pick_fastest(candidates, payload_bytes)
        elif goal.apart:
            fit = (line for line in candidates if short and line.protocol is Protocol.LL)
            # The first candidate is the line of the Simple protocol.
            picked[name] = next(fit, candidates[0])
        else:
            modelled = [ranks.seconds(goal, name, c.protocol, payload_bytes) for c in candidates]
            picked[name] = candidates[modelled.index(min(modelled))]
    chosen, least = next(iter(picked)), inf
    for name, line in picked.items() if len(picked) > 1 else ():
        if measured and measured.runtime == FASTEST:
            seconds = line.seconds(payload_bytes)
        elif measured:
            seconds = quickest_seconds(ranks, goal, name, payload_bytes)
        else:
            seconds = ranks.seconds(goal, name, line.protocol, payload_bytes)
        if seconds < least:
            chosen, least = name, seconds
    options = {
        name: (price_of_line(goal.value, line, payload_bytes),) for name, line in picked.items()
    }
    runtime, version = runtime_of_system(ranks.system), version_of(ranks.system)
    return RuntimeDefaults(options, chosen, runtime, version=version)


def quickest_seconds(ranks: Ranks, goal: Goal, name: str, payload_bytes: float) -> float:
    """NCCL's modelled seconds of an algorithm by the protocol that the model finds fastest.

    Considers all protocols of the links, even where one was forced: for measured rows with a forced
    protocol this names the faster algorithm more often (on L40S 245 of 272 pairs right, else 233).
    """
    known = usable_protocols(ALGORITHMS[name], (ranks.system.links[level] for level in ranks.spans))
    least = inf
    for protocol in known:
        least = min(least, ranks.seconds(goal, name, protocol, payload_bytes))
    return least


def available_algorithms(ranks: Ranks, goal: Goal, *, later: bool = False) -> Iterator[str]:
    """Yields the available algorithms by NCCL's names; the first of those that tie is chosen.

    ``later``: those of NCCL from ``NVLS_OF_TWO`` on, whatever the version of the system.
    """
    if goal.apart:
        known = offered_algorithms(
            Collective(goal.value), ranks.counts, ranks.system.links, Choice.AUTO
        )
        yield DIRECT if Algorithm.DIRECT in known else RING
        return
    yield RING
    links = [ranks.system.links[level] for level in ranks.spans]
    if has_algorithm(Collective(goal.value), Algorithm.TREE, links):
        yield TREE
    if not goal.rooted and (later or ranks.multicasts):
        if ranks.reduces(ranks.spans):
            yield NVLS
        elif goal is Goal.ALL_REDUCE and ranks.inside and ranks.reduces(ranks.inside):
            yield NVLS_TREE
