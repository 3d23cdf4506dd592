"""Finds the best cuts of a step over some axes, with a proven gap."""

from __future__ import annotations

from dataclasses import dataclass, replace

from grammar.tensors.operations import Step
from synth.search.elimination import minimize
from synth.search.message_passing import CLOSED, ROUNDS
from synth.search.space import BestFound, Infeasible, NoneFound, Optimal
from synth.step.rows.prices import Prices
from synth.step.rows.tables import costs_of
from synth.step.sharding import Plan


@dataclass(frozen=True)
class PlanSolution:
    """A plan that ``apply`` accepts, and the result of the search: its seconds, and its gap.

    The seconds count a redistribution for each of its readers, so they are at least those of the
    plan (``seconds_of``), which redistributes a value once for all readers with equal shardings.
    """

    plan: Plan
    found: Optimal[tuple[int, ...]] | BestFound[tuple[int, ...]]

    def __str__(self) -> str:
        """Spells the result: ``1.25 ms, gap 0.003 %``."""
        return f"{1e3 * self.found.seconds:.4g} ms, gap {100 * self.found.gap:.3g} %"


def choose(
    step: Step,
    plan: Plan,
    prices: Prices,
    rounds: int = ROUNDS,
    *,
    gap: float = CLOSED,
) -> PlanSolution | Infeasible | NoneFound:
    """Returns the fastest plan with the axes, microbatches and stages of ``plan``.

    Of its cuts, only the rows along time are kept, if it has microbatches. Its buckets, which name
    its redistributions, are dropped. The search stops at a relative ``gap``, if it reaches it.
    Raises InputError for an operation without known factors.
    """
    tables = costs_of(step, plan, prices)
    match minimize(tables.costs, rounds, gap=gap):
        case Optimal() | BestFound() as found:
            return PlanSolution(replace(plan, cuts=tables.cuts(found.state), buckets=()), found)
        case no_solution:
            return no_solution
