"""Answers about machines with something missing or slower, as JSON; docs/json.md has the keys."""

from __future__ import annotations

from synth.degraded import UnevenAnswer, UnevenReport
from synth.degraded.comparison import Cost
from synth.plan.request import Answer, Report
from synth.verbs.answers.bodies import Json, machine_in_full_json, proof_json, step_json
from synth.verify.concrete import GroupStep


def uneven_json(report: UnevenReport) -> Json:
    """The ranking of a machine that lacks devices."""
    survivors, request = report.survivors, report.request
    return {
        "system": machine_in_full_json(report.system),
        "request": "all-reduce",
        "reduce": [report.axis.name],
        "bytes": request.payload_bytes,
        "algorithm": request.choice.value,
        "uneven": {"left": survivors.told(), "devices": list(survivors.devices)},
        "answers": [_answer(answer, report) for answer in report.answers],
        "choices": _choices(report),
        "flat_seconds": report.flat_seconds,
        "bound_seconds": report.bound.seconds,
        "bound_by": report.bound.level,
        "considered": {"programs": report.programs},
        "complete": report.complete,
    }


def _choices(report: UnevenReport) -> list[Json]:
    return [
        {
            "machine": choice.core.told,
            "devices": len(choice.core.ranks),
            "program": choice.candidate.program.text,
            "segments": choice.candidate.segments,
            "seconds": choice.candidate.seconds,
        }
        for choice in report.choices
    ]


def _answer(answer: UnevenAnswer, report: UnevenReport) -> Json:
    candidate, flat = answer.candidate, report.flat_seconds
    return {
        "rank": answer.rank,
        "axes": {report.axis.name: report.axis.size},
        "program": candidate.program.text,
        "chunks": candidate.program.chunks,
        "segments": candidate.segments,
        "seconds": candidate.seconds,
        "speedup": flat / candidate.seconds if candidate.seconds else 1.0,
        "limited_by": candidate.limited_by,
        "steps": [step_json(price) for price in candidate.prices],
        "group_steps": [group_step_json(step) for step in candidate.program.steps],
        "proved_for": report.axis.size,
        **proof_json(answer.verdict),
    }


def group_step_json(step: GroupStep) -> Json:
    """A step over explicit groups of ranks; pieces are lists of chunks, null where it has none."""
    pieces = step.pieces
    return {
        "collective": step.collective.value,
        "groups": [list(group) for group in step.groups],
        "pieces": None if pieces is None else [[sorted(p) for p in some] for some in pieces],
    }


def cost_json(cost: Cost) -> Json:
    """A request on the healthy machine and on the one at hand."""
    before, now = cost.healthy, cost.now
    best = now.answers[0]
    lost = cost.seconds - before.candidate.seconds
    return {
        "system": machine_in_full_json(cost.system),
        "request": before.goal.value,
        "reduce": list(before.candidate.reduction.over),
        "bytes": before.payload_bytes,
        "healthy": _told(before),
        "same_program_seconds": cost.same_seconds,
        "best": _told(best)
        if isinstance(now, Report) and isinstance(best, Answer)
        else _brief(now),
        "lost_seconds": lost,
        "choices": _choices(now) if isinstance(now, UnevenReport) else [],
        "followed": None
        if cost.followed is None
        else {
            "program": cost.followed.program,
            "segments": cost.followed.segments,
            "healthy_seconds": cost.followed.healthy_seconds,
            "seconds": cost.followed.seconds,
            "busiest": [
                {"link": name, "busy_share": share} for name, share in cost.followed.busiest
            ],
        },
        "complete": cost.complete,
    }


def _told(answer: Answer) -> Json:
    placement = answer.candidate.reduction.placement
    return {
        "axes": {axis.name: axis.size for axis in placement.axes},
        "placement": [list(row) for row in placement.matrix],
        "program": answer.candidate.text,
        "seconds": answer.candidate.seconds,
        "baseline_seconds": answer.baseline_seconds,
        "bound_seconds": answer.bound.seconds,
        **proof_json(answer.verdict),
    }


def _brief(report: Report | UnevenReport) -> Json:
    assert isinstance(report, UnevenReport)
    [answer, *_] = report.answers
    return {
        "axes": {report.axis.name: report.axis.size},
        "placement": None,
        "program": answer.candidate.program.text,
        "seconds": answer.candidate.seconds,
        "baseline_seconds": report.flat_seconds,
        "bound_seconds": report.bound.seconds,
        **proof_json(answer.verdict),
    }
