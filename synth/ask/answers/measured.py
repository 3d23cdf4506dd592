"""The answers of the verbs that evaluate measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Discriminator, Field, Tag

import hierarchies
from hierarchies import System
from hierarchies.files.calibration import AmbiguityPart
from synth.ask.answers.machine_parts import MachineInBrief, NcclPart, PricesName, TellingTest
from synth.ask.answers.parts import (
    AnswerPart,
    Number,
    OneFile,
    Positive,
    ProtocolName,
    ReplyModel,
    Seconds,
    Whole,
    discriminate_by,
)
from synth.measure.calibration.experiments import FIT_HEADING as FIT_HEADING
from synth.measure.calibration.experiments import LOOK_HEADING as LOOK_HEADING
from synth.measure.calibration.experiments import (
    Experiment,
    isolating_experiment,
    launch_lines,
    log_command,
)
from synth.measure.calibration.residuals import FittedRow
from synth.measure.doctor import (
    CarriedShare,
    Change,
    Finding,
    FindingKind,
    MeasuredRun,
    PastComparison,
    SizeReading,
)


class ExperimentPart(AnswerPart):
    """One test to run."""

    name: str = Field(description="Name used in findings.")
    file: str = Field(description="Where its output is kept.")
    collective: str = Field(description="Collective that is timed.")
    groups: str = Field(description="Groups, in words.")
    members: list[Positive] = Field(
        description="By level: number of children in which one group has ranks."
    )
    busy: list[Positive] = Field(
        description="By level: number of children in which all groups have ranks."
    )
    algorithm: str | None = Field(description="Forced algorithm; null: the runtime chooses.")
    protocol: ProtocolName | None = Field(description="Forced protocol; null: the runtime chooses.")
    environment: dict[str, str] = Field(description="Variables to set.")
    smallest_bytes: Positive = Field(description="The smallest size.")
    largest_bytes: Positive = Field(description="The largest size.")
    determines: list[str] = Field(description="Numbers of the system that it determines.")
    seconds: Seconds = Field(description="A rough run time.")
    mpirun: str = Field(description="The line that runs it with mpirun.")
    srun: str = Field(description="The line that runs it with srun.")

    @classmethod
    def of(cls, system: System, experiment: Experiment) -> Self:
        how = launch_lines(system, experiment)
        return cls.like(
            experiment,
            experiment.groups,
            collective=experiment.goal.value,
            determines=experiment.tells,
            groups=experiment.groups.where,
            mpirun=log_command(how.mpirun, experiment),
            srun=log_command(how.srun, experiment),
        )


class TestsReply(ReplyModel):
    """The tests to run, with the lines that run them and what each tells."""

    system: MachineInBrief = Field(description="The machine.")
    experiments: list[ExperimentPart] = Field(description="The tests, innermost level first.")
    files: OneFile = Field(description="The script that runs them all.")


class ClassResidual(AnswerPart):
    """How far measured times lay from fitted ones, in one class."""

    collective: str = Field(description="Collective; empty: any.")
    algorithm: str = Field(description="Algorithm; empty: any.")
    protocol: str = Field(description="Protocol; empty: any.")
    smallest_bytes: Whole = Field(description="Size at which the class begins.")
    rows: Positive = Field(description="Total number.")
    low: Number = Field(description="The lower end of nine of ten ratios.")
    median: Number = Field(description="The median ratio of measured to fitted.")
    high: Number = Field(description="The upper end of nine of ten ratios.")


class ClassStray(AnswerPart):
    """How far tables lay from fits without them, in one class of sizes."""

    collective: str = Field(description="Collective; empty: any other.")
    smallest_bytes: Whole = Field(description="Size at which the class begins.")
    tables: Whole = Field(description="Number of tables left out in turn.")
    low: Number = Field(description="The lower end of nine of ten ratios.")
    high: Number = Field(description="The upper end of nine of ten ratios.")


class OffRow(AnswerPart):
    """A measured size that lies off its fitted time."""

    source: str = Field(description="Log of the row.")
    collective: str = Field(description="Collective that was timed.")
    members: list[Positive] = Field(
        description="By level: number of children in which one group has ranks."
    )
    bytes: Positive = Field(description="Its size.")
    times: Number = Field(description="Measured over fitted seconds.")

    @classmethod
    def of(cls, row: FittedRow, **rest: float) -> Self:
        return cls.like(row.measurement, row, **rest)


class UnexpectedRow(OffRow):
    """A measured size of which prices tell something else."""

    low: Number = Field(description="Lower end of the range predicted from all other sizes.")
    high: Number = Field(description="The upper end of it.")


class CarriedLevel(AnswerPart):
    """Which share of their stated rate the links of a level carried."""

    level: str = Field(description="Its name.")
    GB_per_s: Number = Field(description="Stated bandwidth of one port in one direction.")
    shares: dict[str, Number] = Field(
        min_length=1, description="Share of it reached, by the algorithm that may have run."
    )
    determined: bool = Field(description="Whether all algorithms give the same share.")
    least: bool = Field(
        description="Whether they may reach more, as another level may have been the limit."
    )
    source: str = Field(description="Log of the evidence.")
    tests: list[str] = Field(description="Test that would tell more, if any.")

    @classmethod
    def of(cls, system: System, carried: CarriedShare) -> Self:
        link = system.links[system.hierarchy.index(carried.level)]
        test = isolating_experiment(system, carried.level)
        more = [test.name] if test and (carried.least or not carried.told) else []
        rate = link.bandwidth_bytes_per_second / 1e9
        return cls.like(carried, GB_per_s=rate, determined=carried.told, tests=more)


class AmbiguousLevels(AmbiguityPart, AnswerPart):
    """The same, and the tests that tell."""

    text: str = Field(min_length=1, description="In words.")
    tests: list[str] = Field(description="Names of tests that would distinguish them.")
    deciding_test: TellingTest | None = Field(
        description="A test that suffices; null if none does."
    )

    @classmethod
    def of(cls, system: System, levels: hierarchies.UndeterminedLevels) -> Self:
        tests = [
            test.name for name in levels.levels if (test := isolating_experiment(system, name))
        ]
        decides = TellingTest.of(system, levels)
        return cls.like(levels, text=str(levels), tests=tests, deciding_test=decides)


SHORTFALLS: Sequence[FindingKind] = ("short", "level-short", "open")
"""Findings of runs that fall short, and of the levels that do, surely or likely."""


class FindingPart(AnswerPart):
    """One statement about a run."""

    kind: FindingKind = Field(description="Kind of finding.")
    source: str = Field(description="Run it is about.")
    level: str | None = Field(description="Level it is about, or null.")
    share: Number | None = Field(description="Share of the prediction that was reached, if known.")
    text: str = Field(min_length=1, description="In words.")
    suspects: list[str] = Field(description="Levels that cannot be distinguished.")
    tests: list[str] = Field(description="Names of experiments that would distinguish them.")
    next_commands: list[str] = Field(description="Commands that find what is slow in the level.")

    @classmethod
    def of(cls, finding: Finding) -> Self:
        return cls.like(finding, level=finding.level or None, next_commands=finding.then)


class CalibratedReply(ReplyModel):
    """A system's numbers fitted to measured rows."""

    system: MachineInBrief = Field(description="The machine.")
    sources: list[str] = Field(description="Logs used.")
    rows: Whole = Field(description="Number of fitted rows.")
    median_error: Number | None = Field(
        description="Relative median error of the fit; null without rows."
    )
    levels: list[CarriedLevel] = Field(description="Measured load of links, outermost level first.")
    worst: OffRow | None = Field(description="The size with the largest error; null without rows.")
    unexpected: list[UnexpectedRow] = Field(
        description="Sizes with more than prediction error, the largest error first."
    )
    residuals: list[ClassResidual] = Field(description="Residuals by class.")
    strays: list[ClassStray] = Field(description="Residuals where tables were left out.")
    undetermined: list[str] = Field(description="Numbers that the rows do not determine.")
    ambiguities: list[AmbiguousLevels] = Field(
        description="Levels that the rows do not distinguish."
    )
    dropped: list[str] = Field(description="Rows that the fit did not follow.")
    short: list[FindingPart] = Field(
        description="Levels that fall short of such links in the logs; prices include it."
    )
    contradicted: list[FindingPart] = Field(
        description="Rows faster than the description allows: the description or the log is wrong."
    )
    warnings: list[str] = Field(description="Faulty parts of logs that were left out.")
    files: OneFile = Field(description="The calibrated description.")


CalibrateReply = Annotated[
    Annotated[TestsReply, Tag("experiments")] | Annotated[CalibratedReply, Tag("")],
    Discriminator(discriminate_by("experiments")),
]


class RunRow(AnswerPart):
    """One size of a run, measured beside predicted and bound."""

    bytes: Positive = Field(description="The size.")
    in_place: bool = Field(description="Whether it was timed in place.")
    seconds: Seconds = Field(description="Measured.")
    before_seconds: Seconds | None = Field(
        description="Measured by the baselines, their median; null without one."
    )
    predicted_seconds: Seconds = Field(
        description="Prediction by the description or its calibration."
    )
    predicted_low_seconds: Seconds | None = Field(description="With a calibration; else null.")
    predicted_high_seconds: Seconds | None = Field(description="With a calibration; else null.")
    bound_seconds: Seconds = Field(description="Lower bound.")
    busbw_GB_per_s: Number | None = Field(description="Bus bandwidth by measured seconds.")
    predicted_busbw_GB_per_s: Number | None = Field(
        description="Bus bandwidth by predicted seconds."
    )
    bound_busbw_GB_per_s: Number | None = Field(
        description="Bus bandwidth at the bound; null where it is 0."
    )
    predicted_algorithm: str = Field(description="Algorithm that the runtime is assumed to choose.")
    predicted_protocol: ProtocolName = Field(description="Protocol.")

    @classmethod
    def of(cls, reading: SizeReading, factor: float, before_seconds: float | None) -> Self:
        """``factor``: what a collective's bytes a second are multiplied by to get its busbw."""
        size, predicted = reading.size_bytes, reading.predicted
        margin = predicted.interval

        def busbw(seconds: float) -> float | None:
            return factor * size / seconds / 1e9 if seconds else None

        return cls.like(
            reading,
            before_seconds=before_seconds,
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


class ChangePart(AnswerPart):
    """How much longer rows take than in the baselines, beyond what other rows explain."""

    times: Number = Field(description="Factor on the time.")
    low: Number = Field(description="Lower end of the range that holds nine of ten repeats.")
    high: Number = Field(description="Upper end of it.")
    moved: bool = Field(description="Whether it is more than repeated runs differ by.")
    smallest_bytes: Positive = Field(description="The smallest of its sizes.")
    largest_bytes: Positive = Field(description="The largest of its sizes.")

    @classmethod
    def of(cls, past: PastComparison, change: Change | None) -> Self | None:
        if change is None:
            return None
        sizes = [past.sizes[row] for row in change.rows]
        ends = {"smallest_bytes": min(sizes), "largest_bytes": max(sizes)}
        return cls.like(change, times=change.factor, **ends)


class PastPart(AnswerPart):
    """A run beside earlier logs of the same test."""

    sources: list[str] = Field(description="The baselines.")
    latency: ChangePart | None = Field(
        description="Of sizes that wait for messages, if it is determined."
    )
    middle: ChangePart | None = Field(description="Of sizes in between, if any.")
    bandwidth: ChangePart | None = Field(
        description="Of sizes that wait for links, if it is determined."
    )
    differences: list[str] = Field(description="Settings that differ, in words.")

    @classmethod
    def of(cls, past: PastComparison | None) -> Self | None:
        if past is None:
            return None
        changes = past.changes
        return cls.like(
            past,
            latency=ChangePart.of(past, changes.latency),
            middle=ChangePart.of(past, changes.middle),
            bandwidth=ChangePart.of(past, changes.bandwidth),
        )


class DiagnosedRun(AnswerPart):
    """One table of a log, row by row."""

    source: str = Field(description="File, and table in it.")
    collective: str = Field(description="Collective that was timed.")
    members: list[Positive] = Field(
        description="By level: number of children in which one group has ranks."
    )
    busy: list[Positive] = Field(
        description="By level: number of children in which all groups have ranks."
    )
    algorithm: str | None = Field(description="Forced algorithm; null: the runtime chose.")
    protocol: str | None = Field(description="Forced protocol; null: the runtime chose.")
    version: str | None = Field(description="Version of NCCL, if the log has it.")
    devices: list[str] = Field(description="Models of devices, if the log has them.")
    predicted_algorithm: str = Field(description="At the largest size.")
    share: Number | None = Field(description="Predicted over measured at large sizes, if any.")
    slower: Number | None = Field(description="Measured over predicted at small sizes, if any.")
    extra_seconds: float | None = Field(
        allow_inf_nan=False, description="Their difference at small sizes, if any."
    )
    limited_by: str = Field(description="Level that limits the prediction.")
    delivered: dict[str, Number] = Field(
        description="Lower bound of the share of bandwidth that each level delivered."
    )
    past: PastPart | None = Field(description="Comparison with the baselines; null without one.")
    warnings: list[str] = Field(description="Faulty parts of the log that were left out.")
    rows: list[RunRow] = Field(description="Rows in the order of the log.")

    @classmethod
    def of(cls, run: MeasuredRun, past: PastComparison | None) -> Self:
        log, before = run.matched.log, past.before if past else {}
        return cls.like(
            run,
            run.matched.measurement,
            log,
            version=log.table.version,
            predicted_algorithm=run.way,
            past=PastPart.of(past),
            rows=[
                RunRow.of(reading, run.factor, before.get((reading.size_bytes, reading.in_place)))
                for reading in run.readings
            ],
        )


class DoctorReply(ReplyModel):
    """What a system should give, beside what it gave."""

    system: MachineInBrief = Field(description="The machine.")
    prices: PricesName = Field(description="Basis of predictions: see --prices.")
    nccl: NcclPart | None = Field(description="Version of NCCL or RCCL; null for other runtimes.")
    runs: list[DiagnosedRun] = Field(min_length=1, description="One a table.")
    findings: list[FindingPart] = Field(description="Findings over all runs.")
    left_out: list[str] = Field(description="Tables that cannot be compared, and why.")
