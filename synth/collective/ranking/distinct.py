"""Groups programs whose prices cannot be ordered into one answer, shown as the simplest member.

The search is exact to the picosecond; prices are not. So the cheapest program stands for all
programs within its uncertainty (``price.resolution``), and the simplest of them is shown: fewest
stripes, then fewest segments, then fewest steps, then spelling. Simpler must not mean worse: the
shown program must not be surely slower than any other member. The next answer is formed from the
programs that the first is surely faster than, and so on. A program that belongs to an answer with
one number of segments belongs to it with all of them: no text appears in two answers.

Members arrive with a lower bound on all later prices, in ascending order. An answer is settled once
no later member can belong to it: then the simplest member cannot have been missed, however many
programs are cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Generic, TypeVar

from synth.collective.price.resolution import PriceEstimate, largest_near
from synth.collective.ranking.stripes import (
    PathStripe,
    PhasesOf,
    StripeSplit,
    price_of,
    round_to_bytes,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Member(Generic[T]):
    """A program with its price and its rank in simplicity.

    ``program`` is the same for all numbers of segments of one program; ``simplicity`` orders
    all members, the simplest first.
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
    """The simplest member of a group with its price, and the least price in the group.

    ``others`` counts the other programs in the group.
    """

    what: T
    estimate: PriceEstimate
    others: int
    least_ticks: int


Reach = Callable[[PriceEstimate], float]
"""The largest price, in ticks, that cannot be distinguished from a given one."""


def exact_reach(estimate: PriceEstimate) -> float:
    """Returns the reach for a system without measurements."""
    return float(largest_near(estimate.ticks, estimate.finest))


class AnswerGrouping(Generic[T]):
    """Groups members as they are priced and settles answers, fastest first. Mutable, one use."""

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
        """Adds a member; it is ignored if its program already belongs to an answer."""
        self._added += 1
        self._open[self._added] = member
        heappush(self._cheapest, (member.ticks, member.simplicity, self._added))
        for number in range(len(self._shown)):
            self._count_in(number, (self._added,))

    def counted(self, program: Hashable) -> bool:
        """Whether a program belongs to a settled answer, so that it need not be priced again."""
        return program in self._counted

    def beyond(self, limit: float, bound: float) -> bool:
        """Whether no answer remains whose least price is at most ``limit``."""
        leader = self._next[0] if self._next else self._leader()
        return bound > limit and (leader is None or leader.ticks > limit)

    def settle_up_to(self, count: int, bound: float) -> bool:
        """Settles answers until there are ``count``, and returns whether there are."""
        while len(self) < count and self.settle(bound):
            pass
        return len(self) == count

    def settle(self, bound: float) -> bool:
        """Settles the next answer if no later price (from ``bound`` on) could change it."""
        if self._next is None:
            leader = self._leader()
            if leader is None or bound <= self._reach(leader.estimate):
                return False
            members = self._open.values()
            tied = [
                member for member in members if not leader.estimate.surely_below(member.estimate)
            ]
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
        """Returns the answers settled so far, in order."""
        settled = zip(self._shown, self._behind, self._least, strict=True)
        return [
            DistinctAnswer(member.what, member.estimate, len(behind) - 1, least)
            for member, behind, least in settled
        ]

    def _leader(self) -> Member[T] | None:
        """Returns the cheapest member that belongs to no answer."""
        # Members leave ``_open`` at once, and the heap only when they come up.
        while self._cheapest and self._cheapest[0][2] not in self._open:
            heappop(self._cheapest)
        return self._open[self._cheapest[0][2]] if self._cheapest else None

    def _count_in(self, number: int, keys: Iterable[int]) -> None:
        """Adds members to an answer; members that it is surely faster than stay open."""
        shown = self._shown[number].estimate
        for key in keys:
            member = self._open.get(key)
            if member is None or self.counted(member.program):
                continue
            if not shown.surely_below(member.estimate):
                self._counted.add(member.program)
                self._behind[number].add(member.program)
        for key in keys:
            if key in self._open and self.counted(self._open[key].program):
                del self._open[key]


def _find_simplest(tied: Sequence[Member[T]]) -> Member[T]:
    """Returns the simplest member that no other is surely below."""
    cheap = sorted(tied, key=lambda member: member.ticks)

    def beaten(member: Member[T]) -> bool:
        return any(other.estimate.surely_below(member.estimate) for other in cheap)

    return next(
        member
        for member in sorted(tied, key=lambda member: member.simplicity)
        if not beaten(member)
    )


def find_simpler_split(
    found: StripeSplit, phases_of: PhasesOf, counts: Sequence[int], limit: int
) -> StripeSplit:
    """Returns the simplest split whose price is at most ``limit`` ticks, else ``found``.

    The gain of the last stripe and the last segments is often within the prices' uncertainty, while
    each stripe needs streams and groups, and each segment launches. So the order of preference is:
    fewest stripes, keeping the largest; then fewest segments, equal in all stripes or no more than
    before; then equal shares rather than those found.
    """
    for stripes in _splits_by_simplicity(found.stripes, sorted(counts)):
        ticks = price_of(stripes, phases_of, limit)
        if ticks is not None:
            return StripeSplit(stripes, ticks)
    return found


def _splits_by_simplicity(
    stripes: tuple[PathStripe, ...], counts: Sequence[int]
) -> Iterator[tuple[PathStripe, ...]]:
    largest = sorted(stripes, key=lambda s: (-s.size_bytes, s.path, s.segments))
    most_segments = max(stripe.segments for stripe in stripes)
    payload_bytes = sum(stripe.size_bytes for stripe in stripes)
    for stripe_count in range(2, len(stripes) + 1):
        kept = largest[:stripe_count]
        for count in (count for count in counts if count <= most_segments):
            for shares in ([1.0] * stripe_count, [float(stripe.size_bytes) for stripe in kept]):
                sizes = round_to_bytes(shares, payload_bytes)
                yield tuple(
                    replace(stripe, size_bytes=size, segments=min(count, stripe.segments))
                    for stripe, size in zip(kept, sizes, strict=True)
                )
