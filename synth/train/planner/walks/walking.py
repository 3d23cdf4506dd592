"""Plans that walks meet, where all there are would be too many to be looked at."""

from __future__ import annotations

from dataclasses import replace

from synth.plan.request import Watcher
from synth.search.annealing import anneal
from synth.search.space import Budget, Infeasible, Observer
from synth.train.planner.links import Candidate
from synth.train.planner.walks.space import PlanSpace

COOLING = 10.0
"""What is dearer by a tenth of the best plan of the walks before is gone to in one case of e."""

WALKS = 8
"""Each from another plan."""

AGAIN = 8
"""How often a walk comes to plans that it knows, at most, for each that it may price."""


class _Watched(Observer):
    """A walk's observer, for who watches plans; with those before it may price ``most`` plans."""

    def __init__(self, space: PlanSpace, most: int, of: int, watcher: Watcher) -> None:
        self.space, self.most, self.of, self.watcher = space, most, of, watcher

    def go_on(self) -> bool:
        return len(self.space.prices) < self.most and self.watcher.go_on()

    def priced(self, states: int, best: float | None) -> None:
        self.watcher.placed(min(len(self.space.prices), self.of), self.of)


def walked(space: PlanSpace, budget: Budget, watcher: Watcher) -> list[Candidate]:
    """All plans that annealing meets, one at least; its budget counts plans, each once.

    Raises InputError where there are none.
    """
    for walk in range(WALKS):
        most = budget.evaluations * (walk + 1) // WALKS
        steps = AGAIN * max(1, most - len(space.prices))
        seeded = Budget(steps, WALKS * budget.seed + walk)
        observer = _Watched(space, most, budget.evaluations, watcher)
        if not space.prices or observer.go_on():
            begun = replace(space, start=walk)
            met = (one for one in space.prices.values() if not isinstance(one, Infeasible))
            alpha = COOLING / min(met, default=space.least_seconds)
            anneal(begun, alpha, seeded, observer, patience=max(1, steps // 4))
    return list(space.prices)
