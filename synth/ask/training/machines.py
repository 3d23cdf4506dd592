"""The target of a planned step: a machine, and the placement of the plan's axes on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Annotated

from hierarchies import (
    InputError,
    Placement,
    System,
    count_placements,
    placements,
    row_major_placement,
)
from hierarchies.devices import Device, device_named, devices, read_device
from synth.ask.answers.machine_parts import NcclPart
from synth.ask.answers.parts import Json
from synth.ask.questions.fields import CostLimit, File, Flag
from synth.ask.questions.flags import OnePlacement, OptionalMachine
from synth.ask.questions.named_texts import NamedText, NameOrText, system_of
from synth.ask.questions.question import PricedQuestion, axes_of, matrix_of
from synth.ask.training.plans import PlannedQuestion
from synth.collective.ranking.oracle import ProgramPrices
from synth.step.profiles import Profile, check_dtype, check_machine, read_profile
from synth.step.redistribution.seconds import NetworkPrices
from synth.step.sharding import Recipe

Accelerator = Annotated[
    NameOrText | None,
    CostLimit.TEXT,
    Flag(
        "Accelerator",
        ", as in 'H100 SXM5 80 GB' or h100, or a TOML file: the system's own, if not given",
        file=File.DEVICE,
    ),
]

PerhapsProfile = Annotated[
    NamedText | None,
    CostLimit.TEXT,
    Flag(
        "Profile of 'collsynth profile': measured local seconds replace the roofline's",
        file=File.PROFILE,
    ),
]


def profile_of(
    given: NamedText | None, device: Device, count: int, dtype: str = ""
) -> Profile | None:
    """The profile of a question about ``count`` such devices, of a step in a type if it is known.

    Raises InputError for a text that is none, and for one that does not hold there.
    """
    if given is None:
        return None
    found = read_profile(given.text, given.name)
    check_machine(found, device, count, given.name)
    if dtype:
        check_dtype(found, dtype, given.name)
    return found


def accelerator_of(system: System, name: str | NamedText | None) -> Device:
    """The device. Raises InputError for one of which no rates are known, and for none."""
    if isinstance(name, NamedText):
        return read_device(name.text, where=name.name)
    if name is None:
        if not system.device:
            problem = f"{system.name} does not say which accelerators it has"
            raise InputError(problem, where="--device", hint=f"one of {', '.join(devices())}")
        return device_named(system.device)
    begun = [
        device for device in devices() if _normalize_name(device).startswith(_normalize_name(name))
    ]
    return device_named(begun[0] if len(begun) == 1 else name)


def _normalize_name(name: str) -> str:
    """Return a device's name without the parts that have several spellings."""
    return "".join(filter(str.isalnum, name.lower()))


@dataclass(frozen=True)
class TargetMachine:
    """Where a step is to run; ``by_framework``: nobody asked for the placement."""

    system: System
    placement: Placement
    by_framework: bool

    @cached_property
    def network(self) -> NetworkPrices:
        """Prices of redistributions over all axes, that of pipeline stages included."""
        return NetworkPrices(ProgramPrices(self.system), self.placement, without=())

    @property
    def keys(self) -> Json:
        """What answers say of it."""
        return {
            "system": self.system.name,
            "levels": self.system.hierarchy.levels,
            "placement": self.placement,
            "prices": self.system.prices,
            "nccl": NcclPart.of(self.system),
            **({"laid_out_by": "framework"} if self.by_framework else {}),
        }


class StepOnMachineQuestion(PlannedQuestion, PricedQuestion):
    """A training step, the plan that cuts it, and where it runs, if that is said."""

    system: Annotated[OptionalMachine, Flag("System to run on", ", to have seconds, too")] = None
    placement: OnePlacement = None

    def check_recipe(self) -> Recipe | None:
        recipe = super().check_recipe()
        if recipe is not None:
            self.placed(dict(recipe.axes))
        return recipe

    def placed(self, axes: Mapping[str, int]) -> TargetMachine | None:
        """The machine with the placement of these axes; None without a machine.

        The placement is the one that is given, the only one, or that of frameworks. Raises
        InputError for axes that do not multiply to the devices, and where frameworks have no
        placement.
        """
        if self.system is None:
            if self.placement is not None:
                raise InputError(
                    "a placement on no machine", where="--placement", hint="give SYSTEM"
                )
            return None
        system, world = self.priced(system_of(self.system)).check_even(), prod(axes.values())
        if system.devices != world:
            problem = (
                f"the axes multiply to {world} devices, and {system.name} has {system.devices}"
            )
            raise InputError(problem, where="--plan", hint="give axes that multiply to as many")
        return TargetMachine(system, *self._placement(system, axes))

    def _placement(self, system: System, axes: Mapping[str, int]) -> tuple[Placement, bool]:
        named = axes_of(dict(axes))
        if self.placement is not None:
            return Placement(system.hierarchy, named, matrix_of(self.placement)), False
        if count_placements(system.hierarchy, named) == 1:
            return next(placements(system.hierarchy, named)), False
        found = row_major_placement(system.hierarchy, named)
        if found is None:
            raise InputError(
                f"laid out with the last axis innermost they cut a level of {system.hierarchy} in "
                "the middle",
                where="--placement",
                hint="choose one: 'collsynth place' lists them",
            )
        return found, True
