"""Reading the body of a request: within limits of size and time, and of the right type."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from starlette.requests import ClientDisconnect, Request

from synth.ask.questions.question import Question
from synth.service.errors import RefusalError, too_large
from synth.service.http.state import visit_of
from synth.service.limits import Limits

JSON = "application/json"


async def body_of(request: Request, most_bytes: int, most_seconds: float) -> bytes:
    """The bytes of a body, however they are sent.

    Raises RefusalError for one that is too large, as soon as that is known, for one that takes
    longer than ``most_seconds`` to come, and where those of the team come to too much.
    """
    declared = request.headers.get("content-length", "")
    known_bytes = int(declared) if declared.isdecimal() else 0
    if known_bytes > most_bytes:
        raise too_large(most_bytes)
    _hold(request, known_bytes)
    try:
        async with asyncio.timeout(most_seconds):
            return await _read_bounded(request, most_bytes, known_bytes)
    except TimeoutError:
        problem = f"the body did not arrive within {most_seconds:g} s"
        raise RefusalError(HTTPStatus.REQUEST_TIMEOUT, problem, where="body") from None
    except ClientDisconnect:
        raise RefusalError(HTTPStatus.BAD_REQUEST, "the body broke off", where="body") from None


async def _read_bounded(request: Request, most_bytes: int, known_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > most_bytes:
            raise too_large(most_bytes)
        if size > known_bytes:
            _hold(request, len(part))
        parts.append(part)
    return b"".join(parts)


def _hold(request: Request, more_bytes: int) -> None:
    """Count bytes of a body as its team's; what comes before anybody is known is small."""
    if (visit := visit_of(request)) is not None:
        visit.hold(more_bytes)


async def json_body(request: Request, question: type[Question], limits: Limits) -> bytes:
    """The body of a question. Raises RefusalError where it does not say that it is JSON, too."""
    check_type(request, JSON)
    return await body_of(request, limits.body_bytes_for(question), limits.body_seconds)


def check_type(request: Request, *wanted: str) -> str:
    """The type of the body. Raises RefusalError for any but those wanted.

    A page of another site can send forms and plain text to any server its visitor can reach, but
    must ask first before it sends JSON: so this also keeps such pages out.
    """
    header = request.headers.get("content-type", "")
    given = header.partition(";")[0].strip().lower()
    if given not in wanted:
        raise RefusalError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"the body is said to be {given[:80]!r}" if given else "no Content-Type is given",
            where="Content-Type",
            hint=f"send {' or '.join(wanted)}",
        )
    return given
