"""What the service must hold, measured: cached answers, uncached ones, a thousand jobs at once."""

from __future__ import annotations

import asyncio
import json
import random
import resource
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import mean, median
from typing import Any

from results.service.asked import Asked, small, usual
from results.service.calls import Heard, Lines, lines
from results.service.serving import Running, processor_seconds, serving, watched

Told = dict[str, Any]
CACHED_SECONDS, CACHED_PER_SECOND = 30, 200
UNCACHED = 15
JOBS, AT_ONCE = 1000, 32
_JOB_SECONDS = 300.0
_PAGE = 200


@dataclass(frozen=True)
class Call:
    """One request of an open loop: when it was due, sent and answered, and if it was right."""

    due_seconds: float
    sent_seconds: float
    done_seconds: float
    right: bool

    @property
    def latency_seconds(self) -> float:
        """From when it was due, so that waiting for a late generator counts, too."""
        return self.done_seconds - self.due_seconds


async def open_loop(
    wires: Lines,
    requests: Sequence[tuple[bytes, Callable[[Heard], bool]]],
    per_second: float,
    seed: int = 1,
) -> list[Call]:
    """Send requests at drawn moments, so many a second on average, whatever becomes of those
    before.

    The gaps are drawn from an exponential distribution, as of many askers who know nothing of each
    other.
    """
    loop, drawn = asyncio.get_running_loop(), random.Random(seed)
    due = loop.time() + 0.1
    calls: list[asyncio.Task[Call]] = []

    async def one(due: float, request: bytes, right: Callable[[Heard], bool]) -> Call:
        sent = loop.time()
        try:
            good = right(await wires.send(request))
        except (OSError, EOFError):
            good = False
        return Call(due, sent, loop.time(), good)

    for request, right in requests:
        due += drawn.expovariate(per_second)
        await asyncio.sleep(due - loop.time())
        calls.append(asyncio.create_task(one(due, request, right)))
    return list(await asyncio.gather(*calls))


def figures(calls: Sequence[Call]) -> Told:
    """The latencies of an open loop, in milliseconds."""
    ordered = sorted(1e3 * call.latency_seconds for call in calls)
    late = sorted(1e3 * (call.sent_seconds - call.due_seconds) for call in calls)
    lasted = max(call.done_seconds for call in calls) - min(call.due_seconds for call in calls)
    return {
        "requests": len(calls),
        "errors": sum(not call.right for call in calls),
        "per_second": round(len(calls) / lasted, 1),
        "p50_ms": round(share_of(ordered, 0.5), 2),
        "p90_ms": round(share_of(ordered, 0.9), 2),
        "p99_ms": round(share_of(ordered, 0.99), 2),
        "p999_ms": round(share_of(ordered, 0.999), 2),
        "max_ms": round(ordered[-1], 2),
        "generator_late_p99_ms": round(share_of(late, 0.99), 2),
    }


def share_of(ordered: Sequence[float], share: float) -> float:
    """The value that such a share of the ascending values does not exceed."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def posted(wires: Lines, asked: Asked) -> bytes:
    """A question as it goes over the wire."""
    body = asked.body
    head = f"POST /v1/top HTTP/1.1\r\nHost: {wires.host}:{wires.port}\r\n"
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + kind).encode() + body


def hit(wanted: bytes) -> Callable[[Heard], bool]:
    """Whether an answer came from the cache, and is the one."""

    def right(heard: Heard) -> bool:
        known = heard.headers.get("collsynth-cache") == "hit"
        return heard.status == 200 and known and heard.body == wanted

    return right


def cached(store_url: str, folder: Path) -> Told:
    """The same ten questions over and over: answers of full size that the server remembers."""
    some = list(islice(usual(11), 10))
    with serving(store_url, folder, "--wait", "60", "--quiet") as running:
        return asyncio.run(_cached(running, some))


async def _cached(running: Running, some: Sequence[Asked]) -> Told:
    async with lines(running.host, running.port) as wires:
        known = [(posted(wires, one), await _first(wires, one)) for one in some]
        drawn = random.Random(2)
        many = CACHED_SECONDS * CACHED_PER_SECOND
        picked = [drawn.choice(known) for _ in range(many)]
        requests = [(request, hit(body)) for request, body in picked]
        used, ours = processor_seconds(running.pid), _own_seconds()
        begun = time.monotonic()
        told = figures(await open_loop(wires, requests, CACHED_PER_SECOND))
        lasted = time.monotonic() - begun
        return {
            **told,
            "answer_KiB": round(mean(len(body) for _, body in known) / 1024, 1),
            "server_processor_share": round((processor_seconds(running.pid) - used) / lasted, 3),
            "generator_processor_share": round((_own_seconds() - ours) / lasted, 3),
        }


async def _first(wires: Lines, asked: Asked) -> bytes:
    heard = await wires.post("/v1/top", asked.body)
    assert heard.status == 200, heard
    return heard.body


def _own_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def uncached(store_url: str, folder: Path) -> Told:
    """New questions about dgx-h100:4, by turns put to the service and to the command line.

    Each is asked of both, and the two answers must be the same bytes.
    """
    with serving(store_url, folder, "--wait", "60", "--quiet") as running:
        return asyncio.run(_uncached(running, list(islice(usual(12), UNCACHED + 1))))


async def _uncached(running: Running, some: Sequence[Asked]) -> Told:
    served, alone, first = [], [], 0.0
    same = True
    async with lines(running.host, running.port) as wires:
        for number, one in enumerate(some):
            begun = time.perf_counter()
            heard = await wires.post("/v1/top", one.body)
            between = time.perf_counter()
            assert heard.headers["collsynth-cache"] == "miss", heard.headers
            body = one.answered()
            ended = time.perf_counter()
            same = same and heard.body == body
            if number == 0:
                first = between - begun
                continue
            served.append(between - begun)
            alone.append(ended - between)
    beyond = [s - a for s, a in zip(served, alone, strict=True)]
    return {
        "questions": len(served),
        "same_bytes": same,
        "service_first_s": round(first, 3),
        "service_median_s": round(median(served), 3),
        "service_max_s": round(max(served), 3),
        "command_median_s": round(median(alone), 3),
        "command_max_s": round(max(alone), 3),
        "difference_median_s": round(median(beyond), 3),
        "difference_max_s": round(max(beyond), 3),
        "ratio": round(median(served) / median(alone), 3),
    }


def jobs(store_url: str, folder: Path) -> Told:
    """A thousand different questions at once, and when all are answered and the server was started
    anew, each once more: from the store.
    """
    some = list(islice(small(13), JOBS))
    with serving(store_url, folder, "--wait", "0") as running:
        told = asyncio.run(_jobs(running, some))
    ends = Counter(line["job"] for line in running.logged() if line.get("message") == "job ended")
    told["logged_twice"] = sum(count > 1 for count in ends.values())
    with serving(store_url, folder, "--quiet") as running:
        bodies = [one.answered() for one in some[:10]]
        told["stored"] = asyncio.run(_stored(running, some, bodies))
    return told


async def _jobs(running: Running, some: Sequence[Asked]) -> Told:
    waiting = asyncio.Semaphore(AT_ONCE)
    async with lines(running.host, running.port) as wires:
        submit = _bounded(waiting, wires, {"Prefer": "respond-async"})
        with watched(running.pid) as memory:
            begun = time.monotonic()
            heard = await asyncio.gather(*(submit(one) for one in some))
            accepted = time.monotonic() - begun
            given = [json.loads(one.body)["id"] for one in heard if one.status == 202]
            ended = await _ended(wires, len(given))
            lasted = time.monotonic() - begun
            await asyncio.sleep(1)
        listed = await _listed(wires)
    counts = Counter(job["id"] for job in listed)
    return {
        "submitted": len(some),
        "accepted": len(given),
        "accepted_s": round(accepted, 2),
        "finished_s": round(lasted, 1),
        "in_time": ended,
        "statuses": dict(Counter(job["status"] for job in listed)),
        "lost": len({*given} - {*counts}),
        "twice": sum(count > 1 for count in counts.values()) + len(given) - len({*given}),
        "unasked": len({*counts} - {*given}),
        "begun_again": sum(job["attempts"] > 1 for job in listed),
        **memory.told(),
    }


def _bounded(
    waiting: asyncio.Semaphore, wires: Lines, headers: dict[str, str]
) -> Callable[[Asked], Awaitable[Heard]]:
    async def submit(one: Asked) -> Heard:
        async with waiting:
            return await wires.post("/v1/top", one.body, headers)

    return submit


async def _ended(wires: Lines, many: int) -> bool:
    """Wait until so many jobs are done; whether they were in time."""
    end = time.monotonic() + _JOB_SECONDS
    while time.monotonic() < end:
        left = 0
        for status in ("queued", "running"):
            heard = await wires.get(f"/v1/jobs?limit=1&status={status}")
            left += len(json.loads(heard.body)["jobs"])
        if not left:
            return True
        await asyncio.sleep(0.5)
    return False


async def _listed(wires: Lines) -> list[Told]:
    """All jobs, page by page."""
    found: list[Told] = []
    after = ""
    while True:
        heard = await wires.get(f"/v1/jobs?limit={_PAGE}{after}")
        page = json.loads(heard.body)
        found += page["jobs"]
        if not page["next"]:
            return found
        after = f"&after={page['next']}"


async def _stored(running: Running, some: Sequence[Asked], bodies: Sequence[bytes]) -> Told:
    """Every answer once, in another order than they were made in; the first few compared."""
    wanted = dict(zip(some, bodies, strict=False))
    shuffled = list(some)
    random.Random(3).shuffle(shuffled)

    def right(one: Asked) -> Callable[[Heard], bool]:
        if one in wanted:
            return hit(wanted[one])
        return lambda heard: heard.headers.get("collsynth-cache") == "hit"

    async with lines(running.host, running.port) as wires:
        await wires.get("/v1/jobs?limit=1")
        requests = [(posted(wires, one), right(one)) for one in shuffled]
        return figures(await open_loop(wires, requests, CACHED_PER_SECOND))
