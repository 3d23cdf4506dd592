"""When tasks end whose order on each resource is part of the plan: a longest path, and no queue.

A task starts when its predecessors have ended and the task before it on its resource has. Two tasks
of 1 s and 2 s on one resource, the second also after a task of 4 s elsewhere, end at 1, 6 and 4 s.
A queue by ready time would be another schedule: it may do first what the plan has second.

>>> tasks = arranged(before=[(), (2,), ()], queues=[[0, 1], [2]])
>>> begins, ends = timed(tasks, [1.0, 2.0, 4.0])
>>> ends
[1.0, 6.0, 4.0]

``Levels.ends`` times many plans of one structure at once, bit for bit as ``time_tasks`` times each.

Laws, which tests hold: no end is earlier when some task takes longer; no end of all is before the
busiest resource's sum, nor before the longest chain of predecessors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class CircleError(ValueError):
    """Tasks that wait for each other for ever: each of ``tasks`` waits for the next, the last for
    the first, as its predecessor or as what its resource has to do before.
    """

    def __init__(self, tasks: Sequence[int]) -> None:
        self.tasks = tuple(tasks)
        super().__init__(f"tasks wait for each other: {' > '.join(map(str, tasks))}")


@dataclass(frozen=True)
class Levels:
    """Tasks by the length of the longest chain before them, all that timing them together takes.

    ``order`` has them so; ``waits`` for each length a row a task of the places of all that it waits
    for in that order, filled up with that of none.
    """

    order: Integers
    waits: Sequence[Integers]

    def ends(self, seconds: Floats) -> Floats:
        """When each task ends in many plans, of shape (tasks, plans) as their ``seconds``.

        Tasks that wait for equally long chains are timed at once: of a pipeline one on every rank.
        """
        ends = np.zeros((len(seconds) + 1, seconds.shape[1]))
        takes, begin = seconds[self.order], 0
        for before in self.waits:
            end = begin + len(before)
            np.add(ends[before].max(axis=1), takes[begin:end], out=ends[begin:end])
            begin = end
        found = np.empty_like(seconds)
        found[self.order] = ends[:-1]
        return found


@dataclass(frozen=True)
class TaskOrder:
    """Tasks that can all be done: for each, what must have ended, and one order for all of them.

    ``previous`` is the task before it on its resource, or -1; ``before`` are its predecessors, and
    of a task that needs several resources the tasks before it on the others. Only ``arrange_tasks``
    makes one.
    """

    before: Sequence[Sequence[int]]
    previous: Sequence[int]
    sequence: Sequence[int]

    def waits(self, task: int) -> tuple[int, ...]:
        """All that must have ended before a task starts."""
        earlier = self.previous[task]
        return (*self.before[task], earlier) if earlier >= 0 else tuple(self.before[task])

    @cached_property
    def levels(self) -> Levels:
        """The tasks by the length of the longest chain before them."""
        depths = [0] * (len(self.sequence) + 1)
        levels: list[list[int]] = []
        for task in self.sequence:
            depth = max((depths[one] + 1 for one in self.waits(task)), default=0)
            depths[task] = depth
            if depth == len(levels):
                levels.append([])
            levels[depth].append(task)
        order = [*chain.from_iterable(levels)]
        places = np.empty(len(order) + 1, np.int64)
        places[[*order, -1]] = np.arange(len(order) + 1)
        rows = []
        for level in levels:
            waits = [[*self.waits(task)] or [-1] for task in level]
            most = max(map(len, waits))
            rows.append(places[[[*some, *[-1] * (most - len(some))] for some in waits]])
        return Levels(np.array(order, np.int64), rows)


def arrange_tasks(before: Sequence[Sequence[int]], queues: Sequence[Sequence[int]]) -> TaskOrder:
    """Tasks by their predecessors, and what each resource does in turn; a task may need none.

    Each resource goes on until a task of its lacks a predecessor, and is taken up again when that
    was done: time grows with tasks and predecessors. Raises CircleError where some can never start.
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
            for one in needed[task]:
                if not done[one]:
                    waiting.setdefault(one, []).append(task)
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
    """For each task the one before and the one behind it on its resource, or -1; and its needs.

    Where a task has two resources, one before it is a need, and the first resource leads to it.
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
    needed = [[*some, *more.get(task, ())] for task, some in enumerate(before)]
    return previous, following, needed


def time_tasks(tasks: TaskOrder, seconds: Sequence[float]) -> tuple[list[float], list[float]]:
    """When each task begins and ends that takes so long: as soon as it may, from 0 on."""
    before, previous = tasks.before, tasks.previous
    begins, ends = [0.0] * len(seconds), [0.0] * (len(seconds) + 1)
    for task in tasks.sequence:
        begin = ends[previous[task]]
        for one in before[task]:
            if ends[one] > begin:
                begin = ends[one]
        begins[task] = begin
        ends[task] = begin + seconds[task]
    ends.pop()
    return begins, ends


def _find_circle(
    before: Sequence[Sequence[int]], queues: Sequence[Sequence[int]], done: set[int]
) -> list[int]:
    """From what a resource waits for to what a resource of that does first, and so on.

    A resource's first task that is not done waits for a predecessor, or for what another resource
    of its does first; any other waits for that first.
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
        needed = (one for one in before[task] if one not in done)
        task = next(chain(heads.get(task, ()), needed))
    return path[path.index(task) :]
