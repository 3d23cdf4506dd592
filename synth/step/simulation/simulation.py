"""Times the tasks of a device: seconds, exposed communication, and memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import pairwise

from hierarchies import InputError
from synth.collective.price.steps import sum_by_name
from synth.step.redistribution.seconds import Occupancy
from synth.step.simulation.device import COMPUTE, DeviceTasks
from synth.step.simulation.memory import (
    BufferLifetimes,
    MemorySnapshot,
    lifetimes_of,
    snapshot_memory,
)
from synth.step.simulation.sharing import time_on_links


class Activity(Enum):
    """The kind of a row of a timeline: a pass of a stage, or a task of a stream.

    Only drawings distinguish exposed communication, during which the device does not compute.
    """

    FORWARD = "forward"
    BACKWARD = "backward"
    ONCE = "once"
    COMPUTING = "computing"
    COMMUNICATION = "communication"
    EXPOSED = "exposed communication"
    SEVERAL = "several"


@dataclass(frozen=True)
class StepTimelineRow:
    """A task on the timeline, or several joined; then ``parts`` are shares of time by kind."""

    stream: str
    name: str
    begin_seconds: float
    end_seconds: float
    kind: Activity
    parts: tuple[tuple[Activity, float], ...] = ()

    def later(self, seconds: float) -> StepTimelineRow:
        """Returns the same row, ``seconds`` later."""
        begin, end = self.begin_seconds + seconds, self.end_seconds + seconds
        return StepTimelineRow(self.stream, self.name, begin, end, self.kind, self.parts)


@dataclass(frozen=True)
class RequestSummary:
    """All redistributions with the same request: their number, seconds, and exposed seconds."""

    request: str
    times: int
    seconds: float
    exposed_seconds: float

    @property
    def hidden(self) -> float:
        """The share of its time during which the device computes; 1 if it takes no time."""
        return 1 - self.exposed_seconds / self.seconds if self.seconds else 1.0


def sort_summaries(summaries: Iterable[RequestSummary]) -> tuple[RequestSummary, ...]:
    """Adds up the summaries of each request; the most exposed come first."""
    totals: dict[str, RequestSummary] = {}
    for summary in summaries:
        total = totals.setdefault(summary.request, RequestSummary(summary.request, 0, 0.0, 0.0))
        totals[summary.request] = RequestSummary(
            summary.request,
            total.times + summary.times,
            total.seconds + summary.seconds,
            total.exposed_seconds + summary.exposed_seconds,
        )
    return tuple(sorted(totals.values(), key=lambda row: (-row.exposed_seconds, row.request)))


@dataclass(frozen=True, eq=False)
class DeviceTimeline:
    """The begins and ends of a device's tasks, in seconds."""

    device: DeviceTasks
    begins: Sequence[float]
    ends: Sequence[float]

    @cached_property
    def seconds(self) -> float:
        """The end of the last task."""
        return max(self.ends, default=0.0)

    @cached_property
    def compute_seconds(self) -> float:
        """Seconds of computation, including the slowdown by simultaneous communication."""
        numbers = range(len(self.device.tasks))
        return sum(self.took(task) for task in numbers if not self.device.tasks[task].request)

    @cached_property
    def occupancy(self) -> Occupancy:
        """What all tasks together keep busy, as shares of the whole time."""
        busy = sum_by_name(
            [(name, share * task.seconds) for name, share in task.occupancy]
            for task in self.device.tasks
        )
        return tuple((name, min(1.0, of / self.seconds)) for name, of in busy.items() if of)

    @property
    def busy_seconds(self) -> Mapping[str, float]:
        """Seconds in which each stream is busy."""
        return {stream: sum(map(self.took, queue)) for stream, queue in self.device.streams.items()}

    @cached_property
    def sent(self) -> tuple[RequestSummary, ...]:
        """Communication by request, the most exposed first.

        The exposed seconds and the compute seconds add up to those of the step.
        """
        return sort_summaries(
            RequestSummary(task.request, 1, self.took(number), self.exposed.get(number, 0.0))
            for number, task in enumerate(self.device.tasks)
            if task.request
        )

    @cached_property
    def exposed(self) -> Mapping[int, float]:
        """Seconds in which each task communicates while the device does not compute."""
        exposed: dict[int, float] = {}
        for task, seconds in self._exposed():
            exposed[task] = exposed.get(task, 0.0) + seconds
        return exposed

    def took(self, task: int) -> float:
        """Returns the seconds from the begin of a task to its end."""
        return self.ends[task] - self.begins[task]

    def _exposed(self) -> Iterator[tuple[int, float]]:
        """Yields the tasks that communicate while the device does not compute, with their seconds.

        A wait is charged to the task that ended last, then to the task for which that task waited,
        and so on back to the end of the previous compute task.
        """
        begins, ends, tasks = self.begins, self.ends, self.device.tasks
        queue = self.device.streams[COMPUTE]
        for task in queue:
            if tasks[task].request:
                yield task, self.took(task)
        for first, second in pairwise(queue):
            yield from self._waited(ends[first], self.device.arranged.waits(second), begins[second])
        last = ends[queue[-1]] if queue else 0.0
        yield from self._waited(last, range(len(tasks)), self.seconds)
        if queue:
            yield from self._waited(0.0, self.device.arranged.waits(queue[0]), begins[queue[0]])

    def _waited(
        self, since: float, candidates: Sequence[int], until: float
    ) -> Iterator[tuple[int, float]]:
        while until > since:
            task = next(candidate for candidate in candidates if self.ends[candidate] == until)
            begin = max(since, self.begins[task])
            if until > begin:
                yield task, until - begin
            until, candidates = begin, self.device.arranged.waits(task)

    @cached_property
    def lives(self) -> BufferLifetimes:
        """The lifetimes of the buffers."""
        return lifetimes_of(self.device, self.begins, self.ends)

    @cached_property
    def largest_moment(self) -> MemorySnapshot:
        """The peak of memory and its breakdown."""
        return self.memory_at(self.lives.largest()[0])

    @cached_property
    def largest_bytes(self) -> int:
        """The peak of memory in bytes."""
        return self.lives.largest()[1]

    def memory_at(self, seconds: float) -> MemorySnapshot:
        """Returns the memory at a moment."""
        buffers = [(each.kind, each.name, each.size_bytes) for each in self.device.buffers]
        return snapshot_memory(buffers, self.lives, seconds)

    def rows(self) -> Iterator[StepTimelineRow]:
        """Yields every task that takes time, stream by stream, in order."""
        tasks = self.device.tasks
        for stream, queue in self.device.streams.items():
            for task in queue:
                if tasks[task].seconds:
                    kind = Activity.COMMUNICATION if tasks[task].request else Activity.COMPUTING
                    yield StepTimelineRow(
                        stream, tasks[task].name, self.begins[task], self.ends[task], kind
                    )


def simulate(device: DeviceTasks, taken: float = 0.0, *, threads: bool = False) -> DeviceTimeline:
    """Times the tasks of a device, each as early as possible.

    ``taken``: the share of cores that a redistribution uses while it overlaps computation. Both are
    then slower while they overlap (``time_with_contention``): by at least 1/11 at 0.1.
    ``threads``: both are threads on one core that its scheduler shares. A thread that needs less
    than half of the core is not slower, and computation gets the rest: nine tenths at 0.1.

    Redistributions at once share the links that they both use, too (``Task.occupancy``).
    """
    if not 0 <= taken < 1:
        raise InputError(f"{taken:g} of the cores", hint="a share: at least 0 and less than 1")
    seconds = [task.seconds for task in device.tasks]
    links = [task.occupancy for task in device.tasks]
    parts = [1.0 if task.stream == COMPUTE else taken for task in device.tasks] if taken else []
    ceilings = parts if threads else []
    return DeviceTimeline(device, *time_on_links(device.arranged, seconds, links, parts, ceilings))
