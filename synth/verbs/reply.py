"""What every verb answers with: JSON, and how the question ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from synth.verbs.answers.bodies import (
    Json,
)

SCHEMA_VERSION = 1


class Outcome(IntEnum):
    """How a question ended; the numbers are the command line's exit codes."""

    OK = 0
    NO = 1
    PARTIAL = 4


@dataclass(frozen=True)
class Reply:
    """The JSON answer, and how the question ended."""

    body: Json
    outcome: Outcome = Outcome.OK


def reply(body: Json, outcome: Outcome = Outcome.OK) -> Reply:
    """A body under the version of its schema."""
    return Reply({"schema_version": SCHEMA_VERSION, **body}, outcome)
