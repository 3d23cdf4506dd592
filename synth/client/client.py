"""Asks, waits, follows jobs, and asks nothing twice."""

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

from synth.client.replies import Event, Json, ServiceError, accepted, events, refusal, retry_after
from synth.client.texts import named_text, sendable

OnProgress = Callable[[Json], None]
ENDED = frozenset({"done", "partial", "failed", "cancelled"})
_RETRIED = frozenset({429, 502, 503, 504})
_WAIT_SECONDS = 10.0
_LONGEST_POLL_SECONDS = 2.0


class StillRunningError(TimeoutError):
    """The job has not ended in the time it was waited for; it goes on, and so can the waiting.

    ``job`` is the handle to do that with, ``best`` the partial answer so far, or None.
    """

    def __init__(self, job: Job, best: Json | None) -> None:
        self.job = job
        self.best = best
        super().__init__(f"the job {job.url} has not ended yet")


class Client:
    """One service. It may be used by several threads; close it, or use it in a ``with``.

    ``key`` is what ``collsynth keys create`` printed. ``patience_seconds``: how long a single
    request is tried again while the service says that it is busy, or cannot be reached.
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
        headers = {"User-Agent": f"collsynth/{version('collsynth')}"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        self._patience_seconds = patience_seconds
        self._sleep = sleep
        self._http = httpx.Client(
            base_url=url,
            headers=headers,
            timeout=httpx.Timeout(90, connect=10),
            transport=transport,
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
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
        """The answer to a question, as ``--json`` prints it; waits for it as long as it takes.

        The question is a mapping, keywords, or both; a ``Path`` in it is sent as the file's text.
        ``budget_seconds``: after so much work the service answers in part. ``on_progress`` is
        called with the job whenever that has changed. Raises InputError for a question that cannot
        be used, StillRunningError after ``wait_seconds``, ServiceError for all else.
        """
        until = None if wait_seconds is None else time.monotonic() + wait_seconds
        at_first = _WAIT_SECONDS if on_progress is None else 1.0
        at_first = at_first if wait_seconds is None else min(wait_seconds, at_first)
        asked = {**(question or {}), **more}
        found = self._put(verb, asked, budget_seconds, f"wait={int(at_first)}")
        if not isinstance(found, Job):
            return found
        left = None if until is None else max(0.0, until - time.monotonic())
        return found.result(left, on_progress)

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
        """Put a question and come back at once with its job.

        The same ``idempotency_key`` and question again is the same job. An answer that is known
        has no job: then this one is done, and has it. Raises as ``ask`` does.
        """
        asked = {**(question or {}), **more}
        found = self._put(verb, asked, budget_seconds, "respond-async", idempotency_key)
        return found if isinstance(found, Job) else Job(self, "", found)

    def job(self, job_id: str) -> Job:
        """The handle of a job that somebody submitted; nothing is asked yet."""
        return Job(self, f"/v1/jobs/{quote(job_id, safe='')}")

    def jobs(self, **filters: str | int) -> Iterator[Json]:
        """Your team's jobs, newest first; by ``status`` and ``verb``. Read page by page."""
        after: str | None = None
        while True:
            page = {**filters, **({} if after is None else {"after": after})}
            listed = self.send("GET", "/v1/jobs", params=page).json()
            yield from listed["jobs"]
            after = listed["next"]
            if after is None:
                return

    def answer(self, key: str) -> Json:
        """What a permalink shows: ``question``, ``answer``, ``outcome``, and the code's edition."""
        return self._json("GET", f"/v1/answers/{quote(key, safe='')}")

    def systems(self) -> list[Json]:
        """The descriptions of machines that your team keeps at the service."""
        listed: list[Json] = self._json("GET", "/v1/systems")["systems"]
        return listed

    def put_system(self, name: str, text: str | Path) -> Json:
        """Keep a description (TOML, or a path to it) there; questions then name it ``name``."""
        given = named_text(text)["text"] if isinstance(text, Path) else text
        return self._json("PUT", f"/v1/systems/{quote(name, safe='')}", json={"text": given})

    def delete_system(self, name: str) -> None:
        """Forget one."""
        self.send("DELETE", f"/v1/systems/{quote(name, safe='')}")

    def send(self, method: str, path: str, **how: Any) -> httpx.Response:
        """One request, tried again while the service is busy or out of reach.

        For what this class has no method for; ``how`` is httpx's. Everything sent must be safe to
        send twice. Raises InputError for 422, ServiceError for other refusals and silence.
        """
        until = time.monotonic() + self._patience_seconds
        pause_seconds = 0.25
        while True:
            response: httpx.Response | None = None
            problem = ""
            try:
                response = self._http.request(method, path, **how)
            except httpx.TransportError as error:
                problem = (
                    f"{self._http.base_url} cannot be reached: {error or type(error).__name__}"
                )
            if response is not None and response.status_code not in _RETRIED:
                return accepted(response)
            asked_seconds = retry_after(response)
            wait_seconds = pause_seconds if asked_seconds is None else asked_seconds
            if time.monotonic() + wait_seconds > until:
                if response is None:
                    raise ServiceError(problem)
                return accepted(response)
            self._sleep(wait_seconds)
            pause_seconds = min(2 * pause_seconds, 5.0)

    def stream(self, path: str, last_event_id: str | None) -> Iterator[tuple[str, Event]]:
        """Server-sent events with their ids, until the service ends them. Raises httpx's errors."""
        headers = {"Accept": "text/event-stream"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        with self._http.stream("GET", path, headers=headers) as response:
            if response.status_code >= 400:
                response.read()
            yield from events(accepted(response).iter_lines())

    def pause(self, seconds: float) -> None:
        """Wait."""
        self._sleep(seconds)

    def _put(
        self,
        verb: str,
        question: Mapping[str, Any],
        budget_seconds: float | None,
        prefer: str,
        idempotency_key: str | None = None,
    ) -> Json | Job:
        headers = {"Prefer": prefer, "Idempotency-Key": idempotency_key or uuid4().hex}
        params = {} if budget_seconds is None else {"budget": budget_seconds}
        sent = {key: sendable(value) for key, value in question.items()}
        path = f"/v1/{quote(verb, safe='')}"
        response = self.send("POST", path, json=sent, headers=headers, params=params)
        if response.status_code == 202:
            return Job(self, response.headers["Location"])
        found: Json | None = response.json()
        if found is None:
            raise ServiceError("the work was ended before anything was found")
        return found

    def _json(self, method: str, path: str, **how: Any) -> Json:
        found: Json = self.send(method, path, **how).json()
        return found


@dataclass(frozen=True)
class Job:
    """A question that the service is answering. ``url`` is its path there."""

    client: Client
    url: str
    known: Json | None = None

    @property
    def id(self) -> str:
        """What the service calls it; empty where the answer was known."""
        return self.url.rpartition("/")[2]

    def status(self) -> Json:
        """The job as it stands: ``status``, ``progress``, ``best``, ``problem`` and more."""
        if self.known is not None:
            return {"status": "done", "progress": None, "best": None, "problem": None}
        found: Json = self.client.send("GET", self.url).json()
        return found

    def cancel(self) -> Json:
        """End it before its time; the job as it stands then."""
        if self.known is not None:
            return self.status()
        found: Json = self.client.send("POST", f"{self.url}/cancel").json()
        return found

    def events(self) -> Iterator[Event]:
        """What happens to it, up to its ``end``; a connection that breaks is made again."""
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
                if isinstance(error, ServiceError) and error.status not in _RETRIED:
                    raise
                self.status()  # asks again for a while, and raises where the service stays away
            self.client.pause(0.25)

    def result(
        self, wait_seconds: float | None = None, on_progress: OnProgress | None = None
    ) -> Json:
        """The answer, whole or, where a budget or ``cancel`` ended the work, in part.

        Raises StillRunningError when the time is over, InputError where the job failed of its
        question, ServiceError where it failed of anything else or ended with nothing found.
        """
        if self.known is not None:
            return self.known
        until = None if wait_seconds is None else time.monotonic() + wait_seconds
        pause_seconds, seen = 0.1, -1
        while True:
            now = self.status()
            if on_progress is not None and now["revision"] != seen:
                seen = now["revision"]
                on_progress(now)
            if now["status"] in ENDED:
                return self._ended(now)
            if until is not None and time.monotonic() + pause_seconds > until:
                raise StillRunningError(self, now["best"])
            self.client.pause(pause_seconds)
            pause_seconds = min(1.5 * pause_seconds, _LONGEST_POLL_SECONDS)

    def _ended(self, now: Json) -> Json:
        if now["status"] == "done":
            found: Json = self.client.send("GET", now["answer"]).json()["answer"]
            return found
        if now["status"] != "failed" and now["best"] is not None:
            best: Json = now["best"]
            return best
        problem = now["problem"] or {"status": 409, "problem": f"the job was {now['status']}"}
        raise refusal(int(problem.get("status", 500)), problem)
