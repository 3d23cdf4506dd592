"""A first plan by closed formulas, from a transformer's sizes alone, before anything is traced.

It answers within a second what a search improves on. Parameters and multiplications are counted as
in Megatron-LM (Narayanan et al. 2021), activations as by Korthikanti et al. (2022) with flash
attention. Communication is priced by the bounds of the machine's links. Plans are 1F1B on the
placement of frameworks; a few more choices are left to the search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, prod

from grammar import Goal
from hierarchies import System, row_major_placement
from synth.compute.precision import product_peak
from synth.step.rows.grids import Extents, Knobs, list_recipes
from synth.step.search.job import PlanningProblem, divisors
from synth.step.search.links import BoundLinks, PlacedRecipe, axes_of
from synth.step.search.pins import Pins
from synth.step.sharding import Recipe
from synth.step.sharding.plan import PIPE
from synth.step.zoo.sizes import Decoder, Gpt2, sizes_of

EFFICIENCY = 0.5
"""Share of the peak that computation is taken to reach."""

USABLE = 0.8
"""Share of a device's memory that a plan may need by formula: the simulator counts more buffers."""

BYTES_OF_STATE = 12
"""Bytes of a parameter in float32 with its two moments of AdamW; ZeRO shards these."""

BYTES_WHOLE = 6
"""Bytes of a parameter's copy in bfloat16 and of its gradient in float32."""


@dataclass(frozen=True)
class FirstPlan:
    """A plan by formula, and the share by which its seconds exceed those at the peak rate."""

    candidate: PlacedRecipe
    seconds: float
    gap: float


@dataclass(frozen=True)
class TransformerCounts:
    """Parameters, multiplications and activations of a decoder, by formula."""

    sizes: Gpt2 | Decoder

    @cached_property
    def layer_parameters(self) -> tuple[int, int]:
        """Parameters of a layer that every token uses, and those of all experts."""
        match self.sizes:
            case Gpt2(width=width):
                return 12 * width * width + 13 * width, 0
            case Decoder(width=width, experts=experts) as sizes:
                attention = self._attention_parameters(sizes) + 2 * width
                matrices = (3 if sizes.form.gated else 2) * width
                mlp = matrices * sizes.hidden
                if experts == 1:
                    return attention + mlp, 0
                return attention + matrices * (sizes.shared_hidden or 0), experts * mlp

    def _attention_parameters(self, sizes: Decoder) -> int:
        """Returns the parameters of the matrices of attention in a layer of a decoder."""
        width, heads, latent = sizes.width, sizes.heads, sizes.form.latent
        if latent is None:
            return 2 * width * sizes.head * (heads + sizes.key_heads)
        query = latent.query_rank * (width + heads * sizes.head)
        query = query if latent.query_rank else width * heads * sizes.head
        down = width * (latent.key_rank + latent.rotary_width)
        up = latent.key_rank * heads * (latent.plain_width + latent.value_width)
        return query + down + up + heads * latent.value_width * width

    @cached_property
    def dense_parameters(self) -> int:
        """Parameters of the layers without experts that come before the others."""
        sizes = self.sizes
        if not isinstance(sizes, Decoder) or not sizes.dense_layers:
            return 0
        matrices = (3 if sizes.form.gated else 2) * sizes.width
        mlp = matrices * (sizes.dense_hidden or sizes.hidden)
        return sizes.dense_layers * (self._attention_parameters(sizes) + 2 * sizes.width + mlp)

    @cached_property
    def ends_parameters(self) -> int:
        """Parameters before the first and after the last layer."""
        sizes = self.sizes
        words = sizes.vocabulary * sizes.width
        if isinstance(sizes, Decoder):
            return (1 if sizes.form.tied else 2) * words + self.dense_parameters
        return words + sizes.sequence * sizes.width

    @cached_property
    def flops_per_token(self) -> float:
        """Floating-point operations of a token, forward and backward, of what it must compute."""
        sizes = self.sizes
        shared, experts = self.layer_parameters
        used = shared
        if isinstance(sizes, Decoder) and experts:
            used += experts * sizes.chosen // sizes.experts
        elements = 2 * sizes.width
        if isinstance(sizes, Decoder):
            elements = sizes.heads * (sizes.head + sizes.value_head)
        layers = sizes.layers * (used + elements * sizes.sequence) + self.dense_parameters
        return 6.0 * (layers + sizes.vocabulary * sizes.width)

    @cached_property
    def layer_bytes_per_token(self) -> float:
        """Bytes that a layer keeps of a token for its backward pass, in bfloat16."""
        match self.sizes:
            case Gpt2(width=width):
                return 34.0 * width
            case Decoder(width=width, hidden=hidden) as sizes:
                keys = sizes.key_heads * sizes.head
                chosen = 2 * sizes.chosen if sizes.experts > 1 else 1  # experts pad their queues
                more = 2 * (sizes.heads * sizes.head - width)
                wide = hidden * chosen + (sizes.shared_hidden or 0)
                return 2.0 * (6 * width + more + 2 * keys + 4 * wide)

    @cached_property
    def extents(self) -> Extents:
        """The extents that sizes of axes must divide, as ``extents_of`` reads them from a step."""
        sizes = self.sizes
        heads, hidden, experts = sizes.heads, 4 * sizes.width, 0
        if isinstance(sizes, Decoder):
            heads = sizes.key_heads
            # The shared experts' width and that of dense layers are cut over tensor as well.
            dense = sizes.dense_hidden if sizes.dense_layers else None
            hidden = gcd(sizes.hidden, sizes.shared_hidden or 0, dense or 0)
            experts = sizes.experts if sizes.experts > 1 and not sizes.dropless else 0
        return Extents(
            0, sizes.sequence, gcd(heads, hidden), sizes.vocabulary, experts, sizes.layers
        )


def find_first_plan(job: PlanningProblem, pins: Pins) -> FirstPlan | None:
    """Returns the fastest plan by formula among those that fit; None if none is known to.

    None also for models other than decoders, whose formulas are not known.
    """
    sizes = sizes_of(job.model, job.changes)
    if not isinstance(sizes, Gpt2 | Decoder) or (isinstance(sizes, Decoder) and sizes.dropless):
        return None
    dtype, element_bytes = ("bf16", 2) if job.spelling.dtype == "bfloat16" else ("f32", 4)
    counts, batch = TransformerCounts(sizes), job.spelling.batch
    formulas = _Formulas(counts, job.system, element_bytes, batch)
    tokens = batch * sizes.sequence
    peak = product_peak(job.device, dtype) * job.system.devices
    least = formulas.counts.flops_per_token * tokens / peak
    best: FirstPlan | None = None
    for candidate in _candidates(job, formulas.counts, pins):
        if formulas.size_bytes(candidate.recipe) > USABLE * job.device.memory_bytes:
            continue
        seconds = least / EFFICIENCY * formulas.slowdown(candidate.recipe)
        if best is not None and seconds >= best.seconds:
            continue
        seconds += formulas.communication_seconds(candidate)
        if best is None or seconds < best.seconds:
            best = FirstPlan(candidate, seconds, seconds / least - 1)
    return best


def _candidates(
    job: PlanningProblem, counts: TransformerCounts, pins: Pins
) -> Iterator[PlacedRecipe]:
    """Yields recipes with the pins that frameworks place, with tensor parallelism inside a node."""
    system, batch = job.system, job.spelling.batch
    extents = replace(counts.extents, batch=batch)
    knobs = Knobs(
        degrees=divisors(system.devices),
        axes=(PIPE, "data", *(["expert"] if extents.experts else []), "tensor"),
        schedules=("1f1b",),
        chunks=(1,),
        microbatches=divisors(batch),
        unstaged=divisors(batch),
        uneven=True,
        zero=(0, 1, 3),
        sequence=(True, False),
    )
    inner = system.hierarchy.cardinalities[-1]
    near = (
        recipe
        for recipe in list_recipes(system.devices, extents, knobs)
        if dict(recipe.axes).get("tensor", 1) <= inner and job.allows(pins, recipe)
    )
    for recipe in job.runnable(pins, near):
        placement = row_major_placement(system.hierarchy, axes_of(recipe))
        if placement is not None:
            yield PlacedRecipe(recipe, placement.matrix)


@dataclass(frozen=True)
class _Formulas:
    """Seconds and bytes of recipes on a machine, by formula."""

    counts: TransformerCounts
    system: System
    element_bytes: int
    batch: int

    @cached_property
    def _links(self) -> BoundLinks:
        return BoundLinks(self.system)

    def _samples(self, recipe: Recipe) -> int:
        return self.batch // (recipe.replicas * recipe.microbatches)

    def _parameters(self, recipe: Recipe) -> tuple[float, float]:
        """Returns a device's parameters that all replicas share, and those of its experts."""
        sizes, layers = dict(recipe.axes), self.counts.sizes.layers
        shared, experts = self.counts.layer_parameters
        stage, tensor = -(-layers // recipe.stages), sizes.get("tensor", 1)
        ends = self.counts.ends_parameters / (1 if recipe.stages == 1 else 2)
        ends /= tensor if recipe.vocabulary else 1
        own = experts * stage / tensor / sizes.get("expert", 1)
        return shared * stage / tensor + ends, own

    def size_bytes(self, recipe: Recipe) -> float:
        """Returns the bytes of the fullest device, that of the first rank."""
        sizes = dict(recipe.axes)
        shared, experts = self._parameters(recipe)
        replicas = prod(sizes.get(axis, 1) for axis in recipe.zero_axes)
        whole = BYTES_WHOLE if recipe.zero < 3 else BYTES_WHOLE / replicas
        state = whole + BYTES_OF_STATE / (replicas if recipe.zero else 1)
        outer = BYTES_WHOLE + BYTES_OF_STATE / (sizes.get("data", 1) if recipe.zero else 1)
        kept = self._kept_bytes(recipe)
        model = self.counts.sizes
        logits = 10.0 * model.vocabulary * model.sequence * self._samples(recipe)
        logits /= sizes.get("tensor", 1) if recipe.vocabulary else 1
        kept *= self.element_bytes / 2
        return state * shared + outer * experts + kept + logits / (1 if recipe.stages == 1 else 2)

    def _kept_bytes(self, recipe: Recipe) -> float:
        """Returns the bytes kept in bfloat16: of microbatches in flight, of a recomputed layer."""
        model, tensor = self.counts.sizes, dict(recipe.axes).get("tensor", 1)
        tokens = self._samples(recipe) * model.sequence
        by_tokens = tensor if recipe.tokens else 1
        between = 10.0 * model.width * tokens * (1 / by_tokens - 1 / tensor)
        layer = self.counts.layer_bytes_per_token * tokens / tensor + between
        flying = min(recipe.stages, recipe.microbatches)
        stage = -(-model.layers // recipe.stages)
        if recipe.remat:
            return 2.0 * model.width * tokens / by_tokens * stage * flying + 2 * layer
        return layer * stage * flying

    def slowdown(self, recipe: Recipe) -> float:
        """Returns the factor of the bubble, of uneven stages and of recompute."""
        layers = self.counts.sizes.layers
        uneven = -(-layers // recipe.stages) * recipe.stages / layers
        bubble = 1 + (recipe.stages - 1) / recipe.microbatches
        return uneven * bubble * (4 / 3 if recipe.remat else 1)

    def communication_seconds(self, candidate: PlacedRecipe) -> float:
        """Returns the seconds of tensor, expert and data parallelism in a step, none hidden."""
        recipe, rows, model = candidate.recipe, candidate.row_of, self.counts.sizes
        shared, experts = self._parameters(recipe)
        passes = recipe.microbatches * -(-model.layers // recipe.stages)
        values = float(self.element_bytes) * self._samples(recipe) * model.sequence * model.width
        seconds = 0.0
        if "tensor" in rows:
            each = self._links.seconds(Goal.ALL_REDUCE, rows["tensor"], values)
            seconds += (6 if recipe.remat else 4) * passes * each
        if "expert" in rows:
            chosen = getattr(model, "chosen", 1)
            each = self._links.seconds(Goal.ALL_TO_ALL, rows["expert"], chosen * values)
            seconds += 4 * passes * each
        if "data" in rows:
            gathers = 2 * recipe.microbatches if recipe.zero == 3 else 0
            size = 4.0 * (shared + experts)
            seconds += self._links.seconds(Goal.ALL_REDUCE, rows["data"], size)
            seconds += gathers * self._links.seconds(Goal.ALL_GATHER, rows["data"], size / 2)
        return seconds
