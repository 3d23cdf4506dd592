"""Questions that are cut into pieces, and what comes of them."""

from __future__ import annotations

import json
from typing import Any

from synth.ask.questions.question import parse_question
from synth.ask.reply import Outcome, Reply
from synth.ask.table import VERBS
from synth.collective.ranking.request import Watcher

Given = dict[str, Any]


SUPERPOD: Given = {
    "system": "superpod-h100-oversubscribed",
    "axes": {"data": 32, "model": 8},
    "reduce": ["data"],
    "max_steps": 2,
    "segments": 4,
}


RANGE: Given = {
    "system": "dgx-h100:4",
    "axes": {"data": 32},
    "reduce": ["data"],
    "max_steps": 3,
    "segments": 4,
    "bytes": [2**16, 2**24],
}


def body_of(verb: str, given: Given) -> tuple[str, Outcome]:
    """The JSON that the verb itself answers with, and how the question ended."""
    return told(VERBS[verb].answer(parse_question(VERBS[verb].question, given), Watcher()))


def told(reply: Reply) -> tuple[str, Outcome]:
    return json.dumps(reply.body, allow_nan=False), reply.outcome
