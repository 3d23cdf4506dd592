"""A finalist looked at operation by operation: rows chosen together, substitutions tried in turn.

What a recipe cannot say, and a plan in full can. An answer only where the clock tells it from the
finalist; else it is said that nothing was found, and how near to the best the sums are proved.
"""

from __future__ import annotations

from dataclasses import dataclass

from grammar.tensors.operations import Step
from hierarchies import InputError
from hierarchies.devices import Device
from hierarchies.units import volume
from synth.search.space import Budget, Infeasible, Price
from synth.train.planner.finalists import Finalist, known_of, on_clock, rooflines_of
from synth.train.planner.links import Links
from synth.train.planner.operations.rows import ByRows, by_rows
from synth.train.planner.operations.substituting import Substituted, rounded, substituted
from synth.train.plans import Plan, plan_of, plan_text, prepared
from synth.train.profiles import Profile
from synth.train.resharding.seconds import Answers
from synth.train.simulation.sources import Network

TOLD = 0.005
"""What is faster by less is not told apart."""


@dataclass(frozen=True)
class Finer:
    """Rows by sums, or why there are none; and what substitutions made of the finalist.

    ``rounded``: casts that rows have sums on the other side of, which then round otherwise.
    ``text``: the fastest plan of these that fits, in full, if it is told from the finalist.
    """

    rows: ByRows | None
    because: str
    rounded: int
    substituted: Substituted
    seconds: float
    text: str


def finer(
    step: Step,
    one: Finalist,
    answers: Answers,
    links: Links,
    device: Device,
    budget: Budget,
    profile: Profile | None = None,
) -> Finer:
    """A finalist operation by operation; the budget is that of substitutions."""
    network = Network(answers, one.placement)

    def seconds(plan: Plan) -> Price:
        computing, measured = rooflines_of(step, plan, device), known_of(step, plan, profile)
        found = on_clock(step, plan, computing, network, measured)
        excess = found.ranks[found.fullest].moment.size_bytes - device.memory_bytes
        if excess > 0:
            return Infeasible(f"{volume(excess)} of memory too much", excess)
        return found.seconds

    rows, because = None, ""
    try:
        rows = by_rows(step, one, answers, links, device, profile)
    except InputError as error:
        because = error.problem
    plan = plan_of(step, one.candidate.recipe)
    tried = substituted(step, plan, seconds, budget)
    found = [(tried.seconds, tried.plan)]
    if rows is not None and rows.size_bytes <= device.memory_bytes:
        found.append((rows.found.seconds, rows.chosen.plan))
    otherwise = 0
    if rows is not None:
        otherwise = rounded(prepared(step, plan).graph, plan.cuts, rows.chosen.plan.cuts)
    best, plan = min(found, key=lambda each: each[0])
    told = best < (1 - TOLD) * one.found.seconds
    return Finer(rows, because, otherwise, tried, best, plan_text(step, plan) if told else "")
