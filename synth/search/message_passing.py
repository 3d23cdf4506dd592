"""Pairwise costs by tree-reweighted message passing, whose lower bound proves how good it is.

TRW-S (Kolmogorov, "Convergent tree-reweighted message passing for energy minimization", 2006):
messages run forwards and backwards along one order of the variables. A message moves cost from one
end of an edge to the other, which changes no choice's total; what every choice then owes at least
adds up to the bound. It never falls, and where it meets the best choice that was read off, that is
proved the best. Exact on trees; on other graphs a gap may stay, and is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter

import numpy as np

from synth.search.pairwise import NO_CHOICE, Costs, Pairwise
from synth.search.space import BestFound, Budget, Found, Infeasible, NoneFound, Observer, Optimal

CLOSED = 1e-9
"""Of the cost: sums of floating-point numbers tell no smaller gap."""

READ = 5
"""After so many rounds a choice is read off what was heard: that takes about as long as a round."""

_STILL = 1e-7
"""Of the cost: rounds that raise the bound by less are at their end."""


def pass_messages(
    costs: Pairwise,
    budget: Budget | None = None,
    observer: Observer | None = None,
    *,
    gap: float = CLOSED,
    patience: int = 20,
) -> Found[tuple[int, ...]]:
    """The best choice found, with its bound, after at most ``budget.evaluations`` rounds.

    It ends when the gap is no more than ``gap``, or when for ``patience`` rounds neither the bound
    rose nor anything better was found.
    """
    budget, observer = budget or Budget(1000), observer or Observer()
    allowed = costs.without_dead()
    if isinstance(allowed, Infeasible):
        return allowed
    finite = _FiniteCosts(allowed)
    passing = _MessageRun(finite.costs)
    best: tuple[tuple[int, ...], float] | None = None
    bound, waited = 0.0, 0
    for done in range(budget.evaluations):
        if done and not observer.go_on():
            break
        passing.forward()
        risen = max(bound, passing.backward())
        better = False
        if done % READ == 0 or done + 1 == budget.evaluations:
            cheapest = min(((one, costs.cost(one)) for one in passing.read()), key=itemgetter(1))
            better = best is None or cheapest[1] < best[1]
            best = cheapest if better else best
        moved = better or risen - bound > _STILL * risen
        bound, waited = risen, 0 if moved else waited + 1
        observer.priced(done + 1, None if best is None else best[1])
        if best is not None and best[1] - bound <= gap * bound:
            break
        if waited >= patience:
            break
    if best is None:
        return NO_CHOICE if bound > finite.possible else NoneFound()
    if best[1] - bound <= CLOSED * best[1]:
        return Optimal(*best)
    return BestFound(*best, bound)


class _FiniteCosts:
    """The same costs with a large number for what cannot be: more than all that can be together.

    What can be costs less than ``possible``, what cannot more.
    """

    def __init__(self, costs: Pairwise) -> None:
        tables = (*costs.alone, *costs.pairs.values())
        most = sum(float(one[np.isfinite(one)].max(initial=0.0)) for one in tables)
        barred = 2 * most or 1.0
        self.possible = (most + barred) / 2
        alone = [np.where(np.isinf(one), barred, one) for one in costs.alone]
        pairs = {edge: np.where(np.isinf(one), barred, one) for edge, one in costs.pairs.items()}
        self.costs = Pairwise(alone, pairs)


class _MessageRun:
    """Messages of one run; ``into[v, w]`` is what w hears from v, an entry for each state of w."""

    def __init__(self, costs: Pairwise) -> None:
        self.costs = costs
        self.order = range(len(costs.alone))
        self.before = [[w for w in near if w < v] for v, near in enumerate(costs.neighbours)]
        self.after = [[w for w in near if w > v] for v, near in enumerate(costs.neighbours)]
        self.weight = [
            1 / max(len(one), len(other), 1)
            for one, other in zip(self.before, self.after, strict=True)
        ]
        # one contiguous table for each direction: rows are the states of who speaks
        self.tables = {
            (v, w): np.ascontiguousarray(costs.table(v, w))
            for v, near in enumerate(costs.neighbours)
            for w in near
        }
        self.into: dict[tuple[int, int], Costs] = {
            (v, w): np.zeros(len(costs.alone[w])) for v, w in self.tables
        }

    def _heard(self, variable: int, *several: Sequence[int]) -> Costs:
        total = self.costs.alone[variable].copy()
        for near in several:
            for one in near:
                total += self.into[one, variable]
        return total

    def _speak(self, share: Costs, speaker: int, listener: int) -> float:
        """A new message; what all states of the listener owe alike is taken out of it.

        ``share`` is each listener's of what the speaker heard. (Methods of arrays take longer to
        begin than ``reduce`` to end.)
        """
        own = share - self.into[listener, speaker]
        message = np.minimum.reduce(self.tables[speaker, listener] + own[:, None], axis=0)
        least = float(np.minimum.reduce(message))
        message -= least
        self.into[speaker, listener] = message
        return least

    def forward(self) -> None:
        """One pass in order."""
        for variable in self.order:
            before, after = self.before[variable], self.after[variable]
            share = self.weight[variable] * self._heard(variable, before, after)
            for one in after:
                self._speak(share, variable, one)

    def read(self) -> Iterator[tuple[int, ...]]:
        """Choices read off what was heard, in order and against it, and improved."""
        for order, others, done in (
            (self.order, self.after, self.before),
            (self.order[::-1], self.before, self.after),
        ):
            states = [0] * len(order)
            for variable in order:
                beside = self._heard(variable, others[variable])
                for one in done[variable]:
                    beside += self.tables[one, variable][states[one]]
                states[variable] = int(beside.argmin())
            yield self.improved(self.improved(states))

    def backward(self) -> float:
        """One pass against the order; and the bound.

        Of each variable the least of what it heard is owed by every choice, and what is left is
        not negative; a share of that, at most one in all, goes along each edge to those before
        it, where again what is owed by all is taken out. So what remains everywhere is not
        negative, and what was taken out is a bound.
        """
        bound = 0.0
        for variable in reversed(self.order):
            before = self.before[variable]
            heard = self._heard(variable, before, self.after[variable])
            least = float(heard.min())
            bound += least
            share = self.weight[variable] * (heard - least)
            for one in before:
                bound += self._speak(share, variable, one)
        return bound

    def improved(self, states: Sequence[int]) -> tuple[int, ...]:
        """The same, each in turn changed to what is best beside all its neighbours, once."""
        changed = list(states)
        for variable in self.order:
            total = self.costs.alone[variable].copy()
            for one in self.costs.neighbours[variable]:
                total += self.tables[one, variable][changed[one]]
            changed[variable] = int(total.argmin())
        return tuple(changed)
