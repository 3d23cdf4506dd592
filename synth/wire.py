"""The verbs: a question in, a JSON answer out. Every front end is a skin over this table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from importlib.metadata import version
from itertools import pairwise
from math import isfinite
from typing import Any

import numpy as np

from grammar import Goal, Program, admitted, canonical, parse
from hierarchies import (
    Digit,
    InputError,
    Reduction,
    System,
    Tree,
    catalogue,
    count_placements,
    load,
    placements,
)
from synth.answering import in_segments, priced
from synth.bodies import (
    Json,
    defaults_json,
    emitted_json,
    machine_in_full_json,
    machine_json,
    plan_json,
    proof_json,
    ranking_json,
    step_json,
    stripes_json,
    sweep_json,
)
from synth.bound import bound
from synth.defaults import defaults
from synth.emit import Options, Source, emit, target_of
from synth.emit.document import document
from synth.handout import derived_from_text, hand_out
from synth.job_files import load_job, write
from synth.jobplan import plan_job
from synth.lowering import lower
from synth.plan import answers
from synth.programs import Language, explore_states
from synth.proof import Proved, Refuted, prove
from synth.questions import (
    CheckQuestion,
    CountQuestion,
    EmitQuestion,
    JobQuestion,
    LowerQuestion,
    PlaceQuestion,
    PlanQuestion,
    Question,
    RunQuestion,
    SystemsQuestion,
    TimeQuestion,
    TopQuestion,
    axes_of,
    segment_counts,
)
from synth.replay import Failure, compare, multiplicities, wanted
from synth.request import Request, Watcher, told_together
from synth.run import BACKENDS, Trial, run
from synth.schedule import ends, padded
from synth.semantics import Derivation, Refusal, derive, retold
from synth.simulator import Simulator, limiting, total_seconds
from synth.sweep import sweep
from synth.telling import holdings

SCHEMA_VERSION = 1
MOST_REPLAYED = 2**26


class Outcome(IntEnum):
    """How a question ended; the numbers are the command line's exit codes."""

    OK = 0
    NO = 1
    PARTIAL = 4


@dataclass(frozen=True)
class Reply:
    """The JSON answer, and how the question ended."""

    body: Json
    outcome: Outcome = Outcome.OK


def systems(question: SystemsQuestion, watcher: Watcher) -> Reply:
    """The catalogue, or one system with all its numbers and their sources."""
    if question.system is not None:
        return _reply({"system": machine_in_full_json(load(question.system))})
    listed = [machine_json(load(name)) for name in catalogue()]
    return _reply({"systems": listed})


def place(question: PlaceQuestion, watcher: Watcher) -> Reply:
    """Every placement of the axes, in order, and how many there are."""
    system = load(question.system)
    axes = axes_of(question.axes)
    found = [[list(row) for row in p.matrix] for p in placements(system.hierarchy, axes)]
    return _reply(
        {
            "system": machine_json(system),
            "axes": question.axes,
            "count": count_placements(system.hierarchy, axes),
            "placements": found,
        }
    )


def count(question: CountQuestion, watcher: Watcher) -> Reply:
    """How many instructions a tree admits, and how many valid programs there are by length."""
    language = Language(question.max_steps, question.across, question.request)
    graph = explore_states(question.digits, language, watcher.searching)
    choices = admitted(question.digits, across=question.across, goal=question.request)
    body = {
        "request": question.request.value,
        "digits": question.digits,
        "by_length": graph.count()[1:],
        "instructions": len(choices),
        "complete": graph.complete,
    }
    return _reply(body, Outcome.OK if graph.complete else Outcome.PARTIAL)


def top(question: TopQuestion, watcher: Watcher) -> Reply:
    """The ranked, proved programs; for a range of sizes, which is best from which size on."""
    if isinstance(question.bytes, tuple):
        return _swept(load(question.system), question.asked(), question.bytes, watcher)
    report = answers(load(question.system), question.asked(), watcher)
    outcome = Outcome.OK if report.complete else Outcome.PARTIAL
    if any(isinstance(answer.verdict, Refuted) for answer in report.answers):
        outcome = Outcome.NO
    return _reply(ranking_json(report) | {"explain": question.explain}, outcome)


def plan(question: PlanQuestion, watcher: Watcher) -> Reply:
    """The placement on which a job's collectives are exposed for least time."""
    found = plan_job(load(question.system), load_job(question.job), question.how(), watcher)
    outcome = Outcome.OK if found.complete else Outcome.PARTIAL
    if any(isinstance(one.answer.verdict, Refuted) for one in found.entries):
        outcome = Outcome.NO
    return _reply(plan_json(found), outcome)


def job(question: JobQuestion, watcher: Watcher) -> Reply:
    """A job file for ``plan``, from the shape of a transformer and how it is trained."""
    made = question.job()
    return _reply({"job": made.name, "files": [{"name": "job.toml", "text": write(made)}]})


def check(question: CheckQuestion, watcher: Watcher) -> Reply:
    """Whether a program is an all-reduce: derivation and proof, or what goes wrong and where."""
    where = question.reduction()
    tree = where if isinstance(where, Tree) else where.tree
    given = parse(question.program)
    program = canonical(given, tree)
    derivation = derive(program, tree, question.request)
    verdict = prove(program, tree, question.request)
    valid = isinstance(derivation, Derivation) and isinstance(verdict, Proved)
    body: Json = {
        "request": question.request.value,
        "given": str(given),
        "program": str(program),
        "tree": {"names": list(tree.names), "sizes": list(tree.sizes)},
        "valid": valid,
        "states": [],
        "refused": None,
        **proof_json(verdict),
        "replay": None,
    }
    match derivation:
        case Refusal(step, kind, reason):
            body["refused"] = {"step": step, "kind": kind.value, "reason": reason}
            if question.replay:
                sizes = verdict.sizes if isinstance(verdict, Refuted) else tree.sizes
                body["replay"] = _counted(program, tree, sizes, question.request)
        case Derivation():
            body["states"] = [[str(h) for h in held] for held in holdings(derivation)]
            if question.replay:
                body["replay"] = _replayed(derivation, where)
    failed = not valid or (body["replay"] or {"equal": True})["equal"] is not True
    return _reply(body, Outcome.NO if failed else Outcome.OK)


def lowered(question: LowerQuestion, watcher: Watcher) -> Reply:
    """The schedule: per step the groups of real devices in order, and the bytes."""
    system = load(question.system)
    reduction = question.reduction(system)
    schedule = lower(
        derived_from_text(question.program, reduction, question.request), reduction, question.bytes
    )
    return _reply(document(schedule, system.name))


def time(question: TimeQuestion, watcher: Watcher) -> Reply:
    """What each phase of a program costs and why."""
    system = load(question.system)
    reduction = question.reduction(system)
    derivation = derived_from_text(question.program, reduction, question.request)
    simulator = Simulator(system, question.algorithm)
    counts = segment_counts(question.segments)
    segments, prices, taken = in_segments(simulator, derivation, reduction, question.bytes, counts)
    least = bound(system, reduction, question.bytes, question.request)
    plain = defaults(simulator, reduction, question.bytes, question.request)
    barriers = priced(simulator, derivation, reduction, question.bytes)
    return _reply(
        {
            "system": system.name,
            "request": question.request.value,
            "program": str(derivation.program),
            "bytes": question.bytes,
            "segments": segments,
            "steps": [step_json(price) for price in prices],
            "seconds": taken,
            "barrier_seconds": total_seconds(barriers),
            "baseline_seconds": total_seconds(plain.baseline),
            **defaults_json(plain),
            "bound_seconds": least.seconds,
            "bound_by": least.level,
            "limited_by": limiting(prices, segments),
        }
    )


def emitted(question: EmitQuestion, watcher: Watcher) -> Reply:
    """A program in the words of a runtime or tool, as files."""
    options = Options(
        rank_order=question.rank_order,
        hosts=tuple(question.hosts or ()),
        host_level=question.host_level,
        channels=question.channels,
        made_by=f"collsynth {version('collsynth')}",
    )
    chosen = question.chosen()
    if not target_of(question.target).overlaps:
        chosen = replace(chosen, segments=1)
    given = hand_out(chosen, options)
    return _reply(emitted_json(given.source, question.target, emit(question.target, given.source)))


def executed(question: RunQuestion, watcher: Watcher) -> Reply:
    """What was seen when a program ran here, beside what was predicted for its system."""
    given = hand_out(question.chosen(), Options())
    schedule = given.source.schedule
    trial = Trial(
        given.source.payload_bytes,
        question.dtype,
        question.repeat,
        question.check,
        question.timeout_seconds,
    )
    seen = run(question.backend, given.source, trial, watcher.go_on)
    checked = {key: seen.get(key) for key in ("equal", "error", "bitwise_equal")}
    if checked["error"] is not None and not isfinite(checked["error"]):
        checked["error"] = None
    segments = seen.get("segments", schedule.segments)
    same = checked["bitwise_equal"] or not BACKENDS[question.backend].same_bits
    wrong = question.check and not (checked["equal"] and same)
    body = {
        "system": given.source.system.name,
        "program": told_together(str(one.program) for one in given.source.schedules),
        "backend": question.backend,
        "devices": schedule.devices,
        "bytes": seen["bytes"],
        "padded_bytes": _padded(given.source, seen),
        "segments": segments,
        "stripes": stripes_json(given.source),
        "dtype": question.dtype,
        "check": checked if question.check else None,
        "measured_seconds": seen["seconds"],
        "measured_plain_seconds": seen["plain_seconds"],
        "predicted_seconds": given.source.seconds,
        "predicted_plain_seconds": given.plain_seconds,
    }
    return _reply(body, Outcome.NO if wrong else Outcome.OK)


def _padded(source: Source, seen: Json) -> int:
    """The bytes that were sent round: each slice with its padding."""
    schedules = source.schedules
    cuts = (0, *ends([one.payload_bytes for one in schedules], seen["bytes"]))
    cut = seen.get("stripes") or [{"segments": seen.get("segments", s.segments)} for s in schedules]
    return sum(
        padded(end - begin, one.pieces * said["segments"])
        for one, said, (begin, end) in zip(schedules, cut, pairwise(cuts), strict=True)
    )


@dataclass(frozen=True)
class Verb:
    """One verb: the model of its question, what answers it, and if it can answer in part."""

    question: type[Question]
    answer: Callable[[Any, Watcher], Reply]
    partial: bool = False


VERBS: Mapping[str, Verb] = {
    "systems": Verb(SystemsQuestion, systems),
    "place": Verb(PlaceQuestion, place),
    "count": Verb(CountQuestion, count, partial=True),
    "top": Verb(TopQuestion, top, partial=True),
    "plan": Verb(PlanQuestion, plan, partial=True),
    "job": Verb(JobQuestion, job),
    "check": Verb(CheckQuestion, check),
    "lower": Verb(LowerQuestion, lowered),
    "time": Verb(TimeQuestion, time),
    "emit": Verb(EmitQuestion, emitted),
    "run": Verb(RunQuestion, executed),
}


def _reply(body: Json, outcome: Outcome = Outcome.OK) -> Reply:
    return Reply({"schema_version": SCHEMA_VERSION, **body}, outcome)


def _swept(system: System, request: Request, sizes: tuple[int, int], watcher: Watcher) -> Reply:
    found = sweep(system, request, *sizes, watcher)
    verdicts = [answer.verdict for _, answer in found.sizes]
    outcome = Outcome.OK if found.complete else Outcome.PARTIAL
    if any(isinstance(verdict, Refuted) for verdict in verdicts):
        outcome = Outcome.NO
    return _reply(sweep_json(found), outcome)


def _replayed(derivation: Derivation, where: Reduction | Tree) -> Json:
    """Execute a program at real size on payloads that are no multiple of the group."""
    tree = derivation.tree
    if isinstance(where, Tree):
        where = Reduction.plain(*tree.sizes)
        derivation = retold(derivation, where.tree)
    schedule = lower(derivation, where, payload_bytes=1)
    elements = schedule.pieces + 1
    if schedule.devices * elements > MOST_REPLAYED:
        raise InputError(
            f"a replay of {elements} elements on {schedule.devices} devices does not fit in memory",
            where="--replay",
            hint=f"at most {MOST_REPLAYED} in all; the proof holds for every size",
        )
    failure = compare(schedule, elements)
    return {
        "devices": schedule.devices,
        "elements": elements,
        "equal": failure is None,
        "reason": failure.reason if failure else None,
    }


def _counted(program: Program, tree: Tree, sizes: tuple[int, ...], goal: Goal) -> Json:
    """Execute an unverified program at the sizes of the counterexample, counting contributions."""
    small = Tree(tuple(Digit(name, size) for name, size in zip(tree.names, sizes, strict=True)))
    if small.devices**3 > MOST_REPLAYED:
        raise InputError(
            f"{small.devices} devices are too many to count contributions on",
            where="--replay",
            hint=f"their cube may be at most {MOST_REPLAYED}",
        )
    counts = multiplicities(program, small, goal)
    reason = None
    if isinstance(counts, Failure):
        reason = f"step {(counts.phase or 0) + 1}: {counts.reason}"
    elif (wrong := np.argwhere(counts != wanted(counts, goal))).size:
        device, chunk, contributor = wrong[0].tolist()
        times = int(counts[device, chunk, contributor])
        reason = f"device {device} has device {contributor}'s chunk {chunk} {times} times"
    return {
        "devices": small.devices,
        "elements": small.devices,
        "equal": not reason,
        "reason": reason,
    }
