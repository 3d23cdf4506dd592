"""The parts of answers about machines: levels and links, missing parts, measurements."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import Field

import hierarchies
from hierarchies import Domain, Fault, Hierarchy, Level, Link, System, parse_fault, table_of
from synth.ask.answers.parts import (
    AnswerPart,
    NonEmptyText,
    Number,
    Positive,
    Share,
    Whole,
    optional_key,
)
from synth.collective.algorithms.nccl_versions import stated_by as stated_by_of
from synth.collective.algorithms.nccl_versions import version_of
from synth.collective.algorithms.runtimes import CollectiveRuntime, runtime_of_system
from synth.collective.emit.document.schema import LevelPart
from synth.measure.calibration.experiments import isolating_experiment, launch_lines

RuntimeName = Annotated[CollectiveRuntime, Field(strict=False)]
PricesName = Literal["stated", "typical", "calibrated"]
DomainName = Annotated[Domain, Field(strict=False)]


class LevelInBrief(LevelPart, AnswerPart):
    """One level of a machine."""


class LevelInFull(LevelInBrief):
    """One level, every number of its links, and who says so."""

    domain: DomainName = Field(description="How children of one parent are connected.")
    medium: str = Field(description="Medium of its links: nvlink, infiniband, ...; may be empty.")
    bandwidth_GB_per_s: Number = Field(description="Bandwidth of one port in one direction.")
    latency_us: Number = Field(
        description="Latency of a message by protocol Simple, in microseconds."
    )
    ll_latency_us: Number | None = Field(
        description="Latency by protocol LL; null where it does not exist."
    )
    ll128_latency_us: Number | None = Field(
        description="Latency by protocol LL128; null where it does not exist."
    )
    reduces: bool = Field(description="Whether its switches reduce.")
    ports: Positive = Field(description="Ports of one child.")
    wraps: bool = Field(description="Whether the ends of a ring or torus are connected.")
    through: list[str] = Field(description="Inner levels whose links are crossed, too.")
    sources: dict[str, str] = Field(description="Where each number comes from, by its key.")
    unconfirmed: list[str] = Field(description="Keys whose numbers no primary source confirms.")

    @classmethod
    def of(cls, level: Level, link: Link) -> Self:
        return cls.like(
            level,
            link,
            bandwidth_GB_per_s=link.bandwidth_bytes_per_second / 1e9,
            latency_us=link.latency_seconds * 1e6,
            ll_latency_us=_microseconds(link.ll_latency_seconds),
            ll128_latency_us=_microseconds(link.ll128_latency_seconds),
            sources=link.sources or {},
        )

    def link(self) -> Link:
        """The links of the level, as ``of`` was given them."""
        return Link(
            self.domain,
            self.bandwidth_GB_per_s * 1e9,
            self.latency_us * 1e-6,
            self.ports,
            tuple(self.through),
            self.sources,
            tuple(self.unconfirmed),
            self.reduces,
            _seconds(self.ll_latency_us),
            _seconds(self.ll128_latency_us),
            self.medium,
            self.wraps,
        )

    @classmethod
    def of_all(cls, system: System) -> list[LevelInFull]:
        """The levels of a machine, outermost first."""
        return list(map(cls.of, system.hierarchy.levels, system.links))


def _microseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e6


def _seconds(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds * 1e-6


class DevicePart(AnswerPart):
    """The device of a machine."""

    memory_GB_per_s: Number = Field(description="The bandwidth of its memory.")
    source: str = Field(description="Where the number comes from.")
    unconfirmed: list[str] = Field(description="Keys whose numbers no primary source confirms.")


class MachineException(AnswerPart):
    """Something of a machine that is missing or slower than its description says."""

    unit: str = Field(description="Path of the unit, such as rack0/node3, counted from 0.")
    missing: bool = Field(description="Whether it is missing.")
    bandwidth_share: Share | None = Field(
        description="Remaining share of its bandwidth; null if it is missing."
    )
    source: str = Field(description="Source of the information.")

    def fault(self, hierarchy: Hierarchy) -> Fault:
        """The same of a machine."""
        share = 0.0 if self.missing else self.bandwidth_share or 1.0
        return parse_fault(self.unit, hierarchy, share, self.source)

    @classmethod
    def all_of(cls, system: System) -> list[Self]:
        """What of a machine is missing or slower."""
        return [
            cls.like(
                fault,
                unit=fault.name(system.hierarchy),
                bandwidth_share=None if fault.missing else fault.share,
            )
            for fault in system.faults
        ]


class _FitScopePart(AnswerPart):
    """What a fitted number is of; a key that is left out stands for all of them."""

    collective: NonEmptyText = optional_key("The only collective it holds for.", "")
    algorithm: NonEmptyText = optional_key("The only algorithm it holds for.", "")
    protocol: NonEmptyText = optional_key("The only protocol it holds for.", "")


class FitPart(_FitScopePart):
    """Fitted numbers of one way, by level."""

    launch_us: Number = Field(description="Cost of a call, whatever its size.")
    hop_us: dict[str, Number] = Field(description="Latency of every message.")
    gap_us: dict[str, Number] = Field(description="Minimal gap between two messages.")
    share: dict[str, Number] = Field(
        description="Share of the described bandwidth that is reached."
    )
    peer_us: dict[str, Number] = optional_key(
        "Cost of each member that a device exchanges with at once.", {}
    )
    wide: dict[str, Number] = optional_key("Factor on that share for more than two children.", {})
    loss: dict[str, Number] = optional_key("Loss of that share per doubling of children.", {})
    rows: Whole = Field(description="Number of measured rows attributed to this algorithm.")


class ResidualPart(_FitScopePart):
    """How far measured times lay from fitted ones, in one class of sizes."""

    from_bytes: Whole = Field(description="Size at which the class begins.")
    rows: Positive = Field(description="Number of its rows.")
    low: Number = Field(
        description="Lower end of the range of 9 in 10 ratios of measured to fitted."
    )
    median: Number = Field(description="Median ratio.")
    high: Number = Field(description="Upper end of that range.")


class MeasuredTablePart(AnswerPart):
    """What measured rows were of."""

    collective: str = Field(description="Of this collective.")
    members: dict[str, Positive] = Field(
        description="By level: number of children in which a group has ranks."
    )
    ways: list[str] = Field(description="Algorithm and protocol, with a space between.")
    from_bytes: Positive = Field(description="The smallest size.")
    to_bytes: Positive = Field(description="The largest size.")
    forced: bool = Field(
        description="Whether the algorithm is known to have run, or else was assigned."
    )


class StrayPart(AnswerPart):
    """How far tables lay from fits without them, in one class of sizes."""

    collective: NonEmptyText = optional_key("The only collective it holds for.", "")
    from_bytes: Whole = Field(description="Size at which the class begins.")
    tables: Whole = Field(description="Number of tables left out in turn.")
    low: Number = Field(
        description="Lower end of the range of 9 in 10 ratios of measured to fitted."
    )
    high: Number = Field(description="Upper end of that range.")


class AmbiguityPart(AnswerPart):
    """Levels of which one is slower than expected, and no row tells which."""

    levels: Annotated[list[str], Field(min_length=2)] = Field(
        description="Levels of which one is slow."
    )
    taken: str = Field(description="The one that is taken to be.")


class CalibrationPart(AnswerPart):
    """What was measured on a machine: the ``[calibration]`` of its description."""

    runtime: Literal["fastest", "model"] = Field(description="Observed choices of the runtime.")
    nccl: NonEmptyText = optional_key("Version of NCCL of the measurements, if they state it.", "")
    families: Whole = Field(
        description="Number of other machines it is taken from, if none is this one."
    )
    sources: list[str] = Field(description="Measurements used.")
    undetermined: list[str] = Field(description="Numbers that they do not determine.")
    dropped: list[str] = Field(description="Rows that the fit did not follow.")
    fit: list[FitPart] = Field(min_length=1, description="The fitted numbers.")
    residual: Annotated[list[ResidualPart], Field(min_length=1)] = optional_key(
        "Residuals of the fit.", []
    )
    measured: Annotated[list[MeasuredTablePart], Field(min_length=1)] = optional_key("Of what.", [])
    stray: Annotated[list[StrayPart], Field(min_length=1)] = optional_key(
        "Residuals where tables were left out.", []
    )
    machines: Annotated[list[ResidualPart], Field(min_length=1)] = optional_key(
        "Spread of machines with such links.", []
    )
    untold: Annotated[list[AmbiguityPart], Field(min_length=1)] = optional_key(
        "Levels that cannot be distinguished.", []
    )


class MachineInBrief(AnswerPart):
    """A machine in a few words."""

    name: str = Field(description="Its name in the catalogue, or in its description.")
    title: str = Field(description="Title; may be empty.")
    devices: Positive = Field(description="Number of devices.")
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
    def of(cls, system: System, untold: hierarchies.UndeterminedLevels) -> Self | None:
        """None where no group of ranks has that level alone."""
        inner = max(untold.levels, key=system.hierarchy.index)
        whole = replace(system, faults=())
        experiment = isolating_experiment(whole, inner)
        if experiment is None:
            return None
        line = launch_lines(whole, experiment).mpirun
        return cls.like(untold, experiment.groups, test=experiment.name, line=line)

    @classmethod
    def all_of(cls, system: System) -> list[Self]:
        """Those of all levels that a calibration of the machine does not tell apart."""
        known = system.calibration.undetermined_levels if system.calibration else ()
        return [test for levels in known if (test := cls.of(system, levels))]


class NcclPart(AnswerPart):
    """The version of NCCL, or RCCL, whose default a gain is over."""

    version: NonEmptyText = Field(description="The version, as in 2.29.7.")
    stated_by: Literal["question", "calibration", "default"] = Field(
        description="Who states it; default: nobody does, and it is assumed."
    )
    measured: NonEmptyText = optional_key("Version of the measurements, if it is another.", "")

    @classmethod
    def of(cls, system: System) -> Self | None:
        """None where the collectives are of another library."""
        if not runtime_of_system(system).told:
            return None
        version, stated_by = str(version_of(system)), stated_by_of(system)
        measured = system.calibration.nccl if system.calibration else ""
        others = {"measured": measured} if measured not in ("", version) else {}
        return cls(version=version, stated_by=stated_by, **others)


class MachineInFull(AnswerPart):
    """A machine with every number of its links, and who says so."""

    name: str = Field(description="Its name in the catalogue, or in its description.")
    title: str = Field(description="Title; may be empty.")
    devices: Positive = Field(description="Number of devices, including missing ones.")
    levels: list[LevelInFull] = Field(min_length=1, description="Outermost first.")
    exceptions: list[MachineException] = Field(description="Units that are missing or slower.")
    device: DevicePart = Field(description="The accelerator.")
    launches: bool = Field(description="Whether calls without a fit pay for their launch.")
    runtime: RuntimeName = Field(description="Runtime of its collectives.")
    nccl: NcclPart | None = Field(description="Version of NCCL or RCCL; null for other runtimes.")
    prices: PricesName = Field(description="Basis of prices: see --prices.")
    calibration: CalibrationPart | None = Field(
        description="Basis of prices: measurements, or typical links; null: as stated."
    )
    tells: Annotated[list[TellingTest], Field(min_length=1)] = optional_key(
        "Tests that distinguish levels which the measurements do not.", []
    )

    @classmethod
    def of(cls, system: System) -> Self:
        known, hierarchy = system.calibration, system.hierarchy
        return cls.like(
            system,
            levels=LevelInFull.of_all(system),
            runtime=runtime_of_system(system),
            nccl=NcclPart.of(system),
            exceptions=MachineException.all_of(system),
            device=DevicePart.like(
                system,
                memory_GB_per_s=system.memory_bytes_per_second / 1e9,
                source=system.memory_source,
            ),
            calibration=CalibrationPart.model_validate(
                {"families": 0} | table_of(known, hierarchy.names)
            )
            if known
            else None,
            **({"tells": tells} if (tells := TellingTest.all_of(system)) else {}),
        )
