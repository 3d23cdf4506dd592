"""What every verb answers with: JSON, and how the question ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from pydantic import BaseModel

from synth.verbs.answers.parts import SCHEMA_VERSION, Json, as_json


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


def reply(answer: Json | BaseModel, outcome: Outcome = Outcome.OK) -> Reply:
    """An answer under the version of its schema."""
    body = as_json(answer) if isinstance(answer, BaseModel) else answer
    return Reply({"schema_version": SCHEMA_VERSION, **body}, outcome)
