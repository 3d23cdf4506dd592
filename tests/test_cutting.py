"""Questions cut into pieces: whatever the cut, the answer is the uncut one's, byte for byte."""

from __future__ import annotations

import json
from typing import Any

from synth.cutting import course, in_turn
from synth.request import Watcher
from synth.verbs.asking import asked
from synth.verbs.reply import Outcome
from synth.wire import VERBS


def body_of(verb: str, given: dict[str, Any]) -> tuple[str, Outcome]:
    """The JSON that the verb itself answers with, and how the question ended."""
    reply = VERBS[verb].answer(asked(VERBS[verb].question, given), Watcher())
    return json.dumps(reply.body), reply.outcome


def test_what_is_not_cut_is_one_piece() -> None:
    given = {"digits": 2}
    reply = in_turn(course("count", asked(VERBS["count"].question, given), 8))
    assert (json.dumps(reply.body), reply.outcome) == body_of("count", given)
