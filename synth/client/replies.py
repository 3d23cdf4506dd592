"""Replies of the service: refusals as errors, server-sent events as data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
from pydantic import BaseModel

from hierarchies import InputError

Json = dict[str, Any]


class ServiceError(Exception):
    """The service refused, failed, or could not be reached.

    ``status`` is the HTTP status, None without a reply; ``problem``, ``where`` and ``hint`` are as
    in ``InputError``, which is raised instead if the question itself is invalid.
    """

    def __init__(
        self, problem: str, *, status: int | None = None, body: Json | None = None
    ) -> None:
        content = body or {}
        self.status = status
        self.problem = problem
        self.where = str(content.get("where", ""))
        self.hint = str(content.get("hint", ""))
        self.type = str(content.get("type", ""))
        self.request_id = content.get("request_id")
        super().__init__(str(content.get("detail") or problem))


@dataclass(frozen=True)
class Event:
    """An event of a job: ``kind`` is ``progress``, ``best`` or ``end``; ``data`` is its JSON."""

    kind: str
    data: Json


class JobNow(BaseModel):
    """The fields of a job that the client reads; ``answer`` is the path of its answer."""

    status: str
    revision: int = -1
    best: Any = None
    problem: dict[str, Any] | None = None
    answer: str | None = None


class ListPage(BaseModel):
    """A page of a team's jobs, systems or baselines; ``next`` is the ``after`` of the next page."""

    jobs: list[dict[str, Any]] = []
    systems: list[dict[str, Any]] = []
    baselines: list[dict[str, Any]] = []
    next: str | None = None


class PermalinkAnswer(BaseModel):
    """An answer under its permalink."""

    answer: dict[str, Any]


def raise_for_refusal(response: httpx.Response) -> httpx.Response:
    """Return the response, or raise the error of a refusal."""
    if response.status_code < 400:
        return response
    try:
        body = response.json()
    except ValueError:
        body = None
    raise refusal(response.status_code, body if isinstance(body, dict) else {})


def refusal(status: int, body: Json) -> InputError | ServiceError:
    """Return the error to raise for a refusal."""
    problem = str(body.get("problem") or f"the service answered with status {status}")
    if status == 422:
        where, hint = str(body.get("where", "")), str(body.get("hint", ""))
        return InputError(problem, where=where, hint=hint)
    return ServiceError(problem, status=status, body=body)


def retry_after(response: httpx.Response | None) -> float | None:
    """Return the seconds in ``Retry-After``; None if it is missing or not a number."""
    header = "" if response is None else response.headers.get("Retry-After", "")
    return float(header) if header.isdecimal() else None


def parse_events(lines: Iterator[str]) -> Iterator[tuple[str, Event]]:
    """Yield the events of a stream with their ids, as the HTML standard defines them."""
    kind, mark, data = "message", "", list[str]()
    for line in lines:
        if line.startswith(":"):
            continue
        if not line:
            if data:
                yield mark, Event(kind, json.loads("\n".join(data)))
            kind, mark, data = "message", "", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "id":
            mark = value
        elif name == "data":
            data.append(value)
