"""Reads request bodies, with limits on size, time and media type."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from starlette.requests import ClientDisconnect, Request

from synth.ask.questions.question import Question
from synth.service.errors import RefusalError, not_json, too_large
from synth.service.http.state import visit_of
from synth.service.limits import Limits
from synth.service.strict_json import json_of

JSON = "application/json"
PLAIN = "text/plain"


async def body_of(request: Request, most_bytes: int, most_seconds: float) -> bytes:
    """Read a body, with a declared length or chunked.

    Raises RefusalError as soon as the body is too large, takes longer than ``most_seconds``, or the
    team's bodies together are too large.
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
        raise RefusalError(HTTPStatus.BAD_REQUEST, "the body is incomplete", where="body") from None


async def _read_bounded(request: Request, most_bytes: int, known_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > most_bytes:
            raise too_large(most_bytes)
        if size > known_bytes:  # a declared length was counted in full before reading
            _hold(request, len(part))
        parts.append(part)
    return b"".join(parts)


def _hold(request: Request, more_bytes: int) -> None:
    """Count bytes of a body as its team's, except before authentication, where bodies are small."""
    if (visit := visit_of(request)) is not None:
        visit.hold(more_bytes)


async def json_body(request: Request, question: type[Question], limits: Limits) -> bytes:
    """Read the body of a question. Also raises RefusalError if its type is not JSON."""
    check_type(request, JSON)
    return await body_of(request, limits.body_bytes_for(question), limits.body_seconds)


def text_body(*types: str) -> dict[str, Any]:
    """Return what OpenAPI says of a body that is a text, of some media types or within JSON."""
    properties = {"text": {"type": "string"}}
    in_json = {
        "type": "object",
        "properties": properties,
        "required": ["text"],
        "additionalProperties": False,
    }
    content: dict[str, Any] = {kind: {"schema": {"type": "string"}} for kind in types}
    return {"requestBody": {"required": True, "content": content | {JSON: {"schema": in_json}}}}


async def read_text(
    request: Request, what: str, most_bytes: int, limits: Limits, *types: str
) -> str:
    """Read a body that is a text: ``what``, as such or within JSON. Raises RefusalError if not."""
    kind = check_type(request, JSON, *types)
    raw = await body_of(request, most_bytes, limits.body_seconds)
    if kind == JSON:
        match json_of(raw):
            case {"text": str(text), **more} if not more:
                return text
        raise not_json(
            f"the body is not a {what}", 'send {"text": "..."}, or the text as text/plain'
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_json(f"the body is not UTF-8, from byte {error.start} on") from None


def check_type(request: Request, *admitted: str) -> str:
    """Return the media type of a body. Raises RefusalError if it is not admitted.

    A page of another site can send forms and plain text to any server its visitor can reach, but
    needs a CORS preflight to send JSON. This check therefore also blocks such pages.
    """
    header = request.headers.get("content-type", "")
    media_type = header.partition(";")[0].strip().lower()
    if media_type not in admitted:
        raise RefusalError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"the Content-Type of the body is {media_type[:80]!r}"
            if media_type
            else "no Content-Type is given",
            where="Content-Type",
            hint=f"send {' or '.join(admitted)}",
        )
    return media_type
