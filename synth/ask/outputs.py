"""The verbs that emit programs as files for runtimes, or run them here."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.metadata import version
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from grammar import Goal
from grammar.tensors.sharding import ReductionKind
from hierarchies import InputError, suggest_nearest
from synth.ask.answers.given import (
    EarlierAnswer,
    UnevenRanking,
    read_answer,
    read_plan_entries,
    read_uneven_ranking,
)
from synth.ask.answers.outputs import (
    EmittedGroupsReply,
    EmittedPlanReply,
    EmittedReply,
    PayloadStripe,
    ResultCheck,
    RunReply,
    groups_document,
    padded_bytes,
)
from synth.ask.export import check_derivation, prepare_emit_input
from synth.ask.questions import notations
from synth.ask.questions.fields import CostLimit, File, Flag
from synth.ask.questions.flags import Figure, Measure, OptionalBytes, OptionalMachine, ProgramText
from synth.ask.questions.question import PricedQuestion, ProgramQuestion
from synth.ask.reply import Outcome, Reply, reply
from synth.collective.algorithms.algorithms import Choice
from synth.collective.degraded.handing import run_on_arrays
from synth.collective.emit.mesh import RankOrder
from synth.collective.emit.package import PackageEntry, emit_all
from synth.collective.emit.source import EmitOptions, EmitSource, hash_digits
from synth.collective.emit.targets import TARGETS, emit, target_of
from synth.collective.ranking.request import Watcher, programs_text
from synth.collective.run import BACKENDS, TrialRequest, check_trial, run

MOST_HOSTS = 2**16
_MOST_WRITTEN = 64
_MOST_STRIPES = 4
"""For more devices, or in more segments or stripes, a program is written for its target by the
worker alone: up to these it takes 0.2 s.
"""
ALL = "all"
"""In the place of the name of an entry: every entry of the plan."""


class EmitInputQuestion(ProgramQuestion, PricedQuestion):
    """A program on one placement, or an answer that ``top`` gave before (the key ``from``).

    ``rank`` chooses among the answers, and ``placement`` too where several have that rank.
    """

    model_config = ConfigDict(populate_by_name=True)

    program: Annotated[
        ProgramText | None,
        Flag("Program", ", a file, or -, unless --from", "PROGRAM", file=File.PROGRAM),
    ] = None
    system: Annotated[OptionalMachine, Flag("System to run on", ", unless --from")] = None
    answer: Annotated[
        dict[str, Any] | None,
        CostLimit.ANSWER,
        Flag("Output of 'top --json'", ": a file, or -", "--from ANSWER", file=File.ANSWER),
    ] = Field(default=None, alias="from")
    rank: Annotated[Figure, Flag("Rank of the answer in --from")] = 1
    entry: Annotated[
        str | None, Flag("Name of the entry of a plan", "; all: every entry as one package")
    ] = None
    bytes: OptionalBytes = None
    request: Annotated[
        Goal | None, Field(strict=False), Flag("Request of the program, unless all-reduce")
    ] = None
    op: Annotated[
        ReductionKind,
        Field(strict=False),
        Flag(f"The reduction operation: {', '.join(one.value for one in ReductionKind)}"),
    ] = ReductionKind.SUM
    algorithm: Annotated[
        Choice | None, Field(strict=False), Flag("Algorithms of the prediction, as in top")
    ] = None
    segments: Annotated[
        int | None,
        Field(ge=1, le=4096),
        Flag("Number of segments the payload is pipelined in"),
    ] = None

    def chosen(self) -> EarlierAnswer:
        """The program to hand out: from ``answer``, or from ``program`` and ``system``.

        Raises InputError if neither or both are given, and for what does not fit together.
        """
        if self.answer is None and (self.rank != 1 or self.entry is not None):
            what = f"rank {self.rank}" if self.entry is None else f"entry {self.entry!r}"
            raise InputError(f"{what} of no answers", hint="it chooses among --from's")
        if self.answer is not None:
            self._check_alone()
            found = self._remembered(self.answer)
        elif self.program is None or self.system is None:
            raise InputError(
                "nothing to hand out is given",
                hint="either PROGRAM SYSTEM --axes --reduce, or --from with an answer of 'top'",
            )
        else:
            system, reduction = self.place(self.program)
            system = self.priced(system)
            found = EarlierAnswer(system, reduction, self.program, 2**30, Choice.AUTO)
        return self._changed(found)

    def planned(self) -> dict[str, EarlierAnswer]:
        """All entries of a plan, by name. Raises InputError for an answer that is no plan."""
        if self.answer is None:
            raise InputError("entries of no plan", where="--entry", hint="give one with --from")
        self._check_alone()
        return {
            name: self._changed(entry) for name, entry in read_plan_entries(self.answer).items()
        }

    def _remembered(self, answer: dict[str, Any]) -> EarlierAnswer:
        if self.entry is None:
            return read_answer(answer, self.rank, self.placement, self.bytes)
        found = read_plan_entries(answer)
        if self.entry not in found:
            hint = suggest_nearest(self.entry, found)
            raise InputError(f"no entry {self.entry!r}", where="--entry", hint=hint)
        return found[self.entry]

    def _changed(self, found: EarlierAnswer) -> EarlierAnswer:
        """As the question would have it: another size, other segments."""
        if self.nccl is not None:
            found = replace(found, system=self.priced(found.system))
        return replace(
            found,
            payload_bytes=self.bytes or found.payload_bytes,
            goal=self.request or found.goal,
            op=self.op,
            algorithm=self.algorithm or found.algorithm,
            segments=self.segments or found.segments,
            beside=tuple(
                replace(stripe, segments=self.segments or stripe.segments)
                for stripe in found.beside
            ),
        )

    def groups(self) -> UnevenRanking | None:
        """The answer, if its machine lacks devices; else None. Raises as ``chosen``."""
        if self.answer is None or "uneven" not in self.answer:
            return None
        self._check_alone()
        return read_uneven_ranking(self.answer)

    def check_early(self) -> None:
        if self.groups() is None:
            self.check_program(self.chosen())

    def check_program(self, chosen: EarlierAnswer) -> None:
        """Raises InputError for programs that are none, or not right."""
        for stripe in chosen.slices:
            check_derivation(stripe.program, chosen.reduction, chosen.goal)

    def answered_devices(self) -> int:
        """How many devices the machine of the answer has, 0 without one. Raises as ``chosen``."""
        if self.answer is None:
            return 0
        if self.entry == ALL:
            return next(iter(self.planned().values())).system.devices
        ranking = self.groups()
        return len(ranking.uneven.devices) if ranking else self.chosen().system.devices

    def _check_alone(self) -> None:
        """Raises InputError for a program, system, axes or ``--no-collapse`` beside an answer."""
        if not self.collapse:
            raise InputError("an answer remembers its digits", hint="leave out --no-collapse")
        parts = (self.program, self.system, self.axes, self.reduce)
        if any(part is not None for part in parts):
            raise InputError(
                "a program and an answer are given",
                hint="either PROGRAM SYSTEM --axes --reduce, or --from",
            )


class EmitQuestion(EmitInputQuestion):
    """Write a program, or an answer of top, for a runtime or tool."""

    target: Annotated[str, Flag(f"One of: {', '.join(TARGETS)}")]
    rank_order: Annotated[
        RankOrder,
        Field(strict=False),
        Flag(f"How the job's ranks are numbered: {', '.join(one.value for one in RankOrder)}"),
    ] = RankOrder.MACHINE
    hosts: Annotated[
        Annotated[list[str], Field(max_length=MOST_HOSTS)] | None,
        Flag("Host names in order", ": a,b,c", notation=notations.NAMES),
    ] = None
    host_level: Annotated[str | None, Flag("Level whose units are hosts, unless node or host")] = (
        None
    )
    channels: Annotated[Figure | None, Flag("Number of NCCL channels, for its tuner")] = None

    def check_early(self) -> None:
        target_of(self.target)
        if self.entry == ALL and self.groups() is None:
            self.planned()
        else:
            super().check_early()

    def check_program(self, chosen: EarlierAnswer) -> None:
        if _is_quickly_written(chosen):
            emit_program(self, Watcher())
        else:
            super().check_program(chosen)


class RunQuestion(EmitInputQuestion):
    """Execute a program here, check it, and print measured beside predicted time."""

    bytes: Annotated[OptionalBytes, Flag("Largest buffer of a device", ", e.g. 1MiB")] = 2**20
    backend: Annotated[str, Flag(f"One of: {', '.join(BACKENDS)}")] = "numpy"
    dtype: Annotated[str, Flag("Element type")] = "float32"
    repeat: Annotated[int, Flag("Number of timed runs")] = Field(default=5, ge=1, le=1000)
    check: Annotated[bool, Flag("Compare with the plain collective")] = False
    timeout_seconds: Annotated[Measure, Flag("Timeout in seconds", spelled="--timeout")] = Field(
        default=120.0, gt=0, strict=False
    )

    def trial(self, payload_bytes: int) -> TrialRequest:
        """How it is run."""
        return self.fill(TrialRequest, payload_bytes=payload_bytes)

    def check_program(self, chosen: EarlierAnswer) -> None:
        super().check_program(chosen)
        check_trial(self.backend, chosen.system.devices, self.trial(chosen.payload_bytes))


def _is_quickly_written(chosen: EarlierAnswer) -> bool:
    """Whether writing a program for a target takes no longer than checking it."""
    segments = sum(stripe.segments for stripe in chosen.beside) or chosen.segments
    few = max(chosen.system.devices, segments) <= _MOST_WRITTEN
    return few and len(chosen.beside) <= _MOST_STRIPES


def emit_program(question: EmitQuestion, watcher: Watcher) -> Reply:
    """A program in the words of a runtime or tool, as files."""
    ranking = question.groups()
    if ranking is not None:
        return _emit_groups(question, ranking)
    options = EmitOptions(
        rank_order=question.rank_order,
        hosts=tuple(question.hosts or ()),
        host_level=question.host_level,
        channels=question.channels,
        made_by=f"collsynth {version('collsynth')}",
    )
    if question.entry == ALL:
        return _emit_plan(question, options)
    source = _source(question, question.chosen(), options)
    files = emit(question.target, source)
    return reply(EmittedReply.of(source, question.target, files))


def _source(question: EmitQuestion, chosen: EarlierAnswer, options: EmitOptions) -> EmitSource:
    """Returns the source to emit, in one segment for targets without segments."""
    target = target_of(question.target)
    if not target.overlaps:
        chosen = replace(chosen, segments=1)
    return prepare_emit_input(chosen, options, by_size=target.by_size).source


def _emit_plan(question: EmitQuestion, options: EmitOptions) -> Reply:
    """Returns all entries of a plan, as one package or as a file for each entry."""
    entries = [
        PackageEntry(name, _source(question, entry, options))
        for name, entry in question.planned().items()
    ]
    return reply(EmittedPlanReply.of(entries, question.target, emit_all(question.target, entries)))


def run_program(question: RunQuestion, watcher: Watcher) -> Reply:
    """What was seen when a program ran here, beside what was predicted for its system."""
    if question.entry == ALL:
        raise InputError("a run of every entry", where="--entry", hint="name one")
    ranking = question.groups()
    if ranking is not None:
        return _run_groups(question, ranking)
    given = prepare_emit_input(question.chosen(), EmitOptions())
    schedule = given.source.schedule
    trial = question.trial(given.source.payload_bytes)
    seen = run(question.backend, given.source, trial, watcher.go_on)
    checked = ResultCheck.of(seen)
    same = checked.bitwise_equal or not BACKENDS[question.backend].same_bits
    wrong = question.check and not (checked.equal and same)
    found = RunReply.like(
        question,
        schedule,
        system=given.source.system.name,
        request=schedule.goal,
        program=programs_text(str(part.program) for part in given.source.schedules),
        bytes=seen.bytes,
        padded_bytes=padded_bytes(given.source, seen),
        segments=seen.segments or schedule.segments,
        stripes=PayloadStripe.all_of(given.source),
        check=checked if question.check else None,
        measured_seconds=seen.seconds,
        measured_plain_seconds=seen.plain_seconds,
        predicted_seconds=given.source.seconds,
        predicted_plain_seconds=given.plain_seconds,
    )
    return reply(found, Outcome.NO if wrong else Outcome.OK)


def _emit_groups(question: EmitQuestion, ranking: UnevenRanking) -> Reply:
    """Returns a program of explicit groups, which only data can express: no mesh has its groups."""
    if question.target != "json":
        target_of(question.target)
        raise InputError(
            f"target {question.target} names groups by the axes of a mesh, and the groups of a "
            "machine that lacks devices are uneven",
            where="--target",
            hint="json can: it lists them",
        )
    found = ranking.handed(question.rank)
    found.check()
    text = json.dumps(groups_document(found, question.op), indent=1) + "\n"
    emitted = EmittedGroupsReply.like(
        found,
        target="json",
        program=found.program.text,
        op=question.op,
        proof="proved",
        proved_for=len(found.devices),
        files={f"groups_{hash_digits(text)}.json": text},
    )
    return reply(emitted)


def _run_groups(question: RunQuestion, ranking: UnevenRanking) -> Reply:
    """Returns the result of running a program of explicit groups on arrays."""
    if question.backend != "numpy":
        raise InputError(
            f"backend {question.backend} runs programs over a mesh, and the groups of a machine "
            "that lacks devices are uneven",
            where="--backend",
            hint="numpy can",
        )
    size = question.bytes or 2**20
    chosen = ranking.handed(question.rank)
    seen = run_on_arrays(chosen, question.dtype, size, question.repeat, question.op)
    checked = ResultCheck.of(seen)
    chunks = chosen.program.chunks
    each = -(-seen.bytes // chunks)
    found = RunReply.like(
        question,
        system=chosen.system,
        request=Goal.ALL_REDUCE,
        program=chosen.program.text,
        devices=len(chosen.devices),
        bytes=seen.bytes,
        padded_bytes=max(seen.bytes, each * chunks),
        segments=1,
        stripes=[],
        check=checked if question.check else None,
        measured_seconds=seen.seconds,
        measured_plain_seconds=seen.plain_seconds,
        predicted_seconds=chosen.seconds,
        predicted_plain_seconds=chosen.flat_seconds,
    )
    wrong = question.check and not (checked.equal and checked.bitwise_equal)
    return reply(found, Outcome.NO if wrong else Outcome.OK)
