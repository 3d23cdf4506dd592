"""Decides which differences between predicted seconds of whole steps exceed the prediction error.

The errors of two plans of a model on one machine are correlated: both multiply matrices on the same
device and communicate over the same links. So errors are modelled in the rates behind the seconds:
each *source of error* is one unknown factor, with ends that measurements give it. A plan has
seconds at either end, and an effect of one source on both plans cancels. The sources are:

* matrix products, and operations between them: the interval of their estimates (``Rates`` of
  ``synth.compute``); one device, so one factor for all plans;
* the shapes of products, which differ if plans shard stages differently (``SHAPE_ERRORS``);
* links, one source per level, as in prices of collectives: a plan is composed again with slow and
  with fast links, as hidden communication may then be exposed;
* effects that the simulator leaves out (``CLOCK_ERROR``), for any two plans.

Sources are independent, and each is within its ends in 90 % of cases. So their squares add up, and
a difference beyond the error is real in 90 % of cases. "Surely faster" is a strict partial order:
the errors satisfy the triangle inequality. A bubble has the relative error of the work waited for.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import hypot, inf

from grammar import Goal
from hierarchies import System
from hierarchies.calibration import ANY
from synth.step.search.composing.composer import Composer, Composition
from synth.step.search.composing.inside import INSIDE
from synth.step.search.finalists import RUNTIME, Finalist
from synth.step.search.links import Links, PlacedRecipe, Row
from synth.step.simulation import Task
from synth.step.simulation.predicting import Sources, predict_tasks

CLOCK_ERROR = 0.03
"""The error of the simulator itself, as a share of the seconds of the faster of two plans.

Measured on pairs of plans of one model that ran here (``results/runs``) and whose parts agreed
within a twentieth of a step: in nine of ten pairs the measured difference was within this share of
the simulated difference. The mean error of single plans is 2.6 %."""

SHAPE_ERRORS = (0.92, 1.12)
"""Range of the seconds of all products of a layer, by their sharding, over the device's median.

From 15 shardings of layers measured on an A100 and an H100
(``tests/synth/compute/matmuls.csv``, from 512 rows on)."""

FULL_SHARE = 0.9
"""Share of a device's memory. Published runs above it slowed down or crashed (``results/order``):
predictions leave out fragmentation and the memory that a runtime reserves."""

SNUG = 0.8
"""Share of a device's memory. In one of ten published runs, the predicted peak is off by a quarter
or more, so plans above this share may not fit (``results/steps``, peak memory, p90)."""

LEAST_GAIN = 0.001
"""The share of a step that a gain must exceed to be worth installing a program file."""

NO_ERROR = (0.0, 0.0)

PRODUCTS, BETWEEN_PRODUCTS, PRODUCT_SHAPES, UNMODELLED = (
    "matrix products",
    "operations between products",
    "shapes of products",
    "effects outside the model",
)


@dataclass(frozen=True)
class UncertaintySource:
    """One source of error; it cancels between plans with equal ``of``."""

    what: str
    of: Hashable = ()


@dataclass(frozen=True)
class UncertainSeconds:
    """Seconds of a plan, and the changes in seconds at both ends of each source."""

    seconds: float
    ends: Mapping[UncertaintySource, tuple[float, float]] = field(default_factory=dict)
    own: float = CLOCK_ERROR


@dataclass(frozen=True)
class Difference:
    """The seconds by which one plan is slower than another, with the interval of the difference.

    ``sources``: how much each source lowers and raises the difference, the largest first.
    """

    seconds: float
    low_seconds: float
    high_seconds: float
    sources: tuple[tuple[str, float, float], ...]

    @property
    def is_clear(self) -> bool:
        """Whether the difference exceeds the error: one plan is faster in 90 % of cases."""
        return self.low_seconds > 0 or self.high_seconds < 0


def compare_seconds(plan: UncertainSeconds, other: UncertainSeconds) -> Difference:
    """Returns how much longer ``other`` takes than ``plan``.

    >>> links = UncertaintySource("links")
    >>> ends = {links: (-0.5, 1.0)}
    >>> slow, fast = UncertainSeconds(4.0, ends), UncertainSeconds(2.0, ends)
    >>> compare_seconds(fast, slow).sources
    (('effects outside the model', -0.06, 0.06),)
    >>> compare_seconds(fast, slow).is_clear, compare_seconds(fast, UncertainSeconds(2.05)).is_clear
    (True, False)
    """
    parts: dict[str, list[tuple[float, float]]] = {}
    for source in dict.fromkeys((*plan.ends, *other.ends)):
        pairs = zip(plan.ends.get(source, NO_ERROR), other.ends.get(source, NO_ERROR), strict=True)
        changes = [0.0, *(there - here for here, there in pairs)]
        parts.setdefault(source.what, []).append((min(changes), max(changes)))
    own = 0.0 if plan == other else max(plan.own, other.own) * min(plan.seconds, other.seconds)
    parts[UNMODELLED] = [(-own, own)]
    combined = {what: _combine_errors(errors) for what, errors in parts.items()}
    less, more = _combine_errors(combined.values())
    seconds = other.seconds - plan.seconds
    order = sorted(combined.items(), key=lambda part: part[1][0] - part[1][1])
    sources = tuple((what, *ends) for what, ends in order if ends != NO_ERROR)
    return Difference(seconds, seconds + less, seconds + more, sources)


def _combine_errors(errors: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Combines independent errors: the squares of the lower and of the upper ends add up."""
    less, more = zip(*errors, strict=True)
    return -hypot(*less) or 0.0, hypot(*more)  # "or": no negative zero in answers


def estimate_errors(
    finalists: Sequence[Finalist], composer: Composer, links: Links, system: System
) -> list[UncertainSeconds]:
    """Returns the seconds of simulated plans with their sources of error.

    Recipes are composed again with other links, all at once; chosen rows are simulated again.
    """
    candidates = [finalist.candidate for finalist in finalists if finalist.rows is None]
    composed = iter(_link_errors(candidates, composer, links, system))
    return [
        UncertainSeconds(
            finalist.found.seconds,
            {
                **dict(_compute_errors(finalist)),
                **(dict(_row_link_errors(finalist, system)) if finalist.rows else next(composed)),
            },
        )
        for finalist in finalists
    ]


def _compute_errors(finalist: Finalist) -> Iterator[tuple[UncertaintySource, tuple[float, float]]]:
    """Yields errors of computation; a rank's bubble scales with the other ranks' computation."""
    run = finalist.found
    rank = run.ranks[run.busiest]
    busy = run.seconds - rank.idle_seconds
    longer = run.seconds / busy if busy > 0 else 1.0
    for what, estimate in ((PRODUCTS, finalist.products), (BETWEEN_PRODUCTS, finalist.between)):
        ends = (estimate.low - estimate.seconds, estimate.high - estimate.seconds)
        yield UncertaintySource(what), (longer * ends[0], longer * ends[1])
    recipe = finalist.candidate.recipe
    cut = tuple(axis for axis in recipe.axes if axis[0] in INSIDE and axis[1] > 1)
    seconds = longer * finalist.products.seconds
    low, high = ((ratio - 1) * seconds for ratio in SHAPE_ERRORS)
    own = finalist.plan.cuts if finalist.rows else (cut, recipe.replicas * recipe.microbatches)
    yield UncertaintySource(PRODUCT_SHAPES, own), (low, high)


def _link_errors(
    candidates: Sequence[PlacedRecipe], composer: Composer, links: Links, system: System
) -> list[dict[UncertaintySource, tuple[float, float]]]:
    """Returns the errors of links by level, from plans composed with slow and with fast links."""
    errors: list[dict[UncertaintySource, tuple[float, float]]] = [{} for _ in candidates]
    if system.calibration is None:
        return errors
    usual = Composition(composer, links).seconds(candidates)
    for number, level in enumerate(system.hierarchy.levels):
        ends = [
            Composition(composer, _SkewedLinks(links, system, number, slow)).seconds(candidates)
            for slow in (False, True)
        ]
        for plan_errors, usual_seconds, fast, slow in zip(errors, usual, *ends, strict=True):
            if slow > usual_seconds or fast < usual_seconds:
                plan_errors[UncertaintySource(f"links of {level.name}")] = (
                    fast - usual_seconds,
                    slow - usual_seconds,
                )
    return errors


def _row_link_errors(
    finalist: Finalist, system: System
) -> Iterator[tuple[UncertaintySource, tuple[float, float]]]:
    """Yields the errors of links of a plan without stages, chosen operation by operation."""
    for number, level in enumerate(system.hierarchy.levels):
        ratios = [
            _residual_ratio(system, size, slow) for slow in (False, True) for size in (0.0, inf)
        ]
        fast, slow = (
            _simulate_with_links(finalist, number, ratio) for ratio in (min(ratios), max(ratios))
        )
        if fast != slow:
            seconds = finalist.found.seconds
            yield UncertaintySource(f"links of {level.name}"), (fast - seconds, slow - seconds)


def _simulate_with_links(finalist: Finalist, level: int, ratio: float) -> float:
    """Returns the seconds of a step whose communication at one level takes ``ratio`` the time.

    A task belongs to the outermost level that it crosses.
    """
    rows, plan = finalist.candidate.row_of, finalist.plan

    def crosses(task: Task) -> bool:
        axes = {axis for move in (task.moves or ((), ()))[1] for axis in move.axes if axis in rows}
        levels = [_outermost_level(rows[axis]) for axis in axes]
        return bool(levels) and min(levels) == level

    tasks = tuple(
        task._replace(seconds=ratio * task.seconds) if crosses(task) else task
        for task in finalist.found.device.tasks
    )
    device = replace(finalist.found.device, tasks=tasks)
    nothing = Sources(lambda _: 0.0, lambda *_: 0.0, lambda *_: 0.0)
    return predict_tasks(device, None, plan.microbatches, nothing, RUNTIME).seconds


def _residual_ratio(system: System, size_bytes: float, slow: bool) -> float:
    """Returns the ratio of slow (or fast) communication to its price, by link measurements."""
    calibration = system.calibration
    residual = calibration.residual(ANY, ANY, ANY, size_bytes) if calibration else None
    if residual is None:
        return 1.0
    return max(1.0, residual.high) if slow else min(1.0, residual.low)


@dataclass(frozen=True)
class _SkewedLinks:
    """Links whose seconds on one level are at one end of their measured interval."""

    links: Links
    system: System
    level: int
    slow: bool

    def seconds(self, goal: Goal, row: Row, size_bytes: float) -> float:
        """See ``Links``. If over half of the seconds are latency, uses the latency's residual."""
        seconds = self.links.seconds(goal, row, size_bytes)
        if _outermost_level(row) != self.level:
            return seconds
        latency = self.links.seconds(goal, row, 0.0)
        return seconds * self._ratio(0.0 if 2 * latency > seconds else inf)

    def handed(self, row: Row, size_bytes: float) -> Sequence[float]:
        """See ``Links``."""
        transfers = self.links.handed(row, size_bytes)
        return (
            [seconds * self._ratio(inf) for seconds in transfers]
            if _outermost_level(row) == self.level
            else transfers
        )

    def _ratio(self, size_bytes: float) -> float:
        return _residual_ratio(self.system, size_bytes, self.slow)


def _outermost_level(row: Row) -> int:
    """Returns the outermost level that an axis crosses; -1 if none."""
    return next((level for level, size in enumerate(row) if size > 1), -1)


def choose_advised(
    finalists: Sequence[Finalist], differences: Sequence[Difference], memory_bytes: float
) -> int:
    """Returns the index of the plan to advise among those not surely slower than the first.

    Prefers, in this order: a tenth of the memory free; the fewest axes; the placement of
    frameworks; no recompute; a fifth of the memory free; the smallest possible slowdown against the
    first; the least memory.
    """

    def simplicity(number: int) -> tuple[bool, int, bool, bool, bool, float, int]:
        finalist, size = finalists[number], finalists[number].size_bytes
        full, snug = (size > share * memory_bytes for share in (FULL_SHARE, SNUG))
        axes, recomputes = len(finalist.candidate.row_of), finalist.candidate.recipe.remat
        risk = differences[number].high_seconds
        return full, axes, not finalist.by_framework, recomputes, snug, risk, size

    tied = (at for at, difference in enumerate(differences) if not difference.is_clear)
    return min(tied, key=simplicity)
