"""The parts of answers as JSON; docs/json.md describes them key by key."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

from hierarchies import System
from synth.emit import Files, Source
from synth.plan.explanation import why
from synth.plan.request import Answer, Report, Request, Stripe, told_together
from synth.plan.sizes import Sweep
from synth.price.defaults import Defaults
from synth.price.intervals import Interval, tied
from synth.price.steps import StepPrice
from synth.verbs.answers.parts import Json as Json
from synth.verbs.answers.parts import MachineInFull, as_json
from synth.verify.symbolic import Proved, Refuted, Unknown, Verdict
from synth.workload.planner import JobPlan, Planned


def machine_in_full_json(system: System) -> Json:
    """A machine with every number of its links, and who says so."""
    return as_json(MachineInFull.of(system))


def ranking_json(report: Report) -> Json:
    """A report: the answers in order, and what they were chosen from."""
    request = report.request
    return {
        "system": machine_in_full_json(report.system),
        "request": request.goal.value,
        "reduce": list(request.over),
        "bytes": request.payload_bytes,
        "algorithm": request.choice.value,
        "collapse": request.collapse,
        "answers": [
            {**answer_json(answer), "tied": tied(report.answers[0].interval, answer.interval)}
            for answer in report.answers
        ],
        "best_default_seconds": report.best_default_seconds,
        "considered": {
            "placements": report.placements,
            "of_placements": report.of_placements,
            "programs": report.programs,
        },
        "complete": report.complete,
    }


def sweep_json(sweep: Sweep) -> Json:
    """A sweep: from which size on which answer is the best, and the figures of every size."""
    place = {size: number for number, (size, _) in enumerate(sweep.sizes)}
    return sweep_body(
        (sweep.system, sweep.request),
        (sweep.smallest_bytes, sweep.largest_bytes),
        [(size, answer_json(answer)) for size, answer in sweep.sizes],
        [(place[one.from_bytes], place[one.until_bytes]) for one in sweep.stretches],
        sweep.complete,
    )


def sweep_body(
    asked: tuple[System, Request],
    ends_bytes: tuple[int, int],
    sizes: Sequence[tuple[int, Json]],
    spans: Sequence[tuple[int, int]],
    complete: bool,
) -> Json:
    """The same of answers that are JSON already; ``spans`` are the stretches, by positions."""
    system, request = asked
    return {
        "system": machine_in_full_json(system),
        "request": request.goal.value,
        "reduce": list(request.over),
        "bytes": list(ends_bytes),
        "algorithm": request.choice.value,
        "collapse": request.collapse,
        "stretches": [
            {
                "from_bytes": sizes[first][0],
                "until_bytes": sizes[last][0],
                "first": sizes[first][1],
                "last": sizes[last][1],
            }
            for first, last in spans
        ],
        "sizes": [
            {
                "bytes": size,
                "seconds": answer["seconds"],
                "baseline_seconds": answer["baseline_seconds"],
                "bound_seconds": answer["bound_seconds"],
            }
            for size, answer in sizes
        ],
        "complete": complete,
    }


def plan_json(plan: JobPlan) -> Json:
    """A job's placement: its entries with their programs, and the next best placements."""
    return {
        "system": machine_in_full_json(plan.system),
        "job": plan.job.name,
        "title": plan.job.title,
        "algorithm": plan.how.choice.value,
        "collapse": plan.how.collapse,
        "ranking": [
            {
                "axes": {axis.name: axis.size for axis in option.axes},
                "placement": [list(row) for row in option.placement.matrix],
                "exposed_seconds": option.exposed_seconds,
                "interval_seconds": interval_json(plan.interval(option)),
                "tied": tied(plan.interval(plan.ranking[0]), plan.interval(option)),
            }
            for option in plan.ranking
        ],
        "default_exposed_seconds": sum(one.default_exposed_seconds for one in plan.entries),
        "entries": [_planned(one) for one in plan.entries],
        "unpriced": [
            {
                "name": one.name,
                "over": list(one.over),
                "bytes": one.payload_bytes,
                "times": float(one.times),
                "why": one.why,
            }
            for one in plan.job.unpriced
        ],
        "considered": {"placements": plan.placements, "of_placements": plan.of_placements},
        "complete": plan.complete,
    }


def _planned(one: Planned) -> Json:
    entry, alone = one.entry, one.alone_seconds
    seconds = one.answer.candidate.seconds
    return {
        "name": entry.name,
        "request": entry.goal.value,
        "over": list(entry.over),
        "bytes": entry.payload_bytes,
        "times": float(entry.times),
        "hidden": float(entry.hidden),
        "exposed_seconds": one.exposed_seconds,
        "default_exposed_seconds": one.default_exposed_seconds,
        "alone_seconds": alone,
        "alone_placement": [list(row) for row in one.alone_placement.matrix],
        "loss": seconds / alone if alone else 1.0,
        "answer": answer_json(one.answer),
    }


def defaults_json(told: Defaults) -> Json:
    """The runtime's options for the plain collective by name, and which it would choose."""
    chosen = {"name": told.chosen, "protocol": told.protocol.value}
    return {"defaults": told.seconds, "default": chosen}


def answer_json(answer: Answer) -> Json:
    """An answer with all that is said of it."""
    placement = answer.candidate.reduction.placement
    seconds = answer.candidate.seconds
    return {
        "rank": answer.rank,
        "axes": {axis.name: axis.size for axis in placement.axes},
        "placement": [list(row) for row in placement.matrix],
        "program": answer.candidate.text,
        "segments": answer.candidate.segments,
        "seconds": seconds,
        "barrier_seconds": answer.barrier_seconds,
        "baseline_seconds": answer.baseline_seconds,
        "speedup": answer.baseline_seconds / seconds if seconds else 1.0,
        **defaults_json(answer.defaults),
        "bound_seconds": answer.bound.seconds,
        "limited_by": answer.limited_by,
        "steps": [step_json(price) for stripe in answer.stripes for price in stripe.prices],
        "stripes": [_stripe(answer, stripe) for stripe in answer.stripes],
        "interval_seconds": interval_json(answer.interval),
        "baseline_interval_seconds": interval_json(answer.baseline_interval),
        "why": why(answer),
        **proof_json(answer.verdict),
    }


def interval_json(interval: Interval | None) -> list[float] | None:
    """Its two ends in seconds."""
    return None if interval is None else [interval.low_seconds, interval.high_seconds]


def _stripe(answer: Answer, stripe: Stripe) -> Json:
    part = stripe.part
    return {
        "program": str(part.program),
        "share": part.size_bytes / sum(one.size_bytes for one in answer.candidate.parts),
        "bytes": part.size_bytes,
        "segments": part.segments,
        "steps": len(stripe.prices),
        **proof_json(stripe.verdict),
    }


def step_json(price: StepPrice) -> Json:
    """What one phase costs and why."""
    return {
        "collective": price.what,
        "algorithm": price.algorithm.value if price.algorithm else None,
        "protocol": price.protocol.value if price.algorithm else None,
        "bytes": price.size_bytes,
        "seconds": price.seconds,
        "latency_seconds": price.latency_seconds,
        "limited_by": price.limited_by,
        "bytes_per_port": dict(price.bytes_per_port),
    }


def proof_json(verdict: Verdict) -> Json:
    """z3's verdict, with the counterexample or the reason it does not know."""
    match verdict:
        case Proved():
            return {"proof": "proved", "counterexample": None}
        case Refuted():
            return {
                "proof": "refuted",
                "counterexample": {
                    "step": verdict.step,
                    "violation": verdict.violation.value,
                    "sizes": list(verdict.sizes),
                    "device": list(verdict.device),
                    "other": _digits(verdict.other),
                    "chunk": _digits(verdict.chunk),
                    "contributor": _digits(verdict.contributor),
                    "reason": verdict.reason,
                },
            }
        case Unknown():
            return {"proof": "unknown", "counterexample": None, "proof_reason": verdict.reason}


def _digits(values: tuple[int, ...] | None) -> list[int] | None:
    return None if values is None else list(values)


def emitted_json(source: Source, target: str, files: Files) -> Json:
    """What was emitted: each file as text, or in base64 if it is no text."""
    return {
        "target": target,
        "system": source.system.name,
        "program": told_together(str(schedule.program) for schedule in source.schedules),
        "proof": "proved" if source.proved else "unknown",
        "segments": source.schedule.segments,
        "stripes": stripes_json(source),
        "seconds": source.seconds,
        "files": [_file(name, content) for name, content in files.items()],
    }


def stripes_json(source: Source) -> list[Json]:
    """The schedules that share the payload: what each carries out, on how much of it."""
    return [
        {
            "program": str(schedule.program),
            "bytes": schedule.payload_bytes,
            "segments": schedule.segments,
        }
        for schedule in source.schedules
    ]


def _file(name: str, content: str | bytes) -> Json:
    if isinstance(content, str):
        return {"name": name, "text": content}
    return {"name": name, "base64": b64encode(content).decode()}
