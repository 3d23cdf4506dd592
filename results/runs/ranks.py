"""Processes, one in every host's namespace and on a core of its own, that run written steps.

They are forked once PyTorch is loaded, and told by pipes what to do next; only what steps send
crosses the network. They run before all else on this machine, at real-time priority, and threads
that communicate before those that compute: on cores that others use, too, a small all-reduce took
0.3 or 4 ms, as a tick happened to come; so it takes 0.25. They take turns of a tick (a thread of
gloo's that asks for a lock without end would keep who holds it from the core for ever). When one
dies, or does not answer, the others are ended and its last words are told.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from results.testbed.hosts.crew import TroubleError
from results.testbed.hosts.network import enter
from results.testbed.hosts.wiring import Wiring
from synth.train.plans.program import EVERYWHERE
from synth.train.profiles.measuring import Bench, Torch

PATIENCE_SECONDS = 20.0
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "permute")
_DIE_WITH_PARENT = 1
_TURNS = Path("/proc/sys/kernel/sched_rr_timeslice_ms")
SHORTEST_TURN_MS = "4"
"""How long a thread at real-time priority goes on before another of the same has its turn."""
Told = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """A written step, numbers to train on, and the events that are measured beside it."""

    text: str
    inputs: Mapping[str, Any]
    events: Mapping[str, tuple[str, Sequence[tuple[str, list[int]]]]]


class Ranks:
    """The processes of one network."""

    def __init__(self, wiring: Wiring, folder: Path) -> None:
        import torch  # noqa: F401  # loaded before forking, so once

        self._folder = folder
        self._ends: list[Connection] = []
        self.pids: list[int] = []
        for rank in range(wiring.system.devices):
            mine, theirs = Pipe()
            pid = os.fork()
            if not pid:
                for one in (*self._ends, mine):
                    one.close()
                _live(rank, wiring, folder, theirs)
            theirs.close()
            self._ends.append(mine)
            self.pids.append(pid)
        self.all("hello")

    def all(self, what: str, *given: Any) -> list[Any]:
        """What every process answers. Raises TroubleError where one fails or does not answer."""
        for rank, end in enumerate(self._ends):
            try:
                end.send((what, given))
            except OSError:
                raise TroubleError(f"rank {rank} has gone; {self._words(rank)}") from None
        found: dict[int, Any] = {}
        end_of_time = time.monotonic() + PATIENCE_SECONDS
        while waiting := {end: at for at, end in enumerate(self._ends) if at not in found}:
            ready = wait(list(waiting), max(0.0, end_of_time - time.monotonic()))
            if not ready:
                raise TroubleError(f"ranks {sorted(waiting.values())} do not answer")
            for rank in [at for end, at in waiting.items() if end in ready]:
                found[rank] = self._answer(rank, self._ends[rank])
        return [found[rank] for rank in range(len(self._ends))]

    def _answer(self, rank: int, end: Connection) -> Any:
        try:
            kind, told = end.recv()
        except EOFError:
            raise TroubleError(f"rank {rank} has gone; {self._words(rank)}") from None
        if kind == "failed":
            raise TroubleError(f"rank {rank}: {told}")
        return told

    def _words(self, rank: int) -> str:
        """The last that a process said."""
        with suppress(OSError):
            lines = (self._folder / f"rank{rank}.err").read_text(encoding="utf-8").split("\n")
            said = [line.strip() for line in lines if line.strip()][-3:]
            return "it said: " + " | ".join(said) if said else "it said nothing"
        return "it said nothing"

    def end(self) -> None:
        for one in self._ends:
            one.close()
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


@contextmanager
def ranks(wiring: Wiring, folder: Path) -> Iterator[Ranks]:
    """Processes on a network that is up, for as long as the block lasts."""
    before = _TURNS.read_text(encoding="ascii")
    _TURNS.write_text(SHORTEST_TURN_MS, encoding="ascii")
    try:
        found = Ranks(wiring, folder)
        try:
            yield found
        finally:
            found.end()
    finally:
        _TURNS.write_text(before, encoding="ascii")


def _live(rank: int, wiring: Wiring, folder: Path, boss: Connection) -> None:
    """What a process does; it never comes back."""
    try:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        words = os.open(folder / f"rank{rank}.err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(words, 2)
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
        enter(wiring.hosts[rank])
        os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
        worker = _Worker(rank, wiring.system.devices, folder)
        while True:
            what, given = boss.recv()
            try:
                boss.send(("done", getattr(worker, what)(*given)))
            except Exception:
                boss.send(("failed", traceback.format_exc().strip().split("\n")[-1]))
    except (EOFError, OSError):
        pass
    except BaseException:
        print(traceback.format_exc(), file=sys.stderr, flush=True)
    finally:
        os._exit(1)


@contextmanager
def _raised() -> Iterator[None]:
    """Around what this thread does itself to send: nothing that communicates goes before it.

    gloo's own thread asks again and again for a lock that this one holds and may not let go.
    """
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(2))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


class _Worker:
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
        self._go_first()

    def _go_first(self) -> None:
        """Let this process run before others, and in it what communicates before what computes."""
        for task in map(int, os.listdir("/proc/self/task")):
            priority = os.sched_param(1 if task == os.getpid() else 2)
            os.sched_setscheduler(task, os.SCHED_RR, priority)

    def hello(self) -> int:
        return os.getpid()

    def load(self, job: Job) -> None:
        """A step and its events, in the place of those before."""
        self._space: dict[str, Any] = {"__name__": "written"}
        exec(compile(job.text, "<step>", "exec"), self._space)
        self._space["make_groups"]()
        self._go_first()
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
            with _raised():
                work = begin(*given, **more)

            def wait_for() -> None:
                since = time.perf_counter()
                with _raised():
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
        self._space = {"__name__": "written"}
        exec(compile(text, "<step>", "exec"), self._space)
        self._space["make_groups"]()
        self._go_first()

    def collective(self, name: str, size_bytes: int, times: int) -> list[tuple[float, float]]:
        """When a collective whose largest buffer has so many bytes began and ended, some times.

        Before each something is computed, as in a step.
        """
        torch, world = self._torch, self._dist.get_world_size()
        numbers = size_bytes // 4 // (world if name == "all_gather" else 1)
        x = torch.ones(numbers)
        given: Mapping[str, tuple[Any, ...]] = {
            "all_reduce": (x, ("data",), "sum"),
            "reduce_scatter": (x, 0, ("data",), "sum"),
            "all_gather": (x, 0, ("data",)),
        }
        work, found = self._runtime.reference(), []
        self._dist.barrier()
        for _ in range(times):
            work()
            begin = time.perf_counter()
            made = self._space[name](*given[name])
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

    def replay(self, entries: Sequence[tuple[Any, ...]], count: int) -> list[tuple[float, float]]:
        """Some steps whose compute is slept; of each its seconds, and those slept.

        An entry is a sleep, a collective of a buffer, one that is begun, or the wait for that.
        """
        torch, found = self._torch, []
        for _ in range(count):
            begun: dict[str, Any] = {}
            slept = 0.0
            self._dist.barrier()
            begin = time.perf_counter()
            for what, *given in entries:
                if what == "sleep":
                    since = time.perf_counter()
                    time.sleep(given[0])
                    slept += time.perf_counter() - since
                elif what == "wait":
                    begun.pop(given[0])()
                else:
                    name, size = given
                    asked = (torch.ones(size), ("data",), "sum", what == "begin")
                    begun[name] = self._space["all_reduce"](*asked)
            found.append((time.perf_counter() - begin, slept))
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
