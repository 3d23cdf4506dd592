"""Pieces of work for processes: quick ones, long ones, and ones that ask for too much."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from typing import Any

from synth.ask.partition import Piece
from synth.ask.questions.question import Question, parse_question
from synth.ask.table import VERBS
from synth.service.workers import (
    Progress,
)

TOP: dict[str, Any] = {
    "system": "dgx-h100:4",
    "axes": {"data": 8, "model": 4},
    "reduce": ["data"],
    "max_steps": 2,
}
"""Half a second of work; of all programs of five steps it would be five seconds."""


COUNT: dict[str, Any] = {"digits": 4, "max_steps": 6}
"""A second or two of work that tells of its progress."""


LONG_COUNT: dict[str, Any] = {"digits": 5, "max_steps": 9}
"""Minutes of work that can come to an end at any time."""


LARGE: dict[str, Any] = {
    "system": "superpod-h100-oversubscribed",
    "axes": {"data": 32, "model": 8},
    "reduce": ["data"],
    "per_placement": True,
    "k": 1,
    "max_steps": 3,
}
"""Several seconds of work that several processes can do."""


HOG: dict[str, Any] = {
    "system": "superpod-h100-oversubscribed:64",
    "axes": dict.fromkeys("abcdefghijklm", 2),
}
"""Many seconds of work that fill some hundred MiB, and cannot answer in part."""


def question(verb: str, given: dict[str, Any]) -> Question:
    return parse_question(VERBS[verb].question, given)


def piece(verb: str, given: dict[str, Any]) -> Piece:
    return Piece(verb=verb, question=given)


def end(pid: int) -> None:
    """Kill a process, if it has not just been ended by somebody else."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Listener:
    """Remembers what it is told, and when it was told first."""

    def __init__(self) -> None:
        self.reports: list[Progress] = []
        self.heard = threading.Event()

    def __call__(self, progress: Progress) -> None:
        self.reports.append(progress)
        self.heard.set()
