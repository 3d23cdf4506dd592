"""What answers say of machines: levels and links, what is missing, what was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import Field

import hierarchies
from hierarchies import Domain, Hierarchy, Level, Link, System, table_of
from synth.ask.answers.parts import (
    AnswerPart,
    NonEmptyText,
    Number,
    Positive,
    Share,
    Whole,
    optional_key,
)
from synth.collective.algorithms.runtimes import CollectiveRuntime, runtime_of_system
from synth.collective.emit.document.schema import LevelPart
from synth.measure.calibration.experiments import isolating_experiment, launch_lines

RuntimeName = Annotated[CollectiveRuntime, Field(strict=False)]
PricesName = Literal["stated", "typical", "calibrated"]
DomainName = Annotated[Domain, Field(strict=False)]


class LevelInBrief(LevelPart, AnswerPart):
    """One level of a machine."""

    @classmethod
    def all_of(cls, hierarchy: Hierarchy) -> list[LevelInBrief]:
        """The levels of a machine, outermost first."""
        return [LevelInBrief.like(one, count=one.cardinality) for one in hierarchy.levels]


class LevelInFull(LevelInBrief):
    """One level, every number of its links, and who says so."""

    domain: DomainName = Field(description="How the children of one parent are joined.")
    medium: str = Field(description="What its links are: nvlink, infiniband, ...; may be empty.")
    bandwidth_GB_per_s: Number = Field(description="Of one port, in one direction.")
    latency_us: Number = Field(description="Of a message by protocol Simple, in microseconds.")
    ll_latency_us: Number | None = Field(description="By LL; null where there is no such protocol.")
    ll128_latency_us: Number | None = Field(description="By LL128; null as well.")
    reduces: bool = Field(description="Whether its switches can add up.")
    ports: Positive = Field(description="Of one child.")
    wraps: bool = Field(description="Whether the ends of a ring or torus are joined.")
    through: list[str] = Field(description="Inner levels whose links are crossed, too.")
    sources: dict[str, str] = Field(description="Where each number comes from, by its key.")
    unconfirmed: list[str] = Field(description="Keys whose numbers no primary source confirms.")

    @classmethod
    def of(cls, level: Level, link: Link) -> Self:
        return cls.like(
            level,
            link,
            count=level.cardinality,
            bandwidth_GB_per_s=link.bandwidth_bytes_per_second / 1e9,
            latency_us=link.latency_seconds * 1e6,
            ll_latency_us=_microseconds(link.ll_latency_seconds),
            ll128_latency_us=_microseconds(link.ll128_latency_seconds),
            sources=dict(link.sources or {}),
        )

    @classmethod
    def of_all(cls, system: System) -> list[LevelInFull]:
        """The levels of a machine, outermost first."""
        return list(map(cls.of, system.hierarchy.levels, system.links))


def _microseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e6


class DevicePart(AnswerPart):
    """The device of a machine."""

    memory_GB_per_s: Number = Field(description="The bandwidth of its memory.")
    source: str = Field(description="Where the number comes from.")
    unconfirmed: list[str] = Field(description="Keys whose numbers no primary source confirms.")


class MachineException(AnswerPart):
    """Something of a machine that is missing or slower than its description says."""

    unit: str = Field(description="Which: a path like rack0/node3, numbers from 0.")
    missing: bool = Field(description="Whether it is missing altogether.")
    bandwidth_share: Share | None = Field(description="What is left; null if it is missing.")
    source: str = Field(description="Who says so.")

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

    collective: NonEmptyText = optional_key("Of this collective only.", "")
    algorithm: NonEmptyText = optional_key("Of this algorithm only.", "")
    protocol: NonEmptyText = optional_key("Of this protocol only.", "")


class FitPart(_FitScopePart):
    """Fitted numbers of one way, by level."""

    launch_us: Number = Field(description="What a call costs, whatever its size.")
    hop_us: dict[str, Number] = Field(description="Waited for with every message.")
    gap_us: dict[str, Number] = Field(description="What must lie between two messages.")
    share: dict[str, Number] = Field(description="Of the bandwidth described, what is had.")
    peer_us: dict[str, Number] = optional_key(
        "For each member that one exchanges with at once.", {}
    )
    wide: dict[str, Number] = optional_key("Of the share, what more than two children have.", {})
    loss: dict[str, Number] = optional_key(
        "Of the share, what each doubling of children loses.", {}
    )
    rows: Whole = Field(description="How many measured rows were taken to have gone this way.")


class ResidualPart(_FitScopePart):
    """How far measured times lay from fitted ones, in one class of sizes."""

    from_bytes: Whole = Field(description="Where the class begins.")
    rows: Positive = Field(description="How many rows it has.")
    low: Number = Field(description="Nine of ten ratios of measured to fitted lie above.")
    median: Number = Field(description="The middle one.")
    high: Number = Field(description="Nine of ten lie below.")


class MeasuredTablePart(AnswerPart):
    """What measured rows were of."""

    collective: str = Field(description="Of this collective.")
    members: dict[str, Positive] = Field(description="By level: children a group has ranks in.")
    ways: list[str] = Field(description="Algorithm and protocol, with a space between.")
    from_bytes: Positive = Field(description="The smallest size.")
    to_bytes: Positive = Field(description="The largest size.")
    forced: bool = Field(description="Whether the algorithm is known to have run; else: assigned.")


class StrayPart(AnswerPart):
    """How far tables lay from fits without them, in one class of sizes."""

    collective: NonEmptyText = optional_key("Of this collective only.", "")
    from_bytes: Whole = Field(description="Where the class begins.")
    tables: Whole = Field(description="How many were left out, one after the other.")
    low: Number = Field(description="Nine of ten ratios of measured to fitted lie above.")
    high: Number = Field(description="Nine of ten lie below.")


class AmbiguityPart(AnswerPart):
    """Levels of which one is slower than expected, and no row tells which."""

    levels: Annotated[list[str], Field(min_length=2)] = Field(description="Of which one is slow.")
    taken: str = Field(description="The one that is taken to be.")


class CalibrationPart(AnswerPart):
    """What was measured on a machine: the ``[calibration]`` of its description."""

    runtime: Literal["fastest", "model"] = Field(description="How the runtime was seen to choose.")
    families: Whole = Field(description="Of how many machines of others, where none is this one.")
    sources: list[str] = Field(description="Which measurements.")
    undetermined: list[str] = Field(description="What they do not tell.")
    dropped: list[str] = Field(description="Rows that the fit did not follow.")
    fit: list[FitPart] = Field(min_length=1, description="The fitted numbers.")
    residual: Annotated[list[ResidualPart], Field(min_length=1)] = optional_key("How far off.", [])
    measured: Annotated[list[MeasuredTablePart], Field(min_length=1)] = optional_key("Of what.", [])
    stray: Annotated[list[StrayPart], Field(min_length=1)] = optional_key("How far off others.", [])
    machines: Annotated[list[ResidualPart], Field(min_length=1)] = optional_key(
        "How far machines with such links lie from each other: nothing else is farther off.", []
    )
    untold: Annotated[list[AmbiguityPart], Field(min_length=1)] = optional_key(
        "Levels not told apart.", []
    )


class MachineInBrief(AnswerPart):
    """A machine in a few words."""

    name: str = Field(description="Its name in the catalogue, or in its description.")
    title: str = Field(description="What people call it; may be empty.")
    devices: Positive = Field(description="How many devices it has.")
    levels: list[LevelInBrief] = Field(min_length=1, description="Outermost first.")

    @classmethod
    def of(cls, system: System) -> Self:
        return cls.like(system, levels=LevelInBrief.all_of(system.hierarchy))


class TellingTest(AnswerPart):
    """A test that tells levels apart of which one is slow: the innermost one alone."""

    levels: Annotated[list[str], Field(min_length=2)] = Field(description="Of which one is slow.")
    test: NonEmptyText = Field(description="Its name, in a plan of tests.")
    where: NonEmptyText = Field(description="On which devices, in words.")
    line: NonEmptyText = Field(
        description="The line that runs it, TESTS being the folder of nccl-tests."
    )

    @classmethod
    def of(cls, system: System, untold: hierarchies.UndeterminedLevels) -> Self | None:
        """None where no group of ranks has that level alone."""
        inner = max(untold.levels, key=system.hierarchy.index)
        whole = replace(system, faults=())
        one = isolating_experiment(whole, inner)
        if one is None:
            return None
        line = launch_lines(whole, one).mpirun
        return cls.like(untold, test=one.name, where=one.groups.where, line=line)

    @classmethod
    def all_of(cls, system: System) -> list[Self]:
        """Those of all levels that a calibration of the machine does not tell apart."""
        known = system.calibration.untold if system.calibration else ()
        return [test for one in known if (test := cls.of(system, one))]


class MachineInFull(AnswerPart):
    """A machine with every number of its links, and who says so."""

    name: str = Field(description="Its name in the catalogue, or in its description.")
    title: str = Field(description="What people call it; may be empty.")
    devices: Positive = Field(description="How many devices it has, the missing ones included.")
    levels: list[LevelInFull] = Field(min_length=1, description="Outermost first.")
    exceptions: list[MachineException] = Field(description="What is missing or slower.")
    device: DevicePart = Field(description="What its devices are.")
    launches: bool = Field(description="Whether a call costs its launch where it is not fitted.")
    runtime: RuntimeName = Field(description="What carries its collectives out.")
    prices: PricesName = Field(description="What prices follow: see --prices.")
    calibration: CalibrationPart | None = Field(
        description="What prices follow: measurements, or what such links reach; null: as stated."
    )
    tells: Annotated[list[TellingTest], Field(min_length=1)] = optional_key(
        "The tests that tell levels apart which measurements do not.", []
    )

    @classmethod
    def of(cls, system: System) -> Self:
        known, hierarchy = system.calibration, system.hierarchy
        return cls.like(
            system,
            levels=LevelInFull.of_all(system),
            runtime=runtime_of_system(system),
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
