"""Put one large sweep to one process, to two of this machine, and to a Dask cluster of two workers.

``python results/service/speedup.py`` writes data/speedup.json and a section of README.md. All three
are measured in one run, warm (each process has answered a small question before), and must answer
byte for byte the same. ``--dry`` prints and keeps nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from distributed import LocalCluster

import record
from synth.cutting import Piece
from synth.request import Watcher
from synth.service.work import Crew, Errand, LocalCrew, Ticket
from synth.service.work.cluster import DaskCrew
from synth.service.work.crew import Tell, nothing
from synth.verbs.asking import Question, asked
from synth.wire import VERBS

FILE = "speedup.json"
COMMAND = "python results/service/speedup.py"
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
Told = dict[str, Any]


class Weighed:
    """A crew that counts its pieces and the bytes that travel, as JSON, both ways."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.out: list[int] = []
        self.back: list[int] = []

    @property
    def slots(self) -> int:
        return self._crew.slots

    def submit(
        self,
        piece: Piece,
        *,
        budget_seconds: float | None = None,
        memory_bytes: int | None = None,
        tell: Tell = nothing,
    ) -> Ticket:
        ticket = self._crew.submit(
            piece, budget_seconds=budget_seconds, memory_bytes=memory_bytes, tell=tell
        )
        self.out.append(len(piece.text))
        ticket.future.add_done_callback(
            lambda future: self.back.append(len(json.dumps(future.result())))
        )
        return ticket

    def close(self, grace_seconds: float = 5) -> None:
        self._crew.close(grace_seconds)


def question(given: dict[str, Any]) -> Question:
    return asked(VERBS["sweep"].question, given)


def alone(given: dict[str, Any]) -> str:
    return json.dumps(VERBS["sweep"].answer(question(given), Watcher()).body)


def by(crew: Crew) -> Callable[[dict[str, Any]], str]:
    return lambda given: json.dumps(Errand(crew, "sweep", question(given)).run().body)


def timed(ask: Callable[[dict[str, Any]], str]) -> tuple[float, str]:
    ask(SMALL)
    begun = perf_counter()
    answer = ask(QUESTION)
    return perf_counter() - begun, answer


def measured() -> Told:
    load = os.getloadavg()[0]
    one_seconds, answer = timed(alone)
    found: Told = {
        "load_before": load,
        "one_process_seconds": one_seconds,
        "answer_bytes": len(answer),
        "crews": [],
    }
    crew = LocalCrew(WORKERS)
    try:
        found["crews"].append(_figures("two processes of this machine", crew, answer, one_seconds))
    finally:
        crew.close()
    with LocalCluster(
        n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        dask = DaskCrew(cluster.scheduler_address)
        try:
            name = "a Dask cluster of two workers"
            found["crews"].append(_figures(name, dask, answer, one_seconds))
        finally:
            dask.close()
    return found


def _figures(name: str, crew: Crew, expected: str, one_seconds: float) -> Told:
    weighed = Weighed(crew)
    seconds, answer = timed(by(weighed))
    if answer != expected:
        raise AssertionError(f"{name} answers otherwise")
    return {
        "name": name,
        "seconds": seconds,
        "speedup": one_seconds / seconds,
        "pieces": len(weighed.out),
        "bytes_out": sum(weighed.out),
        "largest_out": max(weighed.out),
        "bytes_back": sum(weighed.back),
        "largest_back": max(weighed.back),
    }


def section(data: Told) -> str:
    """The text of the section."""
    head = ["", "seconds", "speed-up", "pieces", "bytes out (largest)", "bytes back (largest)"]
    rows = [["one process, uncut", f"{data['one_process_seconds']:.1f}", "1", "-", "-", "-"]]
    for crew in data["crews"]:
        rows.append(
            [
                crew["name"],
                f"{crew['seconds']:.1f}",
                f"{crew['speedup']:.2f}",
                str(crew["pieces"]),
                f"{crew['bytes_out']:,} ({crew['largest_out']:,})",
                f"{crew['bytes_back']:,} ({crew['largest_back']:,})",
            ]
        )
    systems = len(QUESTION["systems"])
    asked_told = (
        f"{systems} systems of 64 devices, data=16 and model=4, 64 KiB to 1 GiB: one answer of "
        f"{data['answer_bytes']:,} bytes, byte for byte the same from all three."
    )
    origin = (
        f"Made by `{data['command']}` at commit {data['commit']}, {data['date']}, on "
        f"{data['machine']['cores']} cores of {data['machine']['processor']}; what else ran in the "
        f"minute before was a load of {data['load_before']:.1f}."
    )
    return f"{asked_told}\n\n{record.table(head, rows)}\n\n{origin}"


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--dry", action="store_true", help="print, and keep nothing")
    dry = given.parse_args().dry
    data = {**record.origin(COMMAND), "machine": record.machine(), **measured()}
    print(json.dumps(data, indent=1))
    if not dry:
        record.write(FILE, data)
        page = record.README.read_text(encoding="utf-8")
        page = record.replaced(page, "speedup", section(data))
        record.README.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
