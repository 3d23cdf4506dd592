"""Work that is stopped at any moment gives a partial answer, or the whole one: nothing between."""

from __future__ import annotations

import json
from functools import cache
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from asked_plans import ASKED
from exhaustive import Sample, sampled
from synth.ask.questions.question import parse_question
from synth.ask.reply import Outcome, Reply
from synth.ask.table import VERBS, judge
from synth.collective.ranking.request import Watcher
from synth.show.report.plans import plans_view
from synth.show.terminal.headlines import headline
from synth.show.terminal.table import TABLES

AXES = {"axes": {"data": 8, "model": 4}, "reduce": ["data"]}
STEP = {**ASKED, "k": 1, "pin": "data=8 remat=no microbatches=1 bucket=25MB", "explain": ""}
NOWHERE = "step that fits nowhere"
FOUND = ("answers", "stretches", "systems", "ranking", "plans", "by_length", "best")
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "one size": ("top", {"system": "dgx-h100:4", **AXES, "k": 2, "max_steps": 3}),
    "sizes": ("top", {"system": "dgx-h100:4", **AXES, "bytes": ["1MiB", "4MiB"], "max_steps": 2}),
    "uneven": (
        "top",
        {
            "system": "dgx-h100:1",
            "axes": {"data": 7},
            "reduce": ["data"],
            "without": ["node0/gpu3"],
        },
    ),
    "systems": ("sweep", {"systems": ["dgx-h100:4", "dgx-a100:4"], **AXES, "max_steps": 2}),
    "fault": (
        "cost",
        {
            "system": "dgx-h100:2",
            "axes": {"data": 16},
            "reduce": ["data"],
            "slow": {"node1": 0.5},
            "max_steps": 2,
        },
    ),
    "job": ("plan", {"system": "dgx-h100:1", "job": "gpt-18b-3d", "segments": 1}),
    "count": ("count", {"digits": 3, "max_steps": 4}),
    "step": ("plan", {**STEP, "explain": "zero=3"}),
    "step of which one plan fits": ("plan", {**STEP, "sizes": {"vocabulary": 2**25}}),
    NOWHERE: ("plan", {**STEP, "pin": "data=8 remat=no zero=1", "sizes": {"vocabulary": 2**30}}),
}


class Stopping(Watcher):
    """Stops work when it is asked for the n-th time, and counts how often it was."""

    def __init__(self, times: int = 10**9) -> None:
        self.times, self.count = times, 0

    def go_on(self) -> bool:
        self.count += 1
        return self.count <= self.times


def answered(name: str, watcher: Watcher) -> Reply:
    verb, question = QUESTIONS[name]
    return VERBS[verb].answer(parse_question(VERBS[verb].question, question), watcher)


@cache
def whole(name: str) -> tuple[str, int]:
    """The whole answer, and how often it asks whether to go on."""
    watcher = Stopping()
    return json.dumps(answered(name, watcher).body), watcher.count


def test_every_verb_that_answers_in_part_has_a_question_here() -> None:
    partial = {name for name, verb in VERBS.items() if verb.partial}
    assert {verb for verb, _ in QUESTIONS.values()} == partial


def check_words(verb: str, body: Any) -> None:
    """Who reads it is told that it is partial; that nothing fits nobody knows by then."""
    shown = StringIO()
    Console(file=shown, width=200).print(TABLES[verb](body))
    assert "PARTIAL" in shown.getvalue()
    assert "NOTHING FITS" not in shown.getvalue()
    assert verb == "count" or headline(verb, body).startswith("Partial: ")
    assert "fits in memory" not in headline(verb, body)
    if "plans" in body:
        view = plans_view(judge(verb).validate_python(body), body, [0])
        assert "fits in memory" not in view.headline


@sampled(1, seed=35)
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_reply_is_complete_or_marked_partial(name: str, sample: Sample) -> None:
    """Complete is what has the bytes of the whole; the rest says so in its body and outcome.

    What is stopped at once has a best so far, too.
    """
    body, count = (None, 0) if name == NOWHERE and sample.count else whole(name)
    moments = {1, 2, 3, 5, 8, *(count * part // 8 for part in range(8)), count - 2, count - 1}
    for times in [0, *sample(sorted(moments & set(range(1, count))))]:
        watcher = Stopping(times)
        reply = answered(name, watcher)
        assert times or name == NOWHERE or any(reply.body.get(kind) for kind in FOUND)
        verb = VERBS[QUESTIONS[name][0]]
        if reply.body["complete"]:
            assert json.dumps(reply.body) == body, times
        else:
            assert watcher.count > times
            assert reply.outcome is Outcome.PARTIAL, times
            assert verb.cut_short(reply)
            check_words(QUESTIONS[name][0], reply.body)
