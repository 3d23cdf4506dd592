"""What the verbs answer that look at what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Annotated, Self

from pydantic import Discriminator, Field, Tag

import hierarchies
from hierarchies import System
from synth.ask.answers.machine_parts import AmbiguityPart, MachineInBrief, PricesName, TellingTest
from synth.ask.answers.parts import (
    AnswerPart,
    Number,
    OneFile,
    Positive,
    ProtocolName,
    ReplyModel,
    Seconds,
    TextFile,
    Whole,
    discriminate_by,
)
from synth.measure.calibration.experiments import (
    Experiment,
    isolating_experiment,
    launch_lines,
    log_command,
)
from synth.measure.calibration.fit import FitResult
from synth.measure.calibration.residuals import FittedRow, find_unexpected
from synth.measure.doctor import (
    CarriedShare,
    Diagnosis,
    Finding,
    FindingKind,
    MeasuredRun,
    SizeReading,
    carried_shares,
)
from synth.measure.logs.matching import MatchedLog


class ExperimentPart(AnswerPart):
    """One test to run."""

    name: str = Field(description="What findings call it.")
    file: str = Field(description="Where its output is kept.")
    collective: str = Field(description="What is timed.")
    groups: str = Field(description="Who, in words.")
    members: list[Positive] = Field(description="By level: children that one group has ranks in.")
    busy: list[Positive] = Field(description="By level: children that all have ranks in.")
    algorithm: str | None = Field(description="What it is forced to; null: the runtime chooses.")
    protocol: ProtocolName | None = Field(description="What it is forced to, as well.")
    environment: dict[str, str] = Field(description="Variables to set.")
    smallest_bytes: Positive = Field(description="The smallest size.")
    largest_bytes: Positive = Field(description="The largest size.")
    tells: list[str] = Field(description="Which numbers of the system.")
    seconds: Seconds = Field(description="A rough run time.")
    mpirun: str = Field(description="The line that runs it with mpirun.")
    srun: str = Field(description="The line that runs it with srun.")

    @classmethod
    def of(cls, system: System, one: Experiment) -> Self:
        how = launch_lines(system, one)
        return cls.like(
            one,
            one.groups,
            collective=one.goal.value,
            groups=one.groups.where,
            mpirun=log_command(how.mpirun, one),
            srun=log_command(how.srun, one),
        )


class TestsReply(ReplyModel):
    """The tests to run, with the lines that run them and what each tells."""

    system: MachineInBrief = Field(description="The machine.")
    experiments: list[ExperimentPart] = Field(description="The tests, innermost level first.")
    files: OneFile = Field(description="The script that runs them all.")

    @classmethod
    def of(cls, system: System, found: Sequence[Experiment], script: str) -> Self:
        return cls.like(
            system=MachineInBrief.of(system),
            experiments=[ExperimentPart.of(system, one) for one in found],
            files=[TextFile(name="tests.sh", text=script)],
        )


class ClassResidual(AnswerPart):
    """How far measured times lay from fitted ones, in one class."""

    collective: str = Field(description="Of this collective; empty: of any.")
    algorithm: str = Field(description="Of this algorithm; empty: of any.")
    protocol: str = Field(description="Of this protocol; empty: of any.")
    smallest_bytes: Whole = Field(description="Where the class of sizes begins.")
    rows: Positive = Field(description="How many there are.")
    low: Number = Field(description="The lower end of nine of ten ratios.")
    median: Number = Field(description="The median ratio of measured to fitted.")
    high: Number = Field(description="The upper end of nine of ten ratios.")


class ClassStray(AnswerPart):
    """How far tables lay from fits without them, in one class of sizes."""

    collective: str = Field(description="Of this collective; empty: of any other.")
    smallest_bytes: Whole = Field(description="Where the class of sizes begins.")
    tables: Whole = Field(description="How many were left out, one after the other.")
    low: Number = Field(description="The lower end of nine of ten ratios.")
    high: Number = Field(description="The upper end of nine of ten ratios.")


class OffRow(AnswerPart):
    """A measured size that lies off its fitted time."""

    source: str = Field(description="Of which log.")
    collective: str = Field(description="What was timed.")
    members: list[Positive] = Field(description="By level: children that one group has ranks in.")
    bytes: Positive = Field(description="Its size.")
    times: Number = Field(description="Measured over fitted seconds.")

    @classmethod
    def of(cls, row: FittedRow, **rest: float) -> Self:
        return cls.like(row.measurement, row, bytes=row.size_bytes, **rest)


class UnexpectedRow(OffRow):
    """A measured size of which prices tell something else."""

    low: Number = Field(description="The lower end of what prices tell by all other sizes.")
    high: Number = Field(description="The upper end of it.")


class CarriedLevel(AnswerPart):
    """Which share of their stated rate the links of a level carried."""

    level: str = Field(description="Its name.")
    GB_per_s: Number = Field(description="As stated, of one port in one direction.")
    shares: dict[str, Number] = Field(
        min_length=1, description="Of that, by the algorithm that may have run."
    )
    told: bool = Field(description="Whether it is one share, whichever ran.")
    least: bool = Field(description="Whether they may do more, as another level may have limited.")
    source: str = Field(description="By which log.")
    tests: list[str] = Field(description="The test of a plan that tells more, if any does.")

    @classmethod
    def of(cls, system: System, one: CarriedShare) -> Self:
        link = system.links[system.hierarchy.index(one.level)]
        test = isolating_experiment(system, one.level)
        more = [test.name] if test and (one.least or not one.told) else []
        rate = link.bandwidth_bytes_per_second / 1e9
        return cls.like(one, GB_per_s=rate, shares=dict(one.shares), tests=more)


class AmbiguousLevels(AmbiguityPart):
    """The same, and the tests that tell."""

    text: str = Field(min_length=1, description="In words.")
    tests: list[str] = Field(description="Names of tests of a plan that would tell them apart.")
    tells: TellingTest | None = Field(description="One that is enough; null where none can be.")

    @classmethod
    def of(cls, system: System, one: hierarchies.UndeterminedLevels) -> Self:
        tests = [test.name for name in one.levels if (test := isolating_experiment(system, name))]
        return cls.like(one, text=str(one), tests=tests, tells=TellingTest.of(system, one))


SHORTFALLS: Sequence[FindingKind] = ("short", "level-short", "open")
"""Findings of runs that fall short, and of the levels that do, surely or likely."""


class FindingPart(AnswerPart):
    """One statement about a run."""

    kind: FindingKind = Field(description="What sort of statement it is.")
    source: str = Field(description="Of which run.")
    level: str | None = Field(description="Of which level; null: none.")
    share: Number | None = Field(description="How much of what was predicted, if it is told.")
    text: str = Field(min_length=1, description="In words.")
    suspects: list[str] = Field(description="Levels that were not told apart.")
    tests: list[str] = Field(description="Names of experiments that would tell them apart.")
    then: list[str] = Field(description="What to run to find what is slow in the level.")

    @classmethod
    def of(cls, finding: Finding) -> Self:
        return cls.like(finding, level=finding.level or None)


class CalibratedReply(ReplyModel):
    """A system's numbers fitted to measured rows."""

    system: MachineInBrief = Field(description="The machine.")
    sources: list[str] = Field(description="Which logs.")
    rows: Whole = Field(description="How many were fitted.")
    median_error: Number | None = Field(description="Of the fit, relative; null without rows.")
    levels: list[CarriedLevel] = Field(description="What links carried, outermost first.")
    worst: OffRow | None = Field(description="The size that is off most; null without rows.")
    unexpected: list[UnexpectedRow] = Field(
        description="Sizes that are off by more than prices tell, the farthest first."
    )
    residuals: list[ClassResidual] = Field(description="How far off, class by class.")
    strays: list[ClassStray] = Field(description="How far off where tables were left out.")
    undetermined: list[str] = Field(description="What the rows do not tell.")
    untold: list[AmbiguousLevels] = Field(description="Levels that the rows do not tell apart.")
    dropped: list[str] = Field(description="Rows that the fit did not follow.")
    short: list[FindingPart] = Field(
        description="What falls short in the logs, of what such links reach: prices are of that."
    )
    contradicted: list[FindingPart] = Field(
        description="Rows that beat what the description allows: it, or the log, is wrong."
    )
    warnings: list[str] = Field(description="What was wrong with logs, and left out.")
    files: OneFile = Field(description="The calibrated description.")

    @classmethod
    def of(
        cls,
        system: System,
        calibrated: FitResult,
        diagnosis: Diagnosis,
        matched: Sequence[MatchedLog],
        warnings: Sequence[str],
        description: str,
    ) -> Self:
        """What was fitted, to how many rows, how far off they are, and what they cannot tell.

        ``diagnosis`` is of the same logs, by the prices before the fit.
        """
        found = calibrated.calibration
        kept = [row for row in calibrated.rows if not row.dropped]
        off = [abs(row.fitted_seconds / row.seconds - 1) for row in kept]
        return cls.like(
            found,
            system=MachineInBrief.of(system),
            rows=len(calibrated.rows),
            median_error=median(off) if off else None,
            levels=[
                CarriedLevel.of(system, one)
                for one in carried_shares(system, [one.measurement for one in matched])
            ],
            worst=OffRow.of(max(calibrated.rows, key=lambda row: row.off)),
            unexpected=[
                UnexpectedRow.of(one.row, low=one.low, high=one.high)
                for one in find_unexpected(found, calibrated.rows)
            ],
            residuals=[ClassResidual.like(one) for one in found.residuals],
            strays=[ClassStray.like(one) for one in found.strays],
            untold=[AmbiguousLevels.of(system, one) for one in found.untold],
            short=[FindingPart.of(one) for one in diagnosis.findings if one.kind in SHORTFALLS],
            contradicted=[FindingPart.of(one) for one in diagnosis.contradictions],
            warnings=list(warnings),
            files=[TextFile(name=f"{system.name}.toml", text=description)],
        )


def warnings_of(matched: Sequence[MatchedLog]) -> Iterator[str]:
    """What was wrong with logs, each beside its source."""
    for one in matched:
        for warning in one.log.warnings:
            yield f"{one.log.source}: {warning}"


CalibrateReply = Annotated[
    Annotated[TestsReply, Tag("experiments")] | Annotated[CalibratedReply, Tag("")],
    Discriminator(discriminate_by("experiments")),
]


class RunRow(AnswerPart):
    """One size of a run, measured beside predicted and bound."""

    bytes: Positive = Field(description="The size.")
    in_place: bool = Field(description="Whether it was timed in place.")
    seconds: Seconds = Field(description="Measured.")
    predicted_seconds: Seconds = Field(description="By the description, or its calibration.")
    predicted_low_seconds: Seconds | None = Field(description="With a calibration; else null.")
    predicted_high_seconds: Seconds | None = Field(description="With a calibration; else null.")
    bound_seconds: Seconds = Field(description="What nothing can beat.")
    busbw_GB_per_s: Number | None = Field(description="Of the measured seconds.")
    predicted_busbw_GB_per_s: Number | None = Field(description="Of the predicted ones.")
    bound_busbw_GB_per_s: Number | None = Field(description="Of the bound; null where it is 0.")
    predicted_algorithm: str = Field(description="What the runtime is taken to choose.")
    predicted_protocol: ProtocolName = Field(description="By which protocol.")

    @classmethod
    def of(cls, reading: SizeReading, factor: float) -> Self:
        """``factor``: what a collective's bytes a second are multiplied by to get its busbw."""
        size, predicted = reading.size_bytes, reading.predicted
        margin = predicted.interval

        def busbw(seconds: float) -> float | None:
            return factor * size / seconds / 1e9 if seconds else None

        return cls.like(
            reading,
            bytes=size,
            predicted_seconds=predicted.seconds,
            predicted_low_seconds=margin.low_seconds if margin else None,
            predicted_high_seconds=margin.high_seconds if margin else None,
            bound_seconds=reading.bound.seconds,
            busbw_GB_per_s=busbw(reading.seconds),
            predicted_busbw_GB_per_s=busbw(predicted.seconds),
            bound_busbw_GB_per_s=busbw(reading.bound.seconds),
            predicted_algorithm=predicted.way,
            predicted_protocol=predicted.price.protocol,
        )


class DiagnosedRun(AnswerPart):
    """One table of a log, row by row."""

    source: str = Field(description="Which file, and which table of it.")
    collective: str = Field(description="What was timed.")
    members: list[Positive] = Field(description="By level: children that one group has ranks in.")
    busy: list[Positive] = Field(description="By level: children that all have ranks in.")
    algorithm: str | None = Field(description="What it was forced to; null: the runtime chose.")
    protocol: str | None = Field(description="What it was forced to, as well.")
    version: str | None = Field(description="Of NCCL, if the log says so.")
    devices: list[str] = Field(description="Their models, if the log says so.")
    predicted_algorithm: str = Field(description="At the largest size.")
    share: Number | None = Field(description="Predicted over measured at large sizes, if any.")
    slower: Number | None = Field(description="Measured over predicted at small sizes, if any.")
    extra_seconds: float | None = Field(
        allow_inf_nan=False, description="Their difference at small sizes, if any."
    )
    limited_by: str = Field(description="The level that the prediction waits for.")
    delivered: dict[str, Number] = Field(description="Of each level's bandwidth at least so much.")
    warnings: list[str] = Field(description="What was wrong with the log, and left out.")
    rows: list[RunRow] = Field(description="In the order of the log.")

    @classmethod
    def of(cls, run: MeasuredRun) -> Self:
        log = run.matched.log
        return cls.like(
            run,
            run.matched.measurement,
            log,
            version=log.table.version,
            predicted_algorithm=run.way,
            rows=[RunRow.of(reading, run.factor) for reading in run.readings],
        )


class DoctorReply(ReplyModel):
    """What a system should give, beside what it gave."""

    system: MachineInBrief = Field(description="The machine.")
    prices: PricesName = Field(description="What predictions follow: see --prices.")
    runs: list[DiagnosedRun] = Field(min_length=1, description="One a table.")
    findings: list[FindingPart] = Field(description="What they say together.")
    left_out: list[str] = Field(description="Tables that cannot be compared, and why.")

    @classmethod
    def of(cls, system: System, diagnosis: Diagnosis, left_out: Sequence[str]) -> Self:
        return cls.like(
            system=MachineInBrief.of(system),
            prices=system.prices,
            runs=[DiagnosedRun.of(run) for run in diagnosis.runs],
            findings=[FindingPart.of(finding) for finding in diagnosis.findings],
            left_out=list(left_out),
        )
