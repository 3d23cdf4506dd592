"""The best answers so far, while work goes on: found and priced, and not proved yet."""

from __future__ import annotations

from collections.abc import Sequence

from synth.plan.request import Leader
from synth.verbs.answers.parts import Json, as_json
from synth.verbs.answers.ranked import BestSoFar, Leading

MOST_LEADERS = 10
"""So many are told, however many were asked for."""


def leaders_json(leaders: Sequence[Leader]) -> Json:
    """The first of them, with the keys that answers of ``top`` have for the same."""
    told = [Leading.of(one) for one in leaders[:MOST_LEADERS]]
    return as_json(BestSoFar(answers=told, complete=False))
