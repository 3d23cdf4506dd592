"""A recipe by its stages and ranks, wherever its axes lie: what they hold, and how it is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from synth.step.schedules import SCHEDULES, V_SHAPED, count_held
from synth.step.search.composing.clock import KindValues, StageLayout, lay_out_stages
from synth.step.search.composing.halves import find_peak_kept
from synth.step.search.composing.inside import Inside, ModelPart
from synth.step.sharding import Recipe, StepPhase
from synth.step.sharding.plan import PIPE

InsideKey = tuple[Recipe, int]
"""What a recipe says of the inside of a stage, and samples of a microbatch on a device."""


@dataclass(frozen=True)
class StagedRecipe:
    """A recipe by its stages and ranks, wherever its axes lie."""

    recipe: Recipe
    cut: InsideKey
    inside: Inside
    all_layers: int

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """Of the axes."""
        return dict(self.recipe.axes)

    @cached_property
    def lies(self) -> StageLayout:
        """Which stages and which ranks do the same."""
        ranks = self.sizes.get(PIPE, 1)
        recipe = self.recipe
        return lay_out_stages(
            self.all_layers, ranks, recipe.chunks, recipe.layers, folded=self.folded
        )

    @property
    def folded(self) -> bool:
        """Whether its stages go down the ranks and back up."""
        return self.recipe.schedule in V_SHAPED

    @cached_property
    def layers(self) -> float:
        """Of one stage, on average."""
        return self.all_layers / len(self.lies.stages)

    @cached_property
    def _alike(self) -> frozenset[ModelPart]:
        """Whose parameters come, and whose gradients go, while others compute: all in one piece."""
        return frozenset(
            {ModelPart.LAYER} if self.inside.parameters[ModelPart.LAYER] else ModelPart
        )

    def alike(self, of: Mapping[ModelPart, float]) -> KindValues:
        """What each kind of stages has in its layers."""
        return self._of(lambda part: part in self._alike, of)

    def ends(self, of: Mapping[ModelPart, float]) -> KindValues:
        """What each kind of stages has before and after the layers: sent when none computes."""
        return self._of(lambda part: part not in self._alike, of)

    def _of(self, which: Callable[[ModelPart], bool], of: Mapping[ModelPart, float]) -> KindValues:
        return self.lies.of_stages({part: of[part] if which(part) else 0.0 for part in ModelPart})

    @cached_property
    def pieces(self) -> float:
        """In how many a stage's layers are sent while others compute.

        Where parameters are put together between operations, one by one, gradients go so, too; else
        a layer computes in two halves, and what each makes goes when it is done.
        """
        several = self.inside.parameters, self.inside.experts
        each = sum(len(sizes[ModelPart.LAYER]) for sizes in several) if self.recipe.zero == 3 else 2
        return self.layers * max(1, each)

    @property
    def in_stacks(self) -> bool:
        """Whether parameters are put together for all layers of a stage at once.

        So are those that an update makes, and copies before the first of several microbatches.
        """
        one_by_one = self.inside.copies and self.recipe.microbatches == 1
        return 0 < self.recipe.zero < 3 and not one_by_one

    @property
    def gradient_bytes(self) -> float:
        """Of all whole gradients of a rank, at most."""
        lies = self.lies
        return self.inside.gradients * max(lies.of_ranks(lies.of_stages(self.inside.stored)))

    @cached_property
    def bucket_layers(self) -> int:
        """Of how many layers a bucket of its gradients is."""
        return self.layers_in(self.recipe.bucket_bytes)

    def layers_in(self, most: int) -> int:
        """Of how many layers a bucket of so many bytes is: one, unless all of several fit."""
        of_layer = self.inside.gradients * self.inside.stored[ModelPart.LAYER]
        return max(1, int(min(most / of_layer, self.layers))) if of_layer else 1

    def sums(
        self, part: ModelPart, sizes: Sequence[float], most: int
    ) -> Sequence[tuple[float, float]]:
        """Of gradients of parameters of such sizes in buckets of so many bytes.

        That is bytes of each sum, and how many a part has.
        """
        each = [self.inside.gradients * one for one in sizes]
        layers = self.layers_in(most) if part is ModelPart.LAYER else 1
        if each and layers > 1:
            return [(layers * sum(each), 1 / layers)]
        found: list[float] = []
        for one in each:
            if found and found[-1] + one <= most:
                found[-1] += one
            else:
                found.append(one)
        return [(one, 1.0) for one in found]

    @cached_property
    def sum_pieces(self) -> float:
        """In how many gradients are sent: no more than there are buckets."""
        if not (most := self.recipe.bucket_bytes):
            return self.pieces
        several = self.inside.parameters, self.inside.experts
        parts = ((part, of[part]) for of in several for part in self._alike)
        sums = (one for part, sizes in parts for one in self.sums(part, sizes, most))
        count = sum(times for _, times in sums)
        return min(self.pieces, count * (self.layers if self.inside.stored[ModelPart.LAYER] else 1))

    @cached_property
    def updating(self) -> Mapping[ModelPart, float]:
        """Seconds of what is done once, by part: gradients of all microbatches, and the update."""
        inside, zero = self.inside, self.recipe.zero
        own = self.own if zero else inside.stored
        each = {part: inside.update_seconds * own[part] for part in ModelPart}
        layer = inside.stored[ModelPart.LAYER]
        if self.recipe.microbatches > 1 and layer:
            share = self.own[ModelPart.LAYER] / layer if zero >= 2 else 1.0
            each[ModelPart.LAYER] += inside.summing_seconds * share
        return each

    @cached_property
    def size_bytes(self) -> float:
        """Memory of the fullest device: of ranks alike the first holds most, but in a V."""
        inside, recipe, ranks = self.inside, self.recipe, self.sizes.get(PIPE, 1)
        layer = inside.stored[ModelPart.LAYER]
        ahead = 2 * layer * inside.gathered if recipe.zero == 3 else 0.0
        # Whose gradients are whole: of a bucket that is sent, and of the next while layers fill it.
        beside = min(2 * self.bucket_layers - 1, self.layers - 1)
        if recipe.zero >= self._cuts_gradients_from:
            ahead += beside * layer * inside.gradients
        if recipe.microbatches > 1 and not recipe.zero:
            ahead += self.layers * inside.waiting
        lies = self.lies
        looked_at = range(ranks) if self.folded or inside.halves else lies.firsts
        kept, state = self._kept(looked_at), lies.of_ranks(lies.of_stages(self._state))
        return ahead + max(
            state[lies.rank_kind_of[rank]]
            + kept[rank]
            + inside.working[len(lies.stages) - 1 in lies.of_rank[rank]]
            for rank in looked_at
        )

    @property
    def _cuts_gradients_from(self) -> int:
        """The first stage of ZeRO that cuts gradients: ZeRO-1 keeps sums of microbatches whole."""
        return 2 if self.recipe.microbatches > 1 else 1

    def _kept(self, ranks: Sequence[int]) -> Mapping[int, float]:
        """Bytes that ranks keep for their backward passes, at most."""
        recipe, inside, lies = self.recipe, self.inside, self.lies
        structure = self.sizes.get(PIPE, 1), recipe.microbatches, recipe.chunks
        saved = lies.of_stages(inside.saved)
        if not inside.halves:
            passes, each = count_held(recipe.schedule or "1f1b", *structure), lies.of_ranks(saved)
            return {
                rank: passes[rank] * each[lies.rank_kind_of[rank]] / recipe.chunks for rank in ranks
            }
        of = {key: lies.of_stages(each) for key, each in inside.halves.items()}

        def kept(stage: int) -> Mapping[tuple[StepPhase, StepPhase], float]:
            kind = lies.kind_of[stage]
            if stage:
                return {key: each[kind] for key, each in of.items()}
            # Nobody waits for its gradient: all of its backward pass is the half for weights.
            return dict.fromkeys(of, 0.0) | {(StepPhase.FORWARD, StepPhase.WEIGHT): saved[kind]}

        each_rank = find_peak_kept(SCHEDULES[recipe.schedule](*structure), kept)
        return {rank: each_rank[rank] for rank in ranks}

    @property
    def _state(self) -> Mapping[ModelPart, float]:
        """Bytes of parameters and of what goes with them, by part."""
        inside, recipe, zero = self.inside, self.recipe, self.recipe.zero
        at = [self.own if zero >= one else inside.stored for one in range(4)]
        whole = 0.0 if zero == 3 else inside.copies
        return {
            part: at[1 if inside.copies else 3][part]
            + inside.moments * at[1][part]
            + inside.gradients * at[self._cuts_gradients_from][part]
            + (inside.tied[part] if recipe.microbatches > 1 and zero >= 2 else 0.0)
            + whole * size
            for part, size in inside.stored.items()
        }

    @cached_property
    def own(self) -> Mapping[ModelPart, float]:
        """Bytes of parameters of a part in parts: along all axes of samples and tokens.

        But for experts: of those each device of their axis has others.
        """
        inside, axes = self.inside, self.recipe.zero_axes
        every, data = (
            prod(self.sizes[axis] for axis in axes if axis != other) for other in ("", "expert")
        )
        return {
            part: (size - sum(inside.experts[part])) / every + sum(inside.experts[part]) / data
            for part, size in inside.stored.items()
        }
