"""Jobs, answers, systems and baselines as JSON, the same for the API, its events and the page."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field, PlainSerializer

from synth.ask.reply import Outcome
from synth.service.jobs.questions import question_in
from synth.service.store import (
    ListedBaseline,
    Status,
    StoredAnswer,
    StoredBaseline,
    StoredJob,
    StoredSystem,
)


def moment(when: datetime) -> str:
    """Format a UTC time as in RFC 3339."""
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


Moment = Annotated[datetime, PlainSerializer(moment)]


class JobBody(BaseModel):
    """A question that is being answered, or was."""

    id: str
    url: str
    verb: str
    name: str = Field(description="The question, in a line.")
    headline: str | None = Field(description="The result in a few words, once the job ended.")
    asked_by: str | None = Field(description="The name of the key that it came with.")
    status: Status
    created: Moment
    started: Moment | None
    finished: Moment | None
    attempts: int = Field(ge=0, description="Number of attempts.")
    progress: dict[str, Any] | None = Field(description="stage, done, and of if that is known.")
    answer: str | None = Field(description="Address of the complete answer, once the job is done.")
    answer_key: str | None
    best: Any = Field(description="The partial answer so far; left out of lists.")
    problem: dict[str, Any] | None = Field(description="Why the job failed.")
    budget_seconds: float | None
    work_seconds: float = Field(ge=0, description="Seconds of work, in all attempts.")
    revision: int = Field(ge=0, description="Increases with every change.")

    @staticmethod
    def of(job: StoredJob) -> JobBody:
        """Return a job with its URL and that of its answer."""
        key = job.answer_key if job.status is Status.DONE else None
        computed = {
            "url": f"/v1/jobs/{job.id}",
            "answer": key and f"/v1/answers/{key}",
            "answer_key": key,
            "best": None if job.best is None else json.loads(job.best),
        }
        return JobBody.model_validate(vars(job) | computed)

    def text(self, include: set[str] | None = None) -> str:
        """Return the body as JSON, or only the given keys."""
        return json.dumps(self.model_dump(mode="json", include=include))


class JobList(BaseModel):
    """A page of jobs, newest first; ``next`` is the ``after`` of the page that follows."""

    jobs: list[JobBody]
    next: str | None


class AnswerBody(BaseModel):
    """An answer under its permalink: the question, the answer, and the code that gave it."""

    key: str
    url: str
    verb: str
    edition: str
    outcome: str = Field(pattern="^(ok|no)$")
    seconds: float
    created: Moment
    question: dict[str, Any]
    answer: dict[str, Any]


def answer_json(answer: StoredAnswer) -> bytes:
    """Return an ``AnswerBody`` as JSON, without parsing the stored answer inside it."""
    computed = {
        "url": f"/v1/answers/{answer.key}",
        "outcome": outcome_word(answer.outcome),
        "question": question_in(answer.question),
        "answer": {},
    }
    about = AnswerBody.model_validate(vars(answer) | computed).model_dump(
        mode="json", exclude={"answer"}
    )
    return b"".join((json.dumps(about)[:-1].encode(), b', "answer": ', answer.body, b"}"))


class SystemBody(BaseModel):
    """A system description that your team keeps here."""

    name: str
    url: str
    changed: Moment
    text: str

    @staticmethod
    def of(system: StoredSystem) -> SystemBody:
        """Return a system with its URL."""
        return SystemBody.model_validate(vars(system) | {"url": f"/v1/systems/{system.name}"})


class SystemList(BaseModel):
    """The systems that your team keeps here, by name."""

    systems: list[SystemBody]


class BaselineBody(BaseModel):
    """An earlier log that your team keeps here."""

    machine: str
    test: str
    url: str
    changed: Moment
    text: str

    @staticmethod
    def of(baseline: StoredBaseline) -> BaselineBody:
        """Return a baseline with its URL."""
        return BaselineBody.model_validate(vars(baseline) | {"url": _baseline_url(baseline)})


class BaselineRow(BaseModel):
    """An earlier log in a list; its text is at ``url``."""

    machine: str
    test: str
    url: str
    changed: Moment
    bytes: int = Field(ge=0, description="Bytes of the text.")


class BaselineList(BaseModel):
    """The baselines that your team keeps here, by machine and test, without their texts."""

    baselines: list[BaselineRow]

    @staticmethod
    def of(baselines: Iterable[ListedBaseline]) -> BaselineList:
        """Return baselines with their URLs."""
        rows = [vars(baseline) | {"url": _baseline_url(baseline)} for baseline in baselines]
        return BaselineList(baselines=[BaselineRow.model_validate(row) for row in rows])


def _baseline_url(baseline: StoredBaseline | ListedBaseline) -> str:
    return f"/v1/baselines/{baseline.machine}/{baseline.test}"


def outcome_word(outcome: int) -> str:
    """Return an outcome as in the header ``Collsynth-Outcome``."""
    return Outcome(outcome).name.lower()
