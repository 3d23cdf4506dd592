"""Plans of a step, asked for once by all tests of a process that look at how they are told."""

from __future__ import annotations

from functools import cache
from typing import Any

from synth.ask.answers.parts import Json
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS
from synth.collective.ranking.request import Watcher

ASKED: dict[str, Json] = {
    "system": "dgx-h100:1",
    "model": "gpt2-tiny",
    "batch": 64,
    "k": 3,
    "pin": "pipe=2 data=2 tensor=2 remat=no schedule=1f1b microbatches=4 bucket=25MB",
    "explain": "zero=3",
}


@cache
def body(**other: Json) -> Any:
    """The answer to that question, or to one that is other in some fields."""
    question = parse_question(VERBS["plan"].question, {**ASKED, **other})
    return VERBS["plan"].answer(question, Watcher()).body
