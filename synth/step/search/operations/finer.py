"""A finalist looked at operation by operation: rows chosen together, substitutions tried in turn.

What a recipe cannot say, and a plan in full can. An answer only where the clock tells it from the
finalist; else it is said that nothing was found, and how near to the best the sums are proved.
"""

from __future__ import annotations

from dataclasses import dataclass

from grammar.tensors.operations import Step
from hierarchies import InputError
from hierarchies.devices import Device
from hierarchies.units import format_bytes
from synth.collective.ranking.oracle import ProgramPrices
from synth.search.space import Budget, Infeasible, Price
from synth.step.profiles import Profile
from synth.step.redistribution.seconds import NetworkPrices
from synth.step.search.finalists import Finalist, known_of, rooflines_of, simulate_plan
from synth.step.search.links import Links
from synth.step.search.operations.rows import RowRefinement, refine_rows
from synth.step.search.operations.substituting import (
    SubstitutionResult,
    count_rounded,
    search_substitutions,
)
from synth.step.sharding import Plan, plan_of, plan_text, prepare_step

RESOLUTION = 0.005
"""What is faster by less is not told apart."""


@dataclass(frozen=True)
class Refinement:
    """Rows by sums, or why there are none; and what substitutions made of the finalist.

    ``count_rounded``: casts that rows have sums on the other side of, which then round otherwise.
    ``text``: the fastest plan of these that fits, in full, if it is told from the finalist.
    """

    rows: RowRefinement | None
    because: str
    rounded: int
    substituted: SubstitutionResult
    seconds: float
    text: str


def refine(
    step: Step,
    one: Finalist,
    answers: ProgramPrices,
    links: Links,
    device: Device,
    budget: Budget,
    profile: Profile | None = None,
) -> Refinement:
    """A finalist operation by operation; the budget is that of substitutions."""
    network = NetworkPrices(answers, one.placement)

    def seconds(plan: Plan) -> Price:
        computing, measured = rooflines_of(step, plan, device), known_of(step, plan, profile)
        found = simulate_plan(step, plan, computing, network, measured)
        excess = found.ranks[found.fullest].moment.size_bytes - device.memory_bytes
        if excess > 0:
            return Infeasible(f"{format_bytes(excess)} of memory too much", excess)
        return found.seconds

    rows, because = None, ""
    try:
        rows = refine_rows(step, one, answers, links, device, profile)
    except InputError as error:
        because = error.problem
    plan = plan_of(step, one.candidate.recipe)
    tried = search_substitutions(step, plan, seconds, budget)
    found = [(tried.seconds, tried.plan)]
    if rows is not None and rows.size_bytes <= device.memory_bytes:
        found.append((rows.found.seconds, rows.chosen.plan))
    otherwise = 0
    if rows is not None:
        otherwise = count_rounded(prepare_step(step, plan).graph, plan.cuts, rows.chosen.plan.cuts)
    best, plan = min(found, key=lambda each: each[0])
    told = best < (1 - RESOLUTION) * one.found.seconds
    return Refinement(rows, because, otherwise, tried, best, plan_text(step, plan) if told else "")
