"""Times tasks that share links: those at once on one link slow each other.

A task alone takes its seconds. Where tasks at once would keep a link busy for more than all of the
time, each gets a max-min fair share of its own speed (``events.contention``). All devices of a
stage do the same work, so the busiest ports of two requests are taken to be the same ports. What a
task keeps busy is a mean over its seconds: a collective that waits for messages half of the time
leaves half of the link to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from synth.events.contention import time_with_contention
from synth.events.longest_path import TaskOrder, time_tasks
from synth.step.redistribution.seconds import Occupancy

_ROUNDING = 1e-9
"""Resources occupied by no more than this above 1 are not overloaded."""

Times = tuple[list[float], list[float]]
"""When each task begins, and when it ends."""


def time_on_links(
    tasks: TaskOrder,
    seconds: Sequence[float],
    occupancies: Sequence[Occupancy],
    cores: Sequence[float] = (),
    ceilings: Sequence[float] = (),
) -> Times:
    """Returns when tasks begin and end; without ``cores``, ``time_tasks`` if no link is overloaded.

    ``cores``: the part of the device's cores that each task needs, if these are shared, too.
    ``ceilings``: as in ``time_with_contention``.
    """
    if not cores:
        times = time_tasks(tasks, seconds)
        if not _is_overloaded(occupancies, *times):
            return times
    numbers = {name: number for number, name in enumerate(_names(occupancies), 1)}
    limits = ceilings or [1.0] * len(seconds)
    uses = []
    for task, (limit, used) in enumerate(zip(limits, occupancies, strict=True)):
        shared = [(0, cores[task] / limit)] if cores else []
        uses.append([*shared, *((numbers[name], share / limit) for name, share in used)])
    return time_with_contention(tasks, seconds, uses, ceilings)


def _is_overloaded(
    occupancies: Sequence[Occupancy], begins: Sequence[float], ends: Sequence[float]
) -> bool:
    """Whether some tasks at these times would occupy a resource by more than 1 together."""
    events = []
    for task, occupancy in enumerate(occupancies):
        if occupancy and ends[task] > begins[task]:
            events += [(begins[task], 1, task), (ends[task], 0, task)]
    busy = dict.fromkeys(_names(occupancies), 0.0)
    for _, starts, task in sorted(events):
        for name, share in occupancies[task]:
            busy[name] += share if starts else -share
            if busy[name] > 1 + _ROUNDING:
                return True
    return False


def _names(occupancies: Iterable[Occupancy]) -> dict[str, None]:
    """The resources in use."""
    return dict.fromkeys(name for occupancy in occupancies for name, _ in occupancy)
