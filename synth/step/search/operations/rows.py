"""Of a plan's axes on its placement: rows of single operations that may be better than its recipe.

Any factor of any operation may be cut (samples, parameters, attributes), which no recipe says. All
of them are chosen together by ``choice``, whose sums charge an operation what its primitive takes
in the recipe's own sections, where most are done together, and a redistribution what its requests
take on the placement. Nothing overlaps in these sums and memory is no limit, so the clock decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from grammar.tensors.operations import Operation, Step, Value
from grammar.tensors.sharding import Sharding, Type, part_shape
from hierarchies import InputError
from hierarchies.devices import Device
from synth.collective.ranking.oracle import ProgramPrices
from synth.compute import Estimate, Section
from synth.compute.roofline import estimate_operation
from synth.search.space import Budget, Infeasible, NoneFound
from synth.step.profiles import Profile
from synth.step.redistribution import find_path, pad_move
from synth.step.redistribution.requests import GOALS
from synth.step.redistribution.seconds import NetworkPrices
from synth.step.rows import PlanSolution, Prices, choose, seconds_of
from synth.step.search.finalists import (
    Finalist,
    count_sections,
    known_of,
    rooflines_of,
    simulate_plan,
)
from synth.step.search.links import Links
from synth.step.sharding import plan_of
from synth.step.sharding.plan import TIME
from synth.step.simulation import StepPrediction
from synth.step.simulation.sources import Rooflines

GAP = 1e-3
"""What is left open at most of the sums, where it can be closed."""

ROUNDS = 200


@dataclass(frozen=True)
class RowRefinement:
    """Rows of single operations: what is proved of their sums, and the clock's word.

    ``recipe_seconds`` are the recipe's sums.
    """

    chosen: PlanSolution
    recipe_seconds: float
    found: StepPrediction

    @property
    def size_bytes(self) -> int:
        """Of the device, at most."""
        return self.found.ranks[self.found.fullest].moment.size_bytes


def refine_rows(
    step: Step,
    one: Finalist,
    answers: ProgramPrices,
    links: Links,
    device: Device,
    profile: Profile | None = None,
) -> RowRefinement:
    """The best rows by sums over the axes of a plan, simulated where it lies.

    Microbatches, stages and their order stay. Raises InputError where no rows can be.
    """
    plan = plan_of(step, one.candidate.recipe)
    network = NetworkPrices(answers, one.placement)
    shares = _Shares(rooflines_of(step, plan, device), device)
    found = simulate_plan(step, plan, shares, network, known_of(step, plan, profile))
    shares.weigh(found, plan.microbatches)
    sizes = {axis: size for axis, size in plan.sizes.items() if axis != TIME}
    sends = _PathSeconds(sizes, one.candidate.row_of, links, network)
    prices = Prices(shares.computing, sends.seconds, network.handing)
    chosen = choose(step, plan, prices, Budget(ROUNDS), gap=GAP)
    if isinstance(chosen, Infeasible | NoneFound):
        raise InputError("no rows can be for all operations", where=step.name)
    own = chosen.plan
    computing, measured = rooflines_of(step, own, device), known_of(step, own, profile)
    found = simulate_plan(step, own, computing, network, measured)
    return RowRefinement(chosen, seconds_of(step, plan, prices).all, found)


class _Shares:
    """Sections as rooflines have them; and what operations take in them, of what they take alone.

    By primitive: most of what an elementwise operation takes alone is reading and writing what
    stays on the chip when it is done with others. A section counts as often as it is done in a
    step.
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
        """By the tasks of all stages in a step whose sections were asked for."""
        for seconds, times in count_sections(run, microbatches, self._sections).items():
            operations = self._sections[seconds].operations
            alone = [(one.primitive, self._estimated(one)) for one in operations]
            all_ = sum(each for _, each in alone)
            for primitive, each in alone:
                self._alone[primitive] += times * each
                self._inside[primitive] += times * each * seconds / all_ if all_ else 0.0

    def _estimated(self, one: Operation) -> float:
        return estimate_operation(one, self._device).seconds

    def computing(self, one: Operation) -> float:
        """Seconds of an operation on a device's part; who reads a constant makes it on the way."""
        if not any(isinstance(operand, Value) for operand in one.operands):
            return 0.0
        alone, inside = self._alone, self._inside
        share = sum(inside.values()) / (sum(alone.values()) or 1.0)
        if alone.get(one.primitive):
            share = inside[one.primitive] / alone[one.primitive]
        return share * self._estimated(one)


@dataclass(frozen=True)
class _PathSeconds:
    """Seconds of redistributions by the path of the least bytes, from what collectives take."""

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
                ends = (part_shape(block, one, self.sizes) for one in both)
                size = max(Type(value.dtype, shape).bytes for shape in ends)
                total += self.links.seconds(GOALS[move.how], row, size)
            elif over and move.least(self.sizes):
                total += self.network.sending(value, move.before, move.after)
        return total
