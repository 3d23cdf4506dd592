"""Replies of the service: refusals become errors, server-sent events become data."""

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

    ``status`` is that of HTTP, None where there was no reply; ``problem``, ``where`` and ``hint``
    are as in ``InputError``, which is raised instead where the question itself cannot be used.
    """

    def __init__(
        self, problem: str, *, status: int | None = None, body: Json | None = None
    ) -> None:
        known = body or {}
        self.status = status
        self.problem = problem
        self.where = str(known.get("where", ""))
        self.hint = str(known.get("hint", ""))
        self.type = str(known.get("type", ""))
        self.request_id = known.get("request_id")
        super().__init__(str(known.get("detail") or problem))


@dataclass(frozen=True)
class Event:
    """An event of a job: its ``kind`` is ``progress``, ``best`` or ``end``; ``data`` its JSON."""

    kind: str
    data: Json


class JobNow(BaseModel):
    """What a client needs of a job as it stands; ``answer`` is where its answer is."""

    status: str
    revision: int = -1
    best: Any = None
    problem: dict[str, Any] | None = None
    answer: str | None = None


class ListPage(BaseModel):
    """A list of what a team has; ``next`` is what the next page comes after."""

    jobs: list[dict[str, Any]] = []
    systems: list[dict[str, Any]] = []
    next: str | None = None


class PermalinkAnswer(BaseModel):
    """An answer under its permalink."""

    answer: dict[str, Any]


def raise_for_refusal(response: httpx.Response) -> httpx.Response:
    """The response, if the service did what was asked. Raises the error of a refusal."""
    if response.status_code < 400:
        return response
    try:
        body = response.json()
    except ValueError:
        body = None
    raise refusal(response.status_code, body if isinstance(body, dict) else {})


def refusal(status: int, body: Json) -> InputError | ServiceError:
    """The error to raise for a refusal."""
    problem = str(body.get("problem") or f"the service answered with status {status}")
    if status == 422:
        where, hint = str(body.get("where", "")), str(body.get("hint", ""))
        return InputError(problem, where=where, hint=hint)
    return ServiceError(problem, status=status, body=body)


def retry_after(response: httpx.Response | None) -> float | None:
    """The seconds a busy service asks to stay away for; None where it does not say a number."""
    given = "" if response is None else response.headers.get("Retry-After", "")
    return float(given) if given.isdecimal() else None


def parse_events(lines: Iterator[str]) -> Iterator[tuple[str, Event]]:
    """The events of a stream with their ids, by the rules of the HTML standard."""
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
