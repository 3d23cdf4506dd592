"""Measured plans as the planner would have found them: recipes, seconds, bytes, or why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf

from hierarchies import InputError, System, load, row_major_placement
from hierarchies.devices import device_named
from results.steps.shapes import Plan, Shape
from synth.collective.ranking.oracle import ProgramPrices
from synth.measure.calibration.typical import apply_typical
from synth.step.models import ModelSettings
from synth.step.search.finalists import Finalist, simulate_finalist
from synth.step.search.job import SAMPLES, PlanningProblem
from synth.step.search.links import PlacedRecipe, PricedLinks, axes_of
from synth.step.search.pins import Pins
from synth.step.search.planning import Planner
from synth.step.search.resolution import UncertainSeconds, estimate_errors
from synth.step.sharding import Recipe

NOTHING = Pins({})


@dataclass(frozen=True)
class Offer:
    """A plan that was measured, as the planner has it; ``refused``: why it has it not.

    ``seconds`` of a step are composed, as those that the search goes by.
    """

    candidate: PlacedRecipe | None
    seconds: float = inf
    size_bytes: float = inf
    refused: str = ""


@dataclass(frozen=True)
class Asked:
    """What ``plan`` would be asked for: a model, its batch, a machine and its device."""

    shape: Shape
    sequences: int
    machine: str
    device: str

    @property
    def model(self) -> str:
        """Whose layers are of the same kind."""
        return "llama3-8b" if self.shape.gated else "gpt3-175b"

    @property
    def sizes(self) -> Mapping[str, int]:
        """The model's, as ``--sizes`` says them."""
        one = self.shape
        found = {
            "layers": one.layers,
            "width": one.hidden,
            "heads": one.heads,
            "sequence": one.sequence,
            "vocabulary": one.vocab,
        }
        if one.gated:
            found |= {"key_heads": one.kv_heads or one.heads, "hidden": one.ffn}
        return found


class Offered:
    """What the planner has for one question; each plan is priced once."""

    def __init__(self, asked: Asked) -> None:
        system, self._links, self._answers = _machine(asked.machine)
        spelling = ModelSettings(batch=asked.sequences, dtype="bfloat16")
        device = device_named(asked.device)
        self.job = PlanningProblem(asked.model, asked.sizes, spelling, system, device)
        self._composer = Planner(self.job).composer
        self._composition = self._composer.on(self._links)
        several = self.job.candidates(NOTHING)
        self._every = {replace(one.recipe, layers=()) for one in several}

    def offer(self, plan: Plan, layers: Sequence[int] = ()) -> Offer:
        """A plan where frameworks lay its axes out, if the planner would try it.

        ``layers``: those of each stage, as the framework shared them out. The planner tries one cut
        of the layers for all else that a recipe says, and may be told any.
        """
        try:
            recipe = recipe_of(plan)
            placement = row_major_placement(self.job.system.hierarchy, axes_of(recipe))
            if placement is None:
                return Offer(None, refused="an axis ends in the middle of a node")
            if recipe not in self._every:
                return Offer(None, refused=_not_tried(plan))
            candidate = PlacedRecipe(replace(recipe, layers=built(layers)), placement.matrix)
            size = self._composer.size_bytes(candidate.recipe)
            [seconds] = self._composition.seconds([candidate])
        except InputError as error:
            return Offer(None, refused=error.problem)
        return Offer(candidate, seconds, size)

    def fits(self, size_bytes: float) -> bool:
        """Whether a device has so much memory."""
        return size_bytes <= self.job.device.memory_bytes

    def simulated(self, one: PlacedRecipe) -> Finalist:
        """A plan on the clock. Raises InputError for one that the whole step refuses."""
        return simulate_finalist(
            self.job.of_layers, self.job.layers, one, self._answers, self.job.device
        )

    def likely(self, several: Sequence[Finalist]) -> list[UncertainSeconds]:
        """What simulated plans may be off by."""
        return estimate_errors(several, self._composer, self._links, self.job.system)


@cache
def offered(asked: Asked) -> Offered:
    """The planner's answer to a question is asked for once."""
    return Offered(asked)


@cache
def _machine(name: str) -> tuple[System, PricedLinks, ProgramPrices]:
    """What models that are asked for on one machine share: collectives are priced once."""
    system = apply_typical(load(name))
    return system, PricedLinks(system), ProgramPrices(system, stripes=False)


def _not_tried(plan: Plan) -> str:
    """What keeps a plan out of the search."""
    if plan.micro not in SAMPLES:
        return "microbatches of so many samples are not tried"
    return "not tried"


def built(layers: Sequence[int]) -> tuple[int, ...]:
    """The layers of each stage as a recipe says them; none where all have as many.

    A stage that has no layer, as a large vocabulary may be alone on one, is no recipe's: it takes
    one from the nearest that has several. Raises InputError where there are too few.

    >>> built([6, 5, 5, 0]), built([3, 3, 2, 3, 2, 3, 0, 0]), built([4, 4])
    ((6, 5, 4, 1), (3, 3, 2, 3, 2, 1, 1, 1), ())
    """
    if sum(layers) < len(layers):
        raise InputError("more stages than layers", hint="a layer for each stage at least")
    found = list(layers)
    while 0 in found:
        last = len(found) - 1 - found[::-1].index(0)
        several = (at for at, one in enumerate(found) if one > 1)
        found[min(several, key=lambda at: abs(last - at))] -= 1
        found[last] = 1
    return tuple(found) if len({*found}) > 1 else ()


def recipe_of(plan: Plan) -> Recipe:
    """A published plan as a recipe. Raises InputError for what no recipe says."""
    if plan.again not in (0.0, 1.0):
        raise InputError("a part of a layer is computed again", hint="all layers, or none")
    sizes = {"pipe": plan.pipe, "data": plan.data, "tensor": plan.tensor}
    axes = tuple((name, size) for name, size in sizes.items() if size > 1) or (("data", 1),)
    tensor = "tensor" if plan.tensor > 1 else ""
    order = ("interleaved-1f1b" if plan.chunks > 1 else "1f1b") if plan.pipe > 1 else ""
    return Recipe(
        axes,
        batch=("data",) if plan.data > 1 else (),
        megatron=tensor,
        vocabulary=tensor,
        tokens=tensor if plan.spread else "",
        zero=plan.sharded if plan.data > 1 else 0,
        microbatches=plan.micros,
        schedule=order,
        chunks=plan.chunks,
        remat=plan.again == 1.0,
    )
