"""The best answers so far as JSON: found and priced while work goes on, and not proved yet."""

from __future__ import annotations

from collections.abc import Sequence

from synth.plan.request import Leader
from synth.verbs.answers.bodies import Json

MOST_SHOWN = 10
"""How many are shown, however many were asked for."""


def best_so_far_json(leaders: Sequence[Leader]) -> Json:
    """The first of them, with the same keys as in answers of ``top``."""
    return {
        "answers": [
            {
                "rank": one.rank,
                "axes": {axis.name: axis.size for axis in one.axes},
                "placement": [list(row) for row in one.placement],
                "program": one.program,
                "seconds": one.seconds,
                "proof": "not yet",
            }
            for one in leaders[:MOST_SHOWN]
        ],
        "complete": False,
    }
