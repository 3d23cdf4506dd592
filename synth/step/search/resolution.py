"""What seconds of whole steps can tell apart: plans that differ by less are as fast.

Two plans of a model on a machine err together: both multiply matrices on the same device and send
over the same links. So what is taken as wrong is not each plan's seconds but the rates behind them,
one unknown factor for each *source of error* between ends that measurements give it: a plan has
seconds at either end, and of two plans what one source does to both cancels. Sources:

* products of matrices, and what is between them: the interval of their estimates (``Rates`` of
``synth.compute``). One device, so one factor for all plans; * the shapes of products, which are the
plan's own where it cuts its stages otherwise (``SHAPE_ERRORS``); * links, a source for each level,
as the prices of collectives have it. A plan is composed again with slow links and with fast ones:
what was sent beside compute may then be waited for; * what the clock leaves out (``CLOCK_ERROR``),
of any two plans.

Sources are independent, and each is within its ends in nine of ten cases. So their squares add up,
and a difference that is told is so in nine of ten. "Surely faster" is a strict partial order, as
what a third plan errs by beside the first is no more than by way of the second. Time in which a
rank waits for other stages is theirs, and errs as what they do.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import hypot, inf

from grammar import Goal
from hierarchies import System
from hierarchies.calibration import ANY
from synth.step.search.composing.composer import Composer, Composition
from synth.step.search.composing.inside import INSIDE
from synth.step.search.finalists import Finalist
from synth.step.search.links import Links, PlacedRecipe, Row

CLOCK_ERROR = 0.03
"""Of the faster of two plans, what the simulator itself leaves out.

Of the pairs of plans of one model that ran here (``results/runs``) and whose parts were alike
within a twentieth of a step, in nine of ten the measured difference was within this of the
simulated one; single plans are off by 2.6 % in the mean."""

SHAPE_ERRORS = (0.92, 1.12)
"""What all products of a layer take, by how they are cut, beside what they take on the device.

Of 15 such layers measured on an A100 and an H100 (``tests/synth/compute/matmuls.csv``, from 512
rows on), against the middle of those of one device."""

FULL_SHARE = 0.9
"""Of a device's memory. Published runs that were so full slowed down or crashed (results/order):
what is predicted leaves out what an allocator cannot use, and what a runtime keeps for itself."""

SNUG = 0.8
"""Of a device's memory. Predicted peaks are off by a quarter in one of ten published runs, so plans
that need more than this may not fit (``results/steps``, peak memory, p90)."""

NO_ERROR = (0.0, 0.0)

PRODUCTS, BETWEEN_PRODUCTS, PRODUCT_SHAPES, UNMODELLED = (
    "products of matrices",
    "what is between products",
    "shapes of products",
    "what the clock leaves out",
)


@dataclass(frozen=True)
class UncertaintySource:
    """One source of error; ``of``: those plans have it in common for which that is equal."""

    what: str
    of: Hashable = ()


@dataclass(frozen=True)
class UncertainSeconds:
    """Seconds of a plan, and by how much they are others at both ends of each source."""

    seconds: float
    ends: Mapping[UncertaintySource, tuple[float, float]] = field(default_factory=dict)
    own: float = CLOCK_ERROR


@dataclass(frozen=True)
class Difference:
    """How much longer one plan takes than another, and between which ends that lies.

    ``sources``: what each lets it be less and more, the most first.
    """

    seconds: float
    low_seconds: float
    high_seconds: float
    sources: tuple[tuple[str, float, float], ...]

    @property
    def told(self) -> bool:
        """Whether one of the two is faster in nine of ten cases."""
        return self.low_seconds > 0 or self.high_seconds < 0


def compare_seconds(one: UncertainSeconds, other: UncertainSeconds) -> Difference:
    """How much longer ``other`` takes.

    >>> links = Source("links")
    >>> slow, fast = Likely(4.0, {links: (-0.5, 1.0)}), Likely(2.0, {links: (-0.5, 1.0)})
    >>> difference(fast, slow).sources
    (('what the clock leaves out', -0.06, 0.06),)
    >>> difference(fast, slow).told, difference(fast, Likely(2.05)).told
    (True, False)
    """
    parts: dict[str, list[tuple[float, float]]] = {}
    for source in dict.fromkeys((*one.ends, *other.ends)):
        both = zip(one.ends.get(source, NO_ERROR), other.ends.get(source, NO_ERROR), strict=True)
        moved = [0.0, *(there - here for here, there in both)]
        parts.setdefault(source.what, []).append((min(moved), max(moved)))
    own = 0.0 if one == other else max(one.own, other.own) * min(one.seconds, other.seconds)
    parts[UNMODELLED] = [(-own, own)]
    each = {what: _combine_errors(several) for what, several in parts.items()}
    less, more = _combine_errors(each.values())
    seconds = other.seconds - one.seconds
    order = sorted(each.items(), key=lambda part: part[1][0] - part[1][1])
    sources = tuple((what, *ends) for what, ends in order if ends != NO_ERROR)
    return Difference(seconds, seconds + less, seconds + more, sources)


def _combine_errors(several: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """What independent errors may be off by: their squares add up, those that are less and more."""
    less, more = zip(*several, strict=True)
    return -hypot(*less) or 0.0, hypot(*more)


def estimate_errors(
    several: Sequence[Finalist], composer: Composer, links: Links, system: System
) -> list[UncertainSeconds]:
    """Seconds of simulated plans, with what they may be off by."""
    some = [one.candidate for one in several]
    return [
        UncertainSeconds(one.found.seconds, {**dict(_compute_errors(one)), **sent})
        for one, sent in zip(several, _link_errors(some, composer, links, system), strict=True)
    ]


def _compute_errors(one: Finalist) -> Iterator[tuple[UncertaintySource, tuple[float, float]]]:
    """What computing may be off by; idle time is other ranks' share of the same."""
    run = one.found
    rank = run.ranks[run.busiest]
    busy = run.seconds - rank.idle_seconds
    longer = run.seconds / busy if busy > 0 else 1.0
    for what, estimate in ((PRODUCTS, one.products), (BETWEEN_PRODUCTS, one.between)):
        ends = (estimate.low - estimate.seconds, estimate.high - estimate.seconds)
        yield UncertaintySource(what), (longer * ends[0], longer * ends[1])
    recipe = one.candidate.recipe
    cut = tuple(axis for axis in recipe.axes if axis[0] in INSIDE and axis[1] > 1)
    seconds = longer * one.products.seconds
    low, high = ((ratio - 1) * seconds for ratio in SHAPE_ERRORS)
    yield (
        UncertaintySource(PRODUCT_SHAPES, (cut, recipe.replicas * recipe.microbatches)),
        (low, high),
    )


def _link_errors(
    several: Sequence[PlacedRecipe], composer: Composer, links: Links, system: System
) -> list[dict[UncertaintySource, tuple[float, float]]]:
    """What links may be off by, level by level: each plan composed with slow and fast ones."""
    found: list[dict[UncertaintySource, tuple[float, float]]] = [{} for _ in several]
    if system.calibration is None:
        return found
    usual = Composition(composer, links).seconds(several)
    for level, one in enumerate(system.hierarchy.levels):
        ends = [
            Composition(composer, _SkewedLinks(links, system, level, slow)).seconds(several)
            for slow in (False, True)
        ]
        for of, before, fast, slow in zip(found, usual, *ends, strict=True):
            if slow > before or fast < before:
                of[UncertaintySource(f"links of {one.name}")] = (fast - before, slow - before)
    return found


@dataclass(frozen=True)
class _SkewedLinks:
    """Links of which those of one level are as slow, or as fast, as measurements let them be."""

    links: Links
    system: System
    level: int
    slow: bool

    def seconds(self, goal: Goal, row: Row, size_bytes: float) -> float:
        """As ``Links`` says; what takes as long without bytes waits for messages."""
        found = self.links.seconds(goal, row, size_bytes)
        if _outermost_level(row) != self.level:
            return found
        few = self.links.seconds(goal, row, 0.0)
        return found * self._ratio(0.0 if 2 * few > found else inf)

    def handed(self, row: Row, size_bytes: float) -> Sequence[float]:
        """As ``Links`` says."""
        found = self.links.handed(row, size_bytes)
        return (
            [one * self._ratio(inf) for one in found]
            if _outermost_level(row) == self.level
            else found
        )

    def _ratio(self, size_bytes: float) -> float:
        calibration = self.system.calibration
        known = calibration.residual(ANY, ANY, ANY, size_bytes) if calibration else None
        if known is None:
            return 1.0
        return max(1.0, known.high) if self.slow else min(1.0, known.low)


def _outermost_level(row: Row) -> int:
    """The outermost level that an axis crosses; -1 if none."""
    return next((level for level, size in enumerate(row) if size > 1), -1)


def choose_advised(
    several: Sequence[Finalist], differences: Sequence[Difference], memory_bytes: float
) -> int:
    """Which of the plans that are not told from the first is to be taken; the first, if alone.

    One that leaves a tenth of the memory, if there is one; then the fewest axes, laid out as
    frameworks do it, nothing computed again; then with a fifth of the memory free, the least at
    risk, which may take least longer than the first, and the least memory.
    """

    def simplicity(number: int) -> tuple[bool, int, bool, bool, bool, float, int]:
        one, size = several[number], several[number].size_bytes
        full, snug = (size > share * memory_bytes for share in (FULL_SHARE, SNUG))
        axes, again = len(one.candidate.row_of), one.candidate.recipe.remat
        risk = differences[number].high_seconds
        return full, axes, not one.by_framework, again, snug, risk, size

    return min((at for at, one in enumerate(differences) if not one.told), key=simplicity)
