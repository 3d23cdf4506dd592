"""What a server does to a store, in a process that tests may kill: it tells what is done."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from itertools import count

from synth.service.store import JobClaim, NewJob, Store, StoredAnswer


def tell(word: str, job_id: str) -> None:
    sys.stdout.write(f"{word} {job_id}\n")
    sys.stdout.flush()


def work(store: Store, claim: JobClaim) -> None:
    job = claim.job
    store.claims.note(claim, {"done": 1}, b"best" * 1000)
    answer = StoredAnswer(
        job.answer_key, "top", "1", job.question, 0, b"whole" * 1000, 1.0, datetime.now(UTC)
    )
    if store.claims.finish(claim, answer):
        tell("done", job.id)


def main(url: str, task: str) -> None:
    with Store(url) as store:
        store.jobs.counts()
        print("ready", flush=True)
        sys.stdin.readline()
        if task == "live":
            for number in count():
                question = f"{number} {'x' * 1000}"
                tell(
                    "submitted",
                    store.jobs.submit(NewJob("ours", None, "top", question, question[:9])).job.id,
                )
                if number % 3 and (claim := store.claims.claim(task, 600)):
                    work(store, claim)
        while claim := store.claims.claim(task, 600):
            if task == "claim":
                print(claim.job.id, flush=True)
            else:
                work(store, claim)


if __name__ == "__main__":
    main(*sys.argv[1:])
