"""How many jobs a second the store takes, from submitted to done: SQLite and PostgreSQL.

``python -m results.service.store_rates`` prints a line of JSON for each, and for one thread and
eight. A job is submitted, claimed, noted once, and finished with an answer of 20 kB; every commit
waits for the disk.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar
from uuid import uuid4

from results.service.stores import STORES, empty
from synth.service.store import NewJob, Store, StoredAnswer

T = TypeVar("T")
R = TypeVar("R")
JOBS = 1000
BODY = b"x" * 20_000


def submit(store: Store, number: int) -> None:
    store.jobs.submit(NewJob("ours", None, "top", json.dumps([number, "x" * 500]), uuid4().hex))


def work(store: Store, number: int) -> str:
    claim = store.claims.claim("rates", 600)
    assert claim is not None
    store.claims.note(claim, {"stage": "placements", "done": 1, "of": 2})
    job = claim.job
    now = datetime.now(UTC)
    answer = StoredAnswer(job.answer_key, job.verb, "rates", job.question, 0, BODY, 0.5, now)
    assert store.claims.finish(claim, answer)
    return job.answer_key


def timed(threads: int, do: Callable[[T], R], given: Sequence[T]) -> tuple[int, list[R]]:
    """How often a second, and what came of it."""
    with ThreadPoolExecutor(threads) as pool:
        begun = time.perf_counter()
        found = list(pool.map(do, given))
        return round(len(given) / (time.perf_counter() - begun)), found


def rates(kind: str, store: Store) -> Iterator[dict[str, object]]:
    """A row for one thread, and one for eight."""
    for threads in (1, 8):
        submitted, _ = timed(threads, partial(submit, store), range(JOBS))
        finished, keys = timed(threads, partial(work, store), range(JOBS))
        read, _ = timed(threads, store.answers.one, keys)
        yield {
            "store": kind,
            "threads": threads,
            "submitted_per_second": submitted,
            "claimed_noted_finished_per_second": finished,
            "answers_read_per_second": read,
        }


def main(kinds: list[str]) -> None:
    for kind in kinds or STORES:
        with empty(kind) as (url, _), Store(url) as store:
            store.migrate()
            for row in rates(kind, store):
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
