"""What surveys find, as JSON that travels, and back."""

from __future__ import annotations

from dataclasses import asdict

from grammar import Collective, Groups, Instruction
from hierarchies import Placement, Reduction, System
from synth.bodies import Json
from synth.finder import Found, FoundPart
from synth.request import Looked, Request
from synth.survey import Placed, Surveyed


def surveyed_json(surveyed: Surveyed) -> Json:
    """A survey as JSON."""
    return {
        "best": [{"position": one.position, **found_json(one.found)} for one in surveyed.best],
        "looked": asdict(surveyed.looked),
    }


def surveyed_of(told: Json, system: System, request: Request) -> Surveyed:
    """The survey again."""
    best = tuple(Placed(one["position"], found_of(one, system, request)) for one in told["best"])
    return Surveyed(best, Looked(**told["looked"]))


def found_json(found: Found) -> Json:
    """A program found as JSON: its price, its spelling, its placement, its steps."""
    return {
        "ticks": found.ticks,
        "texts": list(found.key[2]),
        "placement": [list(row) for row in found.reduction.placement.matrix],
        "parts": [
            {
                "steps": [_step_json(step) for step in part.steps],
                "bytes": part.size_bytes,
                "segments": part.segments,
            }
            for part in found.parts
        ],
    }


def found_of(told: Json, system: System, request: Request) -> Found:
    """The program found again."""
    matrix = tuple(tuple(row) for row in told["placement"])
    placement = Placement(system.hierarchy, request.axes, matrix)
    texts = tuple(told["texts"])
    parts = tuple(
        FoundPart(tuple(_step_of(one) for one in part["steps"]), part["bytes"], part["segments"])
        for part in told["parts"]
    )
    reduction = Reduction(placement, request.over, request.collapse)
    return Found((told["ticks"], len(texts), texts), reduction, parts)


def _step_json(step: Instruction) -> Json:
    groups = step.groups
    return {
        "collective": step.collective.value,
        "free": list(groups.free),
        "zero": list(groups.zero),
    }


def _step_of(told: Json) -> Instruction:
    groups = Groups(tuple(told["free"]), tuple(told["zero"]))
    return Instruction(Collective(told["collective"]), groups)
