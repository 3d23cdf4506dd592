"""The one face of searches: a space of states and their prices, and the answers there may be.

A space says where to begin, which moves there are, and what a state costs; a driver walks it
(``backtracking``) and knows nothing else of it. Prices are seconds, or why
a state cannot be. Three answers: the best there is; the best found, with a bound that nothing
falls below; or that nothing is feasible, by how little it fails at least. A walk that ended before
it met anything feasible says that instead: it proved nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Generic, Protocol, TypeVar

S = TypeVar("S", bound=Hashable)


@dataclass(frozen=True)
class Infeasible:
    """Why something cannot be, and by how much: ``excess`` is what is too much, 0 never.

    As the price of a state it is of that state; as an answer it is proved of all, and ``excess``
    is the least of all, of the state that ``because`` speaks of.
    """

    because: str
    excess: float = inf

    def __post_init__(self) -> None:
        assert self.excess > 0, "what does not exceed is feasible"


Price = float | Infeasible
"""Seconds, or why not."""


class Space(Protocol[S]):
    """States and what they cost. ``moves`` and ``price`` depend on nothing but their arguments.

    ``bound(state)`` is never above the price of the state, nor of any that moves lead to from it;
    it is Infeasible where all of these are, with at most their least excess.
    """

    def initial(self) -> S: ...

    def moves(self, state: S, rng: Random) -> Iterable[S]: ...

    def price(self, state: S) -> Price: ...

    def bound(self, state: S) -> Price: ...


class Observer:
    """Is called with the progress of a search, and may stop it. By default it does nothing.

    Seconds are its business: what asks for a search has a clock, searches have none.
    """

    def go_on(self) -> bool:
        """Answer False to stop with what there is."""
        return True

    def priced(self, states: int, best: float | None) -> None:
        """So many states were priced, or rounds done; ``best`` are the least seconds so far."""


@dataclass(frozen=True)
class Budget:
    """What a search may cost: prices of states (or rounds) at most; the observer may stop before.

    ``seed``: of all that is drawn. Equal budgets give equal answers, unless the observer stops.
    """

    evaluations: int = 10**6
    seed: int = 0


@dataclass(frozen=True)
class Optimal(Generic[S]):
    """Nothing is cheaper."""

    state: S
    seconds: float

    @property
    def gap(self) -> float:
        return 0.0


@dataclass(frozen=True)
class BestFound(Generic[S]):
    """The cheapest of what was looked at; nothing is below ``bound``."""

    state: S
    seconds: float
    bound: float

    @property
    def gap(self) -> float:
        """By which share it may lie above the best: 0.001 is a tenth of a percent."""
        return self.seconds / self.bound - 1 if self.bound > 0 else inf


@dataclass(frozen=True)
class NoneFound:
    """Nothing feasible was met, and not all was looked at; what was met failed by this at least."""

    nearest: Infeasible | None = None


Found = Optimal[S] | BestFound[S] | Infeasible | NoneFound


class Tally(Generic[S]):
    """What a driver has priced so far: the best, the nearest, and whether to go on.

    Of equal prices the one that came first stays.
    """

    def __init__(self, price: Callable[[S], Price], budget: Budget, observer: Observer) -> None:
        self._price, self._budget, self._observer = price, budget, observer
        self.states = 0
        self.best: tuple[S, float] | None = None
        self.nearest: Infeasible | None = None

    @property
    def seconds(self) -> float:
        """The least so far; infinite while nothing is feasible."""
        return inf if self.best is None else self.best[1]

    def may(self) -> bool:
        """Whether one more state may be priced. The first always may."""
        if not self.states:
            return True
        return self.states < self._budget.evaluations and self._observer.go_on()

    def price(self, state: S) -> Price:
        """The price of a state, noted."""
        price = self._price(state)
        self.states += 1
        if isinstance(price, Infeasible):
            if self.nearest is None or price.excess < self.nearest.excess:
                self.nearest = price
        elif self.best is None or price < self.best[1]:
            self.best = state, price
        self._observer.priced(self.states, None if self.best is None else self.best[1])
        return price

    def found(self, bound: Price) -> Found[S]:
        """The answer; ``bound`` is of all states, and proves the best that reaches it."""
        if self.best is not None:
            state, seconds = self.best
            least = 0.0 if isinstance(bound, Infeasible) else bound
            return Optimal(state, seconds) if seconds <= least else BestFound(state, seconds, least)
        return bound if isinstance(bound, Infeasible) else NoneFound(self.nearest)
