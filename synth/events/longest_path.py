"""Times tasks whose order on each resource is given: a longest path, without a queue.

A task starts when its predecessors and the task before it on its resource have ended. Two tasks of
1 s and 2 s on one resource, the second also after a task of 4 s elsewhere, end at 1, 6 and 4 s. A
queue by ready time would be another schedule: it may run the second task first.

>>> tasks = arrange_tasks(before=[(), (2,), ()], queues=[[0, 1], [2]])
>>> begins, ends = time_tasks(tasks, [1.0, 2.0, 4.0])
>>> ends
[1.0, 6.0, 4.0]

Tests hold these laws: no end is earlier when some task takes longer; the last end is not before the
busiest resource's sum, nor before the longest chain of predecessors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise


class CircleError(ValueError):
    """A circular wait: each of ``tasks`` waits for the next, and the last for the first, as
    its predecessor or as an earlier task of its resource.
    """

    def __init__(self, tasks: Sequence[int]) -> None:
        self.tasks = tuple(tasks)
        super().__init__(f"tasks wait for each other: {' > '.join(map(str, tasks))}")


@dataclass(frozen=True)
class TaskOrder:
    """Tasks without circular waits: their predecessors, and a topological order.

    ``previous`` is the task before it on its resource, or -1; ``before`` are its predecessors,
    and, for a task that needs several resources, the tasks before it on the others. Made by
    ``arrange_tasks`` only.
    """

    before: Sequence[Sequence[int]]
    previous: Sequence[int]
    sequence: Sequence[int]

    def waits(self, task: int) -> tuple[int, ...]:
        """Returns all tasks that must have ended before a task starts."""
        earlier = self.previous[task]
        return (*self.before[task], earlier) if earlier >= 0 else tuple(self.before[task])


def arrange_tasks(before: Sequence[Sequence[int]], queues: Sequence[Sequence[int]]) -> TaskOrder:
    """Orders tasks by their predecessors and the sequence of each resource; a task may need none.

    Each resource advances until a task lacks a predecessor, and resumes when that predecessor is
    done, so the time is linear in tasks and predecessors. Raises CircleError if some can never
    start.
    """
    previous, following, needed = _resource_neighbours(before, queues)
    done = bytearray(len(before))
    waiting: dict[int, list[int]] = {}
    sequence: list[int] = []
    ready = [task for task, earlier in enumerate(previous) if earlier < 0]
    ready.reverse()
    while ready:
        task = ready.pop()
        while task >= 0:
            for need in needed[task]:
                if not done[need]:
                    waiting.setdefault(need, []).append(task)
                    break
            else:
                done[task] = 1
                sequence.append(task)
                if task in waiting:
                    ready += waiting.pop(task)
                task = following[task]
                continue
            break
    if len(sequence) < len(before):
        raise CircleError(_find_circle(before, queues, set(sequence)))
    return TaskOrder(needed, previous, sequence)


def _resource_neighbours(
    before: Sequence[Sequence[int]], queues: Sequence[Sequence[int]]
) -> tuple[list[int], list[int], Sequence[Sequence[int]]]:
    """Returns each task's previous and following task on its resource, or -1, and its needs.

    If a task has two resources, its predecessor on the second is added to its needs.
    """
    previous, following = [-1] * len(before), [-1] * len(before)
    more: dict[int, list[int]] = {}
    for queue in queues:
        for first, second in pairwise(queue):
            if previous[second] < 0 and following[first] < 0:
                previous[second] = first
                following[first] = second
            else:
                more.setdefault(second, []).append(first)
    if not more:
        return previous, following, before
    needed = [[*own, *more.get(task, ())] for task, own in enumerate(before)]
    return previous, following, needed


def time_tasks(tasks: TaskOrder, seconds: Sequence[float]) -> tuple[list[float], list[float]]:
    """Returns when each task begins and ends, starting as early as possible from 0."""
    before, previous = tasks.before, tasks.previous
    begins, ends = [0.0] * len(seconds), [0.0] * (len(seconds) + 1)
    for task in tasks.sequence:
        # ``ends`` has an extra 0 at index -1 for tasks that are first on their resource.
        begin = ends[previous[task]]
        for earlier in before[task]:
            if ends[earlier] > begin:
                begin = ends[earlier]
        begins[task] = begin
        ends[task] = begin + seconds[task]
    ends.pop()
    return begins, ends


def _find_circle(
    before: Sequence[Sequence[int]], queues: Sequence[Sequence[int]], done: set[int]
) -> list[int]:
    """Follows waits from a task that cannot start until a task repeats.

    The first unfinished task of a resource waits for a predecessor, or for the first unfinished
    task of another of its resources; any other task waits for its resource's first.
    """
    heads: dict[int, list[int]] = {}
    for queue in queues:
        left = [task for task in queue if task not in done]
        for task in left[1:]:
            heads.setdefault(task, []).append(left[0])
    task = next(task for task in range(len(before)) if task not in done)
    path: list[int] = []
    while task not in path:
        path.append(task)
        needed = (need for need in before[task] if need not in done)
        task = next(chain(heads.get(task, ()), needed))
    return path[path.index(task) :]
