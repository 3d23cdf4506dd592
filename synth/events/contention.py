"""Tasks in their order on each resource that also share what is scarce: links, memory, cores.

The input is that of ``longest_path``, and for each task the parts of shared things that it keeps
busy at full speed. A task alone takes its seconds; where those at work would keep a thing busier
than all the time, each gets a max-min fair share of its own full speed. A collective that needs a
tenth of the cores on which a product computes slows both by a tenth of a tenth and more: the
product to 10/11.

>>> from synth.events.longest_path import arrange_tasks
>>> tasks = arrange_tasks(before=[(), ()], queues=[[0], [1]])
>>> contended(tasks, [1.0, 3.0], [[(0, 1.0)], [(0, 1.0)]])[1]
[2.0, 4.0]

Laws, which tests hold: nothing ends before it does where nothing is shared (``timed``), and at
these very moments where no two tasks ask for more than there is. It is not monotone: a task
that takes longer may leave a link to one that decides.
"""

from __future__ import annotations

from collections.abc import Sequence

from synth.events.engine import Course, Engine
from synth.events.longest_path import TaskOrder
from synth.events.max_min import FlowPaces, Uses


def time_with_contention(
    tasks: TaskOrder,
    seconds: Sequence[float],
    uses: Sequence[Uses],
    waits: Sequence[float] | None = None,
    ceilings: Sequence[float] | None = None,
) -> tuple[list[float], list[float]]:
    """When each task begins and ends that takes so long alone.

    ``uses``: the shared things of each task, by number, and the part of each that it keeps busy at
    full speed, above 0 and at most 1. ``waits``: of its seconds those at its begin, in which it
    keeps nothing busy (a launch, a message's latency); none unless given. ``ceilings``: the share
    at which each is as fast as alone, 1 unless given. A thread that needs a tenth of a core has
    0.1 and keeps one core busy by 1: like one that needs all of it, it gets up to half.
    """
    waits = waits or [0.0] * len(seconds)
    moved = [
        bool(used) and one > wait for used, one, wait in zip(uses, seconds, waits, strict=True)
    ]
    alone = [wait if yes else one for yes, one, wait in zip(moved, seconds, waits, strict=True)]
    before = [tasks.waits(task) for task in range(len(seconds))]
    rest = [one - wait for one, wait in zip(seconds, waits, strict=True)]
    tops = ceilings or [1.0] * len(uses)
    work = [one * top for one, top in zip(rest, tops, strict=True)]
    engine = Engine(Course([1] * len(seconds), alone, moved, before), FlowPaces(uses, tops, work))
    for _ in engine.moments():
        pass
    return [one for [one] in engine.begins], [one for [one] in engine.ends]
