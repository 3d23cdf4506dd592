"""Several collectives of one training step in a question, and the job that they form.

A single collective cannot determine a placement, because it lacks the communication of other axes.
Therefore a question may contain all that matter: gradients over ``data`` once, activations over
``model`` 160 times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BeforeValidator, Field

from grammar import Goal
from hierarchies import InputError
from synth.ask.questions import notations
from synth.ask.questions.fields import Flag, ItemFlags
from synth.ask.questions.flags import Bytes, Measure, ReducedAxes, RequestedGoal
from synth.ask.questions.question import Question
from synth.collective.workload.asked import Sent, job_of
from synth.collective.workload.job import Workload

MOST_COLLECTIVES = 64


def _check_one_size(value: object) -> object:
    if (isinstance(value, str) and ".." in value) or isinstance(value, (list, tuple)):
        hint = "give each of several collectives one size"
        raise InputError("a range of sizes among several collectives", hint=hint)
    return value


class CollectiveRequest(Question):
    """One of several collectives that a training step asks for."""

    reduce: ReducedAxes
    bytes: Annotated[Bytes, BeforeValidator(_check_one_size)]
    times: Annotated[
        Measure,
        Field(gt=0),
        Flag("Calls per training step", ", of one of several", notation=notations.NUMBER),
    ] = 1
    hidden: Annotated[
        Measure,
        Field(ge=0, le=1),
        Flag(
            "Share of its time that compute can hide",
            ", of one of several",
            notation=notations.NUMBER,
        ),
    ] = 0
    request: RequestedGoal = Goal.ALL_REDUCE


Collectives = Annotated[
    list[CollectiveRequest],
    Field(
        max_length=MOST_COLLECTIVES,
        description="All communication of a training step; replaces reduce, bytes and request.",
    ),
    ItemFlags(CollectiveRequest, "reduce"),
]


def job_of_collectives(
    axes: Mapping[str, int], collectives: Sequence[CollectiveRequest]
) -> Workload:
    """Return the job of these collectives. Raises InputError for what no job may be."""
    return job_of(
        axes,
        [
            Sent(
                tuple(collective.reduce),
                collective.bytes,
                _plain_number(collective.times),
                collective.request,
                _plain_number(collective.hidden),
            )
            for collective in collectives
        ],
    )


def _plain_number(number: float) -> int | float:
    """Return a whole number without a point, so that it is spelled as one."""
    return int(number) if float(number).is_integer() else number
