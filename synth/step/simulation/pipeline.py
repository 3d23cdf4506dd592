"""A step with microbatches on the clock: the passes of every rank in its order, then the update.

Passes are blocks: each is timed once, alone, and holds its rank until all of it has ended, so what
is found is an upper bound where the next could begin before. Between stages goes what the program
sends; it runs beside compute, as its protocol allows. What is sent as soon as it is made runs
beside the last backward pass, too: that and the update are one block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hierarchies import InputError
from synth.events.longest_path import arrange_tasks, time_tasks
from synth.step.schedules import (
    Action,
    Pass,
    PipelineSchedule,
    TransferProtocol,
    build_transfer_graph,
    one_f_one_b,
)
from synth.step.sharding import StepPhase
from synth.step.sharding.program import MICROBATCH_PHASES
from synth.step.simulation.device import Buffer, DeviceTasks, StageSend
from synth.step.simulation.kinds import BufferKind
from synth.step.simulation.memory import BufferLifetimes, MemorySnapshot
from synth.step.simulation.passes import Passes, PassKey
from synth.step.simulation.simulation import (
    Activity,
    DeviceTimeline,
    RequestSummary,
    StepTimelineRow,
    simulate,
)

PASSES = "passes"
"""The stream of what a rank does, pass after pass."""

PASS_PHASES: dict[Pass, tuple[StepPhase, ...]] = {
    Pass.FORWARD: (StepPhase.FORWARD,),
    Pass.BACKWARD: (StepPhase.BACKWARD, StepPhase.WEIGHT),
    Pass.INPUT: (StepPhase.BACKWARD,),
    Pass.WEIGHT: (StepPhase.WEIGHT,),
}
"""What of a program each kind of pass does, where the program tells halves apart."""

TransferSeconds = Callable[[int, int, int], float]
"""Seconds until so many bytes of every device are on their twins: bytes, from stage, to stage."""


@dataclass(frozen=True)
class PassSpan:
    """Some passes of a stage done as one, when they begin and end; ``name``: ``1F0``."""

    name: str
    keys: tuple[PassKey, ...]
    action: Action | None
    begin_seconds: float
    end_seconds: float

    @property
    def kind(self) -> Activity:
        """Forward, backward, or what is done once; the halves of a backward pass are such."""
        if self.action is None:
            return Activity.ONCE
        return Activity.FORWARD if self.action.kind is Pass.FORWARD else Activity.BACKWARD

    @property
    def row(self) -> StepTimelineRow:
        """The same on a timeline."""
        return StepTimelineRow(PASSES, self.name, self.begin_seconds, self.end_seconds, self.kind)


TaskLabel = tuple[str, tuple[PassKey, ...], Action | None]
"""The name of a task, the passes that it is, and the action of the order."""


@dataclass(frozen=True, eq=False)
class PipelineTimeline:
    """A step with microbatches: for each rank what it does, in its order."""

    passes: Passes
    order: PipelineSchedule
    alone: Mapping[tuple[PassKey, ...], DeviceTimeline]
    ranks: tuple[tuple[PassSpan, ...], ...]
    handed_seconds: float

    @cached_property
    def seconds(self) -> float:
        """Until all has ended."""
        return max(one.end_seconds for row in self.ranks for one in row)

    @property
    def idle_shares(self) -> tuple[float, ...]:
        """For each rank the part of the time in which it does nothing: its bubble."""
        whole = self.seconds
        busy = (sum(one.end_seconds - one.begin_seconds for one in row) for row in self.ranks)
        return tuple(max(0.0, 1 - one / whole) if whole else 0.0 for one in busy)

    def compute_seconds(self, rank: int) -> float:
        """Those in which a rank computes."""
        return sum(self.alone[one.keys].compute_seconds for one in self.ranks[rank])

    def sent(self, rank: int) -> tuple[RequestSummary, ...]:
        """What a rank sends by request, the most exposed first.

        With compute, the exposed seconds are those in which it is not idle.
        """
        found: dict[str, RequestSummary] = {}
        for span in self.ranks[rank]:
            for one in self.alone[span.keys].sent:
                before = found.get(one.request, RequestSummary(one.request, 0, 0.0, 0.0))
                found[one.request] = RequestSummary(
                    one.request,
                    before.times + one.times,
                    before.seconds + one.seconds,
                    before.exposed_seconds + one.exposed_seconds,
                )
        return tuple(sorted(found.values(), key=lambda one: (-one.exposed_seconds, one.request)))

    def rows(self, rank: int) -> Iterator[StepTimelineRow]:
        """The timeline of a rank: its passes, and on streams what each is made of."""
        for span in self.ranks[rank]:
            yield span.row
            for row in self.alone[span.keys].rows():
                yield row.later(span.begin_seconds)

    @cached_property
    def largest_moments(self) -> tuple[MemorySnapshot, ...]:
        """For each rank the most memory, and what it is made of."""
        return tuple(self._largest(rank) for rank in range(len(self.ranks)))

    def _largest(self, rank: int) -> MemorySnapshot:
        held = list(self.held(rank))
        lives = BufferLifetimes(*(np.array([one[at] for one in held]) for at in (1, 2, 3)))
        seconds, most = lives.largest()
        kinds: dict[BufferKind, int] = {}
        names: dict[str, int] = {}
        for number in lives.at(seconds).tolist():
            kind, _, _, size, name = held[number]
            kinds[kind] = kinds.get(kind, 0) + size
            names[name] = names.get(name, 0) + size
        largest = sorted(names.items(), key=lambda one: -one[1])
        return MemorySnapshot(seconds, most, tuple(kinds.items()), tuple(largest[:10]))

    def held(self, rank: int) -> Iterator[tuple[BufferKind, float, float, int, str]]:
        """What a rank has in memory: its kind, from when until when, bytes, and a name."""
        passes, spans, end = self.passes, self.ranks[rank], self.seconds
        stages = sorted({key.stage for one in spans for key in one.keys})
        for kind, size, name in passes.state(stages):
            yield kind, 0.0, end, size, name
        does = {
            (key.stage, key.when, one.action.microbatch): one
            for one in spans
            if one.action
            for key in one.keys
        }
        for stage in stages:
            for when, kind, size, name in passes.accumulated(stage):
                first = min(
                    span.begin_seconds
                    for (of, pass_when, _), span in does.items()
                    if (of, pass_when) == (stage, when)
                )
                yield kind, first, end, size, name
            saved = _sum_by_kind(passes.saved(stage))
            for ((made, read), kind), size in saved.items():
                for microbatch in range(self.order.microbatches):
                    maker, reader = (does[stage, when, microbatch] for when in (made, read))
                    if maker is not reader:
                        begin, last = maker.begin_seconds, reader.end_seconds
                        yield kind, begin, last, size, f"kept by {maker.name}"
        for one in spans:
            yield (
                BufferKind.WORKING,
                one.begin_seconds,
                one.end_seconds,
                self.alone[one.keys].largest_bytes,
                f"{one.name} at work",
            )


def simulate_pipeline(
    device: DeviceTasks,
    order: PipelineSchedule | None,
    microbatches: int,
    handing: TransferSeconds,
    protocol: TransferProtocol = TransferProtocol.EAGER,
    *,
    prompt: bool = False,
    taken: float = 0.0,
) -> PipelineTimeline:
    """A step by an order, or forward and backward in turn; ``device`` does one microbatch.

    ``prompt``: what the last backward pass makes is reduced beside it. ``taken`` as ``simulate``
    says. Raises InputError for passes that the program does not tell apart, and where blocking
    transfers stand still.
    """
    order = order or one_f_one_b(1, microbatches)
    passes = Passes(device)
    built = _PassGraph(passes, order, handing, protocol, prompt, taken)
    before, queues, seconds = built.written()
    begins, ends = time_tasks(arrange_tasks(before, queues), seconds)
    ranks = tuple(tuple(_spans(queue, built.what, begins, ends)) for queue in queues)
    return PipelineTimeline(passes, order, built.alone, ranks, built.handed)


def _spans(
    queue: Sequence[int],
    what: Mapping[int, TaskLabel],
    begins: Sequence[float],
    ends: Sequence[float],
) -> Iterator[PassSpan]:
    """What a rank does; a task without a name is the rest of the one before."""
    for at, task in enumerate(queue):
        if task in what:
            rest = queue[at + 1] if at + 1 < len(queue) else task
            last = task if rest in what else rest
            yield PassSpan(*what[task], begins[task], ends[last])


@dataclass
class _PassGraph:
    """Passes of all ranks and transfers among them, as tasks.

    Where a last backward pass and the update are one, what goes to other stages leaves when the
    pass would have ended alone: the rest is a task without a name.
    """

    passes: Passes
    order: PipelineSchedule
    handing: TransferSeconds
    protocol: TransferProtocol
    prompt: bool
    taken: float
    what: dict[int, TaskLabel] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    alone: dict[tuple[PassKey, ...], DeviceTimeline] = field(default_factory=dict)
    handed: float = 0.0

    def written(self) -> tuple[list[list[int]], list[list[int]], list[float]]:
        """What waits for what, what each rank does in turn, and seconds."""
        order = self.order
        graph = build_transfer_graph(order, self.protocol)
        _ = graph.tasks
        for number, action in enumerate(order.actions):
            self._task(number, str(action), self._keys(action), action)
        for source, target in graph.transfers:
            self.seconds.append(self._transfer(source, target))
        before, queues = list(map(list, graph.before)), [list(queue) for queue in graph.queues]
        self._farther(before)
        self._once(before, queues)
        return before, queues, self.seconds

    def _keys(self, action: Action) -> tuple[PassKey, ...]:
        known = (StepPhase.FORWARD, *self.passes.back)
        if action.kind in (Pass.INPUT, Pass.WEIGHT) and known != MICROBATCH_PHASES:
            raise InputError(
                f"{action}: the program does not tell the halves of a backward pass apart",
                where="plan",
                hint="give an order of whole ones",
            )
        return tuple(
            PassKey(action.stage, when) for when in PASS_PHASES[action.kind] if when in known
        )

    def _task(
        self, number: int, name: str, keys: tuple[PassKey, ...], action: Action | None
    ) -> None:
        assert number == len(self.seconds)
        if keys not in self.alone:
            self.alone[keys] = simulate(self.passes.part(keys), self.taken)
        self.what[number] = (name, keys, action)
        self.seconds.append(self.alone[keys].seconds)

    def _handing(self, one: StageSend) -> float:
        size = self.passes.device.handed.get(one, 0)
        seconds = self.handing(size, one.source, one.target) if size else 0.0
        self.handed += seconds
        return seconds

    def _transfer(self, source: Action, target: Action) -> float:
        return self._handing(StageSend(source.stage, target.stage, PASS_PHASES[source.kind][0], 0))

    def _farther(self, before: list[list[int]]) -> None:
        """What goes to a stage that is not the next: no pass waits for it that could not."""
        order, rank_of = self.order, self.order.rank_of
        for one in self.passes.device.handed:
            same = rank_of.get(one.source) == rank_of.get(one.target)
            near = abs(one.source - one.target) == 1
            if one.when not in MICROBATCH_PHASES or (near and not same):
                continue
            does = order.forward if one.when is StepPhase.FORWARD else order.gradient
            for microbatch in range(order.microbatches):
                source, target = (
                    order.numbers[does(stage, microbatch)] for stage in (one.source, one.target)
                )
                before.append([source])
                before[target].append(len(before) - 1)
                self.seconds.append(0.0 if same else self._handing(one))

    def _once(self, before: list[list[int]], queues: list[list[int]]) -> None:
        """What is done once, at the begin and at the end of each rank."""
        places: dict[PassKey, int] = {}
        for when in (StepPhase.BEFORE, StepPhase.AFTER):
            for queue in queues:
                own = (self.what[task] for task in queue if task in self.what)
                stages = sorted({keys[0].stage for _, keys, _ in own})
                keys = [key for stage in stages for key in self.passes.once(stage, when)]
                self._put(sorted(keys, key=lambda key: key.turn), queue, before, places)
        for one in self.passes.device.handed:
            if one.when in (StepPhase.BEFORE, StepPhase.AFTER):
                before.append([places[PassKey(one.source, one.when, one.turn)]])
                target = places[PassKey(one.target, one.when, one.turn + 1)]
                before[target].append(len(before) - 1)
                self.seconds.append(self._handing(one))

    def _put(
        self,
        keys: Iterable[PassKey],
        queue: list[int],
        before: list[list[int]],
        places: dict[PassKey, int],
    ) -> None:
        first: list[int] = []
        for key in keys:
            last = self.what.get(queue[-1], ("", (), None))
            backward = last[1][-1:] == (PassKey(key.stage, self.passes.back[-1]),)
            if self.prompt and key.when is StepPhase.AFTER and not key.turn and backward:
                both = (*last[1], key)
                if both not in self.alone:
                    self.alone[both] = simulate(self.passes.part(both), self.taken)
                self.what[queue[-1]] = (f"{last[0]} and update", both, last[2])
                alone = self.alone[last[1]].seconds
                places[key] = len(self.seconds)
                self.seconds.append(max(0.0, self.alone[both].seconds - alone))
                before.append([])
                queue.append(places[key])
                continue
            number = len(self.seconds)
            name = f"{key.stage} {'update' if key.when is StepPhase.AFTER else 'begin'}"
            self._task(number, name, (key,), None)
            before.append([])
            places[key] = number
            (queue if key.when is StepPhase.AFTER else first).append(number)
        queue[:0] = first


def _sum_by_kind(
    several: Iterable[tuple[tuple[StepPhase, StepPhase], Buffer]],
) -> dict[tuple[tuple[StepPhase, StepPhase], BufferKind], int]:
    found: dict[tuple[tuple[StepPhase, StepPhase], BufferKind], int] = {}
    for lives, buffer in several:
        key = lives, buffer.kind
        found[key] = found.get(key, 0) + buffer.size_bytes
    return found
