"""Simulates a step with microbatches: the passes of each rank in its order, then the update.

Passes are blocks: each is timed once, alone, and occupies its rank until all its tasks have ended.
So the result is an upper bound if the next pass could begin earlier. Transfers between stages
overlap computation as far as the protocol allows. Gradients that are reduced as soon as they are
made also overlap the last backward pass: that pass and the update are a single block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import numpy as np

from hierarchies import InputError
from synth.collective.price.ways import INTO
from synth.events.longest_path import arrange_tasks
from synth.step.redistribution.seconds import Occupancy
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
from synth.step.simulation.memory import BufferLifetimes, MemorySnapshot, snapshot_memory
from synth.step.simulation.passes import Passes, PassKey
from synth.step.simulation.sharing import time_on_links
from synth.step.simulation.simulation import (
    Activity,
    DeviceTimeline,
    RequestSummary,
    StepTimelineRow,
    simulate,
    sort_summaries,
)

NEARLY = 1e-9
"""Differences of this share of a step are rounding."""

PASSES = "passes"
"""The stream of a rank's passes."""

PASS_PHASES: dict[Pass, tuple[StepPhase, ...]] = {
    Pass.FORWARD: (StepPhase.FORWARD,),
    Pass.BACKWARD: (StepPhase.BACKWARD, StepPhase.WEIGHT),
    Pass.INPUT: (StepPhase.BACKWARD,),
    Pass.WEIGHT: (StepPhase.WEIGHT,),
}
"""The phases of each kind of pass, if the program has the halves of a backward pass."""

TransferSeconds = Callable[[int, int, int], float]
"""Maps bytes per device, source stage and target stage to the seconds of the transfer.

Each device sends its bytes to its peer on the other stage.
"""


TransferOccupancy = Callable[[int, int, int], Occupancy]
"""Maps the same to the links that it keeps busy: those out of the source and into the target."""


def occupy_no_link(size: int, source: int, target: int) -> Occupancy:
    """Returns no links: then transfers slow nothing."""
    return ()


@dataclass(frozen=True)
class PassSpan:
    """Passes of a stage that run as a single block, with begin and end; ``name``: e.g. ``1F0``."""

    name: str
    keys: tuple[PassKey, ...]
    action: Action | None
    begin_seconds: float
    end_seconds: float

    @property
    def kind(self) -> Activity:
        """Forward, backward (including its halves), or once per step."""
        if self.action is None:
            return Activity.ONCE
        return Activity.FORWARD if self.action.kind is Pass.FORWARD else Activity.BACKWARD

    @property
    def row(self) -> StepTimelineRow:
        """The span as a row of a timeline."""
        return StepTimelineRow(PASSES, self.name, self.begin_seconds, self.end_seconds, self.kind)


TaskLabel = tuple[str, tuple[PassKey, ...], Action | None]
"""The name of a task, its passes, and its action in the schedule."""


@dataclass(frozen=True, eq=False)
class PipelineTimeline:
    """A simulated step with microbatches: the spans of each rank, in order."""

    passes: Passes
    order: PipelineSchedule
    alone: Mapping[tuple[PassKey, ...], DeviceTimeline]
    ranks: tuple[tuple[PassSpan, ...], ...]
    handed_seconds: float

    @cached_property
    def seconds(self) -> float:
        """The end of the last span."""
        return max(span.end_seconds for spans in self.ranks for span in spans)

    @property
    def idle_shares(self) -> tuple[float, ...]:
        """The bubble of each rank: the share of the step in which it has no work."""
        whole = self.seconds
        busy = (sum(s.end_seconds - s.begin_seconds for s in spans) for spans in self.ranks)
        return tuple(max(0.0, 1 - seconds / whole) if whole else 0.0 for seconds in busy)

    def compute_seconds(self, rank: int) -> float:
        """Returns the seconds in which a rank computes."""
        return sum(self.alone[span.keys].compute_seconds for span in self.ranks[rank])

    def sent(self, rank: int) -> tuple[RequestSummary, ...]:
        """Returns the communication of a rank by request, the most exposed first.

        Exposed seconds and compute seconds add up to the time outside the rank's bubble.
        """
        return sort_summaries(chain.from_iterable(map(self._sent_during, self.ranks[rank])))

    def _sent_during(self, span: PassSpan) -> Iterator[RequestSummary]:
        """Yields what a pass sends.

        If transfers between stages make the pass longer, its requests are exposed for that long,
        each by its share of the seconds.
        """
        sent = self.alone[span.keys].sent
        yield from sent
        longer = span.end_seconds - span.begin_seconds - self.alone[span.keys].seconds
        whole = sum(summary.seconds for summary in sent)
        if whole and longer > NEARLY * self.seconds:
            for summary in sent:
                part = longer * summary.seconds / whole
                yield RequestSummary(summary.request, 0, part, part)

    def rows(self, rank: int) -> Iterator[StepTimelineRow]:
        """Yields the timeline of a rank: its passes, and each pass's tasks on their streams."""
        for span in self.ranks[rank]:
            yield span.row
            for row in self.alone[span.keys].rows():
                yield row.later(span.begin_seconds)

    @cached_property
    def largest_moments(self) -> tuple[MemorySnapshot, ...]:
        """For each rank, the peak of memory and its breakdown."""
        return tuple(self._largest(rank) for rank in range(len(self.ranks)))

    def _largest(self, rank: int) -> MemorySnapshot:
        held = list(self.held(rank))
        lives = BufferLifetimes(*(np.array([entry[at] for entry in held]) for at in (1, 2, 3)))
        buffers = [(kind, name, size) for kind, _, _, size, name in held]
        return snapshot_memory(buffers, lives, lives.largest()[0])

    def held(self, rank: int) -> Iterator[tuple[BufferKind, float, float, int, str]]:
        """Yields the memory of a rank: for each entry its kind, begin, end, bytes and name."""
        passes, spans, end = self.passes, self.ranks[rank], self.seconds
        stages = sorted({key.stage for span in spans for key in span.keys})
        for kind, size, name in passes.state(stages):
            yield kind, 0.0, end, size, name
        span_of = {
            (key.stage, key.when, span.action.microbatch): span
            for span in spans
            if span.action
            for key in span.keys
        }
        firsts: dict[tuple[int, StepPhase], float] = {}
        for (stage, when, _), span in span_of.items():
            begin = span.begin_seconds
            firsts[stage, when] = min(begin, firsts.get((stage, when), begin))
        for stage in stages:
            for when, kind, size, name in passes.accumulated(stage):
                yield kind, firsts[stage, when], end, size, name
            saved = _sum_by_kind(passes.saved(stage))
            for ((made, read), kind), size in saved.items():
                for microbatch in range(self.order.microbatches):
                    maker, reader = (span_of[stage, when, microbatch] for when in (made, read))
                    if maker is not reader:
                        begin, last = maker.begin_seconds, reader.end_seconds
                        yield kind, begin, last, size, f"kept by {maker.name}"
        for span in spans:
            yield (
                BufferKind.WORKING,
                span.begin_seconds,
                span.end_seconds,
                self.alone[span.keys].largest_bytes,
                f"{span.name} at work",
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
    occupancy: TransferOccupancy = occupy_no_link,
) -> PipelineTimeline:
    """Simulates a step in the order of a schedule; ``device`` has the tasks of one microbatch.

    ``order``: None for forward and backward passes in turn. ``prompt``: gradients of the last
    backward pass are reduced during it. ``taken``: see ``simulate``. ``occupancy``: the links by
    which transfers slow each other, and the passes that send over them at the same time. Raises
    InputError for passes that the program does not separate, and for a deadlock of blocking
    transfers.
    """
    order = order or one_f_one_b(1, microbatches)
    passes = Passes(device)
    graph = _PassGraph(passes, order, handing, protocol, prompt, taken, occupancy)
    before, queues, seconds = graph.written()
    begins, ends = time_on_links(arrange_tasks(before, queues), seconds, graph.links)
    ranks = tuple(tuple(_spans(queue, graph.what, begins, ends)) for queue in queues)
    return PipelineTimeline(passes, order, graph.alone, ranks, graph.handed)


def _spans(
    queue: Sequence[int],
    what: Mapping[int, TaskLabel],
    begins: Sequence[float],
    ends: Sequence[float],
) -> Iterator[PassSpan]:
    """Yields the spans of a rank; a task without a name is the rest of the previous task."""
    for at, task in enumerate(queue):
        if task in what:
            rest = queue[at + 1] if at + 1 < len(queue) else task
            last = task if rest in what else rest
            yield PassSpan(*what[task], begins[task], ends[last])


@dataclass
class _PassGraph:
    """Passes of all ranks and transfers between them, as tasks.

    If a last backward pass and the update are a single block, values for other stages are sent when
    the pass would have ended alone: the rest of the block is a task without a name. ``links``: the
    links of its own rank that each task keeps busy, a pass on average. ``original``: the timelines
    of ``alone`` by the passes that are written out. ``known``: the pass that was timed of all
    passes with the same work, such as those of the stages in the middle. ``transfers``: those that
    were priced, which microbatches repeat.
    """

    passes: Passes
    order: PipelineSchedule
    handing: TransferSeconds
    protocol: TransferProtocol
    prompt: bool
    taken: float
    occupancy: TransferOccupancy
    what: dict[int, TaskLabel] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    links: list[Occupancy] = field(default_factory=list)
    alone: dict[tuple[PassKey, ...], DeviceTimeline] = field(default_factory=dict)
    original: dict[tuple[PassKey, ...], DeviceTimeline] = field(default_factory=dict)
    known: dict[object, DeviceTimeline] = field(default_factory=dict)
    transfers: dict[StageSend, tuple[float, Occupancy]] = field(default_factory=dict)
    handed: float = 0.0

    def written(self) -> tuple[list[list[int]], list[list[int]], list[float]]:
        """Returns the predecessors of each task, the queue of each rank, and the tasks' seconds."""
        order = self.order
        graph = build_transfer_graph(order, self.protocol)
        _ = graph.tasks  # raises InputError for a deadlock
        for number, action in enumerate(order.actions):
            self._task(number, str(action), self._keys(action), action)
        for source, target in graph.transfers:
            self._transfer(source, target)
        before, queues = list(map(list, graph.before)), [list(queue) for queue in graph.queues]
        self._farther(before)
        self._once(before, queues)
        return before, queues, self.seconds

    def _keys(self, action: Action) -> tuple[PassKey, ...]:
        phases = (StepPhase.FORWARD, *self.passes.back)
        if action.kind in (Pass.INPUT, Pass.WEIGHT) and phases != MICROBATCH_PHASES:
            raise InputError(
                f"{action}: the program has no halves of backward passes",
                where="plan",
                hint="give an order with whole backward passes",
            )
        return tuple(
            PassKey(action.stage, when) for when in PASS_PHASES[action.kind] if when in phases
        )

    def _task(
        self, number: int, name: str, keys: tuple[PassKey, ...], action: Action | None
    ) -> None:
        assert number == len(self.seconds)
        self.what[number] = (name, keys, action)
        self._append_pass(self._timed(keys).seconds, keys)

    def _timed(self, keys: tuple[PassKey, ...]) -> DeviceTimeline:
        """Returns the timeline of passes that run alone, as a single block."""
        if keys not in self.alone:
            originals = self.passes.find_originals(keys)
            if originals not in self.original:
                self.original[originals] = self._simulate(self.passes.part(keys))
            self.alone[keys] = self.original[originals]
        return self.alone[keys]

    def _simulate(self, device: DeviceTasks) -> DeviceTimeline:
        work = tuple(
            (task.stream, task.seconds, task.before, task.issue, task.occupancy)
            for task in device.tasks
        )
        if work not in self.known:
            self.known[work] = simulate(device, self.taken)
        timed = self.known[work]
        return DeviceTimeline(device, timed.begins, timed.ends)

    def _append_pass(self, seconds: float, keys: tuple[PassKey, ...]) -> None:
        """Appends a pass, or the rest of one, with the links that ``keys`` keep busy on average."""
        self.seconds.append(seconds)
        rank, busy = self.order.rank_of[keys[0].stage], self.alone[keys].occupancy
        self.links.append(tuple((f"{rank} {name}", share) for name, share in busy))

    def _append_transfer(self, send: StageSend) -> None:
        if send not in self.transfers:
            self.transfers[send] = self._price(send)
        seconds, links = self.transfers[send]
        self.seconds.append(seconds)
        self.links.append(links)
        self.handed += seconds

    def _price(self, send: StageSend) -> tuple[float, Occupancy]:
        """Returns the seconds of a transfer and the links of both ranks that it keeps busy."""
        size = self.passes.device.handed.get(send, 0)
        if not size:
            return 0.0, ()
        ends = size, send.source, send.target
        out, into = (self.order.rank_of[stage] for stage in ends[1:])
        links = tuple(
            (f"{into if name.endswith(INTO) else out} {name}", share)
            for name, share in self.occupancy(*ends)
        )
        return self.handing(*ends), links

    def _transfer(self, source: Action, target: Action) -> None:
        self._append_transfer(StageSend(source.stage, target.stage, PASS_PHASES[source.kind][0], 0))

    def _farther(self, before: list[list[int]]) -> None:
        """Adds transfers to stages other than the next; only passes that read the values wait."""
        order, rank_of = self.order, self.order.rank_of
        for send in self.passes.device.handed:
            same = rank_of.get(send.source) == rank_of.get(send.target)
            near = abs(send.source - send.target) == 1
            if send.when not in MICROBATCH_PHASES or (near and not same):
                continue
            action_of = order.forward if send.when is StepPhase.FORWARD else order.gradient
            for microbatch in range(order.microbatches):
                source, target = (
                    order.numbers[action_of(stage, microbatch)]
                    for stage in (send.source, send.target)
                )
                before.append([source])
                before[target].append(len(before) - 1)
                if same:
                    self.seconds.append(0.0)
                    self.links.append(())
                else:
                    self._append_transfer(send)

    def _once(self, before: list[list[int]], queues: list[list[int]]) -> None:
        """Adds the work done once per step, at the begin and at the end of each rank."""
        places: dict[PassKey, int] = {}
        for when in (StepPhase.BEFORE, StepPhase.AFTER):
            for queue in queues:
                labels = (self.what[task] for task in queue if task in self.what)
                stages = sorted({keys[0].stage for _, keys, _ in labels})
                keys = [key for stage in stages for key in self.passes.once(stage, when)]
                self._put(sorted(keys, key=lambda key: key.turn), queue, before, places)
        for send in self.passes.device.handed:
            if send.when in (StepPhase.BEFORE, StepPhase.AFTER):
                before.append([places[PassKey(send.source, send.when, send.turn)]])
                target = places[PassKey(send.target, send.when, send.turn + 1)]
                before[target].append(len(before) - 1)
                self._append_transfer(send)

    def _put(
        self,
        keys: Iterable[PassKey],
        queue: list[int],
        before: list[list[int]],
        places: dict[PassKey, int],
    ) -> None:
        begins: list[int] = []
        for key in keys:
            last = self.what.get(queue[-1], ("", (), None))
            backward = last[1][-1:] == (PassKey(key.stage, self.passes.back[-1]),)
            if self.prompt and key.when is StepPhase.AFTER and not key.turn and backward:
                together = (*last[1], key)
                seconds = self._timed(together).seconds
                self.what[queue[-1]] = (f"{last[0]} and update", together, last[2])
                alone = self.alone[last[1]].seconds
                places[key] = len(self.seconds)
                self._append_pass(max(0.0, seconds - alone), together)
                before.append([])
                queue.append(places[key])
                continue
            number = len(self.seconds)
            name = f"{key.stage} {'update' if key.when is StepPhase.AFTER else 'begin'}"
            self._task(number, name, (key,), None)
            before.append([])
            places[key] = number
            (queue if key.when is StepPhase.AFTER else begins).append(number)
        queue[:0] = begins


def _sum_by_kind(
    kept: Iterable[tuple[tuple[StepPhase, StepPhase], Buffer]],
) -> dict[tuple[tuple[StepPhase, StepPhase], BufferKind], int]:
    sizes: dict[tuple[tuple[StepPhase, StepPhase], BufferKind], int] = {}
    for span, buffer in kept:
        key = span, buffer.kind
        sizes[key] = sizes.get(key, 0) + buffer.size_bytes
    return sizes
