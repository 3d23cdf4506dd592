"""Sends and receives among the passes of ranks: their waits for each other, and deadlocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from functools import cached_property
from itertools import pairwise, product
from typing import NamedTuple

from synth.events.longest_path import CircleError, TaskOrder, arrange_tasks
from synth.step.schedules.clock import TransferProtocol
from synth.step.schedules.order import Action, Pass


class Comm(Enum):
    """One half of a transfer between stages, by PyTorch's name."""

    SEND_F = "SEND_F"
    RECV_F = "RECV_F"
    SEND_B = "SEND_B"
    RECV_B = "RECV_B"

    @property
    def sends(self) -> bool:
        return self in (Comm.SEND_F, Comm.SEND_B)

    @property
    def step(self) -> int:
        """The difference from the stage of this half to the stage of the other half."""
        return 1 if self in (Comm.SEND_F, Comm.RECV_B) else -1


_OPPOSITE = {
    Comm.SEND_F: Comm.RECV_F,
    Comm.RECV_F: Comm.SEND_F,
    Comm.SEND_B: Comm.RECV_B,
    Comm.RECV_B: Comm.SEND_B,
}
_PASSES = {True: (Pass.FORWARD,), False: (Pass.BACKWARD, Pass.INPUT)}
"""The kinds of passes in each direction; the key is whether it is forward."""


class Half(NamedTuple):
    """A send or a receive; ``1RECV_F0`` receives the activations of microbatch 0 on stage 1."""

    stage: int
    kind: Comm
    microbatch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind.value}{self.microbatch}"

    @property
    def other(self) -> Half:
        """The matching half on the other rank."""
        return Half(self.stage + self.kind.step, _OPPOSITE[self.kind], self.microbatch)

    @property
    def send(self) -> Half:
        """The sending half of the transfer."""
        return self if self.kind.sends else self.other

    @property
    def passes(self) -> tuple[Action, ...]:
        """The passes of its stage that produce what it sends, or read what it receives."""
        kinds = _PASSES[self.kind in (Comm.SEND_F, Comm.RECV_F)]
        return tuple(Action(self.stage, kind, self.microbatch) for kind in kinds)


def receive_of(action: Action) -> Half:
    """Returns the receive of the value that a pass reads from another rank."""
    kind = Comm.RECV_F if action.kind is Pass.FORWARD else Comm.RECV_B
    return Half(action.stage, kind, action.microbatch)


class FsdpAction(NamedTuple):
    """An action of FSDP on a stage's parameters or gradients: ``0UNSHARD``."""

    stage: int
    word: str

    def __str__(self) -> str:
        return f"{self.stage}{self.word}"


Item = Action | Half | FsdpAction


class CommGraph:
    """A graph of waits: passes by their numbers, then halves.

    By rendezvous the two halves of a transfer are one task, numbered by its send.
    """

    def __init__(self, rows: Sequence[Sequence[Item]], protocol: TransferProtocol) -> None:
        self.protocol = protocol
        self.places = {
            item: (rank, place) for rank, row in enumerate(rows) for place, item in enumerate(row)
        }
        self.actions = [item for row in rows for item in row if isinstance(item, Action)]
        halves = [item for row in rows for item in row if isinstance(item, Half)]
        eager = protocol is TransferProtocol.EAGER
        self.halves = list(dict.fromkeys(half if eager else half.send for half in halves))
        tasks: list[Action | Half] = [*self.actions, *self.halves]
        self.numbers: dict[Action | Half, int] = {item: n for n, item in enumerate(tasks)}
        self.numbers |= {half: self.numbers[half if eager else half.send] for half in halves}
        self.before: list[list[int]] = [[] for _ in tasks]
        self.queues = [
            [self.numbers[item] for item in row if isinstance(item, Action)] for row in rows
        ]
        for row in rows:
            self._wait(row)

    @cached_property
    def tasks(self) -> TaskOrder:
        """A topological order of all tasks. Raises CircleError for a deadlock."""
        return arrange_tasks(self.before, self.queues)

    def _wait(self, row: Sequence[Item]) -> None:
        """Adds the waits of a rank: a pass for its receive, a half for earlier passes and halves.

        Nothing waits for an eager send except its receive.
        """
        eager, blocking = (
            self.protocol is known for known in (TransferProtocol.EAGER, TransferProtocol.BLOCKING)
        )
        last: dict[type, int] = {}
        for item in row:
            if isinstance(item, FsdpAction):
                continue
            task = self.numbers[item]
            if isinstance(item, Half) or blocking:
                self.before[task] += last.values()
            if isinstance(item, Action) and (receive := receive_of(item)) in self.numbers:
                self.before[task].append(self.numbers[receive])
            if isinstance(item, Half) and eager and not item.kind.sends:
                self.before[task] += [
                    self.numbers[send] for send in [item.send] if send in self.places
                ]
            if not (isinstance(item, Half) and eager and item.kind.sends):
                last[type(item)] = task

    def on_one_rank(self, task: int, other: int) -> Iterator[_Wait]:
        """Yields the rank on which a task waits for another task, and the two items.

        Yields nothing for a receive that waits for an eager send on another rank.
        """
        ends = (
            [item for item, at in self.numbers.items() if at == number and item in self.places]
            for number in (task, other)
        )
        for late, early in product(*ends):
            (rank, place), (beside, before) = self.places[late], self.places[early]
            if rank == beside and before < place:
                yield rank, late, early
                return


_Wait = tuple[int, Item, Item]
"""A rank, an item on it, and the earlier item that it waits for."""


def find_deadlock(graph: CommGraph) -> list[str]:
    """Describes the waits of a deadlock along a cycle of ranks; an empty list means no deadlock."""
    try:
        _ = graph.tasks
    except CircleError as error:
        circle = [*error.tasks, error.tasks[0]]
    else:
        return []
    edges = [edge for pair in pairwise(circle) for edge in graph.on_one_rank(*pair)]
    # Start where the cycle changes ranks, so that no rank's run of waits is split at the ends.
    first = next(at for at, edge in enumerate(edges) if edge[1] != edges[at - 1][2])
    waits: list[_Wait] = []
    for rank, late, early in (*edges[first:], *edges[:first]):
        if waits and waits[-1][2] == late:
            waits[-1] = rank, waits[-1][1], early
        else:
            waits.append((rank, late, early))
    return [
        f"rank {rank} waits in {early} until rank {peer} runs {late}, after {behind}"
        for (rank, _, early), (peer, late, behind) in pairwise([*waits, waits[0]])
    ]
