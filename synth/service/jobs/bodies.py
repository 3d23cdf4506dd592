"""Jobs, answers and systems as JSON, the same for the API, its events and the page."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from synth.service.store import Job, Status, StoredAnswer, StoredSystem
from synth.verbs.reply import Outcome

Json = dict[str, Any]


def progress_json(job: Job) -> Json:
    """How far a job is, as an event says it."""
    return {"status": job.status.value, "progress": job.progress, "revision": job.revision}


def job_json(job: Job) -> Json:
    """A job with its address and that of its answer; ``best`` is its partial answer so far."""
    done = job.status is Status.DONE
    return {
        "id": job.id,
        "url": f"/v1/jobs/{job.id}",
        "verb": job.verb,
        "status": job.status.value,
        "created": moment(job.created),
        "started": moment(job.started),
        "finished": moment(job.finished),
        "attempts": job.attempts,
        "progress": job.progress,
        "answer": f"/v1/answers/{job.answer_key}" if done else None,
        "answer_key": job.answer_key if done else None,
        "best": None if job.best is None else json.loads(job.best),
        "problem": job.problem,
        "budget_seconds": job.budget_seconds,
        "revision": job.revision,
    }


def answer_json(answer: StoredAnswer) -> bytes:
    """An answer with its question and edition: JSON around the kept body, which is not parsed."""
    about = {
        "key": answer.key,
        "url": f"/v1/answers/{answer.key}",
        "verb": answer.verb,
        "edition": answer.edition,
        "outcome": outcome_word(answer.outcome),
        "seconds": answer.seconds,
        "created": moment(answer.created),
        "question": json.loads(answer.question)["question"],
    }
    return b"".join((json.dumps(about)[:-1].encode(), b', "answer": ', answer.body, b"}"))


def system_json(system: StoredSystem) -> Json:
    """A system of a team, with its text."""
    return {
        "name": system.name,
        "url": f"/v1/systems/{system.name}",
        "changed": moment(system.changed),
        "text": system.text,
    }


def outcome_word(outcome: int) -> str:
    """How a question ended, in the words of the header ``Collsynth-Outcome``."""
    return Outcome(outcome).name.lower()


def moment(when: datetime | None) -> str | None:
    """A time as in RFC 3339, in UTC."""
    return None if when is None else when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
