"""The verb that looks at pipeline schedules: by name and as text, and what it refuses."""

from __future__ import annotations

import pytest

from hierarchies import InputError
from synth.ask.questions.question import parse_question
from synth.ask.table import judge
from synth.ask.training.orders import OrderQuestion, OrderReply, show_schedule
from synth.collective.ranking.request import Watcher
from synth.show.terminal.table import TABLES
from synth.step.schedules import SCHEDULES, parse_schedule


def answer(**given: object) -> OrderReply:
    body = show_schedule(parse_question(OrderQuestion, given), Watcher()).body
    found: OrderReply = judge("order").validate_python(body)
    assert TABLES["order"](body)
    return found


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_and_its_text_have_the_same_answer(name: str) -> None:
    costs = {"forward": 1.5, "backward": 2.5, "weight": 0.5, "transfer": 0.25}
    named = answer(order=name, stages=4, microbatches=6, **costs, protocol="rendezvous")
    [file] = named.files
    given = answer(order=file.text, stages=4, microbatches=6, **costs, protocol="rendezvous")
    assert named.schedule == name
    assert given == named.model_copy(update={"schedule": None})
    assert str(parse_schedule(file.text)) == "\n".join(
        " ".join(one.action for one in rank.actions) for rank in named.ranks
    )
    assert named.seconds == max(rank.actions[-1].end_seconds for rank in named.ranks)


def test_zero_bubble_is_made_for_the_seconds_that_are_given() -> None:
    """Another order for other passes, and never slower than the one that is drawn by hand."""
    sizes = {"stages": 4, "microbatches": 8, "forward": 1.0, "backward": 2.2, "transfer": 0.1}
    short, long = (answer(order="zero-bubble", weight=weight, **sizes) for weight in (0.4, 1.1))
    assert short.files != long.files
    assert long.seconds <= answer(order="zero-bubble-h1", weight=1.1, **sizes).seconds


REFUSED = {
    "too many ranks to search": (
        {"order": "zero-bubble", "stages": 512, "microbatches": 8},
        "--stages: 512 ranks; at most 256: this order is searched",
    ),
    "no schedule": (
        {"order": "1f2b"},
        "ORDER: no schedule is called '1f2b'; did you mean 1f1b?",
    ),
    "no stages": (
        {"order": "1f1b", "microbatches": 8},
        "1f1b needs --stages; as in --stages 8",
    ),
    "no microbatches": (
        {"order": "1f1b", "stages": 8},
        "1f1b needs --microbatches; as in --microbatches 8",
    ),
    "chunks that do not divide": (
        {"order": "interleaved-1f1b", "stages": 9, "chunks": 2, "microbatches": 8},
        "--stages: 9 in chunks of 2; as many as ranks times 2",
    ),
    "chunks of 1f1b": (
        {"order": "1f1b", "stages": 8, "chunks": 2, "microbatches": 8},
        "--chunks: 1f1b has one stage a rank; leave it out, or take interleaved-1f1b or ",
    ),
    "too many": (
        {"order": "gpipe", "stages": 4000, "microbatches": 4000},
        "4000 stages and 4000 microbatches are too many; one times the other at most 10922",
    ),
    "chunks of a text": (
        {"order": "0F0 0B0", "chunks": 1},
        "--chunks: an order says which stages a rank has",
    ),
    "other stages": (
        {"order": "0F0 0B0", "stages": 2},
        "--stages: 2, and the order has 1",
    ),
    "other microbatches": (
        {"order": "0F0 0B0", "microbatches": 2},
        "--microbatches: 2, and the order has 1",
    ),
    "what is no order": (
        {"order": "0F0 0G0"},
        "ORDER, line 1, action 2: '0G0' is not an action; stage, F, B, I or W, and microbatch",
    ),
    "too much of it W": (
        {"order": "0F0 0B0", "weight": 3},
        "3 s of 2 s are the gradients of weights; they are a part of the backward pass",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_input_is_refused(case: str) -> None:
    given, said = REFUSED[case]
    with pytest.raises(InputError) as error:
        answer(**given)
    assert str(error.value).startswith(said)


def test_times_that_cannot_be_drawn() -> None:
    assert answer(order="gpipe", stages=2, microbatches=2, forward=0.0).seconds == 6
    assert answer(order="gpipe", stages=16, microbatches=64).seconds == 79 * 3
