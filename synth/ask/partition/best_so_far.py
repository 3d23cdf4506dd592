"""The best answers so far as JSON: found and priced while work goes on, and not proved yet."""

from __future__ import annotations

import json
from collections.abc import Sequence

from synth.ask.answers.parts import Json, to_json
from synth.ask.answers.ranked import BestSoFar, LeadingAnswer
from synth.collective.ranking.request import ProvisionalResult

MOST_SHOWN = 10
"""How many are shown, however many were asked for."""


def best_so_far_json(best: Sequence[ProvisionalResult]) -> Json:
    """The first of them, with the keys that answers of ``top`` have for the same."""
    shown = [LeadingAnswer.of(one) for one in best[:MOST_SHOWN]]
    return to_json(BestSoFar(answers=shown, complete=False))


NOTHING_YET = json.dumps(best_so_far_json(())).encode()
"""The best so far of work that was ended before anything was found."""
