"""A step on the clock: its seconds, what of them waits for communication, and its memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import pairwise

from hierarchies import InputError
from synth.events.contention import contended
from synth.events.longest_path import timed
from synth.train.simulation.device import COMPUTE, Device
from synth.train.simulation.memory import Lives, Moment, lives_of, moment


class Doing(Enum):
    """What a row of a timeline is: a pass of a stage, or a task of a stream.

    Of communication only a drawing tells apart what is exposed: nothing is computed meanwhile.
    """

    FORWARD = "forward"
    BACKWARD = "backward"
    ONCE = "once"
    COMPUTING = "computing"
    COMMUNICATION = "communication"
    EXPOSED = "exposed communication"
    SEVERAL = "several"


@dataclass(frozen=True)
class Row:
    """A task on the timeline, or several as one: then ``parts`` of its time are of each kind."""

    stream: str
    name: str
    begin_seconds: float
    end_seconds: float
    kind: Doing
    parts: tuple[tuple[Doing, float], ...] = ()

    def later(self, seconds: float) -> Row:
        """The same, so much later."""
        begin, end = self.begin_seconds + seconds, self.end_seconds + seconds
        return Row(self.stream, self.name, begin, end, self.kind, self.parts)


@dataclass(frozen=True)
class Sent:
    """All redistributions by one request: how many, their seconds, and those of compute's wait."""

    request: str
    times: int
    seconds: float
    exposed_seconds: float

    @property
    def hidden(self) -> float:
        """The part of its time that something is computed beside; of no time, all."""
        return 1 - self.exposed_seconds / self.seconds if self.seconds else 1.0


@dataclass(frozen=True, eq=False)
class Simulated:
    """A device's step, timed."""

    device: Device
    begins: Sequence[float]
    ends: Sequence[float]

    @cached_property
    def seconds(self) -> float:
        """Until the last task of all has ended."""
        return max(self.ends, default=0.0)

    @cached_property
    def compute_seconds(self) -> float:
        """Those in which the device computes, also slowly as it communicates beside."""
        numbers = range(len(self.device.tasks))
        return sum(self.took(task) for task in numbers if not self.device.tasks[task].request)

    @property
    def busy_seconds(self) -> Mapping[str, float]:
        """For each stream those in which it does something."""
        return {stream: sum(map(self.took, queue)) for stream, queue in self.device.streams.items()}

    @cached_property
    def sent(self) -> tuple[Sent, ...]:
        """Communication by request, the most exposed first; what is exposed is no compute.

        Together the exposed seconds and those of compute are the step's.
        """
        found: dict[str, list[float]] = {}
        for task, one in enumerate(self.device.tasks):
            if one.request:
                entry = found.setdefault(one.request, [0, 0.0, 0.0])
                entry[0] += 1
                entry[1] += self.took(task)
        for task, seconds in self.exposed.items():
            found[self.device.tasks[task].request][2] += seconds
        rows = (Sent(name, int(n), all_, bare) for name, (n, all_, bare) in found.items())
        return tuple(sorted(rows, key=lambda one: (-one.exposed_seconds, one.request)))

    @cached_property
    def exposed(self) -> Mapping[int, float]:
        """For each task that sends while nothing is computed, for how long."""
        found: dict[int, float] = {}
        for task, seconds in self._exposed():
            found[task] = found.get(task, 0.0) + seconds
        return found

    def took(self, task: int) -> float:
        """Seconds from its begin to its end."""
        return self.ends[task] - self.begins[task]

    def _exposed(self) -> Iterator[tuple[int, float]]:
        """The tasks that send while nothing is computed, and for how long each is the one.

        Who waits, waits for what ended last: from there back to the end of the task of compute
        before, along what each waited for.
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
        self, since: float, several: Sequence[int], until: float
    ) -> Iterator[tuple[int, float]]:
        while until > since:
            task = next(one for one in several if self.ends[one] == until)
            begin = max(since, self.begins[task])
            if until > begin:
                yield task, until - begin
            until, several = begin, self.device.arranged.waits(task)

    @cached_property
    def lives(self) -> Lives:
        """When each buffer is in memory."""
        return lives_of(self.device, self.begins, self.ends)

    @cached_property
    def largest_moment(self) -> Moment:
        """The most memory, and what it is made of."""
        return self.memory_at(self.lives.largest()[0])

    @cached_property
    def largest_bytes(self) -> int:
        """The most that is in memory at once."""
        return self.lives.largest()[1]

    def memory_at(self, seconds: float) -> Moment:
        """What is in memory at a moment."""
        return moment(self.device, self.lives, seconds)

    def rows(self) -> Iterator[Row]:
        """The timeline: every task that takes time, stream by stream, in its order."""
        tasks = self.device.tasks
        for stream, queue in self.device.streams.items():
            for task in queue:
                if tasks[task].seconds:
                    kind = Doing.COMMUNICATION if tasks[task].request else Doing.COMPUTING
                    yield Row(stream, tasks[task].name, self.begins[task], self.ends[task], kind)


def simulate(device: Device, taken: float = 0.0, *, threads: bool = False) -> Simulated:
    """The tasks of a device on the clock, each as soon as it may.

    ``taken``: the part of the cores that a redistribution beside compute needs. Then both are
    slower while both go on, as ``contended`` says: at 0.1 by a tenth and more, 1/11. ``threads``:
    they are threads of one core, which its scheduler shares: what needs less than half of it is
    not slower, and compute has the rest, at 0.1 nine tenths.
    """
    if not 0 <= taken < 1:
        raise InputError(f"{taken:g} of the cores", hint="a part: at least 0 and less than 1")
    seconds = [one.seconds for one in device.tasks]
    if not taken:
        return Simulated(device, *timed(device.arranged, seconds))
    parts = [1.0 if one.stream == COMPUTE else taken for one in device.tasks]
    if threads:
        alike = [[(0, 1.0)] for _ in parts]
        return Simulated(device, *contended(device.arranged, seconds, alike, ceilings=parts))
    uses = [[(0, part)] for part in parts]
    return Simulated(device, *contended(device.arranged, seconds, uses))
