"""Emitted PyTorch files, carried out by a thread for each rank of this process.

In the place of ``torch.distributed`` stand wires on which nothing is there before both sides want
it to be: what is sent is taken when it is asked for, and whoever waits for a send waits for that.
A collective is a meeting of its group, after which each rank has what all brought.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import Queue
from threading import Barrier, Event, Lock
from typing import Any

import numpy as np

from emitted_steps import loaded

PATIENCE_SECONDS = 20.0


Wires = dict[tuple[int, int, int], Queue[Any]]
"""What is under way, by sender, receiver and tag."""


@dataclass
class Sending:
    taken: Event = field(default_factory=Event)

    def wait(self) -> None:
        assert self.taken.wait(PATIENCE_SECONDS), "nobody takes what is sent"


@dataclass
class Getting:
    queue: Queue[Any]
    buffer: Any

    def wait(self) -> None:
        x, sending = self.queue.get(timeout=PATIENCE_SECONDS)
        assert (x.shape, x.dtype) == (self.buffer.shape, self.buffer.dtype)
        self.buffer.copy_(x)
        sending.taken.set()


@dataclass
class Meeting:
    """The ranks of a group, ascending, and what they bring to the collective that is under way."""

    ranks: tuple[int, ...]
    brought: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.barrier = Barrier(len(self.ranks), timeout=PATIENCE_SECONDS)

    def meet(self, rank: int, what: Any) -> list[Any]:
        """What each member brings, in the order of the ranks."""
        self.brought[rank] = what
        self.barrier.wait()
        found = [self.brought[one] for one in self.ranks]
        self.barrier.wait()
        return found


@dataclass
class Meetings:
    """The groups of all ranks, each once, by the ranks in it."""

    lock: Any = field(default_factory=Lock)
    groups: dict[tuple[int, ...], Meeting] = field(default_factory=dict)

    def of(self, ranks: Sequence[int]) -> Meeting:
        with self.lock:
            return self.groups.setdefault(tuple(ranks), Meeting(tuple(ranks)))


class ReduceOp:
    """What adds up, or compares, the first dimension of a stack."""

    SUM = staticmethod(lambda stack: stack.sum(0, dtype=stack.dtype))
    MAX = staticmethod(lambda stack: stack.amax(0))
    MIN = staticmethod(lambda stack: stack.amin(0))


@dataclass
class Distributed:
    """As much of ``torch.distributed`` as an emitted file uses, as one rank sees it."""

    rank: int
    wires: Wires
    meetings: Meetings = field(default_factory=Meetings)
    ReduceOp = ReduceOp

    def get_rank(self) -> int:
        return self.rank

    def new_group(self, ranks: Sequence[int]) -> Meeting:
        return self.meetings.of(ranks)

    def all_gather(self, pieces: list[Any], x: Any, group: Meeting) -> None:
        for piece, brought in zip(pieces, group.meet(self.rank, x.clone()), strict=True):
            piece.copy_(brought)

    def all_reduce(self, x: Any, op: Any, group: Meeting) -> None:
        x.copy_(op(stacked(group.meet(self.rank, x.clone()))))

    def reduce_scatter_single(self, found: Any, x: Any, group: Meeting) -> None:
        whole = stacked(group.meet(self.rank, x.clone())).sum(0, dtype=x.dtype)
        found.copy_(whole.chunk(len(group.ranks))[group.ranks.index(self.rank)])

    def all_to_all_single(self, found: Any, x: Any, group: Meeting) -> None:
        own = group.ranks.index(self.rank)
        found.copy_(stacked([one[own] for one in group.meet(self.rank, x.clone())]))

    def recv(self, buffer: Any, source: int) -> None:
        self.irecv(buffer, source).wait()

    def wire(self, source: int, to: int, tag: int) -> Queue[Any]:
        # A defaultdict let sender and receiver each make a queue, and what was sent was lost.
        return self.wires.setdefault((source, to, tag), Queue())

    def isend(self, x: Any, to: int, tag: int = 0) -> Sending:
        sending = Sending()
        self.wire(self.rank, to, tag).put((x, sending))
        return sending

    def irecv(self, buffer: Any, source: int, tag: int = 0) -> Getting:
        return Getting(self.wire(source, self.rank, tag), buffer)


def stacked(several: Sequence[Any]) -> Any:
    import torch  # Not at the top of the file: tests without PyTorch import it, too.

    return torch.stack(list(several))


def _tensor(array: np.ndarray) -> Any:
    """Of numpy's, which has no bfloat16 of its own: its words are those of ``ml_dtypes``."""
    import torch

    narrow = array.dtype.name == "bfloat16"
    words = torch.as_tensor(array.view(np.int16) if narrow else array)
    return words.view(torch.bfloat16) if narrow else words


def _array(tensor: Any) -> np.ndarray:
    """As numpy has it, the same way round."""
    import torch

    if tensor.dtype != torch.bfloat16:
        return tensor.numpy()
    return tensor.contiguous().view(torch.int16).numpy().view("bfloat16")


def parts_in_threads(
    text: str, given: Sequence[Sequence[np.ndarray]], world: int
) -> list[list[np.ndarray]]:
    """What ``device_step`` makes of the parts of each value on each rank, in the same order."""

    wires: Wires = {}
    meetings = Meetings()

    def one(rank: int) -> list[np.ndarray]:
        names = loaded(text)
        names["dist"] = Distributed(rank, wires, meetings)
        names["make_groups"]()
        made = names["device_step"]([_tensor(parts[rank].copy()) for parts in given])
        return [_array(value) for value in made]

    with ThreadPoolExecutor(world) as threads:
        by_rank = list(threads.map(one, range(world)))
    assert not any(queue.qsize() for queue in wires.values()), "something is sent to nobody"
    return [list(parts) for parts in zip(*by_rank, strict=True)]


def in_threads(text: str, given: Mapping[str, np.ndarray], world: int) -> dict[str, np.ndarray]:
    """The outputs of one step, each as the last rank that has it says."""
    wires: Wires = {}

    def one(rank: int) -> dict[str, np.ndarray]:
        names = loaded(text)
        names["dist"] = Distributed(rank, wires)
        runner = names["Rank"]()
        mine = {*runner.stages, names["EVERYWHERE"]}
        every = {**given, **names.get("captured", dict)()}
        values = {
            name: names["parts_of"](name, every[name])
            for name, kind in names["INPUTS"].items()
            if kind.stage in mine
        }
        made = names["step"](runner, values)
        assert not runner.each, "something of a microbatch is kept for nobody"
        return {name: value.numpy() for name, value in made.items()}

    with ThreadPoolExecutor(world) as threads:
        found: dict[str, np.ndarray] = {}
        for made in threads.map(one, range(world)):
            found |= made
    assert not any(queue.qsize() for queue in wires.values()), "something is sent to nobody"
    return found
