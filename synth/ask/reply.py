"""The reply of every verb: JSON, and the outcome of the question."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from pydantic import BaseModel

from hierarchies import InputError
from synth.ask.answers.parts import Json, to_json


class Outcome(IntEnum):
    """How a question ended; the numbers are the command line's exit codes.

    PARTIAL: the work was stopped, so that something may be missing; such a reply is never kept.
    UNKNOWN: neither yes nor no, as z3 came to no end. A script that takes it for a no would throw
    away programs that may be right.
    """

    OK = 0
    NO = 1
    PARTIAL = 4
    UNKNOWN = 5


@dataclass(frozen=True)
class Reply:
    """The JSON answer, and how the question ended."""

    body: Json
    outcome: Outcome = Outcome.OK


def reply(answer: BaseModel, outcome: Outcome = Outcome.OK) -> Reply:
    """An answer as JSON."""
    return Reply(to_json(answer), outcome)


class WrongProgramError(InputError):
    """A well-formed program that does not do what was asked, such as half an all-reduce."""


class SearchAnswer(Protocol):
    """An answer of work that may be stopped; then it is not ``complete``."""

    @property
    def complete(self) -> bool: ...


def reply_of_search(answer: SearchAnswer, outcome: Outcome = Outcome.OK) -> Reply:
    """The reply of work that may be stopped: PARTIAL if it was, whatever else is known by then."""
    assert isinstance(answer, BaseModel)
    return reply(answer, outcome if answer.complete else Outcome.PARTIAL)
