"""A planning problem: a model, a batch and a machine, with all recipes to try for it.

All decisions that are not pinned are searched: sizes of the axes, ZeRO, microbatches, the pipeline
schedule and recompute. A pin is a decision that the user fixes, such as ``tensor=8`` or ``zero=1``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, product
from math import inf, isqrt

from grammar.tensors.operations import Step
from hierarchies import InputError, System
from hierarchies.devices import Device
from synth.step.frameworks import FrameworkRules, TrainingSpec
from synth.step.models import ModelSettings, zoo_step
from synth.step.profiles import Profile
from synth.step.rows.grids import Extents, Knobs, extents_of, list_recipes
from synth.step.search.composing.composer import Composer
from synth.step.search.composing.kept import InsideStore
from synth.step.search.composing.reading import LAYERS
from synth.step.search.composing.writing import MICROBATCHES, write_insides
from synth.step.search.families import Family, list_families
from synth.step.search.hints import no_plan_error, not_run_error
from synth.step.search.links import PlacedRecipe
from synth.step.search.pins import AXES, Pins
from synth.step.sharding import Recipe, apply, plan_of
from synth.step.sharding.plan import MOST_PASSES, PIPE
from synth.step.zoo.sizes import Decoder, DescribedModel, Lstm, ModelSource, ResNet, sizes_of

LONG_SEQUENCE = 16_384
"""Number of tokens from which on the search shards a sequence over devices."""

SAMPLES = (1, 2, 4, 8, 16, 32, 64)
"""Numbers of samples per device and microbatch to try, if there are several microbatches."""

SEARCHED_SCHEDULES = ("1f1b", "interleaved-1f1b")
"""Schedules to search by default: other schedules are no faster, or split backward passes."""

CHUNKS = (1, 2, 4, 8)
"""Numbers of chunks per rank to try, in addition to the layers' divisors up to the last number."""


GRADIENT_PIECES = 16
"""Number of pieces in which gradients of a model without layers are reduced during computation."""


@dataclass(frozen=True)
class PlanningProblem:
    """A model with changed sizes, a batch and a machine.

    ``profile``: measurements of local work, which override the rates of the device when a plan is
    simulated. Plans are composed from rates alone.
    """

    model: ModelSource
    changes: Mapping[str, int]
    spelling: ModelSettings
    system: System
    device: Device
    profile: Profile | None = None

    @cached_property
    def layers(self) -> int:
        """Number of identical layers that stages share; 0 for a model in one piece."""
        sizes = sizes_of(self.model, self.changes)
        return 0 if isinstance(sizes, Lstm) else int(getattr(sizes, "layers", 0))

    @cached_property
    def _traced(self) -> dict[tuple[int, int], Step]:
        return {}

    def known(self) -> int:
        """Number of steps traced so far."""
        return len(self._traced)

    def traced(self, batch: int, layers: int = LAYERS) -> Step:
        """Traces the step with ``layers`` layers for a batch; a model in one piece stays whole."""
        if (batch, layers) not in self._traced:
            self._traced[batch, layers] = zoo_step(self.model, *self._spell(batch, layers))
        return self._traced[batch, layers]

    def _spell(self, batch: int, layers: int) -> tuple[dict[str, int], ModelSettings]:
        """Returns the sizes and settings of the step with ``layers`` layers for a batch."""
        sizes = {**self.changes, **({"layers": layers} if self.layers else {})}
        if "groups" in sizes and batch != self.spelling.batch:
            sizes["groups"] = 1  # a smaller batch is the batch of a single replica
        return sizes, replace(self.spelling, batch=batch)

    def _describe(self, batch: int) -> str:
        """Returns all that the step of a batch that insides are read from depends on."""
        sizes, settings = self._spell(batch, LAYERS)
        return f"{self.model!r} {sorted(sizes.items())} {settings}"

    def of_layers(self, layers: int) -> Step:
        """Returns the step with ``layers`` layers, for the whole batch."""
        return self.traced(self.spelling.batch, layers)

    @property
    def step(self) -> Step:
        """The whole step."""
        return self.of_layers(self.layers)

    @cached_property
    def extents(self) -> Extents:
        """The dimensions that the sizes of axes must divide."""
        extents = extents_of(self.traced(MICROBATCHES))
        return replace(extents, batch=self.spelling.batch, layers=self.layers)

    @property
    def assumed(self) -> str:
        """Assumptions of plans about batch normalisation or expert tokens; empty without these."""
        sizes = sizes_of(self.model, self.changes)
        if isinstance(sizes, ResNet) and sizes.groups > 1:
            return (
                "each replica normalises over its own samples, as frameworks do; --sizes groups=1: "
                "over all samples"
            )
        said = list(_assumptions_of(sizes)) if isinstance(sizes, Decoder) else []
        if isinstance(self.model, DescribedModel) and self.model.omitted:
            said.append(f"left out of its config.json: {', '.join(self.model.omitted)}")
        return "; ".join(said)

    @cached_property
    def divides(self) -> bool:
        """Whether the step can be divided into microbatches.

        It cannot if an operation reads all samples at once.
        """
        if isinstance(sizes_of(self.model, self.changes), ResNet):
            return False  # its traced statistics are over a replica's samples of the whole step
        step = self.traced(MICROBATCHES)
        try:
            apply(step, plan_of(step, Recipe((("data", 1),), microbatches=MICROBATCHES)))
        except InputError:
            return False
        return True

    def compose(self) -> Composer:
        """Returns a new composer of plans."""
        layers, batch = self.layers or GRADIENT_PIECES, self.spelling.batch
        insides_of = partial(
            write_insides, self.traced, accelerator=self.device, layers=bool(self.layers)
        )
        kept = InsideStore(self._describe, self.device, bool(self.layers))
        return Composer(layers, batch, insides_of, MICROBATCHES if self.divides else 1, kept)

    @cached_property
    def peak_seconds(self) -> float:
        """Lower bound of every plan: all devices multiply at their peak rate, for any shapes."""
        batch = self.spelling.batch
        count, samples = (MICROBATCHES, 1) if self.divides else (1, batch)
        whole = Recipe((("data", 1),), microbatches=count)
        [alone] = write_insides(self.traced, whole, [samples], _perfect(self.device))
        return alone.seconds(self.layers) / samples * batch / self.system.devices

    def knobs(self, pins: Pins) -> Knobs:
        """Returns the values to try for each decision that is not pinned."""
        devices, batch = self.system.devices, self.spelling.batch
        axes = [*([PIPE] if self.divides and self.layers else []), "data", "tensor"]
        axes += ["expert"] * bool(self.extents.experts)
        axes += ["seq"] * (self.extents.tokens >= LONG_SEQUENCE or "seq" in pins.values)
        counts = divisors(batch) if self.divides else [1]
        schedules = (pins.values["schedule"],) if "schedule" in pins.values else SEARCHED_SCHEDULES
        return Knobs(
            degrees=divisors(devices),
            axes=tuple(axis for axis in AXES if axis in axes),
            schedules=schedules,
            chunks=sorted({*CHUNKS, *(n for n in divisors(self.layers) if n <= CHUNKS[-1])}),
            microbatches=counts,
            unstaged=counts,
            uneven=True,
            vocabulary=[pins.values.get("vocabulary") != "no"],
            bucket_bytes=pins.bucket_bytes or 0,
        )

    def recipes(self, pins: Pins) -> list[Recipe]:
        """Lists all recipes with the pins. Raises InputError with the reason if there are none."""
        known = list(list_recipes(self.system.devices, self.extents, self.knobs(pins)))
        allowed = [recipe for recipe in known if self.allows(pins, recipe)]
        if not allowed:
            devices, batch = self.system.devices, self.spelling.batch
            raise no_plan_error(str(self.model), devices, batch, pins, known, self.possible)
        runnable = list(self.runnable(pins, allowed))
        if not runnable:
            counts = Pins(
                {name: pins.values[name] for name in pins.values if name == "microbatches"}
            )
            usual = [recipe for recipe in known if self.allows(counts, recipe)]
            raise not_run_error(str(self.model), self.system.name, pins, usual, self.rules)
        return runnable

    @cached_property
    def rules(self) -> FrameworkRules:
        """What frameworks run instead of recipes of this job."""
        sizes, spelled = sizes_of(self.model, self.changes), self.spelling
        length = getattr(sizes, "sequence", 1)
        training = TrainingSpec(spelled.batch, length, spelled.dtype, self.device.precision)
        return FrameworkRules(str(self.model), sizes, training, lambda: self.traced(spelled.batch))

    def runnable(self, pins: Pins, recipes: Iterable[Recipe]) -> Iterator[Recipe]:
        """Yields what the frameworks of the pins run instead of recipes, each once.

        Yields the recipes themselves if any recipe may be searched.
        """
        if not pins.frameworks:
            yield from recipes
            return
        seen: set[Recipe] = set()
        for recipe, framework in product(recipes, pins.frameworks):
            try:
                expressed = self.rules.express(framework, recipe)
            except InputError:
                continue
            if expressed not in seen and pins.allow(expressed):
                seen.add(expressed)
                yield expressed

    def runs(self, pins: Pins, recipe: Recipe) -> bool:
        """Whether a framework of the pins runs exactly this recipe; True if they name none."""
        return not pins.frameworks or any(
            not self.rules.refusal(framework, recipe) for framework in pins.frameworks
        )

    def families(self, pins: Pins) -> list[Family]:
        """Lists all plans with the pins, by recipe. Raises as ``recipes`` does."""
        return list_families(self.system, self.recipes(pins))

    def candidates(self, pins: Pins) -> list[PlacedRecipe]:
        """Lists all plans with the pins one by one."""
        return [*chain.from_iterable(self.families(pins))]

    def allows(self, pins: Pins, recipe: Recipe) -> bool:
        """Whether a recipe satisfies the pins and is among those that are tried."""
        return pins.allow(recipe) and ("microbatches" in pins.values or self._usual(recipe))

    def possible(self, batch: int) -> bool:
        """Whether any recipe divides another batch among the devices."""
        counts = divisors(batch) if self.divides else [1]
        knobs = replace(self.knobs(Pins({})), microbatches=counts, unstaged=counts)
        recipes = list_recipes(self.system.devices, replace(self.extents, batch=batch), knobs)
        return next(recipes, None) is not None

    def _usual(self, recipe: Recipe) -> bool:
        """Whether its microbatches have a usual size and its schedule has few enough passes."""
        parts = recipe.replicas * recipe.microbatches
        few = recipe.stages * recipe.microbatches <= MOST_PASSES
        return recipe.microbatches == 1 or (few and self.spelling.batch // parts in SAMPLES)


def _assumptions_of(sizes: Decoder) -> Iterator[str]:
    """Yields what the plans of a decoder assume."""
    if sizes.experts > 1 and sizes.dropless:
        yield "the tokens of a whole batch are sorted by expert: no axis shards that"
    elif sizes.experts > 1:
        yield (
            "all experts get equal numbers of tokens; otherwise the fullest expert drops"
            " tokens, or the step waits for it"
        )
    if sizes.dense_layers:
        yield (
            f"layers without experts (the first {sizes.dense_layers}) are on the first stage and"
            " recomputed"
        )
    if sizes.reach:
        yield f"attention within {sizes.reach} tokens takes as long as to all tokens before"


def _perfect(device: Device) -> Device:
    """Returns a device that multiplies any shapes at its peak rate; all else takes no time."""
    rates = device.matrix_flops_per_second
    return replace(
        device,
        memory_bytes_per_second=inf,
        multiprocessors=1,
        smallest_tile=1,
        tile=1,
        reached_flops_per_second=dict.fromkeys(rates, inf),
        reached_bytes_per_second=None,
        launch_seconds=0.0,
        attention_flops_per_second=(inf, inf),
    )


def divisors(number: int) -> list[int]:
    """Returns all divisors of a number, ascending."""
    small = [divisor for divisor in range(1, isqrt(number) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)})
