"""When tasks end whose order on each resource is part of the plan: a longest path, and no queue.

A task starts when its predecessors have ended and the task before it on its resource has. Two tasks
of 1 s and 2 s on one resource, the second also after a task of 4 s elsewhere, end at 1, 6 and 4 s.
A queue by ready time would be another schedule: it may do first what the plan has second.

>>> tasks = arranged(before=[(), (2,), ()], queues=[[0, 1], [2]])
>>> begins, ends = timed(tasks, [1.0, 2.0, 4.0])
>>> ends
[1.0, 6.0, 4.0]

Laws, which tests hold: no end is earlier when some task takes longer; no end of all is before the
busiest resource's sum, nor before the longest chain of predecessors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


class CircleError(ValueError):
    """Tasks that wait for each other for ever: each of ``tasks`` waits for the next, the last for
    the first, as its predecessor or as what its resource has to do before.
    """

    def __init__(self, tasks: Sequence[int]) -> None:
        self.tasks = tuple(tasks)
        super().__init__(f"tasks wait for each other: {' > '.join(map(str, tasks))}")


@dataclass(frozen=True)
class Arranged:
    """Tasks that can all be done: for each, what must have ended, and one order for all of them.

    ``before`` has the task before it on its resource too. Only ``arranged`` makes one.
    """

    before: tuple[tuple[int, ...], ...]
    sequence: tuple[int, ...]


def arranged(before: Sequence[Sequence[int]], queues: Sequence[Sequence[int]]) -> Arranged:
    """Tasks by their predecessors, and what each resource does in turn; a task may need none.

    Raises CircleError where some can never start.
    """
    waits = [list(tasks) for tasks in before]
    for queue in queues:
        for first, second in pairwise(queue):
            waits[second].append(first)
    missing = [len(tasks) for tasks in waits]
    after: list[list[int]] = [[] for _ in waits]
    for task, some in enumerate(waits):
        for one in some:
            after[one].append(task)
    sequence = [task for task, count in enumerate(missing) if not count]
    for task in sequence:
        for one in after[task]:
            missing[one] -= 1
            if not missing[one]:
                sequence.append(one)
    if len(sequence) < len(waits):
        raise CircleError(_circle(before, queues, set(sequence)))
    return Arranged(tuple(map(tuple, waits)), tuple(sequence))


def timed(tasks: Arranged, seconds: Sequence[float]) -> tuple[list[float], list[float]]:
    """When each task begins and ends that takes so long: as soon as it may, from 0 on."""
    begins, ends = [0.0] * len(seconds), [0.0] * len(seconds)
    for task in tasks.sequence:
        begins[task] = max((ends[one] for one in tasks.before[task]), default=0.0)
        ends[task] = begins[task] + seconds[task]
    return begins, ends


def _circle(
    before: Sequence[Sequence[int]], queues: Sequence[Sequence[int]], done: set[int]
) -> list[int]:
    """From what one resource waits for to what the resource of that does first, and so on.

    A resource's first task that is not done lacks a predecessor; any other waits for that first.
    """
    heads: dict[int, int] = {}
    for queue in queues:
        left = [task for task in queue if task not in done]
        heads |= dict.fromkeys(left, left[0] if left else 0)
    task = next(task for task in range(len(before)) if task not in done)
    path: list[int] = []
    while task not in path:
        path.append(task)
        head = heads.get(task, task)
        task = head if head != task else next(one for one in before[task] if one not in done)
    return path[path.index(task) :]
