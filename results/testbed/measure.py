"""Runs the pairs of a case in shuffled order, until each has its samples; can stop and go on."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results import record
from results.testbed.bystanders import look, share
from results.testbed.cases import Case, Pair, groups
from results.testbed.hosts.crew import Crew, Task, crew
from results.testbed.hosts.network import Counters, counters, network
from results.testbed.hosts.orders import ITEM_BYTES, orders
from results.testbed.hosts.traffic import by_level
from results.testbed.hosts.wiring import Wiring

HERE = Path(__file__).parent
DATA = HERE / "data"
REPEATS = 5
MOST_DISTURBED = 0.03
"""A sample is thrown away if others had more of the processors than this while it was taken."""
_MOST_THROWN = 200
_WARM_UPS = 8
COMMAND = "python -m results.testbed run"
Told = dict[str, Any]


@dataclass
class Samples:
    """What was measured so far of a case. Mutable."""

    seconds: list[list[float]]
    thrown: int = 0


def task_of(pair: Pair) -> Task:
    """A pair as the crew needs it."""
    return Task(
        orders(pair.schedule), pair.schedule.padded_bytes // ITEM_BYTES, groups(pair.reduction)
    )


class Stopwatch:
    """Times tasks of a crew, and throws away what others disturbed."""

    def __init__(self, hired: Crew) -> None:
        self._crew = hired
        self._own = {os.getpid(), *hired.pids}
        self.runs: Counter[int] = Counter()
        self.thrown = 0

    def time(self, number: int) -> float | None:
        """The seconds of one run; nothing if it was disturbed."""
        before = look(self._own)
        seconds = self._crew.run(number)
        self.runs[number] += 1
        if share(before, look(self._own), os.cpu_count() or 1) <= MOST_DISTURBED:
            return seconds
        self.thrown += 1
        time.sleep(0.05)
        return None


def rounds(
    stopwatch: Stopwatch, samples: Samples, go_on: Callable[[], bool], repeats: int, seed: str
) -> bool:
    """One sample of every pair after the other, in shuffled order; whether all have enough."""
    pairs = range(len(samples.seconds))
    for number in range(repeats):
        missing = [i for i in pairs if len(samples.seconds[i]) <= number]
        random.Random(f"{seed} {number}").shuffle(missing)
        while missing:
            if not go_on() or stopwatch.thrown > _MOST_THROWN:
                return False
            seconds = stopwatch.time(missing[-1])
            if seconds is None:
                missing.insert(0, missing.pop())
            else:
                samples.seconds[missing.pop()].append(seconds)
    return True


def measure(case: Case, folder: Path, *, most_seconds: float, repeats: int = REPEATS) -> bool:
    """Measure a case, or go on with it, for some time; whether it is done and its file written.

    What is not done is kept beside as ``.part``. Raises TroubleError for a wrong result.
    """
    final, part = folder / f"{case.name}.json", folder / f"{case.name}.part"
    if final.exists():
        return True
    end = time.monotonic() + most_seconds
    pairs = case.pairs()
    tasks = [task_of(pair) for pair in pairs]
    kept = json.loads(part.read_text()) if part.exists() else {}
    samples = Samples(kept.get("seconds", [[] for _ in pairs]), kept.get("thrown", 0))
    with network(case.system) as wiring, crew(wiring, tasks) as hired:
        stopwatch = Stopwatch(hired)
        for i in random.Random(case.name).sample(range(len(pairs)), _WARM_UPS):
            hired.run(i)
        begun = counters()
        done = rounds(stopwatch, samples, lambda: time.monotonic() < end, repeats, case.name)
        runs = [(tasks[i], count) for i, count in stopwatch.runs.items()]
        now = _carried(wiring, begun, counters(), runs)
    carried = [*kept.get("carried", []), now]
    thrown = samples.thrown + stopwatch.thrown
    told = {"seconds": samples.seconds, "thrown": thrown, "carried": carried}
    folder.mkdir(exist_ok=True)
    if done:
        replaced(final, _told(case, pairs, told))
        part.unlink(missing_ok=True)
    else:
        replaced(part, json.dumps(told))
    return done


def _carried(
    wiring: Wiring, begun: Counters, ended: Counters, ran: Sequence[tuple[Task, int]]
) -> Told:
    """Bytes that went down the cables of each level, over those that the model says."""
    model = by_level(wiring, [(task.orders, runs) for task, runs in ran])
    sent = [0] * len(model)
    for cable in wiring.cables():
        name = wiring.end_above(cable)
        sent[len(cable.child) - 1] += ended.sent_bytes[name] - begun.sent_bytes[name]
    parts = [round(s / m, 4) if m else None for s, m in zip(sent, model, strict=True)]
    return {"sent_over_model": parts, "dropped": ended.dropped}


def _told(case: Case, pairs: Sequence[Pair], told: Told) -> str:
    """A finished case, one line a pair; seconds in whole microseconds."""
    head = {
        **record.origin(f"{COMMAND} {case.name}"),
        "machine": record.machine(),
        "case": described(case),
        "thrown": told["thrown"],
        "carried": told["carried"],
    }
    rows = [
        json.dumps(
            {
                "placement": [list(row) for row in pair.matrix],
                "program": pair.program,
                "microseconds": [round(1e6 * each) for each in seconds],
            }
        )
        for pair, seconds in zip(pairs, told["seconds"], strict=True)
    ]
    return with_rows(head, "pairs", rows)


def with_rows(head: Told, name: str, rows: Sequence[str]) -> str:
    """JSON of a head and of a list of rows, one a line."""
    text = json.dumps(head, indent=1)
    return text[: text.rindex("\n}")] + f',\n "{name}": [\n  ' + ",\n  ".join(rows) + "\n ]\n}\n"


def described(case: Case) -> Told:
    """A case as data says it."""
    return {
        "name": case.name,
        "shape": list(case.shape),
        "megabits_per_second": list(case.megabits),
        "axes": list(case.axes),
        "over": list(case.over),
        "payload_bytes": case.payload_bytes,
        "most_steps": case.most_steps,
    }


def replaced(path: Path, text: str) -> None:
    """Write a file as a whole or not at all."""
    aside = path.with_suffix(".aside")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)
