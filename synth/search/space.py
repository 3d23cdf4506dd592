"""The interface of searches: a space of states with prices, and the possible answers.

A space defines the initial state, moves and prices; a driver (``backtracking``) knows nothing else.
A price is seconds, or why a state is infeasible. Answers: the optimum; the best found, with a lower
bound; or a proof that nothing is feasible, with the least excess. A walk that ended before it met
anything feasible reports that instead: it proved nothing.
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
    """Why something is infeasible, and by how much: ``excess`` is never 0.

    As a price it concerns one state; as an answer it is proved of all states, and ``excess`` is
    the least of all, which belongs to the state described in ``because``.
    """

    because: str
    excess: float = inf

    def __post_init__(self) -> None:
        assert self.excess > 0, "what does not exceed is feasible"


Price = float | Infeasible
"""Seconds, or why a state is infeasible."""


class Space(Protocol[S]):
    """States and their costs. ``moves`` and ``price`` depend only on their arguments.

    ``bound(state)`` is at most the price of the state and of any reachable from it; it is
    Infeasible if all of these are, with at most their least excess.
    """

    def initial(self) -> S: ...

    def moves(self, state: S, rng: Random) -> Iterable[S]: ...

    def price(self, state: S) -> Price: ...

    def bound(self, state: S) -> Price: ...


class Observer:
    """Receives the progress of a search, and may stop it. By default it does nothing.

    Searches have no clock: time limits are the observer's business.
    """

    def go_on(self) -> bool:
        """Returns False to stop with the best so far."""
        return True

    def priced(self, states: int, best: float | None) -> None:
        """Reports states priced, or rounds done, and the least seconds so far."""


@dataclass(frozen=True)
class Budget:
    """The limits of a search: priced states (or rounds) at most; the observer may stop earlier.

    ``seed`` is that of all random draws. Equal budgets give equal answers, unless the observer
    stops.
    """

    evaluations: int = 10**6
    seed: int = 0


@dataclass(frozen=True)
class Optimal(Generic[S]):
    """A state than which none is cheaper."""

    state: S
    seconds: float

    @property
    def gap(self) -> float:
        return 0.0


@dataclass(frozen=True)
class BestFound(Generic[S]):
    """The cheapest state seen; none is below ``bound``."""

    state: S
    seconds: float
    bound: float

    @property
    def gap(self) -> float:
        """By what share it may exceed the optimum: 0.001 is a tenth of a percent."""
        return self.seconds / self.bound - 1 if self.bound > 0 else inf


@dataclass(frozen=True)
class NoneFound:
    """No feasible state was seen, but not all were; ``nearest`` has the least excess seen."""

    nearest: Infeasible | None = None


Found = Optimal[S] | BestFound[S] | Infeasible | NoneFound


class Tally(Generic[S]):
    """The record of a driver: the best, the nearest to feasible, and whether to go on.

    Of equal prices the first stays.
    """

    def __init__(self, price: Callable[[S], Price], budget: Budget, observer: Observer) -> None:
        self._price, self._budget, self._observer = price, budget, observer
        self.states = 0
        self.best: tuple[S, float] | None = None
        self.nearest: Infeasible | None = None

    @property
    def seconds(self) -> float:
        """The least price so far; infinite while nothing is feasible."""
        return inf if self.best is None else self.best[1]

    def may(self) -> bool:
        """Whether another state may be priced. The first always may."""
        if not self.states:
            return True
        return self.states < self._budget.evaluations and self._observer.go_on()

    def price(self, state: S) -> Price:
        """Prices a state and records the result."""
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
        """Returns the answer; ``bound`` holds for all states, and proves a best that reaches it."""
        if self.best is not None:
            state, seconds = self.best
            least = 0.0 if isinstance(bound, Infeasible) else bound
            return Optimal(state, seconds) if seconds <= least else BestFound(state, seconds, least)
        return bound if isinstance(bound, Infeasible) else NoneFound(self.nearest)
