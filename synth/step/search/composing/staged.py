"""A recipe by its stages and ranks, on any placement: memory and the sizes of reductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from synth.step.schedules import SCHEDULES, V_SHAPED, count_held
from synth.step.search.composing.clock import StageLayout, lay_out_stages
from synth.step.search.composing.halves import find_peak_kept
from synth.step.search.composing.inside import PARTS, Inside, ModelPart
from synth.step.sharding import Recipe, StepPhase
from synth.step.sharding.plan import PIPE

InsideKey = tuple[Recipe, int]
"""The recipe of the inside of a stage, and the samples of a microbatch on a device."""


@dataclass(frozen=True)
class StagedRecipe:
    """A recipe by its stages and ranks, on any placement of its axes.

    ``cut``: the number of its inside, which recipes with other stages share.
    """

    recipe: Recipe
    cut: int
    inside: Inside
    all_layers: int

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The sizes of the axes."""
        return dict(self.recipe.axes)

    @cached_property
    def layout(self) -> StageLayout:
        """The kinds of stages and of ranks."""
        ranks = self.sizes.get(PIPE, 1)
        recipe = self.recipe
        return lay_out_stages(
            self.all_layers, ranks, recipe.chunks, recipe.layers, folded=self.folded
        )

    @property
    def folded(self) -> bool:
        """Whether stages go down the ranks and back up."""
        return self.recipe.schedule in V_SHAPED

    @cached_property
    def layers(self) -> float:
        """Mean number of layers of a stage."""
        return self.all_layers / len(self.layout.stages)

    @cached_property
    def overlapping(self) -> frozenset[ModelPart]:
        """Parts whose communication overlaps computation: layers, or a model in one piece."""
        return frozenset(
            {ModelPart.LAYER} if self.inside.parameters[ModelPart.LAYER] else ModelPart
        )

    @cached_property
    def pieces(self) -> float:
        """Number of pieces in which a stage's communication overlaps its computation.

        ZeRO-3 gathers parameters between operations, one by one, and reduces gradients the same
        way. Otherwise a layer computes in two halves, and the gradients of each half are reduced
        when it is done.
        """
        by_part = self.inside.parameters, self.inside.experts
        pieces = (
            sum(len(sizes[ModelPart.LAYER]) for sizes in by_part) if self.recipe.zero == 3 else 2
        )
        return self.layers * max(1, pieces)

    @property
    def in_stacks(self) -> bool:
        """Whether parameters of all layers of a stage are gathered at once.

        This holds for the results of an update, and for copies before the first of several
        microbatches.
        """
        one_by_one = self.inside.copies and self.recipe.microbatches == 1
        return 0 < self.recipe.zero < 3 and not one_by_one

    @property
    def gradient_bytes(self) -> float:
        """Bytes of all unsharded gradients of the rank that has the most."""
        layout = self.layout
        return self.inside.gradients * max(layout.of_ranks(layout.of_stages(self.inside.stored)))

    @cached_property
    def bucket_layers(self) -> int:
        """Number of layers in a bucket of the recipe's gradients."""
        return self.layers_in(self.recipe.bucket_bytes)

    def layers_in(self, most: int) -> int:
        """Returns the number of layers in a bucket of ``most`` bytes: 1 unless several fit."""
        of_layer = self.inside.gradients * self.inside.stored[ModelPart.LAYER]
        return max(1, int(min(most / of_layer, self.layers))) if of_layer else 1

    def sums(
        self, part: ModelPart, sizes: Sequence[float], most: int
    ) -> Sequence[tuple[float, float]]:
        """Returns the bytes of each reduction of a part, and its number of calls per layer.

        ``sizes`` are the bytes of the part's parameters, ``most`` is the size of a bucket in bytes.
        """
        gradients = [self.inside.gradients * size for size in sizes]
        layers = self.layers_in(most) if part is ModelPart.LAYER else 1
        if gradients and layers > 1:
            return [(layers * sum(gradients), 1 / layers)]
        buckets: list[float] = []
        for size in gradients:
            if buckets and buckets[-1] + size <= most:
                buckets[-1] += size
            else:
                buckets.append(size)
        return [(size, 1.0) for size in buckets]

    @cached_property
    def sum_pieces(self) -> float:
        """Number of pieces in which gradients are reduced, at most the number of buckets."""
        if not (most := self.recipe.bucket_bytes):
            return self.pieces
        by_part = self.inside.parameters, self.inside.experts
        parts = ((part, sizes[part]) for sizes in by_part for part in self.overlapping)
        sums = (reduction for part, sizes in parts for reduction in self.sums(part, sizes, most))
        count = sum(times for _, times in sums)
        return min(self.pieces, count * (self.layers if self.inside.stored[ModelPart.LAYER] else 1))

    @cached_property
    def updating(self) -> Mapping[ModelPart, float]:
        """Seconds of each part once per step: the sum over microbatches, and the update."""
        inside, zero = self.inside, self.recipe.zero
        shards = self.own if zero else inside.stored
        seconds = {part: inside.update_seconds * shards[part] for part in PARTS}
        layer = inside.stored[ModelPart.LAYER]
        if self.recipe.microbatches > 1 and layer:
            share = self.own[ModelPart.LAYER] / layer if zero >= 2 else 1.0
            seconds[ModelPart.LAYER] += inside.summing_seconds * share
        return seconds

    @cached_property
    def size_bytes(self) -> float:
        """Peak bytes of the fullest device.

        The first of the ranks of one kind holds the most, except in V-shaped or split schedules.
        """
        inside, recipe, ranks = self.inside, self.recipe, self.sizes.get(PIPE, 1)
        layer = inside.stored[ModelPart.LAYER]
        ahead = 2 * layer * inside.gathered if recipe.zero == 3 else 0.0
        # Unsharded gradients: a bucket that is being reduced, and the next while layers fill it.
        beside = min(2 * self.bucket_layers - 1, self.layers - 1)
        if recipe.zero >= self._cuts_gradients_from:
            ahead += beside * layer * inside.gradients
        if recipe.microbatches > 1 and not recipe.zero:
            ahead += self.layers * inside.waiting
        layout = self.layout
        looked_at = range(ranks) if self.folded or inside.halves else layout.firsts
        kept, state = self._kept(looked_at), layout.of_ranks(layout.of_stages(self._state))
        return ahead + max(
            state[layout.rank_kind_of[rank]]
            + kept[rank]
            + inside.working[len(layout.stages) - 1 in layout.of_rank[rank]]
            for rank in looked_at
        )

    @property
    def _cuts_gradients_from(self) -> int:
        """The lowest ZeRO level that shards gradients; ZeRO-1 keeps sums of microbatches whole."""
        return 2 if self.recipe.microbatches > 1 else 1

    def _kept(self, ranks: Sequence[int]) -> Mapping[int, float]:
        """Returns the most bytes that each rank keeps for its backward passes."""
        recipe, inside, layout = self.recipe, self.inside, self.layout
        structure = self.sizes.get(PIPE, 1), recipe.microbatches, recipe.chunks
        saved = layout.of_stages(inside.saved)
        if not inside.halves:
            passes, by_kind = (
                count_held(recipe.schedule or "1f1b", *structure),
                layout.of_ranks(saved),
            )
            return {
                rank: passes[rank] * by_kind[layout.rank_kind_of[rank]] / recipe.chunks
                for rank in ranks
            }
        halves = {key: layout.of_stages(by_kind) for key, by_kind in inside.halves.items()}

        def kept(stage: int) -> Mapping[tuple[StepPhase, StepPhase], float]:
            kind = layout.kind_of[stage]
            if stage:
                return {key: by_kind[kind] for key, by_kind in halves.items()}
            # No stage waits for its gradient, so its whole backward pass is the half for weights.
            return dict.fromkeys(halves, 0.0) | {(StepPhase.FORWARD, StepPhase.WEIGHT): saved[kind]}

        each_rank = find_peak_kept(SCHEDULES[recipe.schedule](*structure), kept)
        return {rank: each_rank[rank] for rank in ranks}

    @property
    def _state(self) -> Mapping[ModelPart, float]:
        """Bytes of parameters, optimizer moments, gradients and copies, by part."""
        inside, recipe, zero = self.inside, self.recipe, self.recipe.zero
        stored = [self.own if zero >= level else inside.stored for level in range(4)]
        whole = 0.0 if zero == 3 else inside.copies
        return {
            part: stored[1 if inside.copies else 3][part]
            + inside.moments * stored[1][part]
            + inside.gradients * stored[self._cuts_gradients_from][part]
            + (inside.tied[part] if recipe.microbatches > 1 and zero >= 2 else 0.0)
            + whole * size
            for part, size in inside.stored.items()
        }

    @cached_property
    def own(self) -> Mapping[ModelPart, float]:
        """Bytes of a device's shard of each part's parameters, over all axes of ZeRO.

        Experts are not sharded over their own axis, because its devices have different experts.
        """
        inside, axes = self.inside, self.recipe.zero_axes
        all_axes, without_experts = (
            prod(self.sizes[axis] for axis in axes if axis != other) for other in ("", "expert")
        )
        return {
            part: (size - sum(inside.experts[part])) / all_axes
            + sum(inside.experts[part]) / without_experts
            for part, size in inside.stored.items()
        }
