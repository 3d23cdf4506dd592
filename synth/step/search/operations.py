"""Chooses plans operation by operation, for models whose weights recipes cannot shard.

Recipes shard the weights of transformers; of other models they shard only the batch. For these, the
rows of all operations are chosen together along the axes of a simulated recipe
(``synth.step.rows``); its microbatches, its stages and their order do not change. The price of an
operation is its share of the sections in which it is computed, and the price of a redistribution
that of its collectives on the placement. These sums ignore overlap and memory limits, so the
simulator decides. The casts of partial sums stay as in the recipe, because a sum on the other side
of a cast is rounded differently.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from grammar.tensors.operations import Operation, Step, Value
from grammar.tensors.sharding import Sharding, Type, part_shape
from hierarchies import InputError
from hierarchies.devices import Device
from synth.collective.ranking.oracle import ProgramPrices
from synth.compute import Estimate, Section
from synth.compute.roofline import estimate_operation
from synth.search.space import Infeasible, NoneFound
from synth.step.profiles import Profile
from synth.step.redistribution import find_path, pad_move
from synth.step.redistribution.requests import GOALS
from synth.step.redistribution.seconds import NetworkPrices
from synth.step.rows import Prices, choose, seconds_of
from synth.step.search.finalists import (
    ChosenRows,
    Finalist,
    count_sections,
    known_of,
    rooflines_of,
    simulate_candidate,
    simulate_plan,
)
from synth.step.search.links import Links
from synth.step.search.pins import AXES, Pins
from synth.step.sharding import plan_of
from synth.step.sharding.plan import TIME
from synth.step.simulation import StepPrediction
from synth.step.simulation.sources import Rooflines

GAP = 1e-3
"""The relative gap to the best sum at which the search ends, if it reaches that gap."""

ROUNDS = 200

KEPT_PINS = (*AXES, "microbatches", "schedule", "chunks")
"""The decisions of a recipe that a choice of rows does not change."""


def can_choose_rows(finalist: Finalist, pins: Pins) -> bool:
    """Whether rows can be chosen for a plan: it has no stages, and the pins allow other rows."""
    return finalist.candidate.ranks == 1 and set(pins.values) <= set(KEPT_PINS)


def choose_rows(
    step: Step,
    finalist: Finalist,
    answers: ProgramPrices,
    links: Links,
    device: Device,
    profile: Profile | None = None,
) -> Finalist:
    """Simulates the rows with the best sum of seconds along the axes of a simulated recipe.

    Raises InputError if an operation has no known rules.
    """
    candidate = finalist.candidate.alone
    plan = plan_of(step, candidate.recipe)
    network = NetworkPrices(answers, finalist.placement)
    shares = _SectionShares(rooflines_of(step, plan, device), device)
    found = simulate_plan(step, plan, shares, network, known_of(step, plan, profile))
    shares.weigh(found, plan.microbatches)
    sizes = {axis: size for axis, size in plan.sizes.items() if axis != TIME}
    sends = _PathSeconds(sizes, candidate.row_of, links, network)
    prices = Prices(shares.computing, sends.seconds, network.handing)
    chosen = choose(step, plan, prices, ROUNDS, gap=GAP)
    if isinstance(chosen, Infeasible | NoneFound):
        raise InputError("no choice of rows covers all operations", where=step.name)
    simulated = simulate_candidate(step, candidate, answers, device, profile, chosen.plan)
    rows = ChosenRows(chosen.found.seconds, chosen.found.gap, seconds_of(step, plan, prices).all)
    return replace(simulated, rows=rows)


class _SectionShares:
    """Seconds of sections, and the ratio of an operation's seconds in a section to those alone.

    An elementwise operation alone spends most of its time on reads and writes of values that stay
    on the chip in a section with other operations. So ratios are means by primitive. A section is
    weighted by how often it is computed in a step.
    """

    def __init__(self, rooflines: Rooflines, device: Device) -> None:
        self._rooflines, self._device = rooflines, device
        self._sections: dict[float, Section] = {}
        self._alone: defaultdict[str, float] = defaultdict(float)
        self._inside: defaultdict[str, float] = defaultdict(float)

    def __call__(self, section: Section) -> Estimate:
        found = self._rooflines(section)
        self._sections[found.seconds] = section
        return found

    def weigh(self, run: StepPrediction, microbatches: int) -> None:
        """Adds the tasks of a step to the means."""
        for seconds, times in count_sections(run, microbatches, self._sections).items():
            operations = self._sections[seconds].operations
            alone = [(operation.primitive, self._estimate(operation)) for operation in operations]
            total = sum(own for _, own in alone)
            for primitive, own in alone:
                self._alone[primitive] += times * own
                self._inside[primitive] += times * own * seconds / total if total else 0.0

    def _estimate(self, operation: Operation) -> float:
        seconds = estimate_operation(operation, self._device).seconds
        return seconds * self._device.compute_factor

    def computing(self, operation: Operation) -> float:
        """Returns the seconds of an operation on a device's part.

        Operations without operands, which make constants, are free: their readers compute them.
        """
        if not any(isinstance(operand, Value) for operand in operation.operands):
            return 0.0
        alone, inside = self._alone, self._inside
        share = sum(inside.values()) / (sum(alone.values()) or 1.0)
        if alone.get(operation.primitive):
            share = inside[operation.primitive] / alone[operation.primitive]
        return share * self._estimate(operation)


@dataclass(frozen=True)
class _PathSeconds:
    """Seconds of redistributions along the path of the fewest bytes, as the sum of collectives."""

    sizes: Mapping[str, int]
    rows: Mapping[str, tuple[int, ...]]
    links: Links
    network: NetworkPrices

    def seconds(self, value: Type, source: Sharding, target: Sharding) -> float:
        total = 0.0
        for move in find_path(value, source, target, self.sizes).moves:
            over = [self.rows[axis] for axis in move.axes if axis in self.rows]
            if over and move.how in GOALS:
                row = tuple(map(prod, zip(*over, strict=True)))
                block, inside = pad_move(move, value, self.sizes)
                both = inside.before, inside.after
                ends = (part_shape(block, sharding, self.sizes) for sharding in both)
                size = max(Type(value.dtype, shape).bytes for shape in ends)
                total += self.links.seconds(GOALS[move.how], row, size)
            elif over and move.least(self.sizes):
                total += self.network.sending(value, move.before, move.after)
        return total
