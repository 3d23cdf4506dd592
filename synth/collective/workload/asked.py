"""A job without a file: the collectives of a step, listed one by one in a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grammar import Goal
from synth.collective.workload.job import Entry, JobAxis, Workload
from synth.collective.workload.quantities import parse_amount

NAME = "step"
"""The name of a job without a file."""


@dataclass(frozen=True)
class Sent:
    """A collective of ``payload_bytes`` over some axes, sent ``times`` per step.

    ``hidden`` is the share of its time that overlaps with compute, from 0 to 1.
    """

    over: tuple[str, ...]
    payload_bytes: int
    times: int | float = 1
    goal: Goal = Goal.ALL_REDUCE
    hidden: int | float = 0


def job_of(axes: Mapping[str, int], collectives: Sequence[Sent]) -> Workload:
    """Returns the job with these collectives, equal to that of a job file of the same content.

    Each entry is named after its collective, as in ``all-reduce over data``; repeated names get a
    number. Raises InputError for an invalid job: no collective, or axes that do not exist.
    """
    names: list[str] = []
    for sent in collectives:
        name = f"{sent.goal.value} over {', '.join(sent.over)}"
        repeats = sum(other.partition(" (")[0] == name for other in names)
        names.append(f"{name} ({repeats + 1})" if repeats else name)
    count = f"{len(names)} collective{'s' if len(names) > 1 else ''}"
    return Workload(
        name=NAME,
        title=count,
        sources=(),
        axes=tuple(JobAxis(name, (size,)) for name, size in axes.items()),
        numbers=(),
        requires=(),
        entries=tuple(
            Entry(
                name,
                sent.goal,
                sent.over,
                parse_amount(sent.payload_bytes),
                parse_amount(sent.times),
                parse_amount(sent.hidden),
            )
            for name, sent in zip(names, collectives, strict=True)
        ),
    )
