"""Keeps the insides of stages from question to question, in memory and on disk.

An inside depends on the model's sizes, the traced step, the inner recipe, the samples and the rates
of the device, and not on the machine's size, its links, the batch or the schedule. The rates are
part of the key: the memory of a pass depends on which tasks overlap, and so on their seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from grammar import Goal
from hierarchies.devices import Device
from synth.cache.codec import Codec
from synth.cache.kept import KeptValues
from synth.step.search.composing.halves import strip_stages
from synth.step.search.composing.inside import Inside, ModelPart, PartCollective, PassWork
from synth.step.search.composing.writing import batch_of
from synth.step.sharding import Recipe, StepPhase

INSIDES_KEPT = 2048
"""Number of insides in memory; one takes about 10 kB."""

KEPT = KeptValues[Inside](
    "inside", Codec(Inside, PassWork, PartCollective, ModelPart, StepPhase, Goal), INSIDES_KEPT
)


@dataclass(frozen=True)
class InsideStore:
    """The kept insides of a model on a device.

    ``describe`` returns all that the traced step of a batch depends on; ``layers`` is whether the
    model has layers.
    """

    describe: Callable[[int], str]
    device: Device
    layers: bool

    def find(self, within: Recipe, counts: Sequence[int]) -> dict[int, Inside]:
        """Returns those insides that are kept, by their numbers of samples."""
        found = ((count, KEPT.find(self._key(within, counts[0], count))) for count in counts)
        return {count: inside for count, inside in found if inside is not None}

    def keep(self, within: Recipe, counts: Sequence[int], insides: Sequence[Inside]) -> None:
        """Keeps insides that were written out together."""
        for count, inside in zip(counts, insides, strict=True):
            KEPT.keep(self._key(within, counts[0], count), inside)

    def _key(self, within: Recipe, first: int, count: int) -> str:
        """Insides that are written out together have the shardings of the first."""
        unstaged = strip_stages(within)
        steps = [self.describe(batch_of(unstaged, samples)) for samples in (first, count)]
        return repr((steps, within, self.device, self.layers))
