"""The result of planning: the plans found, what the search proves, and memory savings to try."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from synth.search.space import BestFound, Found, Infeasible, NoneFound, Optimal
from synth.step.search.composing.composer import Composer
from synth.step.search.finalists import Finalist
from synth.step.search.hints import MemorySaving, find_least_memory, find_savings
from synth.step.search.job import PlanningProblem
from synth.step.search.links import ComposedPlan, PlacedRecipe
from synth.step.search.pins import Pins
from synth.step.search.resolution import UncertainSeconds, choose_advised, compare_seconds
from synth.step.search.searching import Search
from synth.step.zoo.sizes import sizes_of


@dataclass(frozen=True)
class PlanningResult:
    """A search, its first plans (``looked_at``), and the simulations of the best of them.

    * ``finalists``: the simulated plans, fastest first;
    * ``likely``: the seconds of each finalist with their errors;
    * ``usual``: the best plan whose axes are placed as frameworks place them;
    * ``laid_out``: the simulated seconds of that plan, unless the first is placed that way;
    * ``least_seconds``: a lower bound in which all devices compute all the time;
    * ``refused``: reasons why plans are invalid, with the number of plans;
    * ``nearest``: if no plan fits, the plan that needs the least memory, and its bytes;
    * ``peak_seconds``: a lower bound if not all plans were looked at, otherwise None;
    * ``front``: the search's front, if it was requested.
    """

    search: Search
    looked_at: tuple[ComposedPlan, ...]
    finalists: tuple[Finalist, ...]
    likely: tuple[UncertainSeconds, ...]
    usual: ComposedPlan | None
    laid_out: UncertainSeconds | None
    least_seconds: float
    refused: tuple[tuple[str, int], ...]
    nearest: tuple[PlacedRecipe, float] | None
    complete: bool
    peak_seconds: float | None
    front: tuple[ComposedPlan, ...]

    def advised(self, memory_bytes: float, among: Sequence[int]) -> int:
        """Returns the index of the plan to advise, ``among`` those of plans that may be advised."""
        likely = [self.likely[number] for number in among]
        differences = [compare_seconds(likely[0], seconds) for seconds in likely]
        finalists = [self.finalists[number] for number in among]
        return among[choose_advised(finalists, differences, memory_bytes)]

    def verdict(self, memory_bytes: float) -> Found[PlacedRecipe]:
        """Returns what the search proves about composed seconds."""
        bound, nearest = self.peak_seconds, None
        if self.finalists:
            first = self.looked_at[0]
            if bound is None:
                return Optimal(first.candidate, first.seconds)
            return BestFound(first.candidate, first.seconds, bound)
        if self.nearest is not None:
            candidate, size = self.nearest
            nearest = Infeasible(f"too much memory: {candidate.recipe}", size - memory_bytes)
        exhausted = bound is None and not self.search.fitting
        return nearest if nearest is not None and exhausted else NoneFound(nearest)


def list_savings(
    job: PlanningProblem, composer: Composer, pins: Pins, result: PlanningResult
) -> tuple[MemorySaving, ...]:
    """Lists changes that need less memory, with their bytes, if no plan fits."""
    if result.nearest is None or result.search.fitting or not result.search.complete:
        return ()
    nearest, size = result.nearest
    recipe = nearest.recipe

    def least_without(name: str) -> float:
        return find_least_memory(composer, job.recipes(pins.without(name)))

    def doubled() -> float:
        """Returns the memory with twice the samples on twice the devices."""
        axes = tuple((name, size * (1 + (name == "data"))) for name, size in recipe.axes)
        larger = replace(composer, batch=2 * composer.batch, _plans={})
        return larger.size_bytes(replace(recipe, axes=axes))

    def halved() -> float:
        """Returns the memory with half the tokens."""
        changes = {**job.changes, "sequence": tokens // 2}
        return replace(job, changes=changes).compose().size_bytes(recipe)

    tokens = getattr(sizes_of(job.model, job.changes), "sequence", 1)
    changes: dict[str, Callable[[], float]] = {
        f"without {name}={value}": partial(least_without, name)
        for name, value in pins.values.items()
    }
    if "data" in dict(recipe.axes):
        changes["twice the devices, over data"] = doubled
    if tokens % 2 == 0:
        changes["half the sequence"] = halved
    return find_savings(size, changes)
