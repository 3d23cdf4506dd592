"""A sweep of plans by one process, by its forks, by two local workers, and by one or two of Dask.

``python -m results.speedup.sweeps`` prints, for each, seconds and the CPU seconds of all processes,
as lines of JSON. All must answer byte for byte the same. Nothing is kept between questions, and
workers have answered a small question before. CPU seconds tell what dividing costs also on a
machine that others use; ``busiest`` is the largest share of one worker, so that ``cpu_seconds`` of
one worker over ``busiest`` of two is the speed-up if each had a processor for itself.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter

import psutil  # type: ignore[import-untyped]

from results.speedup.__main__ import WARM, Ask, alone, by, dask
from synth.collective.ranking.request import Watcher
from synth.service.workers import ProcessWorkers

SWEEP = {
    "system": "dgx-h100:1",
    "model": "gpt2-xl",
    "k": 1,
    "pin": "pipe=1 zero=1 remat=no",
    "sweep": {
        "batch": [str(64 * number) for number in range(1, 11)],
        "system": ["dgx-h100:1", "dgx-h100:2"],
    },
}
"""20 questions about one model."""


class Forks(Watcher):
    """Lets each question be worked on by two processes."""

    processes = 2


@contextmanager
def by_forks() -> Iterator[Ask]:
    """This process and its forks."""
    yield lambda verb, given: alone(verb, given, Forks())


@contextmanager
def by_itself() -> Iterator[Ask]:
    """This process and no other."""
    yield alone


class DividingWorkers(ProcessWorkers):
    """Workers of this machine that get a sweep in pieces, as those of a cluster do."""

    divides_sweeps = True


@contextmanager
def by_local(workers: int) -> Iterator[Ask]:
    """Workers of this machine, a piece for each."""
    team = DividingWorkers(workers)
    try:
        yield by(team)
    finally:
        team.close()


TEAMS: Mapping[str, Callable[[], AbstractContextManager[Ask]]] = {
    "one process": by_itself,
    "one process and its forks": by_forks,
    "two local workers, divided": lambda: by_local(2),
    "one Dask worker": lambda: dask(1, 1),
    "two Dask workers": lambda: dask(2, 1),
}


def cpu_seconds() -> dict[int, float]:
    """CPU seconds of this process and all below it, by their ids."""
    own = psutil.Process()
    found = {}
    for process in (own, *own.children(recursive=True)):
        times = process.cpu_times()
        ended = times.children_user + times.children_system
        found[process.pid] = times.user + times.system + ended
    return found


def measure(name: str) -> tuple[dict[str, float | str], str]:
    """Seconds by one team, and its answer."""
    with TEAMS[name]() as ask:
        for _ in range(2):
            ask(*WARM)
        before, begun = cpu_seconds(), perf_counter()
        answer = ask("plan", SWEEP)
        seconds, after = perf_counter() - begun, cpu_seconds()
    spent = [after[process] - before.get(process, 0.0) for process in after]
    return {
        "by": name,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(sum(spent), 1),
        "busiest": round(max(spent), 1),
        "load": round(os.getloadavg()[0], 1),
    }, answer


def main(names: Sequence[str]) -> None:
    answers = set()
    for name in names or TEAMS:
        found, answer = measure(name)
        answers.add(answer)
        print(json.dumps(found), flush=True)
    assert len(answers) == 1, "they answer otherwise"


if __name__ == "__main__":
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("teams", nargs="*", help="of " + ", ".join(TEAMS))
    os.environ["COLLSYNTH_CACHE"] = "none"
    main(given.parse_args().teams)
