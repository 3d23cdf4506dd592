"""What a process does that is one rank of a step: the written file's work, and its events.

Or nothing is computed (``stand_in``): then ranks, of which there may be more than cores, begin at
one moment that they are told, since all read one clock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from results.runs.standins import StandIn
from synth.step.profiles.measuring import Bench, Torch
from synth.step.sharding.program import EVERYWHERE

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "permute")
ASKED: Mapping[str, Callable[[tuple[str, ...], int], tuple[Any, ...]]] = {
    "all_reduce": lambda axes, members: (axes, "sum"),
    "reduce_scatter": lambda axes, members: (0, axes, "sum"),
    "all_gather": lambda axes, members: (0, axes),
    "all_to_all": lambda axes, members: (0, 0, axes),
    "permute": lambda axes, members: (axes, [(one + 1) % members for one in range(members)]),
}
"""What a written file's function is given beside a buffer of one dimension, by axes and members.

In a permute all send and receive: which of them to which does not matter where all ports are alike.
"""
Events = Mapping[str, tuple[str, Sequence[tuple[str, list[int]]]]]
"""By their keys the texts of events, and the types that they read."""
COMPUTING, SENDING, WAKING = 1, 2, 3
"""Real-time priorities of threads; who wakes goes first, so that a sleep is not too long.

gloo's locks are asked for again and again: who asks for one that a thread of a lower priority holds
on the same core asks for ever. So nobody sends at another priority than gloo's own threads.
"""


@dataclass(frozen=True)
class Job:
    """A written step, numbers to train on, and the events that are measured beside it."""

    text: str
    inputs: Mapping[str, Any]
    events: Events


def _prefer(priority: int, thread: int = 0) -> None:
    os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(priority))


class Worker:
    """What a rank can be told to do."""

    def __init__(self, rank: int, world: int, folder: Path) -> None:
        import torch
        import torch.distributed as dist

        self.rank, self._torch, self._dist = rank, torch, dist
        self._runtime = Torch(1)
        dist.init_process_group(
            "gloo", init_method=(folder / "meet").as_uri(), rank=rank, world_size=world
        )
        self._turn, self._sent = 0, 0.0
        self._slept = self._owed = 0.0
        self._opened: dict[str, dict[str, Any]] = {}
        self._buffers: dict[Any, Any] = {}
        self._own = COMPUTING
        self._go_first()

    def _go_first(self) -> None:
        """Let this process run before others, and in it what communicates before what computes."""
        for task in map(int, os.listdir("/proc/self/task")):
            _prefer(self._own if task == os.getpid() else SENDING, task)

    @contextmanager
    def _raised(self) -> Iterator[None]:
        """Around what this thread does itself to send."""
        _prefer(SENDING)
        try:
            yield
        finally:
            _prefer(self._own)

    def hello(self) -> int:
        return os.getpid()

    def load(self, job: Job) -> None:
        """A step and its events, in the place of those before."""
        self._space = self._written(job.text)
        self._sent = 0.0
        self._depth = 0
        for name in COLLECTIVES:
            if name in self._space:
                self._space[name] = self._timed(self._space[name])
        self._space["dist"] = self._watched()
        given, kinds = job.inputs, self._space["INPUTS"]
        part_of = self._space.get("parts_of", self._space["part_of"])
        self._step, mine = self._space["step"], set(kinds)
        if "Rank" in self._space:
            runner = self._space["Rank"]()
            self._step = partial(self._step, runner)
            mine = {name for name in kinds if kinds[name].stage in {*runner.stages, EVERYWHERE}}
        self._batches = {
            name: [part_of(name, one) for one in given[name]]
            for name in mine
            if kinds[name].role == "batch"
        }
        self._values = {
            name: part_of(name, given[name]) for name in mine if kinds[name].role != "batch"
        }
        self._bench = Bench(self._runtime, job.events)

    def _timed(self, collective: Callable[..., Any]) -> Callable[..., Any]:
        """A collective, whose seconds are added up."""

        def call(*given: Any, **more: Any) -> Any:
            begin = time.perf_counter()
            self._depth += 1
            made = collective(*given, **more)
            self._depth -= 1
            if not self._depth:
                self._sent += time.perf_counter() - begin
            return timed_end(made) if callable(made) else made

        def timed_end(finish: Callable[[], Any]) -> Callable[[], Any]:
            def done() -> Any:
                begin = time.perf_counter()
                made = finish()
                self._sent += time.perf_counter() - begin
                return made

            return done

        return call

    def _watched(self) -> SimpleNamespace:
        """The runtime's communication, with waits for what goes from rank to rank added up."""
        found = SimpleNamespace(**vars(self._dist))
        for name in ("isend", "irecv"):
            setattr(found, name, self._waiting(getattr(self._dist, name)))
        return found

    def _waiting(self, begin: Callable[..., Any]) -> Callable[..., Any]:
        def begun(*given: Any, **more: Any) -> SimpleNamespace:
            with self._raised():
                work = begin(*given, **more)

            def wait_for() -> None:
                since = time.perf_counter()
                with self._raised():
                    work.wait()
                self._sent += time.perf_counter() - since

            return SimpleNamespace(wait=wait_for)

        return begun

    def steps(self, count: int) -> list[tuple[float, float]]:
        """Seconds of each of some steps, and of those in which it did nothing but communicate."""
        found = []
        inputs = self._space["INPUTS"]
        for _ in range(count):
            self._dist.barrier()
            self._sent = 0.0
            begin = time.perf_counter()
            turn = self._turn
            self._turn += 1
            for name, several in self._batches.items():
                self._values[name] = several[turn % len(several)]
            with self._torch.no_grad():
                made = self._step(self._values)
            self._values |= {name: value for name, value in made.items() if name in inputs}
            found.append((time.perf_counter() - begin, self._sent))
        return found

    def round(self) -> None:
        """Measure each event once."""
        self._bench.round()

    def refer(self) -> None:
        """Measure the reference."""
        self._bench.refer()

    def samples(self) -> tuple[list[float], dict[str, list[float]]]:
        """The reference, and the seconds of events."""
        return self._bench.samples.reference, self._bench.samples.steady()

    def helpers(self, text: str) -> None:
        """A written step whose collectives are called by themselves."""
        self._space = self._written(text)

    def _written(self, text: str) -> dict[str, Any]:
        """The names of a written step, which is there with its groups."""
        space: dict[str, Any] = {"__name__": "written"}
        exec(compile(text, "<step>", "exec"), space)
        space["make_groups"]()
        self._go_first()
        return space

    def collective(self, name: str, size_bytes: int, times: int) -> list[tuple[float, float]]:
        """When a collective whose largest buffer has so many bytes began and ended, some times.

        Before each something is computed, as in a step.
        """
        torch, world = self._torch, self._dist.get_world_size()
        numbers = size_bytes // 4 // (world if name == "all_gather" else 1)
        x = torch.ones(numbers)
        given = (x, *ASKED[name](("data",), world))
        work, found = self._runtime.reference(), []
        self._dist.barrier()
        for _ in range(times):
            work()
            begin = time.perf_counter()
            made = self._space[name](*given)
            found.append((begin, time.perf_counter()))
        del made
        return found

    def transfer(self, size_bytes: int, times: int) -> list[tuple[float, float]]:
        """When a buffer from the first rank to the second was sent, or had come."""
        dist, x = self._watched(), self._torch.ones(size_bytes // 4)
        work, found = self._runtime.reference(), []
        for _ in range(times):
            dist.barrier()
            coming = dist.irecv(x, 0) if self.rank else None
            work()
            begin = time.perf_counter()
            (dist.isend(x, 1) if coming is None else coming).wait()
            found.append((begin, time.perf_counter()))
        return found

    def beside(self, size_bytes: int) -> float:
        """By how much the reference is slower while an all-reduce goes on."""
        torch, dist = self._torch, self._dist
        work = self._runtime.reference()
        once = [self._runtime.seconds(work)[0] for _ in range(30)]
        x = torch.ones(size_bytes // 4)
        dist.barrier()
        sent = dist.all_reduce(x, async_op=True)
        found = []
        while not sent.is_completed():
            found.append(self._runtime.seconds(work)[0])
        sent.wait()
        return float(np.mean(found[:-1]) / np.mean(once) - 1)

    def open(self, name: str, text: str) -> None:
        """A written step that is there from now on."""
        self._own = SENDING
        self._opened[name] = self._written(text)

    def bench(self, events: Events) -> None:
        """Events to be measured, in the place of those before."""
        self._bench = Bench(self._runtime, events)

    def stand_in(self, name: str, job: StandIn) -> None:
        """Let what was opened compute nothing."""
        space = self._opened[name]
        space |= {"slept": self._sleep, "held": self._held, "dist": self._watched()}
        exec(compile(job.functions, "<stand-in>", "exec"), space)
        self._seconds = job.seconds
        if "Rank" not in space:
            self._step = space["device_step"]
            return
        handed = {one.name: self._held(one.shape, one.dtype) for one in space["TRANSFERS"]}
        nothing = self._torch.empty(0)

        def standing(one: Any) -> Any:
            if one.function is None:
                return one._replace(reads=())
            instead = space[one.function.__name__]

            def done(_: object) -> list[Any]:
                instead()
                return [handed.get(name, nothing) for name in one.makes]

            done.__name__ = one.function.__name__
            return one._replace(function=done, reads=())

        space["PASSES"] |= {key: standing(one) for key, one in space["PASSES"].items()}
        self._step = partial(space["Rank"]().step, handed)

    def _sleep(self, event: str) -> None:
        """As long as an event takes."""
        self._rest(self._seconds[event])

    def _rest(self, seconds: float) -> None:
        """Sleep; by how much too long, the next time it is shorter."""
        since = time.perf_counter()
        self._owed += seconds
        _prefer(WAKING)
        time.sleep(max(0.0, self._owed))
        _prefer(SENDING)
        taken = time.perf_counter() - since
        self._owed -= taken
        self._slept += taken

    def _held(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Some numbers to send."""
        if (shape, dtype) not in self._buffers:
            self._buffers[shape, dtype] = self._torch.ones(shape, dtype=dtype)
        return self._buffers[shape, dtype]

    def act(self, at: float) -> tuple[float, float]:
        """The step that stands in, from a moment on: its seconds, and those slept."""
        self._slept = self._owed = 0.0
        time.sleep(max(0.0, at - time.perf_counter()))
        self._step()
        return time.perf_counter() - at, self._slept

    def meet(self, name: str, kind: str, axes: Sequence[str], size: int, at: float) -> float:
        """Seconds of a collective of what was opened, whose largest buffer has so many bytes."""
        space, along = self._opened[name], tuple(axes)
        members = len(space["places"](along))
        x = self._held(
            (size // 4 // (members if kind == "all_gather" else 1),), self._torch.float32
        )
        given = (x, *ASKED[kind](along, members))
        time.sleep(max(0.0, at - time.perf_counter()))
        space[kind](*given)
        return time.perf_counter() - at

    def pass_on(self, name: str, size: int, at: float) -> float:
        """Seconds until each second rank along the pipe has what the one before sent."""
        space, dist, x = self._opened[name], self._watched(), self._torch.ones(size // 4)
        twins = space["members"](("pipe",), self.rank)
        place = twins.index(self.rank)
        coming = dist.irecv(x, twins[place - 1]) if place % 2 else None
        time.sleep(max(0.0, at - time.perf_counter()))
        (dist.isend(x, twins[place + 1]) if coming is None else coming).wait()
        return time.perf_counter() - at
