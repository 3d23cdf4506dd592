"""Put six questions to one process, to two workers of this machine, and to Dask workers.

``python -m results.speedup`` writes speedup.json and a section of README.md: medians of RUNS runs
(``--runs`` says of how many), each by a fresh process that puts every question to all in turn, warm
(each worker has answered a small question before). All must answer byte for byte the same. The
clusters are started as docs/dask.md says. Then each question is put to 8 and 64 processes that are
not there (``perfect``): what each does is done here, one after the other, and its processor seconds
are put on a clock.
``--once`` prints one run, ``--perfect`` the other; both keep nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

from distributed import Client

from results import pages, record
from results.speedup.perfect import Several, perfectly
from synth.ask.partition import Piece, carry_out
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS
from synth.collective.ranking.request import Watcher
from synth.search.forks import WORTH_SECONDS
from synth.service.workers import ProcessWorkers, QuestionRun, Workers
from synth.service.workers.dask import DaskWorkers

DATA = Path(__file__).with_name("speedup.json")
COMMAND = "python -m results.speedup"
SUPERPOD = "superpod-h100-oversubscribed"
FOUR = {
    "systems": ["dgx-a100:8", "dgx-h100:8", "aws-p4d:8", "p2-v100:8"],
    "axes": {"data": 16, "model": 4},
    "reduce": ["data"],
}
QUESTIONS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "a small top": ("top", {"system": "dgx-h100:4", "axes": {"data": 32}, "reduce": ["data"]}),
    "superpod:8": (
        "top",
        {"system": f"{SUPERPOD}:8", "axes": {"a": 16, "b": 8, "c": 8}, "reduce": ["a"], "k": 10},
    ),
    "superpod:16": (
        "top",
        {
            "system": f"{SUPERPOD}:16",
            "axes": {"a": 8, "b": 32, "c": 8},
            "reduce": ["b"],
            "k": 1,
            "per_placement": True,
        },
    ),
    "a range": (
        "top",
        {
            "system": f"{SUPERPOD}:8",
            "axes": {"a": 16, "b": 8, "c": 8},
            "reduce": ["a"],
            "bytes": [2**10, 2**32],
        },
    ),
    "a sweep": ("sweep", FOUR | {"bytes": [2**16, 2**30]}),
    "a plan": (
        "plan",
        {"system": f"{SUPERPOD}:4", "model": "llama3-70b", "batch": 1024, "sequence": 8192},
    ),
}
WARM = QUESTIONS["a small top"]
WORKERS = 2
PERFECT = (8, 64)
RUNS = 3
WAIT_SECONDS = 120
Told = dict[str, Any]
Ask = Callable[[str, dict[str, Any]], str]


def alone(verb: str, given: dict[str, Any], watcher: Watcher | None = None) -> str:
    """The answer of this process."""
    return json.dumps(carry_out(Piece(verb=verb, question=given), watcher or Watcher())["body"])


def by(workers: Workers) -> Ask:
    """Asks workers."""

    def ask(verb: str, given: dict[str, Any]) -> str:
        return json.dumps(
            QuestionRun(workers, verb, parse_question(VERBS[verb].question, given)).run().body
        )

    return ask


@contextmanager
def local() -> Iterator[Ask]:
    """Two workers of this machine."""
    workers = ProcessWorkers(WORKERS)
    try:
        yield by(workers)
    finally:
        workers.close()


@contextmanager
def dask(workers: int, threads: int) -> Iterator[Ask]:
    """A scheduler and so many workers of so many threads."""
    with TemporaryDirectory() as folder:
        file = f"{folder}/scheduler.json"
        own = ("--host", "127.0.0.1", "--port", "0", "--scheduler-file", file)
        two = ("--scheduler-file", file, "--nworkers", str(workers), "--nthreads", str(threads))
        processes = [_started("scheduler", *own), _started("worker", *two)]
        try:
            with Client(scheduler_file=file, timeout=WAIT_SECONDS, set_as_default=False) as client:
                client.wait_for_workers(workers, timeout=WAIT_SECONDS)
                crew = DaskWorkers(client.scheduler.address)
                try:
                    yield by(crew)
                finally:
                    crew.close()
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait(WAIT_SECONDS)


def _started(what: str, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *words, "--no-dashboard"]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


@contextmanager
def here() -> Iterator[Ask]:
    """This process, and no other."""
    yield alone


CREWS: Mapping[str, Callable[[], AbstractContextManager[Ask]]] = {
    "one process": here,
    "two local workers": local,
    "two Dask workers": partial(dask, WORKERS, 1),
    "one Dask worker of two threads": partial(dask, 1, WORKERS),
}


def once() -> Told:
    """One run: the seconds of every question, by who was asked; and the bytes of its answer."""
    found: Told = {"load_before": os.getloadavg()[0], "seconds": {}, "bytes": {}}
    answers: dict[str, str] = {}
    for crew, opened in CREWS.items():
        with opened() as ask:
            with ThreadPoolExecutor(WORKERS) as each:
                warmed = [each.submit(ask, *WARM) for _ in range(WORKERS)]
                for one in warmed:
                    one.result()
            for name, given in QUESTIONS.items():
                begun = perf_counter()
                answer = ask(*given)
                found["seconds"].setdefault(name, {})[crew] = perf_counter() - begun
                found["bytes"][name] = len(answer)
                if answer != answers.setdefault(name, answer):
                    raise AssertionError(f"{crew}: {name} is answered otherwise")
    return found


def perfect(name: str, processes: int) -> Told:
    """Processor seconds of all that is done, and on the clock of so many processes."""
    verb, given = QUESTIONS[name]
    begun = process_time()
    with perfectly(process_time, WORTH_SECONDS) as clock:
        alone(verb, given, Several(processes))
        return {"work": process_time() - begun, "seconds": clock.now()}


def measured(runs: int) -> Told:
    """The medians of some runs."""
    return {**_medians([_apart("--once") for _ in range(runs)]), "runs": runs}


def on_clocks() -> Told:
    """What perfect processes would take, each number of them in a fresh process."""
    on_clock = {
        name: {str(many): _apart("--perfect", name, str(many)) for many in (1, *PERFECT)}
        for name in QUESTIONS
    }
    return {"perfect": on_clock}


def _apart(*words: str) -> Told:
    command = [sys.executable, "-m", "results.speedup", *words]
    found: Told = json.loads(subprocess.check_output(command, cwd=record.ROOT))
    return found


def _medians(some: list[Any]) -> Any:
    """Of things of one form, the same form with the median of every number."""
    if isinstance(some[0], dict):
        return {key: _medians([one[key] for one in some]) for key in some[0]}
    return median(some)


def page(data: Told | None) -> pages.Page:
    """README.md with its section about two workers as the data has it; None: not measured."""
    perfect = PERFECT if data and "perfect" in data else ()
    return pages.page("speedup", data=data, crews=[*CREWS], perfect=perfect)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--once", action="store_true", help="print one run, and keep nothing")
    given.add_argument("--perfect", nargs=2, metavar=("QUESTION", "PROCESSES"))
    given.add_argument("--runs", type=int, default=RUNS)
    given.add_argument("--quick", action="store_true", help="without processes that are not there")
    how = given.parse_args()
    if how.once:
        print(json.dumps(once()))
    elif how.perfect:
        print(json.dumps(perfect(how.perfect[0], int(how.perfect[1]))))
    else:
        told = measured(how.runs) | ({} if how.quick else on_clocks())
        data = {**record.origin(COMMAND), "machine": record.machine(), **told}
        pages.keep(DATA, data, page)


if __name__ == "__main__":
    main()
