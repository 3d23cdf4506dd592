"""How the answers of a proof are told, and how its time is shared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from each import each
from grammar import Goal
from synth.collective.verify.verdict import Refuted, Violation, share_effort


@each("goal", Goal)
@each("violation", Violation)
def test_every_violation_has_a_sentence(violation: Violation, goal: Goal) -> None:
    told = Refuted(
        violation=violation,
        step=0,
        instruction="reduce node inside",
        names=("node", "gpu"),
        sizes=(2, 3),
        device=(0, 1),
        other=(0, 2),
        chunk=(1, 1),
        contributor=(0, 2),
        goal=goal,
    )
    assert told.reason.startswith("step 1, reduce node inside: ")
    assert "device (node 0, gpu 1)" in told.reason
    assert told.reason.endswith(" (sizes: node 2, gpu 3)")
    assert "None" not in told.reason
    assert "{" not in told.reason


def test_devices_without_digits_are_plain_numbers() -> None:
    told = Refuted(
        violation=Violation.HELD_TWICE,
        step=2,
        instruction="all-gather over [3, 4]",
        names=("",),
        sizes=(5,),
        device=(3,),
        other=(4,),
        chunk=(0,),
    )
    assert told.reason == (
        "step 3, all-gather over [3, 4]: device 3 and device 4 of the same group both hold chunk 0 "
        "(sizes: 5 devices)"
    )


@given(st.integers(0, 10**12), st.integers(1, 1000))
def test_shares_add_up_to_at_most_the_whole(effort: int, questions: int) -> None:
    part = share_effort(effort, questions)
    if part is None:
        assert effort < questions
    else:
        assert 1 <= part < 2**32
        assert part * questions <= effort


@pytest.mark.parametrize(("effort", "part"), [(2**50, 2**32 - 1), (0, None), (-1, None)])
def test_odd_efforts(effort: int, part: int | None) -> None:
    assert share_effort(effort, 1) == part
