"""Several collectives of one training step in a question: what each is, and the job they make.

One collective cannot choose a placement, as it says nothing of what other axes send. So a question
may hold all that matters: gradients over ``data`` once, activations over ``model`` 160 times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BeforeValidator, Field

from grammar import Goal
from hierarchies import InputError
from synth.ask.questions import notations
from synth.ask.questions.fields import Each, Flag
from synth.ask.questions.flags import Bytes, Measure, Over, Requested
from synth.ask.questions.question import Question
from synth.collective.workload.asked import Sent, job_of
from synth.collective.workload.job import Job

MOST_COLLECTIVES = 64


def _one_size(value: object) -> object:
    if (isinstance(value, str) and ".." in value) or isinstance(value, (list, tuple)):
        hint = "give each of several collectives one size"
        raise InputError("a range of sizes among several collectives", hint=hint)
    return value


class CollectiveAsked(Question):
    """One of several collectives that a training step asks for."""

    reduce: Over
    bytes: Annotated[Bytes, BeforeValidator(_one_size)]
    times: Annotated[
        Measure,
        Field(gt=0),
        Flag("How often in a training step", ", of one of several", notation=notations.NUMBER),
    ] = 1
    hidden: Annotated[
        Measure,
        Field(ge=0, le=1),
        Flag(
            "Which share of its time compute can run beside",
            ", of one of several",
            notation=notations.NUMBER,
        ),
    ] = 0
    request: Requested = Goal.ALL_REDUCE


Collectives = Annotated[
    list[CollectiveAsked],
    Field(
        max_length=MOST_COLLECTIVES,
        description="All that a training step sends, in the place of reduce, bytes and request.",
    ),
    Each(CollectiveAsked, "reduce"),
]


def job_asked(axes: Mapping[str, int], collectives: Sequence[CollectiveAsked]) -> Job:
    """The job of these collectives. Raises InputError for what no job may be."""
    return job_of(
        axes,
        [
            Sent(tuple(one.reduce), one.bytes, _plain(one.times), one.request, _plain(one.hidden))
            for one in collectives
        ],
    )


def _plain(number: float) -> int | float:
    """A whole number without a point, so that it is spelled as one."""
    return int(number) if float(number).is_integer() else number
