"""The verbs that evaluate measurements: the tests to run, and their results for a machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from statistics import median
from typing import Annotated, Literal

from pydantic import Field

from hierarchies import InputError, System, describe_system
from synth.ask.answers.machine_parts import NcclPart
from synth.ask.answers.measured import (
    SHORTFALLS,
    AmbiguousLevels,
    CalibratedReply,
    CarriedLevel,
    DiagnosedRun,
    DoctorReply,
    ExperimentPart,
    TestsReply,
    UnexpectedRow,
)
from synth.ask.questions import notations
from synth.ask.questions.fields import CostLimit, File, Flag
from synth.ask.questions.flags import Figure, Machine, Numbers
from synth.ask.questions.named_texts import (
    MOST_FILES,
    NamedText,
    NameOrText,
    is_short,
    system_of,
)
from synth.ask.questions.question import PricedQuestion, Question
from synth.ask.reply import Outcome, Reply, reply
from synth.collective.algorithms.nccl_versions import explain_other_version
from synth.collective.algorithms.runtimes import runtime_of_system
from synth.collective.ranking.request import Watcher
from synth.measure.calibration.candidates import candidates
from synth.measure.calibration.experiments import Experiment, experiments, script
from synth.measure.calibration.fit import fit
from synth.measure.calibration.measurements import FEWEST_SIZES
from synth.measure.calibration.residuals import find_unexpected
from synth.measure.calibration.solver import LEAST_LATENCY, MOST_SHARE
from synth.measure.calibration.typical import apply_typical
from synth.measure.doctor import (
    BASELINE,
    Diagnosis,
    carried_shares,
    diagnose,
    explain_missing,
    is_collective,
    match_baselines,
)
from synth.measure.logs.matching import CallerFacts, MatchedLog, check_devices, match_log
from synth.measure.logs.reading import check_log, parse_logs
from synth.measure.logs.tables import CheckedLog


@dataclass(frozen=True)
class ReadableLogs:
    """The tables of logs that a verb uses, and sentences on those that it cannot use."""

    runs: tuple[MatchedLog, ...]
    left_out: tuple[str, ...]


class LogsQuestion(Question):
    """Logs of nccl-tests or rccl-tests taken on a system, and what they do not say themselves."""

    system: Machine
    files: Annotated[
        list[NamedText],
        CostLimit.TEXT,
        Flag(
            "Logs of nccl-tests or rccl-tests: text, JSON or CSV",
            spelled="FILE...",
            file=File.LOGS,
        ),
    ] = Field(default_factory=list, max_length=MOST_FILES)
    collective: Annotated[
        str | None,
        Flag(
            "Collective of a log that does not name it: all_gather, ...",
        ),
    ] = None
    hosts: Annotated[Figure | None, Flag("Number of hosts of a log that does not state it")] = (
        Field(default=None, ge=1)
    )
    members: Annotated[
        Numbers | None,
        Flag(
            "Children of each level in which a group had ranks",
            ", as in 2,8",
            notation=notations.number_notation("are no members", "a number for each level"),
        ),
    ] = None

    def unusable(self, system: System, log: MatchedLog) -> str:
        """Why the verb cannot use a table; "" if it can."""
        try:
            candidates(system, log.measurement)
        except InputError as error:
            return error.problem
        return ""

    def matched(self, system: System) -> ReadableLogs:
        """The tables of all files that the verb can use, on the devices they were taken on.

        Raises InputError for files that cannot be read, for logs that contradict the system or each
        other (devices of several kinds, or of others than the system has), and where no table is
        left.
        """
        logs = self.logs()
        check_devices(system, logs)
        given = self.caller_facts()
        found = [match_log(system, log, given) for log in logs]
        reasons = [self.unusable(system, table) for table in found]
        left_out = tuple(
            f"{table.log.source}: a table of {table.measurement.collective} is left out: {why}"
            for table, why in zip(found, reasons, strict=True)
            if why
        )
        runs = tuple(table for table, why in zip(found, reasons, strict=True) if not why)
        if not runs:
            raise InputError("; ".join(left_out), hint="give a log with a table that can be used")
        return ReadableLogs(runs, left_out)

    def logs(self) -> list[CheckedLog]:
        """All tables of all files. Raises InputError as ``match_log``, but of no system."""
        if not self.files:
            raise InputError("no log is given", hint="name files that nccl-tests wrote")
        logs = [
            log
            for file in self.files
            for log in parse_logs(file.text, _source(file), self.collective)
        ]
        _check_one_kind(logs)
        return logs

    def caller_facts(self) -> CallerFacts:
        """What the caller says of all logs."""
        return CallerFacts(self.hosts, tuple(self.members) if self.members else None)

    def check_early(self) -> None:
        if is_short(*(file.text for file in self.files)):
            self.matched(system_of(self.system))
        else:
            for file in self.files:
                check_log(file.text, _source(file))


class CalibrateQuestion(LogsQuestion):
    """Fit a description to measurements, or say which to take."""

    plan: Annotated[
        bool, Flag("Print the tests to run and what each determines", unread="files")
    ] = False
    launcher: Annotated[
        Literal["mpirun", "srun"], Flag("Launcher of the tests: mpirun or srun")
    ] = "mpirun"
    only: Annotated[
        list[str],
        Flag("Only these tests", ", by name", notation=notations.NAMES),
    ] = Field(default_factory=list, max_length=MOST_FILES)

    def unusable(self, system: System, log: MatchedLog) -> str:
        """Why a table cannot be fitted; "" if it can."""
        sizes = len({sample.size_bytes for sample in log.measurement.samples})
        few = f"{sizes} of at least {FEWEST_SIZES} sizes that tell latency from bandwidth"
        return super().unusable(system, log) or (few if sizes < FEWEST_SIZES else "")

    def check_alone(self) -> None:
        """Raises InputError for logs beside a plan, and for names of tests without one."""
        if self.plan and self.files:
            raise InputError("a plan needs no logs", where="--plan", hint="leave out the files")
        if self.only and not self.plan:
            hint = "give --plan, or leave it out"
            raise InputError("tests are named, and none are asked for", where="--only", hint=hint)

    def check_early(self) -> None:
        if self.plan:
            self.check_alone()
            self.tests(system_of(self.system))
        else:
            super().check_early()

    def tests(self, system: System) -> tuple[Experiment, ...]:
        """The tests of a plan.

        Raises InputError for a name that none of them has, and where neither NVIDIA's tests nor
        AMD's run.
        """
        if (by := runtime_of_system(system)).timing:
            what = system.device or system.name
            problem = f"neither nccl-tests nor rccl-tests run on {what}: {by.value} has its"
            raise InputError(f"{problem} collectives", where="--plan", hint=by.timing)
        found = {test.name: test for test in experiments(system)}
        for name in self.only:
            if name not in found:
                hint = f"one of: {', '.join(found)}"
                raise InputError(f"there is no test {name!r}", where="--only", hint=hint)
        return tuple(test for name, test in found.items() if name in (self.only or found))


class DoctorQuestion(LogsQuestion, PricedQuestion):
    """What should I get, and why don't I? Measured beside predicted, and the level at fault."""

    baseline: Annotated[
        list[NameOrText],
        CostLimit.TEXT,
        Flag(
            "Earlier logs of the same tests, to compare with row by row",
            ". Repeatable",
            "--baseline...",
            file=File.LOGS,
        ),
    ] = Field(default_factory=list, max_length=MOST_FILES)

    def unusable(self, system: System, log: MatchedLog) -> str:
        """Why a table cannot be held to a prediction and a bound; "" if it can."""
        unbounded = "no collective, so nothing bounds it; 'calibrate' fits it"
        return super().unusable(system, log) or ("" if is_collective(log) else unbounded)

    def check_early(self) -> None:
        super().check_early()
        if is_short(*(file.text for file in (*self.files, *self.baseline_texts()))):
            system = system_of(self.system)
            self.baselines(system, self.matched(system).runs)

    def baselines(self, system: System, runs: Sequence[MatchedLog]) -> ReadableLogs:
        """The tables of the earlier logs, on the devices that they were taken on.

        Tables of other machines are left out, as a service may keep several. Raises InputError if
        none is left, or if none is of a test of the runs.
        """
        if not self.baseline:
            return ReadableLogs((), ())
        found, refused, left_out = [], [], []
        for file in self.baseline_texts():
            for log in parse_logs(file.text, _source(file), self.collective):
                try:
                    check_devices(system, [log])
                    found.append(match_log(system, log, self.caller_facts()))
                except InputError as error:
                    refused.append(error)
                    left_out.append(f"baseline {log.source} is left out: {error.problem}")
        if refused and not found:
            raise InputError(refused[0].problem, where=BASELINE, hint=refused[0].hint)
        match_baselines(runs, found)
        return ReadableLogs(tuple(found), tuple(left_out))

    def baseline_texts(self) -> list[NamedText]:
        """The earlier logs. Raises InputError for the name of one that a service does not keep."""
        for file in self.baseline:
            if isinstance(file, str):
                hint = "give the log itself, or a name under which your team's service keeps it"
                raise InputError(f"no baseline {file!r} is kept", where=BASELINE, hint=hint)
        return [file for file in self.baseline if isinstance(file, NamedText)]


def _source(file: NamedText) -> str:
    """Returns the name of a log for errors and warnings, without its folder: it may be private."""
    return PurePath(file.name).name or file.name


def _check_one_kind(logs: list[CheckedLog]) -> None:
    kinds: dict[tuple[str, ...], str] = {}
    for log in logs:
        if log.devices:
            kinds.setdefault(log.devices, log.source)
    if len(kinds) > 1:
        machines = "; ".join(f"{where}: {', '.join(names)}" for names, where in kinds.items())
        raise InputError(f"logs of several machines: {machines}", hint="give those of one")


def calibrate(question: CalibrateQuestion, watcher: Watcher) -> Reply:
    """The tests to run, with the lines that run them and what each tells."""
    system = system_of(question.system)
    question.check_alone()
    if question.plan:
        return _plan(system, question)
    readable = question.matched(system)
    runs = readable.runs
    diagnosis = diagnose(apply_typical(replace(system, calibration=None)), runs)
    _check_bounds(diagnosis)
    calibrated = fit(system, [run.measurement for run in runs])
    warnings = [f"{run.log.source}: {warning}" for run in runs for warning in run.log.warnings]
    warnings += [*readable.left_out, *_mixed_versions(system, runs)]
    contradictions = [finding.text for finding in diagnosis.contradictions]
    comments = [f"# {line}" for line in (*contradictions, *warnings) if line.isprintable()]
    device = next(
        (name for run in runs for name in run.log.devices if name.isprintable()), "device"
    )
    text = "\n".join([*comments, describe_system(calibrated.system, device)])
    found, rows = calibrated.calibration, calibrated.rows
    off = [abs(row.fitted_seconds / row.seconds - 1) for row in rows if not row.dropped]
    answer = CalibratedReply.like(
        found,
        system=system,
        rows=len(rows),
        median_error=median(off) if off else None,
        levels=[
            CarriedLevel.of(system, carried)
            for carried in carried_shares(system, [run.measurement for run in runs])
        ],
        worst=max(rows, key=lambda row: row.off),
        unexpected=[
            UnexpectedRow.of(other.row, low=other.low, high=other.high)
            for other in find_unexpected(found, rows)
        ],
        ambiguities=[AmbiguousLevels.of(system, levels) for levels in found.undetermined_levels],
        short=[finding for finding in diagnosis.findings if finding.kind in SHORTFALLS],
        contradicted=diagnosis.contradictions,
        warnings=warnings,
        files={f"{system.name}.toml": text},
    )
    return reply(answer)


def _with_version_note(system: System, run: MatchedLog) -> MatchedLog:
    """Returns a log with a warning if it is of another version of NCCL than the system's."""
    note = explain_other_version(system, run.log.table.version)
    warnings = (*run.log.warnings, note) if note else run.log.warnings
    return replace(run, log=replace(run.log, warnings=warnings))


def _mixed_versions(system: System, runs: Sequence[MatchedLog]) -> Iterator[str]:
    """Yields warnings of logs of unknown versions of NCCL, and of logs of several versions."""
    bare = replace(system, calibration=None, nccl="")
    for run in runs:
        if note := explain_other_version(bare, run.log.table.version):
            yield f"{run.log.source}: {note}"
    counted = Counter(run.measurement.nccl for run in runs if run.measurement.nccl)
    if len(counted) > 1:
        [(most, _)], names = counted.most_common(1), ", ".join(sorted(counted))
        yield f"logs of several versions of NCCL: {names}; the calibration states {most}"


def _check_bounds(diagnosis: Diagnosis) -> None:
    """Raises InputError for rows so far below their bound that no fit can follow them."""
    for finding in diagnosis.contradictions:
        least = 1 / MOST_SHARE if finding.level else LEAST_LATENCY
        if finding.share is not None and finding.share < least:
            hint = "describe the machine that was measured; 'doctor' shows every row by its bound"
            raise InputError(finding.text, where="SYSTEM", hint=hint)


def _plan(system: System, question: CalibrateQuestion) -> Reply:
    given = question.system
    spec = given.name if isinstance(given, NamedText) else given
    found = question.tests(system)
    text = script(system, found, question.launcher, spec)
    tests = [ExperimentPart.of(system, experiment) for experiment in found]
    return reply(TestsReply.like(system=system, experiments=tests, files={"tests.sh": text}))


def doctor(question: DoctorQuestion, watcher: Watcher) -> Reply:
    """Measured beside predicted and bound, size by size, and which level falls short."""
    system = question.priced(system_of(question.system))
    readable = question.matched(system)
    runs = [_with_version_note(system, run) for run in readable.runs]
    baselines = question.baselines(system, runs)
    diagnosis = diagnose(system, runs, baselines.runs)
    alone = tuple(
        f"{run.source}: {explain_missing(run.matched, baselines.runs)}: it is compared with the "
        "prediction only"
        for run, past in zip(diagnosis.runs, diagnosis.past, strict=True)
        if question.baseline and past is None
    )
    answer = DoctorReply.like(
        diagnosis,
        system=system,
        prices=system.prices,
        nccl=NcclPart.of(system),
        runs=[
            DiagnosedRun.of(run, past)
            for run, past in zip(diagnosis.runs, diagnosis.past, strict=True)
        ],
        left_out=readable.left_out + baselines.left_out + alone,
    )
    return reply(answer, Outcome.OK if diagnosis.healthy else Outcome.NO)
