"""The possible answers of searches.

The optimum; the best state found, with a lower bound; or a proof that no state is feasible, with
the least excess. A search that ended before it found a feasible state returns ``NoneFound``, which
proves nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)


@dataclass(frozen=True)
class Infeasible:
    """Why something is infeasible, and by how much: ``excess`` is never 0.

    The proof covers all states, and ``excess`` is the least of all: that of the state described in
    ``because``.
    """

    because: str
    excess: float = inf

    def __post_init__(self) -> None:
        assert self.excess > 0, "what does not exceed is feasible"


@dataclass(frozen=True)
class Optimal(Generic[S]):
    """A state that no other state undercuts."""

    state: S
    seconds: float

    @property
    def gap(self) -> float:
        return 0.0


@dataclass(frozen=True)
class BestFound(Generic[S]):
    """The cheapest state seen; no state costs less than ``bound``."""

    state: S
    seconds: float
    bound: float

    @property
    def gap(self) -> float:
        """The share by which the state may exceed the optimum: 0.001 is a tenth of a percent."""
        return self.seconds / self.bound - 1 if self.bound > 0 else inf


@dataclass(frozen=True)
class NoneFound:
    """No feasible state was seen, but not all were; ``nearest`` has the least excess seen."""

    nearest: Infeasible | None = None


Found = Optimal[S] | BestFound[S] | Infeasible | NoneFound
