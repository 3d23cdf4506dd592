"""Programs that prices cannot tell apart are one answer, told as its simplest member.

The ranking below is exact to the picosecond; prices are not. So the cheapest program stands for
all from which it is not told (``price.resolution``), and what is shown of these is the simplest:
fewest stripes, then fewest segments, then fewest steps, then spelling. Simple must not mean worse:
of those it may be shown only what no other program surely beats. The next answer is made of what
the first is surely faster than, and so on. A program of which one number of segments has been
counted in is counted in with all of them: no text stands in two answers.

Members come with a bound that no later member's price is below, the lowest first. An answer is
settled once nothing that is to come could belong to it: then the simplest member cannot have been
missed, however many programs are cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Generic, TypeVar

from synth.collective.price.resolution import PriceEstimate, largest_near

T = TypeVar("T")


@dataclass(frozen=True)
class Member(Generic[T]):
    """A program as it is carried out: the price, how simple it is, and what it is.

    ``program`` is the same for all numbers of segments of one program; ``simplicity`` orders all
    members, the simplest first.
    """

    estimate: PriceEstimate
    simplicity: tuple[int, int, int, tuple[str, ...]]
    program: Hashable
    what: T

    @property
    def ticks(self) -> int:
        return self.estimate.ticks


@dataclass(frozen=True)
class DistinctAnswer(Generic[T]):
    """An answer: the simplest member and its price, what else it stands for, the least price.

    ``others`` is how many other programs that is.
    """

    what: T
    estimate: PriceEstimate
    others: int
    least_ticks: int


Reach = Callable[[PriceEstimate], float]
"""The largest price, in ticks, that may not be told from a given one."""


def exact_reach(estimate: PriceEstimate) -> float:
    """The reach where nothing was measured."""
    return float(largest_near(estimate.ticks, estimate.finest))


class AnswerGrouping(Generic[T]):
    """Takes members as they are priced and settles answers, the fastest first. Mutable, one use."""

    def __init__(self, reach: Reach = exact_reach) -> None:
        self._reach = reach
        self._open: dict[int, Member[T]] = {}
        self._cheapest: list[tuple[int, tuple[int, int, int, tuple[str, ...]], int]] = []
        self._added = 0
        self._shown: list[Member[T]] = []
        self._least: list[int] = []
        self._behind: list[set[Hashable]] = []
        self._counted: set[Hashable] = set()
        self._next: tuple[Member[T], Member[T]] | None = None

    def __len__(self) -> int:
        return len(self._shown)

    def add(self, member: Member[T]) -> None:
        """One more member, unless its program has been counted in."""
        self._added += 1
        self._open[self._added] = member
        heappush(self._cheapest, (member.ticks, member.simplicity, self._added))
        for number in range(len(self._shown)):
            self._count_in(number, (self._added,))

    def counted(self, program: Hashable) -> bool:
        """Whether a program stands behind an answer, so that it need not be priced again."""
        return program in self._counted

    def beyond(self, limit: float, bound: float) -> bool:
        """Whether no answer is left whose least price is up to the limit."""
        leader = self._next[0] if self._next else self._leader()
        return bound > limit and (leader is None or leader.ticks > limit)

    def settle(self, bound: float) -> bool:
        """Settle the next answer, if no price that is to come (from ``bound`` on) could matter."""
        if self._next is None:
            leader = self._leader()
            if leader is None or bound <= self._reach(leader.estimate):
                return False
            every = self._open.values()
            tied = [one for one in every if not leader.estimate.surely_below(one.estimate)]
            self._next = leader, _find_simplest(tied)
        leader, shown = self._next
        if bound <= self._reach(shown.estimate):
            return False
        self._next = None
        self._shown.append(shown)
        self._least.append(leader.ticks)
        self._behind.append({shown.program, leader.program})
        self._counted |= self._behind[-1]
        self._count_in(len(self._shown) - 1, tuple(self._open))
        return True

    def answers(self) -> list[DistinctAnswer[T]]:
        """Those settled until now, in order."""
        settled = zip(self._shown, self._behind, self._least, strict=True)
        return [
            DistinctAnswer(one.what, one.estimate, len(behind) - 1, least)
            for one, behind, least in settled
        ]

    def _leader(self) -> Member[T] | None:
        """The cheapest member that no answer stands for."""
        while self._cheapest and self._cheapest[0][2] not in self._open:
            heappop(self._cheapest)
        return self._open[self._cheapest[0][2]] if self._cheapest else None

    def _count_in(self, number: int, some: Iterable[int]) -> None:
        """Count in what an answer stands for; what it is surely faster than stays open."""
        shown = self._shown[number].estimate
        for one in some:
            member = self._open.get(one)
            if member is None or self.counted(member.program):
                continue
            if not shown.surely_below(member.estimate):
                self._counted.add(member.program)
                self._behind[number].add(member.program)
        for one in some:
            if one in self._open and self.counted(self._open[one].program):
                del self._open[one]


def _find_simplest(tied: Sequence[Member[T]]) -> Member[T]:
    """The simplest that no other is surely below."""
    cheap = sorted(tied, key=lambda one: one.ticks)

    def beaten(one: Member[T]) -> bool:
        return any(other.estimate.surely_below(one.estimate) for other in cheap)

    return next(one for one in sorted(tied, key=lambda one: one.simplicity) if not beaten(one))
