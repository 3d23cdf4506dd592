"""The parts of answers about machines, and what only answers say of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import Field

import hierarchies
from hierarchies import CalibrationPart, DevicePart, LevelInFull, Machine, MachineException, System
from hierarchies.files.machine import NamedMachine
from hierarchies.files.schema import LevelPart
from synth.ask.answers.parts import (
    AnswerPart,
    NonEmptyText,
    OrderedPart,
    Positive,
    optional_key,
)
from synth.collective.algorithms.nccl_versions import explain_tuner, version_of
from synth.collective.algorithms.nccl_versions import stated_by as stated_by_of
from synth.collective.algorithms.runtimes import CollectiveRuntime as CollectiveRuntime
from synth.collective.algorithms.runtimes import runtime_of_system
from synth.measure.calibration.experiments import isolating_experiment, launch_lines
from synth.measure.calibration.typical import load_typical, medium_of

RuntimeName = Annotated[CollectiveRuntime, Field(strict=False)]
PricesName = Literal["stated", "typical", "calibrated"]


class LevelInBrief(LevelPart, AnswerPart):
    """One level of a machine."""


class CountedMachine(NamedMachine):
    """A machine and its size."""

    devices: Positive = Field(description="Number of devices, including missing ones.")


class MachineInBrief(CountedMachine, AnswerPart):
    """A machine in a few words."""

    levels: list[LevelInBrief] = Field(min_length=1, description="Outermost first.")

    @classmethod
    def of(cls, system: System) -> Self:
        return cls.like(system, system.hierarchy)


class TellingTest(AnswerPart):
    """A test that tells levels apart of which one is slow: the innermost one alone."""

    levels: Annotated[list[str], Field(min_length=2)] = Field(
        description="Levels of which one is slow."
    )
    test: NonEmptyText = Field(description="Its name, in a plan of tests.")
    where: NonEmptyText = Field(description="Devices it runs on, in words.")
    line: NonEmptyText = Field(
        description="The line that runs it, TESTS being the folder of nccl-tests."
    )

    @classmethod
    def of(cls, system: System, undetermined: hierarchies.UndeterminedLevels) -> Self | None:
        """None where no group of ranks has that level alone."""
        inner = max(undetermined.levels, key=system.hierarchy.index)
        whole = replace(system, faults=())
        experiment = isolating_experiment(whole, inner)
        if experiment is None:
            return None
        line = launch_lines(whole, experiment).mpirun
        return cls.like(undetermined, experiment.groups, test=experiment.name, line=line)

    @classmethod
    def all_of(cls, system: System) -> list[Self]:
        """Those of all levels that a calibration of the machine does not tell apart."""
        known = system.calibration.undetermined_levels if system.calibration else ()
        return [test for levels in known if (test := cls.of(system, levels))]


class SlowKind(AnswerPart):
    """Machines with a level's links that were measured to be slower than a typical price says."""

    level: NonEmptyText = Field(description="The level with such links.")
    medium: NonEmptyText = Field(description="The kind of its links.")
    machines: Positive = Field(description="Families of machines with such links, all measured.")
    slow: Positive = Field(description="How many of these are slow.")
    slow_share: Annotated[list[float], Field(min_length=2, max_length=2)] = Field(
        description="Least and greatest share of the data sheet that the slow ones reach."
    )
    share: float = Field(description="The share of those that work, which the prices take.")

    @classmethod
    def all_of(cls, system: System) -> list[Self]:
        """Those of all levels of a machine with typical prices."""
        if system.prices != "typical":
            return []
        known = load_typical()
        media = [known.of(medium_of(link)) for link in system.links]
        return [
            cls(
                level=name,
                medium=medium.name,
                machines=medium.families,
                slow=len(medium.slow),
                slow_share=[min(medium.slow), max(medium.slow)],
                share=medium.share,
            )
            for name, medium in zip(system.hierarchy.names, media, strict=True)
            if medium and medium.slow
        ]


class NcclPart(AnswerPart):
    """The version of NCCL, or RCCL, whose default a gain is over."""

    version: NonEmptyText = Field(description="The version, as in 2.29.7.")
    stated_by: Literal["question", "calibration", "default"] = Field(
        description="Who states it; default: nobody does, and it is assumed."
    )
    measured: NonEmptyText = optional_key("Version of the measurements, if it is another.", "")
    tuner: NonEmptyText = optional_key(
        "What else may choose its algorithms on such a machine, in a sentence.", ""
    )

    @classmethod
    def of(cls, system: System) -> Self | None:
        """None where the collectives are of another library."""
        if not runtime_of_system(system).told:
            return None
        version, stated_by = str(version_of(system)), stated_by_of(system)
        measured = system.calibration.nccl if system.calibration else ""
        others = {"measured": measured} if measured not in ("", version) else {}
        others |= {"tuner": tuner} if (tuner := explain_tuner(system)) else {}
        return cls(version=version, stated_by=stated_by, **others)


class MachineInFull(Machine, CountedMachine, OrderedPart):
    """A machine with every number of its links, and who says so."""

    last = ("calibration", "slow_kinds", "tells")

    runtime: RuntimeName = Field(description="Runtime of its collectives.")
    nccl: NcclPart | None = Field(description="Version of NCCL or RCCL; null for other runtimes.")
    prices: PricesName = Field(description="Basis of prices: see --prices.")
    slow_kinds: Annotated[list[SlowKind], Field(min_length=1)] = optional_key(
        "Levels for whose links many machines were measured to be slower than their prices.", []
    )
    tells: Annotated[list[TellingTest], Field(min_length=1)] = optional_key(
        "Tests that distinguish levels which the measurements do not.", []
    )

    @classmethod
    def of(cls, system: System) -> Self:
        known = system.calibration
        return cls.like(
            system,
            levels=LevelInFull.of_all(system),
            runtime=runtime_of_system(system),
            nccl=NcclPart.of(system),
            exceptions=MachineException.all_of(system),
            device=DevicePart.of(system),
            calibration=CalibrationPart.of(known, system.hierarchy.names) if known else None,
            **({"slow_kinds": slow} if (slow := SlowKind.all_of(system)) else {}),
            **({"tells": tells} if (tells := TellingTest.all_of(system)) else {}),
        )
