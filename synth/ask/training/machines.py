"""The target of a planned step: a machine, and the placement of the plan's axes on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from hierarchies import (
    InputError,
    Placement,
    System,
    count_placements,
    placements,
    row_major_placement,
    suggest_nearest,
)
from hierarchies.devices import (
    Device,
    device_named,
    devices,
    form_factor,
    is_same_device,
    model_words,
    read_device,
)
from synth.ask.answers.machine_parts import NcclPart
from synth.ask.answers.parts import Json
from synth.ask.questions.fields import CostLimit, File, Flag
from synth.ask.questions.flags import OnePlacement, OptionalMachine
from synth.ask.questions.named_texts import NamedText, NameOrText, system_of
from synth.ask.questions.question import PricedQuestion, axes_of, matrix_of
from synth.ask.training.plans import PlannedQuestion
from synth.collective.ranking.oracle import ProgramPrices
from synth.compute.precision import PRECISIONS
from synth.compute.runtimes import IDEAL
from synth.step.frameworks import FRAMEWORKS
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

if TYPE_CHECKING:
    _PrecisionName = str
else:  # type checkers take no literal of a table's keys
    _PrecisionName = Literal[tuple(PRECISIONS)]


def _check_framework(framework: str) -> str:
    """Raises InputError for a framework that is not known."""
    if framework not in ("", IDEAL, *FRAMEWORKS):
        hint = suggest_nearest(framework, (*FRAMEWORKS, IDEAL))
        raise InputError(f"no framework {framework!r}", hint=hint)
    return framework


FrameworkName = Annotated[str, Field(max_length=64), AfterValidator(_check_framework)]
"""A framework that files are written for, ``IDEAL``, or empty."""

PerhapsPrecision = Annotated[
    _PrecisionName | None,
    Flag(
        "Precision of products of weights: fp8 (a scale a tensor) or mxfp8 (blocks of 32);"
        " otherwise that of the data type"
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
    if device.precision:
        problem = f"a profile beside products in {device.precision}"
        raise InputError(problem, where="profile", hint="its products were measured in 16 bits")
    found = read_profile(given.text, given.name)
    check_machine(found, device, count, given.name)
    if dtype:
        check_dtype(found, dtype, given.name)
    return found


def accelerator_of(system: System, name: str | NamedText | None) -> Device:
    """The device: the question's, or the system's own, by any spelling that names one of them.

    Raises InputError for one of which no rates are known, for a name of several, and for none.
    """
    if isinstance(name, NamedText):
        return read_device(name.text, where=name.name)
    named = system.device if name is None else name
    if not named:
        problem = f"{system.name} does not say which accelerators it has"
        raise InputError(problem, where="--device", hint=f"one of {', '.join(devices())}")
    found = _find_devices(named)
    if len(found) > 1:
        hint = f"give one with --device: {', '.join(found)}"
        raise InputError(f"{named!r} names {len(found)} devices", where="--device", hint=hint)
    return device_named(found[0] if found else named)


def _find_devices(name: str) -> list[str]:
    """Return the devices that a name may denote: one that it begins, or a driver's name of one."""
    if name in devices():
        return [name]
    short = _normalize_name(name)
    begun = [
        device
        for device in devices()
        if (rest := _normalize_name(device).removeprefix(short)) != _normalize_name(device)
        and not (short[-1:].isdigit() and rest[:1].isdigit())  # H20 is no H200
    ]
    same = [
        device
        for device in devices()
        if model_words(name.upper()) & model_words(device) and is_same_device(name.upper(), device)
    ]
    sized = [device for device in same if _normalize_name(device)[-4:] in short]
    found = begun or sized or same
    modules = [device for device in found if form_factor(device) not in ("PCIE", "NVL")]
    # Names of cards say so; a name without a form factor is of the module, as drivers write it.
    return found if form_factor(name) or not modules else modules


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
