"""Plans compared: figures and decisions that differ, and their timelines on one scale.

The plans may be of one answer or of several: the page of an answer, the comparison of two answers
and reports show the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from markupsafe import Markup

from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.training.planned import PlanOfStep
from synth.show.report.charts import StackedBar, draw_bars
from synth.show.report.plans.words import stage_layers
from synth.show.report.rendering import Cells
from synth.show.report.steps import draw_timeline
from synth.show.terminal.training.simulated import TIME_PARTS
from synth.step.sharding import AND, CLAUSES, parse_recipe


@dataclass(frozen=True)
class ListedPlan:
    """A plan with its label."""

    label: str
    plan: PlanOfStep

    @property
    def entry(self) -> str:
        return f"{self.label}: {self.plan.title}"


@dataclass(frozen=True)
class PlanComparison:
    """The differences of plans in figures and decisions, and what they have in common.

    ``timelines`` are on one scale: a second is as wide in each.
    """

    figures: Cells
    note: str
    layout: Cells
    same: Cells
    spent: Markup
    timelines: Sequence[tuple[str, Markup]]


@dataclass(frozen=True)
class Figure:
    """A figure of a plan: its value and text; ``points``: whether it is a share."""

    of: Callable[[PlanOfStep], float]
    text: Callable[[float], str]
    points: bool = False

    def cells(self, first: PlanOfStep, others: Sequence[PlanOfStep]) -> Iterator[str]:
        """Yield the text of the first plan; of each other plan, with the difference."""
        base = self.of(first)
        yield self.text(base)
        for other in others:
            yield self.text(self.of(other))
            yield self._more(base, self.of(other) - base)

    def _more(self, base: float, more: float) -> str:
        """Return a difference with its sign and its share of the base; empty without one."""
        if self.points:
            return f"{100 * more:+.1f} points" if round(abs(100 * more), 1) else ""
        if not more:
            return ""
        part = f" ({_part(more / base)})" if base else ""
        return f"{'+' if more > 0 else '-'}{self.text(abs(more))}{part}"


def _part(share: float) -> str:
    """Return a share with its sign, with a decimal where it would round to zero.

    >>> _part(0.25), _part(-0.0013), _part(1e-5)
    ('+25%', '-0.1%', 'below 0.1%')
    """
    if round(abs(100 * share)):
        return f"{share:+.0%}"
    return f"{share:+.1%}" if round(abs(1000 * share)) else "below 0.1%"


_FIGURES: Mapping[str, Figure] = {
    "step time": Figure(lambda plan: plan.seconds, format_duration),
    "tokens per second": Figure(lambda plan: plan.tokens_per_second, lambda rate: f"{rate:,.0f}"),
    "MFU": Figure(lambda plan: plan.utilisation, lambda share: f"{share:.1%}", points=True),
    **{what: Figure(of, format_duration) for what, of in TIME_PARTS.items()},
    "peak memory": Figure(lambda plan: plan.memory.bytes, format_bytes),
}


def compare_plans(seen: Sequence[ListedPlan], note: str = "") -> PlanComparison:
    """Compare plans with the first; ``note``: a note on the uncertainty of the difference."""
    plans, labels = [listed.plan for listed in seen], [listed.label for listed in seen]
    figures = [[what, *figure.cells(plans[0], plans[1:])] for what, figure in _FIGURES.items()]
    how = [{**layout_clauses(plan), "programs": _programs(plan)} for plan in plans]
    layout = [[what, *(decisions[what] or "nothing" for decisions in how)] for what in how[0]]
    alike = [
        *filter(_is_alike, figures),
        *(row for row in layout if len({*row[1:]}) == 1 < len(how)),
    ]
    headings = chain.from_iterable((label, "difference") for label in labels[1:])
    apart = [row for row in figures if row not in alike]
    longest = max(plan.seconds for plan in plans)
    bars = [
        StackedBar(entry.label, {k: of(entry.plan) for k, of in TIME_PARTS.items()})
        for entry in seen
    ]
    return PlanComparison(
        Cells.of(["figure", labels[0], *headings], apart, figures=True),
        note,
        Cells.of(["decision", *labels], [row for row in layout if row not in alike]),
        Cells.of(["the same for all plans", ""], [row[:2] for row in alike]),
        draw_bars("Where the busiest rank's time goes", [*TIME_PARTS], bars, format_duration),
        [
            (
                listed.entry,
                draw_timeline(listed.label, listed.plan.seconds, listed.plan.ranks, longest),
            )
            for listed in seen
        ],
    )


def _is_alike(row: Sequence[str]) -> bool:
    """Whether a row of figures has no differences."""
    return len(row) > 2 and not any(row[3::2])


def _programs(plan: PlanOfStep) -> str:
    return "\n".join(plan.programs) or "the runtime's defaults"


def clauses(plan: str) -> Mapping[str, str]:
    """Return the decisions of a plan, by name."""
    recipe = parse_recipe(plan)
    cuts = [CLAUSES[clause][0].format(AND.join(axes)) for clause, axes in recipe.clauses.items()]
    chunks = f", {recipe.chunks} chunks" if recipe.chunks > 1 else ""
    return {
        "axes": " ".join(f"{name}={size}" for name, size in recipe.axes),
        "sharding": "; ".join(cuts),
        "ZeRO": str(recipe.zero),
        "schedule": f"{recipe.schedule}{chunks}{stage_layers(recipe)}" or "no stages",
        "microbatches": str(recipe.microbatches),
        "recomputed": "layers" if recipe.remat else "nothing",
        "gradient reduction": (
            f"in buckets of {recipe.bucket_bytes / 1e6:.6g} MB"
            if recipe.bucket_bytes
            else "each gradient alone"
        ),
    }


def layout_clauses(plan: PlanOfStep) -> Mapping[str, str]:
    """Return the decisions of a plan of an answer, with its placement."""
    return {**clauses(plan.recipe), "placement": str(plan.placement)}


def differing_clauses(plans: Sequence[PlanOfStep]) -> Mapping[str, Sequence[str]]:
    """Return the decisions besides axes in which plans differ, by name.

    The placement is among that, where it says more than the axes do.
    """
    every = [layout_clauses(plan) for plan in plans]
    by_axes = {clauses["axes"]: clauses for clauses in every}
    return {
        what: [clauses[what] or "-" for clauses in every]
        for what in (every[0] if every else ())
        if any(by_axes[clauses["axes"]][what] != clauses[what] for clauses in every)
    }
