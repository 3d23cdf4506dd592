"""Blocks: tasks that are done as one, so that equal ones are timed once.

A layer is a block of operations and collectives, a stage's pass one of layers, a replica's step one
of passes. In a graph of blocks each is a task of the seconds that it takes alone, and a pipeline of
96 layers is as long as one of 2. ``expanded`` writes the same graph out, every task of every block,
and is what that is held to:

* where all that comes after a block, on its resource too, waits for its last task, they agree;
* where it waits for a result and for the streams only, nothing ends later than composed.

>>> layer = Block(streams=(0, 1), before=((), (0,)), seconds=(2.0, 1.0), result=(0,))
>>> layer.alone
3.0
>>> model = [(), (0,)], [[0, 1]], [layer, layer]
>>> [expanded(*model, holds=holds).seconds for holds in (True, False)]
[6.0, 5.0]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, pairwise

from synth.events.longest_path import Arranged, arranged, timed


@dataclass(frozen=True)
class Block:
    """Tasks by the stream that each is on, in their order there, with predecessors and seconds.

    Streams are the block's resource's own, numbered from 0; tasks are so numbered that those of a
    stream come in its order. What waits for the block waits for ``result``, or, if that is empty,
    for all of it.
    """

    streams: tuple[int, ...]
    before: tuple[tuple[int, ...], ...]
    seconds: tuple[float, ...]
    result: tuple[int, ...] = ()

    @cached_property
    def queues(self) -> Mapping[int, list[int]]:
        """The tasks of each stream in their order."""
        found: dict[int, list[int]] = {}
        for task, stream in enumerate(self.streams):
            found.setdefault(stream, []).append(task)
        return found

    @cached_property
    def last(self) -> tuple[int, ...]:
        """The tasks after which nothing of the block is left: no other of its tasks waits for them.

        -1, the gate before it, for a block of none.
        """
        waited = {one for some in self.before for one in some}
        waited |= {task for queue in self.queues.values() for task in queue[:-1]}
        return tuple(task for task in range(len(self.seconds)) if task not in waited) or (-1,)

    @property
    def ends(self) -> tuple[int, ...]:
        """The tasks that who waits for the block waits for."""
        return self.result or self.last

    @cached_property
    def times(self) -> tuple[list[float], list[float]]:
        """When its tasks begin and end, alone."""
        return timed(arranged(self.before, list(self.queues.values())), self.seconds)

    @cached_property
    def alone(self) -> float:
        """The seconds it takes alone."""
        return max(self.times[1], default=0.0)


@dataclass(frozen=True)
class Expanded:
    """A graph of blocks, written out: its tasks, and for each block which of them is the first."""

    tasks: Arranged
    durations: list[float]
    firsts: list[int]

    @cached_property
    def times(self) -> tuple[list[float], list[float]]:
        """When each task begins and ends; between blocks stand tasks of no time."""
        return timed(self.tasks, self.durations)

    @property
    def seconds(self) -> float:
        """Until all is done."""
        return max(self.times[1], default=0.0)


def composed(
    before: Sequence[Sequence[int]], queues: Sequence[Sequence[int]], blocks: Sequence[Block]
) -> tuple[list[float], list[float]]:
    """When each block begins and ends, of a graph of blocks, where each is a task as long as alone.

    Blocks that are one object are timed once. Raises CircleError as ``arranged`` does.
    """
    return timed(arranged(before, queues), [block.alone for block in blocks])


def expanded(
    before: Sequence[Sequence[int]],
    queues: Sequence[Sequence[int]],
    blocks: Sequence[Block],
    *,
    holds: bool,
) -> Expanded:
    """The same graph with all tasks of all blocks, each stream of each resource a resource.

    A block's tasks come after a task of no time that waits for its predecessors' results; where a
    block ``holds`` its resource, for all of these blocks, and of the one before it there.
    """
    firsts = list(accumulate((1 + len(block.seconds) for block in blocks), initial=0))
    needed: list[list[int]] = []
    durations: list[float] = []
    for first, some, block in zip(firsts, before, blocks, strict=False):
        ended = ((one, blocks[one].last if holds else blocks[one].ends) for one in some)
        needed.append([firsts[one] + 1 + end for one, ends in ended for end in ends])
        for inside in block.before:
            needed.append([first + 1 + one for one in inside] or [first])
        durations += (0.0, *block.seconds)
    lines: list[list[int]] = []
    queued = set(chain.from_iterable(queues))
    alone = ([number] for number in range(len(blocks)) if number not in queued)
    for queue in chain(queues, alone):
        if holds:
            for earlier, number in pairwise(queue):
                ends = (firsts[earlier] + 1 + end for end in blocks[earlier].last)
                needed[firsts[number]].extend(ends)
        streams: dict[int, list[int]] = {}
        for number in queue:
            for stream, tasks in blocks[number].queues.items():
                streams.setdefault(stream, []).extend(firsts[number] + 1 + one for one in tasks)
        lines += streams.values()
    return Expanded(arranged(needed, lines), durations, firsts[:-1])
