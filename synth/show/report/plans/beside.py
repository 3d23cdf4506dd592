"""Plans of a step beside each other: what differs, by how much, and all of them on one clock.

The plans may be of one answer or of several: the page of an answer, the comparison of two answers
and reports show the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from markupsafe import Markup

from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.training.plans import PlanOfStep
from synth.show.report.bars import StackedBar, draw_bars
from synth.show.report.plans.words import layout_clauses
from synth.show.report.rendering import Cells
from synth.show.report.steps import draw_timeline


@dataclass(frozen=True)
class ListedPlan:
    """A plan that may be looked at: what it is called beside others, and in a list of them."""

    label: str
    plan: PlanOfStep

    @property
    def entry(self) -> str:
        return f"{self.label}: {self.plan.title}"


@dataclass(frozen=True)
class PlanComparison:
    """What differs of plans, in figures and in how they are laid out; what is the same of all.

    ``timelines`` are on one scale: a second is as wide in each.
    """

    figures: Cells
    told: str
    layout: Cells
    same: Cells
    spent: Markup
    timelines: Sequence[tuple[str, Markup]]


@dataclass(frozen=True)
class Figure:
    """A figure of a plan: how it is had and written; in ``points`` if it is a share."""

    of: Callable[[PlanOfStep], float]
    text: Callable[[float], str]
    points: bool = False

    def cells(self, first: PlanOfStep, others: Sequence[PlanOfStep]) -> Iterator[str]:
        """That of the first; of each other, and how much more it is."""
        base = self.of(first)
        yield self.text(base)
        for one in others:
            yield self.text(self.of(one))
            yield self._more(base, self.of(one) - base)

    def _more(self, base: float, more: float) -> str:
        """A difference with its sign, and which part of the base it is; nothing where none is."""
        if self.points:
            return f"{100 * more:+.1f} points" if round(abs(100 * more), 1) else ""
        if not more:
            return ""
        part = f" ({_part(more / base)})" if base else ""
        return f"{'+' if more > 0 else '-'}{self.text(abs(more))}{part}"


def _part(share: float) -> str:
    """A share with its sign, finer where it would be none.

    >>> _part(0.25), _part(-0.0013), _part(1e-5)
    ('+25%', '-0.1%', 'below 0.1%')
    """
    if round(abs(100 * share)):
        return f"{share:+.0%}"
    return f"{share:+.1%}" if round(abs(1000 * share)) else "below 0.1%"


TIME_PARTS: Mapping[str, Callable[[PlanOfStep], float]] = {
    "compute": lambda one: one.compute_seconds,
    "exposed communication": lambda one: one.exposed_seconds,
    "bubble": lambda one: one.idle_seconds,
}
"""Where the busiest rank's time goes."""

_FIGURES: Mapping[str, Figure] = {
    "step time": Figure(lambda one: one.seconds, format_duration),
    "tokens per second": Figure(lambda one: one.tokens_per_second, lambda rate: f"{rate:,.0f}"),
    "of peak": Figure(lambda one: one.utilisation, lambda share: f"{share:.1%}", points=True),
    **{what: Figure(of, format_duration) for what, of in TIME_PARTS.items()},
    "memory of the fullest device": Figure(lambda one: one.memory.bytes, format_bytes),
}


def compare_plans(seen: Sequence[ListedPlan], told: str = "") -> PlanComparison:
    """Plans, and how they differ from the first; ``told``: what prices can tell of that."""
    plans, labels = [one.plan for one in seen], [one.label for one in seen]
    figures = [[what, *one.cells(plans[0], plans[1:])] for what, one in _FIGURES.items()]
    how = [{**layout_clauses(one), "programs": _programs(one)} for one in plans]
    layout = [[what, *(one[what] or "nothing" for one in how)] for what in how[0]]
    alike = [
        *filter(_is_alike, figures),
        *(row for row in layout if len({*row[1:]}) == 1 < len(how)),
    ]
    apart = [row for row in figures if row not in alike]
    headings = chain.from_iterable((label, "difference") for label in labels[1:])
    longest = max(one.seconds for one in plans)
    return PlanComparison(
        _cells(["figure", labels[0], *headings], apart, figures=True),
        told,
        _cells(["layout", *labels], [row for row in layout if row not in alike]),
        _cells(["the same for all", ""], [row[:2] for row in alike]),
        draw_bars(
            "Where the busiest rank's time goes",
            [*TIME_PARTS],
            [*map(_time_bar, seen)],
            format_duration,
        ),
        [
            (one.entry, draw_timeline(one.label, one.plan.seconds, one.plan.ranks, longest))
            for one in seen
        ],
    )


def _is_alike(row: Sequence[str]) -> bool:
    """Whether a row of figures has others, and no difference to the first."""
    return len(row) > 2 and not any(row[3::2])


def _programs(one: PlanOfStep) -> str:
    return "\n".join(one.programs) or "the runtime's defaults"


def _cells(headings: Sequence[str], rows: Sequence[list[str]], *, figures: bool = False) -> Cells:
    count = len(headings)
    return Cells(headings, [False, *[figures] * (count - 1)], [False] * count, rows)


def _time_bar(one: ListedPlan) -> StackedBar:
    return StackedBar(one.label, {what: of(one.plan) for what, of in TIME_PARTS.items()})
