"""Minimises pairwise costs by tree-reweighted message passing, with a lower bound.

TRW-S (Kolmogorov, "Convergent tree-reweighted message passing for energy minimization", 2006):
messages run forwards and backwards along one order of the variables. A message moves cost from one
end of an edge to the other, which changes no choice's total; the amounts that every choice must pay
add up to the bound. The bound never falls, and where it meets the best choice decoded, that is
optimal. Exact on trees; on other graphs a gap may remain and is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter

import numpy as np

from synth.search.pairwise import NO_CHOICE, Costs, Pairwise
from synth.search.space import BestFound, Found, Infeasible, NoneFound, Optimal

CLOSED = 1e-9
"""The relative gap below which floating-point sums cannot prove a difference."""

ROUNDS = 1000
"""The most rounds, unless a caller gives another number."""

READ = 5
"""Choices are decoded once in this many rounds: decoding takes about as long as a round."""

_STILL = 1e-7
"""Rounds that raise the bound by less than this share do not count as progress."""


def pass_messages(
    costs: Pairwise,
    rounds: int = ROUNDS,
    *,
    gap: float = CLOSED,
    patience: int = 20,
) -> Found[tuple[int, ...]]:
    """Returns the best choice found and its bound after at most ``rounds`` rounds.

    Stops when the relative gap is at most ``gap``, or when neither the bound nor the best choice
    has improved for ``patience`` rounds.
    """
    allowed = costs.without_dead()
    if isinstance(allowed, Infeasible):
        return allowed
    finite, possible = _make_finite(allowed)
    passing = _MessageRun(finite)
    best: tuple[tuple[int, ...], float] | None = None
    bound, waited = 0.0, 0
    for done in range(rounds):
        passing.forward()
        risen = max(bound, passing.backward())
        better = False
        if done % READ == 0 or done + 1 == rounds:
            choices = ((states, costs.cost(states)) for states in passing.decode())
            cheapest = min(choices, key=itemgetter(1))
            better = best is None or cheapest[1] < best[1]
            best = cheapest if better else best
        moved = better or risen - bound > _STILL * risen
        bound, waited = risen, 0 if moved else waited + 1
        if best is not None and best[1] - bound <= gap * bound:
            break
        if waited >= patience:
            break
    if best is None:
        return NO_CHOICE if bound > possible else NoneFound()
    if best[1] - bound <= CLOSED * best[1]:
        return Optimal(*best)
    return BestFound(*best, bound)


def _make_finite(costs: Pairwise) -> tuple[Pairwise, float]:
    """Replaces infinity by a number above the sum of all finite costs.

    Also returns a threshold: possible choices cost less, and all others cost more.
    """
    tables = (*costs.alone, *costs.pairs.values())
    most = sum(float(table[np.isfinite(table)].max(initial=0.0)) for table in tables)
    barred = 2 * most or 1.0
    alone = [np.where(np.isinf(table), barred, table) for table in costs.alone]
    pairs = {edge: np.where(np.isinf(t), barred, t) for edge, t in costs.pairs.items()}
    return Pairwise(alone, pairs), (most + barred) / 2


class _MessageRun:
    """Messages of one run; ``into[v, w]`` has an entry for each state of the receiver w."""

    def __init__(self, costs: Pairwise) -> None:
        self.costs = costs
        self.order = range(len(costs.alone))
        self.before = [[w for w in near if w < v] for v, near in enumerate(costs.neighbours)]
        self.after = [[w for w in near if w > v] for v, near in enumerate(costs.neighbours)]
        self.weight = [
            1 / max(len(before), len(after), 1)
            for before, after in zip(self.before, self.after, strict=True)
        ]
        # contiguous in both directions, because rows, which are the sender's states, are reduced
        self.tables = {
            (v, w): np.ascontiguousarray(costs.table(v, w))
            for v, near in enumerate(costs.neighbours)
            for w in near
        }
        self.into: dict[tuple[int, int], Costs] = {
            (v, w): np.zeros(len(costs.alone[w])) for v, w in self.tables
        }

    def _sum_incoming(self, variable: int, *groups: Sequence[int]) -> Costs:
        total = self.costs.alone[variable].copy()
        for group in groups:
            for near in group:
                total += self.into[near, variable]
        return total

    def _send(self, share: Costs, speaker: int, listener: int) -> float:
        """Sends a message, normalised to a minimum of 0; returns the amount subtracted.

        ``share`` is the part of the sender's costs that goes to each receiver.
        (ufunc.reduce, because array methods take longer to start than ``reduce`` takes
        here.)
        """
        own = share - self.into[listener, speaker]
        message = np.minimum.reduce(self.tables[speaker, listener] + own[:, None], axis=0)
        least = float(np.minimum.reduce(message))
        message -= least
        self.into[speaker, listener] = message
        return least

    def forward(self) -> None:
        """Passes messages once in order."""
        for variable in self.order:
            before, after = self.before[variable], self.after[variable]
            share = self.weight[variable] * self._sum_incoming(variable, before, after)
            for later in after:
                self._send(share, variable, later)

    def decode(self) -> Iterator[tuple[int, ...]]:
        """Yields choices decoded in both orders, and improve."""
        for order, others, done in (
            (self.order, self.after, self.before),
            (self.order[::-1], self.before, self.after),
        ):
            states = [0] * len(order)
            for variable in order:
                total = self._sum_incoming(variable, others[variable])
                for near in done[variable]:
                    total += self.tables[near, variable][states[near]]
                states[variable] = int(total.argmin())
            yield self.improve(self.improve(states))

    def backward(self) -> float:
        """Passes messages once in reverse order, and returns the bound.

        Every choice pays at least the minimum of each variable's costs, and the remainder is not
        negative. A share of the remainder, at most 1 in total, is sent along each edge to earlier
        variables, and the minimum of each message is subtracted again. So all remaining costs are
        not negative, and the subtracted sum is a bound.
        """
        bound = 0.0
        for variable in reversed(self.order):
            before = self.before[variable]
            incoming = self._sum_incoming(variable, before, self.after[variable])
            least = float(incoming.min())
            bound += least
            share = self.weight[variable] * (incoming - least)
            for earlier in before:
                bound += self._send(share, variable, earlier)
        return bound

    def improve(self, states: Sequence[int]) -> tuple[int, ...]:
        """Returns the choice after one pass of coordinate descent."""
        changed = list(states)
        for variable in self.order:
            total = self.costs.alone[variable].copy()
            for near in self.costs.neighbours[variable]:
                total += self.tables[near, variable][changed[near]]
            changed[variable] = int(total.argmin())
        return tuple(changed)
