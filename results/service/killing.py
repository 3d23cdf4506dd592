"""kill -9 under load: of the server, and of the processes that work for it.

Somebody goes on submitting jobs, each under an idempotency key of its own; a request that breaks
off is sent again under the same key, to the next server. What was accepted must all end, once, with
the answers of the command line.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from itertools import count
from pathlib import Path
from typing import Any

from results.service.asked import Asked, all_answered, small, usual
from results.service.serving import Running, alive, descendants, start, stop

Told = dict[str, Any]
_EARLIEST_SECONDS, _LATEST_SECONDS = 0.3, 3.0
_PAUSE_SECONDS = 0.1
_END_SECONDS = 240.0
_ORPHANS_SECONDS = 15.0
_PATIENCE_SECONDS = 120.0
_ENDED = ("done", "partial", "failed", "cancelled")


@dataclass
class Somebody:
    """Submits jobs one after the other, looks at them, and writes down all that is seen."""

    questions: Iterator[Asked]
    address: tuple[str, int] = ("", 0)
    accepted: dict[str, Asked] = field(default_factory=dict)
    keys: dict[str, set[str]] = field(default_factory=dict)
    seen: dict[str, list[str]] = field(default_factory=dict)
    broken: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def go_on(self) -> None:
        """Submit until it is over, and look at an earlier job after each."""
        drawn = random.Random(7)
        for number, asked in enumerate(self.questions):
            if self.over.is_set():
                return
            self._submit(f"job-{number}", asked)
            if self.accepted:
                self.look(drawn.choice(list(self.accepted)))
            self.over.wait(_PAUSE_SECONDS)

    def _submit(self, key: str, asked: Asked) -> None:
        headers = {"Prefer": "respond-async", "Idempotency-Key": key}
        end = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < end:
            told = self.ask("POST", "/v1/top", asked.body, headers)
            if told is None:
                time.sleep(0.1)
                continue
            status, found = told
            if status == 202:
                job = json.loads(found)["id"]
                self.accepted[job] = asked
                self.keys.setdefault(key, set()).add(job)
                return
            if status == 200:  # it had ended before this request came back to it
                return
            raise RuntimeError(f"{status}: {found[:300]!r}")
        raise RuntimeError("nobody answers")

    def look(self, job: str) -> Told | None:
        """A job as it is told now; its states are written down in their order."""
        told = self.ask("GET", f"/v1/jobs/{job}")
        if told is None:
            return None
        status, found = told
        if status != 200:
            self.seen.setdefault(job, []).append(f"status {status}")
            return None
        body: Told = json.loads(found)
        states = self.seen.setdefault(job, [])
        if not states or states[-1] != body["status"]:
            states.append(body["status"])
        return body

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes] | None:
        """One request on a connection of its own; None where it breaks off, which is counted."""
        line = HTTPConnection(*self.address, timeout=30)
        try:
            line.request(
                method, path, body, {"Content-Type": "application/json", **(headers or {})}
            )
            heard = line.getresponse()
            return heard.status, heard.read()
        except (OSError, HTTPException):
            self.broken += 1
            return None
        finally:
            line.close()


def server_kills(store_url: str, folder: Path, kills: int, seed: int = 20) -> Told:
    """Kill the server so many times, each at a drawn moment after it was started."""
    drawn = random.Random(seed)
    somebody = Somebody(questions())
    busy = left_behind = 0
    running = start(store_url, folder)
    somebody.address = (running.host, running.port)
    asking = ThreadPoolExecutor(1).submit(somebody.go_on)
    begun = time.monotonic()
    try:
        for _ in range(kills):
            time.sleep(drawn.uniform(_EARLIEST_SECONDS, _LATEST_SECONDS))
            family = descendants(running.pid)
            busy += _under_way(somebody)
            running.kill()
            stop(running)
            left_behind += _left_behind(family)
            running = start(store_url, folder)
            somebody.address = (running.host, running.port)
        somebody.over.set()
        asking.result()
        told = _judged(somebody, running)
    finally:
        somebody.over.set()
        stop(running)
    lasted = round(time.monotonic() - begun, 1)
    return {
        "kills": kills,
        "under_way": busy,
        **told,
        "left_behind": left_behind,
        "lasted_s": lasted,
    }


def worker_kills(store_url: str, folder: Path, kills: int, seed: int = 21) -> Told:
    """Kill one of the processes that carry jobs out so many times, each at a drawn moment."""
    drawn = random.Random(seed)
    somebody = Somebody(questions())
    running = start(store_url, folder)
    somebody.address = (running.host, running.port)
    asking = ThreadPoolExecutor(1).submit(somebody.go_on)
    begun = time.monotonic()
    done = 0
    try:
        while done < kills:
            time.sleep(drawn.uniform(_EARLIEST_SECONDS, _LATEST_SECONDS))
            workers = running.workers()
            if workers:
                os.kill(drawn.choice(workers), signal.SIGKILL)
                done += 1
        somebody.over.set()
        asking.result()
        told = _judged(somebody, running)
    finally:
        somebody.over.set()
        stop(running)
    return {"kills": kills, **told, "lasted_s": round(time.monotonic() - begun, 1)}


def questions() -> Iterator[Asked]:
    """Each another one: quick ones and, every fifth, one of more than a second."""
    quick, slow = small(14), usual(15)
    for number in count():
        yield next(slow if number % 5 == 4 else quick)


def _under_way(somebody: Somebody) -> bool:
    told = somebody.ask("GET", "/v1/jobs?limit=1&status=running")
    return told is not None and bool(json.loads(told[1])["jobs"])


def _left_behind(family: Sequence[int]) -> int:
    """How many of the processes of a server that was killed do not end by themselves."""
    end = time.monotonic() + _ORPHANS_SECONDS
    while time.monotonic() < end and any(map(alive, family)):
        time.sleep(0.05)
    return sum(map(alive, family))


def _judged(somebody: Somebody, running: Running) -> Told:
    """Wait until all has ended, and hold what is there to what was accepted and to the log."""
    jobs = _ended(somebody)
    listed = Counter(_listed(somebody))
    ends = Counter(
        line["job"]
        for line in running.logged()
        if line.get("message") == "job ended" and line.get("status") == "done"
    )
    given = {*somebody.accepted}
    return {
        "accepted": len(given),
        "broken_requests": somebody.broken,
        "lost": len(given - {*listed}),
        "unended": sum(job not in jobs for job in given),
        "statuses": dict(Counter(jobs.values())),
        "begun_again": sum(job["attempts"] > 1 for job in _all(somebody)),
        "twice": sum(count > 1 for count in listed.values())
        + sum(count > 1 for count in ends.values())
        + sum(len(jobs) > 1 for jobs in somebody.keys.values()),
        "undone": sum(_went_back(states) for states in somebody.seen.values()),
        "wrong": _wrong(somebody),
    }


def _ended(somebody: Somebody) -> dict[str, str]:
    """How each job that was accepted has ended, of those that do in time."""
    found: dict[str, str] = {}
    end = time.monotonic() + _END_SECONDS
    while time.monotonic() < end and len(found) < len(somebody.accepted):
        for job in [job for job in somebody.accepted if job not in found]:
            told = somebody.look(job)
            if told is not None and told["status"] in _ENDED:
                found[job] = told["status"]
        time.sleep(0.5)
    return found


def _went_back(states: Sequence[str]) -> bool:
    """Whether a job that had ended was seen in another state later, or was not there."""
    first = next((place for place, state in enumerate(states) if state in _ENDED), len(states))
    return len(states) > first + 1 or any(state.startswith("status") for state in states)


def _listed(somebody: Somebody) -> Iterator[str]:
    return (job["id"] for job in _all(somebody))


def _all(somebody: Somebody) -> Iterator[Told]:
    """The jobs that the service lists, page by page."""
    after = ""
    while True:
        told = somebody.ask("GET", f"/v1/jobs?limit=200{after}")
        assert told is not None, "nobody answers"
        page = json.loads(told[1])
        yield from page["jobs"]
        if not page["next"]:
            return
        after = f"&after={page['next']}"


def _wrong(somebody: Somebody) -> int:
    """Jobs whose answer is not, byte for byte, what the command line prints."""
    wrong = 0
    right = all_answered([*somebody.accepted.values()])
    for (job, asked), body in zip(somebody.accepted.items(), right, strict=True):
        told = somebody.look(job)
        if told is None or told["status"] != "done":
            continue
        found = somebody.ask("GET", told["answer"])
        again = somebody.ask("POST", "/v1/top", asked.body)
        assert found is not None, "nobody answers"
        assert again is not None, "nobody answers"
        kept = json.loads(found[1])["answer"] == json.loads(body)
        wrong += not kept or again[1] != body
    return wrong
