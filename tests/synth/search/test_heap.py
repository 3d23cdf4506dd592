"""While questions are answered garbage is looked for seldom, and after the last one as before."""

from __future__ import annotations

import gc
from contextlib import ExitStack

import pytest

from synth.ask.partition import Piece, carry_out
from synth.collective.ranking.request import Watcher
from synth.search.heap import OBJECTS, collect_garbage_seldom


def test_it_is_as_before_when_the_last_of_several_questions_ends() -> None:
    before = gc.get_threshold()
    first, second = ExitStack(), ExitStack()
    first.enter_context(collect_garbage_seldom())
    second.enter_context(collect_garbage_seldom())
    first.close()
    assert gc.get_threshold() == (OBJECTS, *before[1:])
    second.close()
    assert gc.get_threshold() == before


def test_a_question_that_fails_leaves_it_as_before() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="no"), collect_garbage_seldom():
        raise ValueError("no")
    assert gc.get_threshold() == before


def test_other_processes_are_left_alone() -> None:
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        with collect_garbage_seldom():
            assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)


def test_a_worker_answers_so() -> None:
    met: list[int] = []

    class Looks(Watcher):
        def go_on(self) -> bool:
            met.append(gc.get_threshold()[0])
            return True

    carry_out(Piece(verb="count", question={"digits": 2, "max_steps": 3}), Looks())
    assert {*met} == {OBJECTS}
