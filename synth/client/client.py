"""The client: asks questions, follows jobs, and safely retries requests that fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx

from hierarchies.files.named_texts import text_of, to_sendable
from synth.client.replies import (
    Event,
    JobNow,
    Json,
    ListPage,
    PermalinkAnswer,
    ServiceError,
    parse_events,
    raise_for_refusal,
    refusal,
    retry_after,
)

OnProgress = Callable[[Json], None]
ENDED_STATUSES = frozenset({"done", "partial", "failed", "cancelled"})
_RETRIED_STATUSES = frozenset({429, 502, 503, 504})
_WAIT_SECONDS = 10.0
_LONGEST_POLL_SECONDS = 2.0


class StillRunningError(TimeoutError):
    """The job has not ended within the time to wait; it continues.

    ``job`` is its handle, for waiting longer; ``best`` is the partial answer so far, or None.
    """

    def __init__(self, job: Job, best: Json | None) -> None:
        self.job = job
        self.best = best
        super().__init__(f"the job {job.url} has not ended yet")


class Client:
    """A connection to one service. Thread-safe. Close it, or use it in a ``with`` statement.

    ``key`` is a key as printed by ``collsynth keys create``. ``patience_seconds`` is the time for
    which a request is retried while the service is busy or cannot be reached.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        patience_seconds: float = 60.0,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        admission = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._patience_seconds = patience_seconds
        self._sleep = sleep
        self._http = httpx.Client(
            base_url=url,
            headers={"User-Agent": f"collsynth/{version('collsynth')}"} | admission,
            timeout=httpx.Timeout(90, connect=10),
            transport=transport,
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def ask(
        self,
        verb: str,
        question: Mapping[str, Any] | None = None,
        /,
        *,
        wait_seconds: float | None = None,
        budget_seconds: float | None = None,
        on_progress: OnProgress | None = None,
        **more: Any,
    ) -> Json:
        """Return the answer to a question as ``--json`` prints it; by default waits without limit.

        The question is a mapping, keywords, or both; a ``Path`` in it is sent as the file's text.
        After ``budget_seconds`` of work the service returns a partial answer. ``on_progress`` is
        called with the job whenever it has changed. Raises InputError for an invalid question,
        StillRunningError after ``wait_seconds``, and ServiceError for anything else.
        """
        until = None if wait_seconds is None else time.monotonic() + wait_seconds
        first_wait = _WAIT_SECONDS if on_progress is None else 1.0
        first_wait = first_wait if wait_seconds is None else min(wait_seconds, first_wait)
        merged = {**(question or {}), **more}
        reply = self._put(verb, merged, budget_seconds, f"wait={int(first_wait)}")
        if not isinstance(reply, Job):
            return reply
        seconds_left = None if until is None else max(0.0, until - time.monotonic())
        return reply.result(seconds_left, on_progress)

    def submit(
        self,
        verb: str,
        question: Mapping[str, Any] | None = None,
        /,
        *,
        budget_seconds: float | None = None,
        idempotency_key: str | None = None,
        **more: Any,
    ) -> Job:
        """Submit a question and return its job at once.

        Repeating an ``idempotency_key`` with the same question returns the same job. For a known
        answer the service creates no job: the job returned is done and contains it. Raises as
        ``ask``.
        """
        merged = {**(question or {}), **more}
        reply = self._put(verb, merged, budget_seconds, "respond-async", idempotency_key)
        return reply if isinstance(reply, Job) else Job(self, "", reply)

    def job(self, job_id: str) -> Job:
        """Return the handle of a job submitted before, without sending a request."""
        return Job(self, f"/v1/jobs/{quote(job_id, safe='')}")

    def jobs(self, **filters: str | int) -> Iterator[Json]:
        """Yield your team's jobs, newest first, reading them in pages.

        ``filters`` are ``status``, ``verb``, ``day`` and ``text``.
        """
        params = filters
        while True:
            page = ListPage.model_validate(self.send_for_json("GET", "/v1/jobs", params=params))
            yield from page.jobs
            if page.next is None:
                return
            params = {**filters, "after": page.next}

    def answer(self, key: str) -> Json:
        """Return an answer by key: ``question``, ``answer``, ``outcome`` and ``edition``."""
        return self.send_for_json("GET", f"/v1/answers/{quote(key, safe='')}")

    def systems(self) -> list[Json]:
        """Return the system descriptions that your team keeps at the service."""
        return ListPage.model_validate(self.send_for_json("GET", "/v1/systems")).systems

    def put_system(self, name: str, text: str | Path) -> Json:
        """Keep a description (TOML, or a path to it) at the service, for questions to name."""
        content = text_of(text) if isinstance(text, Path) else text
        return self.send_for_json(
            "PUT", f"/v1/systems/{quote(name, safe='')}", json={"text": content}
        )

    def delete_system(self, name: str) -> None:
        """Delete the system of that name."""
        self.send("DELETE", f"/v1/systems/{quote(name, safe='')}")

    def baselines(self) -> list[Json]:
        """Return the earlier logs that your team keeps at the service, without their texts."""
        return ListPage.model_validate(self.send_for_json("GET", "/v1/baselines")).baselines

    def put_baseline(self, machine: str, test: str, text: str | Path) -> Json:
        """Keep a log (its text, or a path to it) by machine and test, for doctor to compare with.

        A question names it by its test: ``baseline=["all-reduce-2x8"]``, or all of the question's
        machine: ``baseline=["kept"]``.
        """
        content = text_of(text) if isinstance(text, Path) else text
        return self.send_for_json("PUT", _baseline_path(machine, test), json={"text": content})

    def delete_baseline(self, machine: str, test: str) -> None:
        """Delete the baseline of that machine and test."""
        self.send("DELETE", _baseline_path(machine, test))

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request, with retries while the service is busy or cannot be reached.

        Use it for requests that have no method; ``options`` are those of httpx. The request must be
        safe to send twice. Raises InputError for 422, and ServiceError for other refusals or no
        reply.
        """
        until = time.monotonic() + self._patience_seconds
        pause_seconds = 0.25
        while True:
            response: httpx.Response | None = None
            problem = ""
            try:
                response = self._http.request(method, path, **options)
            except httpx.TransportError as error:
                problem = (
                    f"{self._http.base_url} cannot be reached: {error or type(error).__name__}"
                )
            if response is not None and response.status_code not in _RETRIED_STATUSES:
                return raise_for_refusal(response)
            asked_seconds = retry_after(response)
            wait_seconds = pause_seconds if asked_seconds is None else asked_seconds
            if time.monotonic() + wait_seconds > until:
                if response is None:
                    raise ServiceError(problem)
                return raise_for_refusal(response)
            self._sleep(wait_seconds)
            pause_seconds = min(2 * pause_seconds, 5.0)

    def send_for_json(self, method: str, path: str, **options: Any) -> Json:
        """Send a request as ``send`` does, and return the JSON of the reply."""
        content: Json = self.send(method, path, **options).json()
        return content

    def stream(self, path: str, last_event_id: str | None) -> Iterator[tuple[str, Event]]:
        """Yield server-sent events with their ids until the service ends them. Raises as httpx."""
        mark = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
        headers = {"Accept": "text/event-stream"} | mark
        with self._http.stream("GET", path, headers=headers) as response:
            if response.status_code >= 400:
                response.read()
            yield from parse_events(raise_for_refusal(response).iter_lines())

    def pause(self, seconds: float) -> None:
        """Sleep with the client's ``sleep`` function."""
        self._sleep(seconds)

    def _put(
        self,
        verb: str,
        question: Mapping[str, Any],
        budget_seconds: float | None,
        prefer: str,
        idempotency_key: str | None = None,
    ) -> Json | Job:
        # Always send a key: a retry after a lost reply must not create a second job.
        headers = {"Prefer": prefer, "Idempotency-Key": idempotency_key or uuid4().hex}
        params = {} if budget_seconds is None else {"budget": budget_seconds}
        body = {key: to_sendable(value) for key, value in question.items()}
        path = f"/v1/{quote(verb, safe='')}"
        response = self.send("POST", path, json=body, headers=headers, params=params)
        if response.status_code == 202:
            return Job(self, response.headers["Location"])
        answer: Json | None = response.json()
        if answer is None:
            raise ServiceError("the work was ended before anything was found")
        return answer


def _baseline_path(machine: str, test: str) -> str:
    return f"/v1/baselines/{quote(machine, safe='')}/{quote(test, safe='')}"


@dataclass(frozen=True)
class Job:
    """The handle of a job; ``url`` is its path at the service.

    ``known`` is the answer if the service knew it: then there is no job, and ``url`` is empty.
    """

    client: Client
    url: str
    known: Json | None = None

    @property
    def id(self) -> str:
        """The job's id at the service; empty if the answer was known."""
        return self.url.rpartition("/")[2]

    def status(self) -> Json:
        """Return the job's state: ``status``, ``progress``, ``best``, ``problem`` and more."""
        if self.known is not None:
            return {"status": "done", "progress": None, "best": None, "problem": None}
        return self.client.send_for_json("GET", self.url)

    def cancel(self) -> Json:
        """Cancel the job unless it has ended, and return its new state."""
        if self.known is not None:
            return self.status()
        return self.client.send_for_json("POST", f"{self.url}/cancel")

    def events(self) -> Iterator[Event]:
        """Yield the job's events up to its ``end``, reconnecting if the connection breaks."""
        if self.known is not None:
            yield Event("end", self.status())
            return
        last: str | None = None
        while True:
            try:
                for mark, event in self.client.stream(self.url + "/events", last):
                    last = mark or last
                    yield event
                    if event.kind == "end":
                        return
            except (httpx.TransportError, ServiceError) as error:
                if isinstance(error, ServiceError) and error.status not in _RETRIED_STATUSES:
                    raise
                self.status()  # retries for a while, and raises if the service remains unreachable
            self.client.pause(0.25)

    def result(
        self, wait_seconds: float | None = None, on_progress: OnProgress | None = None
    ) -> Json:
        """Wait for the answer; it is partial if a budget or ``cancel`` ended the work.

        Raises StillRunningError after ``wait_seconds``, InputError if the job failed because of the
        question, and ServiceError if it failed otherwise or ended without any answer.
        """
        if self.known is not None:
            return self.known
        until = None if wait_seconds is None else time.monotonic() + wait_seconds
        pause_seconds, last_revision = 0.1, -1
        while True:
            status = self.status()
            now = JobNow.model_validate(status)
            if on_progress is not None and now.revision != last_revision:
                last_revision = now.revision
                on_progress(status)
            if now.status in ENDED_STATUSES:
                return self._ended(now)
            if until is not None and time.monotonic() + pause_seconds > until:
                raise StillRunningError(self, now.best)
            self.client.pause(pause_seconds)
            pause_seconds = min(1.5 * pause_seconds, _LONGEST_POLL_SECONDS)

    def _ended(self, now: JobNow) -> Json:
        if now.answer is not None:
            return PermalinkAnswer.model_validate(
                self.client.send_for_json("GET", now.answer)
            ).answer
        if now.status != "failed" and now.best is not None:
            best: Json = now.best
            return best
        problem = now.problem or {"status": 409, "problem": f"the job was {now.status}"}
        raise refusal(int(problem.get("status", 500)), problem)
