"""Times tasks ordered on each resource that also share links, memory or cores.

The input is that of ``longest_path``, and for each task the fractions of shared resources that it
occupies at full speed. A task alone takes its seconds; where running tasks would overload a
resource, each gets a max-min fair share of its own full speed. A collective that needs a tenth of
the cores of a matrix product slows both: the product to 10/11 of its speed.

>>> from synth.events.longest_path import arrange_tasks
>>> tasks = arrange_tasks(before=[(), ()], queues=[[0], [1]])
>>> time_with_contention(tasks, [1.0, 3.0], [[(0, 1.0)], [(0, 1.0)]])[1]
[2.0, 4.0]

Tests hold these laws: nothing ends earlier than without sharing (``time_tasks``), and at exactly
the same moments if no resource is overloaded. It is not monotone: a task that takes longer may
leave a link to a critical one.
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
    ceilings: Sequence[float] | None = None,
) -> tuple[list[float], list[float]]:
    """Returns when each task begins and ends; ``seconds`` are those of each task alone.

    ``uses``: for each task, the shared resources by number and the fraction that it occupies at
    full speed, above 0 and at most 1. ``ceilings``: the level at which a task is as fast as alone;
    1 by default. A thread that needs a tenth of a core has ceiling 0.1 and uses the core with
    fraction 1: like a thread that needs the whole core, it gets up to half.
    """
    moved = [bool(used) and total > 0 for used, total in zip(uses, seconds, strict=True)]
    alone = [0.0 if moves else total for moves, total in zip(moved, seconds, strict=True)]
    before = [tasks.waits(task) for task in range(len(seconds))]
    limits = ceilings or [1.0] * len(uses)
    # At its ceiling a task moves at level ``limit``, so it takes ``total`` seconds alone.
    work = [total * limit for total, limit in zip(seconds, limits, strict=True)]
    engine = Engine(Course([1] * len(seconds), alone, moved, before), FlowPaces(uses, limits, work))
    for _ in engine.moments():
        pass
    return [begin for [begin] in engine.begins], [end for [end] in engine.ends]
