"""Refusals of the service, for API and page alike: an HTTP status, a problem and a hint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from http import HTTPStatus

from hierarchies import InputError

_LONGEST_TEXT = 2000


@dataclass(eq=False)
class RefusalError(Exception):
    """A request that is refused with an HTTP status.

    ``problem``, ``where`` and ``hint`` are as in ``InputError``; the reply carries ``headers``.
    """

    status: HTTPStatus
    problem: str
    _: KW_ONLY
    where: str = ""
    hint: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return str(InputError(self.problem, where=self.where, hint=self.hint))


def bad_input(error: InputError) -> RefusalError:
    """422: a mistake in the caller's question."""
    problem, where, hint = (clip_text(text) for text in (error.problem, error.where, error.hint))
    return RefusalError(HTTPStatus.UNPROCESSABLE_ENTITY, problem, where=where, hint=hint)


def clip_text(text: str) -> str:
    """Truncate a text: errors may quote their whole input."""
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."


def not_json(problem: str, hint: str = "") -> RefusalError:
    """400: a body that is not JSON or not a question."""
    return RefusalError(HTTPStatus.BAD_REQUEST, problem, where="body", hint=hint)


def too_large(most_bytes: int) -> RefusalError:
    """413: a body beyond the limit."""
    return RefusalError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the body is larger than {most_bytes} bytes",
        where="body",
        hint="send less, or ask the operator to raise the limit",
    )


def not_found(what: str) -> RefusalError:
    """404: a missing resource, or one of another team, in the same words to hide that it exists."""
    return RefusalError(HTTPStatus.NOT_FOUND, f"there is no such {what}")


def too_many(problem: str, retry_after_seconds: int, hint: str = "") -> RefusalError:
    """429: a limit of a key or a team is exhausted for now."""
    headers = {"Retry-After": str(max(1, retry_after_seconds))}
    return RefusalError(HTTPStatus.TOO_MANY_REQUESTS, problem, hint=hint, headers=headers)


def unavailable(problem: str, retry_after_seconds: int = 5) -> RefusalError:
    """503: something that is temporarily unavailable."""
    headers = {"Retry-After": str(retry_after_seconds)}
    hint = "try again in a few seconds"
    return RefusalError(HTTPStatus.SERVICE_UNAVAILABLE, problem, hint=hint, headers=headers)
