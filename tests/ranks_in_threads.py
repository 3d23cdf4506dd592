"""Emitted PyTorch files with stages, carried out by a thread for each rank of this process.

In the place of ``torch.distributed`` stand wires on which nothing is there before both sides want
it to be: what is sent is taken when it is asked for, and whoever waits for a send waits for that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import Queue
from threading import Event
from typing import Any

import numpy as np

from emitted_steps import loaded

PATIENCE_SECONDS = 20.0


Wires = defaultdict[tuple[int, int, int], Queue[Any]]
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
class Distributed:
    """As much of ``torch.distributed`` as goes from stage to stage, as one rank sees it."""

    rank: int
    wires: Wires

    def get_rank(self) -> int:
        return self.rank

    def isend(self, x: Any, to: int, tag: int) -> Sending:
        sending = Sending()
        self.wires[self.rank, to, tag].put((x, sending))
        return sending

    def irecv(self, buffer: Any, source: int, tag: int) -> Getting:
        return Getting(self.wires[source, self.rank, tag], buffer)


def in_threads(text: str, given: Mapping[str, np.ndarray], world: int) -> dict[str, np.ndarray]:
    """The outputs of one step, each as the last rank that has it says."""
    wires: Wires = defaultdict(Queue)

    def one(rank: int) -> dict[str, np.ndarray]:
        names = loaded(text)
        names["dist"] = Distributed(rank, wires)
        runner = names["Rank"]()
        mine = {*runner.stages, names["EVERYWHERE"]}
        values = {
            name: names["parts_of"](name, given[name])
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
