"""A job without a file: collectives of a step as they are named in a question, one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grammar import Goal
from synth.collective.workload.job import Entry, JobAxis, Workload
from synth.collective.workload.quantities import parse_amount

NAME = "step"
"""What the job is called."""


@dataclass(frozen=True)
class Sent:
    """A collective of ``payload_bytes`` over some axes, ``times`` in a step.

    ``hidden`` is the share of its time that compute can run beside, from 0 to 1.
    """

    over: tuple[str, ...]
    payload_bytes: int
    times: int | float = 1
    goal: Goal = Goal.ALL_REDUCE
    hidden: int | float = 0


def job_of(axes: Mapping[str, int], collectives: Sequence[Sent]) -> Workload:
    """The job that sends these, as a job file of the same content would say it.

    An entry is called after what it does: ``all-reduce over data``; the second of a name gets a
    number. Raises InputError for what no job may be: no collective, axes that do not exist.
    """
    names: list[str] = []
    for one in collectives:
        name = f"{one.goal.value} over {', '.join(one.over)}"
        same = sum(other.partition(" (")[0] == name for other in names)
        names.append(f"{name} ({same + 1})" if same else name)
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
                one.goal,
                one.over,
                parse_amount(one.payload_bytes),
                parse_amount(one.times),
                parse_amount(one.hidden),
            )
            for name, one in zip(names, collectives, strict=True)
        ),
    )
