"""Put one large sweep to one process, to two of this machine, and to a Dask cluster of two workers.

``python -m results.speedup`` writes speedup.json and a section of README.md: medians
of RUNS runs, each by a fresh process that measures all three in turn, warm (each process has
answered a small question before). All must answer byte for byte the same. The cluster is started as
docs/dask.md says. ``--once`` prints one run, ``--dry`` all; both keep nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import psutil  # type: ignore[import-untyped]
from distributed import Client

from results import pages, record
from synth.plan.request import Watcher
from synth.service.workers import ProcessWorkers, QuestionRun, Ticket, Workers
from synth.service.workers.dask import DaskWorkers
from synth.service.workers.pool import OnProgress, ignore
from synth.verbs.partition import Piece
from synth.verbs.questions.question import Question, asked
from synth.verbs.table import VERBS

DATA = Path(__file__).with_name("speedup.json")
COMMAND = "python -m results.speedup"
QUESTION: dict[str, Any] = {
    "systems": [
        "dgx-a100:8",
        "dgx-h100:8",
        "aws-p4d:8",
        "p2-v100:8",
    ],
    "axes": {"data": 16, "model": 4},
    "reduce": ["data"],
    "bytes": [2**16, 2**30],
    "max_steps": 5,
}
SMALL = QUESTION | {"systems": ["dgx-a100:8", "p2-v100:8"], "bytes": [2**20, 2**22]}
WORKERS = 2
RUNS = 5
WAIT_SECONDS = 60
Told = dict[str, Any]
Roles = dict[str, list[psutil.Process]]
ROLES = ("workers", "scheduler", "asker")


class Weighed:
    """Workers that count their pieces and the bytes that travel, as JSON, both ways."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self.out: list[int] = []
        self.back: list[int] = []

    @property
    def slots(self) -> int:
        return self._workers.slots

    @property
    def at_once(self) -> int:
        return self._workers.at_once

    @property
    def idle(self) -> int:
        return self._workers.idle

    @property
    def lost(self) -> int:
        return self._workers.lost

    def submit(
        self,
        piece: Piece,
        *,
        budget_seconds: float | None = None,
        memory_bytes: int | None = None,
        on_progress: OnProgress = ignore,
    ) -> Ticket:
        ticket = self._workers.submit(
            piece, budget_seconds=budget_seconds, memory_bytes=memory_bytes, on_progress=on_progress
        )
        self.out.append(len(piece.text))
        ticket.future.add_done_callback(
            lambda future: self.back.append(len(json.dumps(future.result())))
        )
        return ticket

    def close(self, grace_seconds: float = 5) -> None:
        self._workers.close(grace_seconds)


def question(given: dict[str, Any]) -> Question:
    return asked(VERBS["sweep"].question, given)


def alone(given: dict[str, Any]) -> str:
    return json.dumps(VERBS["sweep"].answer(question(given), Watcher()).body)


def by(workers: Workers) -> Callable[[dict[str, Any]], str]:
    return lambda given: json.dumps(QuestionRun(workers, "sweep", question(given)).run().body)


@contextmanager
def dask_cluster() -> Iterator[tuple[str, Roles]]:
    """A scheduler and two workers, started as docs/dask.md says: its address, its processes."""
    with TemporaryDirectory() as folder:
        file = f"{folder}/scheduler.json"
        own = ("--host", "127.0.0.1", "--port", "0", "--scheduler-file", file)
        scheduler = _started("scheduler", *own)
        two = ("--scheduler-file", file, "--nworkers", str(WORKERS), "--nthreads", "1")
        workers = _started("worker", *two)
        try:
            with Client(scheduler_file=file, timeout=WAIT_SECONDS, set_as_default=False) as client:
                client.wait_for_workers(WORKERS, timeout=WAIT_SECONDS)
                address = client.scheduler.address
            known = psutil.Process(workers.pid)
            nursed = [known, *known.children(recursive=True)]
            yield address, {"workers": nursed, "scheduler": [psutil.Process(scheduler.pid)]}
        finally:
            for process in (workers, scheduler):
                process.terminate()
                process.wait(WAIT_SECONDS)


def _started(what: str, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *words, "--no-dashboard"]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def timed(
    ask: Callable[[dict[str, Any]], str], roles: Roles | None = None
) -> tuple[float, str, Told]:
    """Seconds, the answer, and the processor seconds of each role."""
    roles = {**(roles or {}), "asker": [psutil.Process()]}
    before = {role: _processor_seconds(some) for role, some in roles.items()}
    begun = perf_counter()
    answer = ask(QUESTION)
    seconds = perf_counter() - begun
    spent = {role: _processor_seconds(some) - before[role] for role, some in roles.items()}
    return seconds, answer, spent


def _processor_seconds(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def once() -> Told:
    """One run of all three."""
    load = os.getloadavg()[0]
    alone(SMALL)
    one_seconds, answer, _ = timed(alone)
    found: Told = {
        "load_before": load,
        "one_process_seconds": one_seconds,
        "answer_bytes": len(answer),
        "crews": [],
    }
    local = ProcessWorkers(WORKERS)
    try:
        roles = {"workers": [psutil.Process(pid) for pid in local.pids]}
        name = "two processes of this machine"
        found["crews"].append(_figures(name, local, roles, answer, one_seconds))
    finally:
        local.close()
    with dask_cluster() as (address, roles):
        dask = DaskWorkers(address)
        try:
            name = "a Dask cluster of two workers"
            found["crews"].append(_figures(name, dask, roles, answer, one_seconds))
        finally:
            dask.close()
    return found


def _figures(name: str, workers: Workers, roles: Roles, expected: str, one_seconds: float) -> Told:
    by(workers)(SMALL)
    weighed = Weighed(workers)
    seconds, answer, spent = timed(by(weighed), roles)
    if answer != expected:
        raise AssertionError(f"{name} answers otherwise")
    return {
        "name": name,
        "seconds": seconds,
        "speedup": one_seconds / seconds,
        "processor_seconds": spent,
        "pieces": len(weighed.out),
        "bytes_out": sum(weighed.out),
        "largest_out": max(weighed.out),
        "bytes_back": sum(weighed.back),
        "largest_back": max(weighed.back),
    }


def measured() -> Told:
    """The medians of RUNS runs; what is the same in each is told once."""
    command = [sys.executable, "-m", "results.speedup", "--once"]
    runs = [json.loads(subprocess.check_output(command, cwd=record.ROOT)) for _ in range(RUNS)]
    told: Told = _medians(runs)
    return {**told, "runs": RUNS}


def _medians(some: list[Any]) -> Any:
    """Of things of one form, the same form with the median of every number."""
    first = some[0]
    if isinstance(first, dict):
        return {key: _medians([one[key] for one in some]) for key in first}
    if isinstance(first, list):
        return [_medians(list(ones)) for ones in zip(*some, strict=True)]
    return first if isinstance(first, str) else median(some)


def page(data: Told) -> str:
    """README.md with its section about two workers as the data has it."""
    return pages.page("speedup", data=data, systems=QUESTION["systems"], roles=ROLES)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--dry", action="store_true", help="print, and keep nothing")
    given.add_argument("--once", action="store_true", help="print one run, and keep nothing")
    how = given.parse_args()
    if how.once:
        print(json.dumps(once()))
        return
    data = {**record.origin(COMMAND), "machine": record.machine(), **measured()}
    print(json.dumps(data, indent=1))
    if not how.dry:
        pages.keep(DATA, data, page)


if __name__ == "__main__":
    main()
