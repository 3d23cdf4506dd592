"""Times a schedule: when each pass begins and ends, by longest paths, with transfers between ranks.

A transfer takes seconds but occupies no resource. *Eager* transfers start when the value is ready.
A *rendezvous* transfer also waits until the receiver has finished everything before the pass that
reads the value. Which of two schedules is faster may depend on the protocol: four stages, eight
microbatches, passes of 1 and 2 s and transfers of 0.4 s take 35.4 s by GPipe and 39.4 s by 1F1B if
eager, 41.0 and 40.6 s by rendezvous. The sender of a *blocking* transfer also waits for it before
doing anything else: 1F1B can then deadlock, which raises an error that shows the cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import pairwise

from hierarchies import InputError
from synth.events.longest_path import CircleError, TaskOrder, arrange_tasks, time_tasks
from synth.step.schedules.order import Action, Pass, PipelineSchedule


class TransferProtocol(Enum):
    """When a transfer may start."""

    EAGER = "eager"
    RENDEZVOUS = "rendezvous"
    BLOCKING = "blocking"


@dataclass(frozen=True)
class Transfers:
    """Seconds of a transfer between ranks, and the protocol that decides when it may start."""

    seconds: float = 0.0
    protocol: TransferProtocol = TransferProtocol.EAGER

    def __post_init__(self) -> None:
        _check(self.seconds)


@dataclass(frozen=True)
class Durations:
    """Seconds of a microbatch on one rank's share of the model; all stages are alike.

    ``backward_seconds``: the whole backward pass. ``weight_seconds``: the part of it that computes
    gradients of weights, half by default. Raises InputError for negative or infinite durations, and
    for weight gradients that take longer than the backward pass.
    """

    forward_seconds: float
    backward_seconds: float
    weight_seconds: float | None = None

    def __post_init__(self) -> None:
        _check(self.forward_seconds, self.backward_seconds, self.weight)
        if self.weight > self.backward_seconds:
            raise InputError(
                f"{self.weight:g} s of {self.backward_seconds:g} s are the gradients of weights",
                hint="they are a part of the backward pass",
            )

    @property
    def weight(self) -> float:
        """Seconds spent on the gradients of weights."""
        return self.backward_seconds / 2 if self.weight_seconds is None else self.weight_seconds

    def on(self, order: PipelineSchedule) -> Callable[[Action], float]:
        """Returns a function from an action to its seconds; stages of a rank share its time."""
        seconds = {
            Pass.FORWARD: self.forward_seconds,
            Pass.BACKWARD: self.backward_seconds,
            Pass.INPUT: self.backward_seconds - self.weight,
            Pass.WEIGHT: self.weight,
        }
        share = len(order.ranks) / order.stages
        return lambda action: share * seconds[action.kind]


@dataclass(frozen=True)
class ActionSpan:
    """An action with its begin and end."""

    action: Action
    begin_seconds: float
    end_seconds: float


@dataclass(frozen=True)
class ScheduleTimeline:
    """The actions of each rank in order, with their times."""

    ranks: tuple[tuple[ActionSpan, ...], ...]

    @property
    def seconds(self) -> float:
        """When the last action ends."""
        return max(spans[-1].end_seconds for spans in self.ranks)

    @property
    def idle_shares(self) -> tuple[float, ...]:
        """The bubble of each rank: the share of the time in which it is idle."""
        whole = self.seconds
        busy = (sum(s.end_seconds - s.begin_seconds for s in spans) for spans in self.ranks)
        return tuple(max(0.0, 1 - seconds / whole) if whole else 0.0 for seconds in busy)

    @property
    def idle_share(self) -> float:
        """The share of all ranks' time in which they are idle."""
        return sum(self.idle_shares) / len(self.ranks)


@dataclass(frozen=True)
class TransferGraph:
    """A schedule and its transfers as a graph: actions by their numbers, then transfers.

    ``before``: the predecessors of each task. ``queues``: the tasks of each rank in order.
    ``transfers``: the sending and the receiving action of each transfer.
    """

    order: PipelineSchedule
    before: list[list[int]]
    queues: list[list[int]]
    transfers: list[tuple[Action, Action]]

    @cached_property
    def tasks(self) -> TaskOrder:
        """A topological order of all tasks. Raises InputError with the cycle of a deadlock."""
        try:
            return arrange_tasks(self.before, self.queues)
        except CircleError as circle:
            names = [*map(str, self.order.actions), *(f"{a} to {b}" for a, b in self.transfers)]
            waits = [names[task] for task in (*circle.tasks, circle.tasks[0])]
            raise InputError(
                f"blocking transfers deadlock: {' waits for '.join(waits)}",
                hint="make them eager, or send and receive at the same time",
            ) from None


def build_transfer_graph(order: PipelineSchedule, protocol: TransferProtocol) -> TransferGraph:
    """Builds the graph of waits; consecutive stages on one rank need no transfer."""
    numbers = order.numbers
    queues = [[numbers[action] for action in row] for row in order.ranks]
    before: list[list[int]] = [[] for _ in order.actions]
    transfers: list[tuple[Action, Action]] = []
    for number, action in enumerate(order.actions):
        for needed in order.needs(action):
            if order.rank_of[needed.stage] == order.rank_of[action.stage]:
                before[number].append(numbers[needed])
                continue
            before[number].append(len(before))
            before.append([numbers[needed]])
            transfers.append((needed, action))
    graph = TransferGraph(order, before, queues, transfers)
    if protocol is not TransferProtocol.EAGER:
        _order_receives(graph, blocking=protocol is TransferProtocol.BLOCKING)
    return graph


def _order_receives(graph: TransferGraph, *, blocking: bool) -> None:
    """Makes transfers wait until the receiver is free; if ``blocking``, also until the sender is.

    A blocked sender is free once its earlier sends have been received.
    """
    numbers, first = graph.order.numbers, len(graph.order.actions)
    pairs = [pair for queue in graph.queues for pair in pairwise(queue)]
    previous, following = {b: a for a, b in pairs}, dict(pairs)
    sent: dict[int, list[int]] = {}
    for transfer, (maker, _) in enumerate(graph.transfers, first):
        sent.setdefault(numbers[maker], []).append(transfer)
    for transfer, (_, reader) in enumerate(graph.transfers, first):
        earlier = previous.get(numbers[reader])
        if earlier is not None:
            graph.before[transfer] += [earlier, *(sent.get(earlier, ()) if blocking else ())]
    for sender, own in sent.items() if blocking else ():
        if sender in following:
            graph.before[following[sender]] += own


def time_schedule(
    order: PipelineSchedule, seconds: Callable[[Action], float], transfers: Transfers | None = None
) -> ScheduleTimeline:
    """Times a schedule whose actions take ``seconds``; transfers are free if None.

    Raises InputError for a deadlock of blocking transfers.
    """
    transfers = transfers or Transfers()
    graph = build_transfer_graph(order, transfers.protocol)
    durations = [*map(seconds, order.actions), *[transfers.seconds] * len(graph.transfers)]
    begins, ends = time_tasks(graph.tasks, durations)
    spans = list(map(ActionSpan, order.actions, begins, ends))
    return ScheduleTimeline(
        tuple(tuple(spans[number] for number in queue) for queue in graph.queues)
    )


def _check(*durations: float) -> None:
    for seconds in durations:
        if not 0 <= seconds < float("inf"):
            raise InputError(f"{seconds:g} s", hint="a duration is 0 or more")
