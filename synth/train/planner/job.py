"""What is planned: a model, a batch and a machine; and all that may be tried for it.

What is not pinned is searched: sizes of the axes, ZeRO, microbatches, the schedule of stages, and
what is computed again. A pin is what a recipe must have, as ``tensor=8`` or ``zero=1``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import isqrt

from grammar.tensors.operations import Step
from hierarchies import InputError, System
from hierarchies.devices import Device
from synth.train.choice.grids import Extents, Knobs, extents_of, recipes
from synth.train.models import Spelling, zoo_step
from synth.train.planner.composing.reading import LAYERS
from synth.train.planner.composing.writing import MICROBATCHES
from synth.train.planner.families import Family, families
from synth.train.planner.hints import no_plan
from synth.train.planner.links import Candidate
from synth.train.planner.pins import AXES, Pins
from synth.train.plans import Recipe, apply, plan_of
from synth.train.plans.plan import MOST_PASSES, PIPE
from synth.train.profiles import Profile
from synth.train.zoo.sizes import Llama, Lstm, ResNet, sizes_of

LONG = 16_384
"""From how many tokens on a sequence may be cut among devices."""

SAMPLES = (1, 2, 4, 8, 16, 32, 64)
"""In a microbatch of one device, if the batch is in microbatches."""

SCHEDULED = ("1f1b", "interleaved-1f1b")
"""Orders that are searched unless one is pinned: others are no faster, or need halves."""

CHUNKS = (1, 2, 4, 8)
"""Of a rank; and what of no more divides the layers."""


@dataclass(frozen=True)
class Job:
    """A model of the zoo with sizes as changed, a batch of so many samples, on a machine.

    ``profile``: what was measured of local work, which goes before the rates of the device wherever
    a plan is simulated; plans are composed by rates alone.
    """

    model: str
    changes: Mapping[str, int]
    spelling: Spelling
    system: System
    device: Device
    profile: Profile | None = None

    @cached_property
    def layers(self) -> int:
        """That are alike, and are shared out among stages; 0 of a model in one piece."""
        sizes = sizes_of(self.model, self.changes)
        return 0 if isinstance(sizes, Lstm) else int(getattr(sizes, "layers", 0))

    @cached_property
    def _traced(self) -> dict[tuple[int, int], Step]:
        return {}

    def known(self) -> int:
        """How many steps are traced."""
        return len(self._traced)

    def traced(self, batch: int, layers: int = LAYERS) -> Step:
        """The step with so many layers, for another batch; a model in one piece is as it is."""
        if (batch, layers) not in self._traced:
            few = {**self.changes, **({"layers": layers} if self.layers else {})}
            if "groups" in few and batch != self.spelling.batch:
                few["groups"] = 1  # fewer samples are those of one replica
            spelled = replace(self.spelling, batch=batch)
            self._traced[batch, layers] = zoo_step(self.model, few, spelled)
        return self._traced[batch, layers]

    def of_layers(self, layers: int) -> Step:
        """The step with so many layers, for its whole batch."""
        return self.traced(self.spelling.batch, layers)

    @property
    def step(self) -> Step:
        """The whole step."""
        return self.of_layers(self.layers)

    @cached_property
    def extents(self) -> Extents:
        """What sizes of axes must divide."""
        found = extents_of(self.traced(MICROBATCHES))
        return replace(found, batch=self.spelling.batch, layers=self.layers)

    @property
    def assumed(self) -> str:
        """What plans assume of batch normalisation or tokens of experts; empty without these."""
        sizes = sizes_of(self.model, self.changes)
        if isinstance(sizes, ResNet) and sizes.groups > 1:
            return (
                "each replica normalises by its own samples, as frameworks do; by those of all:"
                " --sizes groups=1"
            )
        if not isinstance(sizes, Llama) or sizes.experts == 1:
            return ""
        if sizes.dropless:
            return "tokens are sorted by their experts, all of a batch at once: no axis cuts that"
        return (
            "every expert is chosen as often as any other; where one is chosen more often, it drops"
            " tokens, or a step waits for it"
        )

    @cached_property
    def divides(self) -> bool:
        """Whether it can be done in microbatches: what reads all samples at once cannot."""
        if isinstance(sizes_of(self.model, self.changes), ResNet):
            return False  # the traced statistics are of a replica's samples in the whole step
        step = self.traced(MICROBATCHES)
        try:
            apply(step, plan_of(step, Recipe((("data", 1),), microbatches=MICROBATCHES)))
        except InputError:
            return False
        return True

    def knobs(self, pins: Pins) -> Knobs:
        """What is tried where nothing is pinned."""
        devices, batch = self.system.devices, self.spelling.batch
        axes = [*([PIPE] if self.divides and self.layers else []), "data", "tensor"]
        axes += ["expert"] * bool(self.extents.experts)
        axes += ["seq"] * (self.extents.tokens >= LONG or "seq" in pins.said)
        counts = divisors(batch) if self.divides else [1]
        schedules = (pins.said["schedule"],) if "schedule" in pins.said else SCHEDULED
        return Knobs(
            degrees=divisors(devices),
            axes=tuple(axis for axis in AXES if axis in axes),
            schedules=schedules,
            chunks=sorted({*CHUNKS, *(one for one in divisors(self.layers) if one <= CHUNKS[-1])}),
            microbatches=counts,
            unstaged=counts,
            uneven=True,
            vocabulary=[pins.said.get("vocabulary") != "no"],
            bucket_bytes=pins.bucket_bytes or 0,
        )

    def recipes(self, pins: Pins) -> list[Recipe]:
        """All with the pins. Raises InputError where there are none, and says why."""
        known = list(recipes(self.system.devices, self.extents, self.knobs(pins)))
        found = [one for one in known if self.allows(pins, one)]
        if not found:
            devices, batch = self.system.devices, self.spelling.batch
            raise no_plan(self.model, devices, batch, pins, known, self.possible)
        return found

    def families(self, pins: Pins) -> list[Family]:
        """All plans with the pins, by their recipes. Raises as ``recipes`` does."""
        return families(self.system, self.recipes(pins))

    def candidates(self, pins: Pins) -> list[Candidate]:
        """The same one by one."""
        return [*chain.from_iterable(self.families(pins))]

    def allows(self, pins: Pins, recipe: Recipe) -> bool:
        """Whether a recipe has what is pinned, and what is tried."""
        return pins.allow(recipe) and ("microbatches" in pins.said or self._usual(recipe))

    def possible(self, batch: int) -> bool:
        """Whether anything divides another batch among the devices."""
        counts = divisors(batch) if self.divides else [1]
        knobs = replace(self.knobs(Pins({})), microbatches=counts, unstaged=counts)
        some = recipes(self.system.devices, replace(self.extents, batch=batch), knobs)
        return next(some, None) is not None

    def _usual(self, recipe: Recipe) -> bool:
        """Whether a microbatch has as many samples as are tried, and an order so many passes."""
        cut = recipe.replicas * recipe.microbatches
        few = recipe.stages * recipe.microbatches <= MOST_PASSES
        return recipe.microbatches == 1 or (few and self.spelling.batch // cut in SAMPLES)


def divisors(number: int) -> list[int]:
    """All of a number, the smallest first."""
    small = [one for one in range(1, isqrt(number) + 1) if number % one == 0]
    return sorted({*small, *(number // one for one in small)})
