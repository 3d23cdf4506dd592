"""What z3 says about one size: trees at their own sizes, and programs of explicit groups."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from at_size import prove_at
from grammar import Collective, Program, parse
from hierarchies import Digit, InputError, Tree
from strategies import programs
from synth.collective.verify.concrete import GroupStep, prove_groups
from synth.collective.verify.symbolic import Proved, Refuted, Unknown, Violation, prove

TREES = tuple(Tree.of(*sizes) for sizes in ((2,), (3,), (2, 2), (2, 3), (2, 2, 2)))


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(st.data())
def test_one_size_and_all_sizes_agree(data: st.DataObject) -> None:
    tree = data.draw(st.sampled_from(TREES))
    program = data.draw(programs(tree, most_steps=3))
    here = prove_at(program, tree)
    match prove(program, tree):
        case Proved():
            assert here == Proved(tree.sizes)
        case Refuted() as told:
            there = prove_at(program, Tree.of(*told.sizes))
            assert isinstance(there, Refuted)
            assert (there.step, there.violation) == (told.step, told.violation)
        case Unknown(reason):
            pytest.fail(reason)
    assert not isinstance(here, Unknown)


@pytest.mark.parametrize("sizes", [(2, 4), (8, 8), (3, 5), (16, 8)])
@pytest.mark.parametrize(
    "text",
    [
        "reduce-scatter d0 inside; all-reduce d0 parallel(root); all-gather d0 inside",
        "reduce d0 inside; all-reduce d0 master(root); broadcast d0 inside",
        "reduce-scatter d0 parallel; reduce-scatter d0 inside; all-gather root inside",
    ],
)
def test_right_programs_are_proved_at_real_sizes(text: str, sizes: tuple[int, ...]) -> None:
    assert prove_at(parse(text), Tree.of(*sizes)) == Proved(sizes)


def test_the_counterexample_uses_digits_of_the_tree() -> None:
    tree = Tree((Digit("node", 3), Digit("gpu", 4)))
    told = prove_at(parse("all-reduce node inside; all-reduce root inside"), tree)
    assert isinstance(told, Refuted)
    assert (told.step, told.violation) == (1, Violation.ADDED_TWICE)
    assert told.sizes == (3, 4)
    assert told.other is not None
    assert told.device[0] == told.other[0]
    assert told.reason.startswith("step 2, all-reduce root inside: device (node ")


def test_an_empty_tree_has_nothing_to_do() -> None:
    assert prove_at(Program(()), Tree(())) == Proved(())


def step(name: str, *groups: tuple[int, ...]) -> GroupStep:
    return GroupStep(Collective(name), groups)


UNEVEN = ((0, 1, 2), (3, 4))
ALL = ((0, 1, 2, 3, 4),)


@pytest.mark.parametrize(
    "steps",
    [
        [step("all-reduce", *UNEVEN), step("reduce", (0, 3)), step("broadcast", *ALL)],
        [step("reduce", *UNEVEN), step("all-reduce", (0, 3)), step("broadcast", *UNEVEN)],
        [step("reduce-scatter", *ALL), step("all-gather", (4, 2, 0, 1, 3))],
        [step("reduce", (2, 0, 1)), step("reduce", (4, 2, 3)), step("broadcast", (4, 0, 1, 2, 3))],
    ],
)
def test_uneven_groups_are_proved(steps: list[GroupStep]) -> None:
    assert prove_groups(steps, 5) == Proved((5,))


def test_pieces_are_shared_out_in_the_order_of_the_members() -> None:
    inside = step("reduce-scatter", (0, 1), (3, 2))
    straight = [inside, step("all-reduce", (0, 3), (1, 2)), step("all-gather", (0, 1), (2, 3))]
    assert prove_groups(straight, 4) == Proved((4,))
    crossed = [inside, step("all-reduce", (0, 2), (1, 3)), step("all-gather", (0, 1), (2, 3))]
    told = prove_groups(crossed, 4)
    assert isinstance(told, Refuted)
    assert (told.step, told.violation) == (1, Violation.UNEQUAL_ROWS)


def test_pieces_may_be_given() -> None:
    pieces = ((frozenset({0, 1, 2}), frozenset({3})), (frozenset({3}), frozenset({0, 1, 2})))
    groups = ((0, 1), (2, 3))
    steps = [
        GroupStep(Collective.REDUCE_SCATTER, groups, pieces),
        step("all-reduce", (0, 3), (1, 2)),
        step("all-gather", *groups),
    ]
    assert prove_groups(steps, 4) == Proved((4,))


def test_a_piece_that_nobody_keeps_is_missed() -> None:
    pieces = ((frozenset({0}), frozenset({1})),)
    steps = [
        GroupStep(Collective.REDUCE_SCATTER, ((0, 1),), pieces),
        step("all-gather", (0, 1)),
    ]
    told = prove_groups(steps, 2, chunks=3)
    assert isinstance(told, Refuted)
    assert (told.step, told.chunk) == (None, (2,))


def test_chunks_that_cannot_be_shared_out_equally_are_irregular() -> None:
    steps = [step("reduce-scatter", *UNEVEN), step("all-gather", *UNEVEN)]
    told = prove_groups(steps, 5)
    assert isinstance(told, Refuted)
    assert (told.step, told.violation, told.device) == (0, Violation.UNEVEN, (0,))
    assert "cannot be shared out equally" in told.reason
    finer = prove_groups([*steps, step("reduce", (0, 3)), step("broadcast", *ALL)], 5, chunks=6)
    assert finer == Proved((5,))


def test_devices_outside_every_group_keep_what_they_have() -> None:
    told = prove_groups([step("all-reduce", (0, 1, 2, 3))], 5)
    assert isinstance(told, Refuted)
    assert (told.violation, told.step) == (Violation.GOAL_MISSED, None)
    assert told.device == (0,)
    assert told.contributor == (4,)
    assert told.reason.startswith(
        "at the end: device 0 lacks the contribution of device 4 to chunk"
    )
    assert told.reason.endswith("(sizes: 5 devices)")


@pytest.mark.parametrize(
    ("steps", "violation"),
    [
        ([step("all-reduce", (0, 1, 2)), step("all-reduce", (0, 1))], Violation.ADDED_TWICE),
        ([step("all-reduce", *ALL), step("reduce", (1, 3))], Violation.ADDED_TWICE),
        ([step("reduce", *UNEVEN), step("all-reduce", (0, 4))], Violation.UNEQUAL_ROWS),
        ([step("all-gather", (3, 4))], Violation.HELD_TWICE),
    ],
)
def test_wrong_schedules_are_refuted(steps: list[GroupStep], violation: Violation) -> None:
    told = prove_groups(steps, 5)
    assert isinstance(told, Refuted)
    assert (told.step, told.violation) == (len(steps) - 1, violation)
    assert told.device != told.other


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (step("all-reduce", (0, 5)), "no device 5"),
        (step("all-reduce", (0, 1), (1, 2)), "named twice"),
        (step("all-reduce", ()), "empty group"),
        (GroupStep(Collective.REDUCE_SCATTER, ((0, 1),), ((frozenset({0}),),)), "do not match"),
        (
            GroupStep(Collective.REDUCE_SCATTER, ((0,),), ((frozenset({7}),),)),
            "chunk that does not exist",
        ),
    ],
)
def test_groups_that_cannot_be_are_the_callers_mistake(wrong: GroupStep, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as error:
        prove_groups([step("all-reduce", *ALL), wrong], 5)
    assert error.value.where.startswith("step 2")


def test_no_devices_is_the_callers_mistake() -> None:
    with pytest.raises(InputError, match="0 devices"):
        prove_groups([], 0)


def test_too_little_effort_is_unknown() -> None:
    assert isinstance(prove_groups([step("all-reduce", *ALL)], 5, effort=0), Unknown)
    told = prove_at(parse("all-reduce root inside"), Tree.of(2, 2), effort=1)
    assert isinstance(told, Unknown)
