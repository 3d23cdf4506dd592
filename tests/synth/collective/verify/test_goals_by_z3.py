"""What z3 says about every request, and whether its counterexamples really go wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from at_size import prove_at
from exhaustive import examples
from grammar import Collective, Goal, Instruction, Program, instructions, parse
from hierarchies import Digit, InputError, Tree
from strategies import all_valid, programs, spelled, trees, valid_programs, word
from synth.collective.semantics.programs import Language
from synth.collective.verify.concrete import GroupStep, prove_groups
from synth.collective.verify.symbolic import Proved, Refuted, Unknown, Verdict, Violation, prove

OTHERS = tuple(goal for goal in Goal if goal is not Goal.ALL_REDUCE)
TREE = Tree((Digit("node", 4), Digit("gpu", 8)))


def wrong_by_the_oracle(
    steps: tuple[Instruction, ...], sizes: oracle.Label, goal: Goal
) -> tuple[int | None, set[str]]:
    words = [word(meant) for meant in steps]
    return oracle.verdict(words, sizes, [oracle.SOUND], goal.value)


def confirm(told: Refuted, steps: tuple[Instruction, ...], goal: Goal) -> None:
    """The counterexample goes wrong where it says, as the oracle has it."""
    state = oracle.start(told.sizes, goal.value)
    for meant in steps[: told.step]:
        state = oracle.after(state, word(meant), told.sizes)
    assert told.chunk is not None
    assert told.contributor is not None
    mine = state[told.device].get(told.chunk, frozenset())
    if told.step is None:
        first = not any(told.device)
        ours = told.chunk == told.device
        wanted = {
            Goal.REDUCE: first,
            Goal.REDUCE_SCATTER: ours,
            Goal.ALL_TO_ALL: ours,
        }.get(goal, True)
        assert wanted == (told.violation is Violation.GOAL_MISSED)
        assert (told.contributor in mine) == (told.violation is Violation.GOAL_EXCEEDED)
        return
    assert told.other is not None
    theirs = state[told.other].get(told.chunk, frozenset())
    match told.violation:
        case Violation.UNEQUAL_ROWS:
            assert mine
            assert not theirs
        case Violation.HELD_TWICE:
            assert mine
            assert theirs
        case Violation.ADDED_TWICE:
            assert told.contributor in mine & theirs
        case _:
            pytest.fail(f"{told.violation} cannot be here")


def judged(told: Verdict, steps: tuple[Instruction, ...], sizes: oracle.Label, goal: Goal) -> bool:
    """Whether it is proved; either way the oracle says the same, at the sizes it is about."""
    match told:
        case Proved():
            assert wrong_by_the_oracle(steps, sizes, goal) == (None, set())
            return True
        case Refuted():
            assert told.goal is goal
            assert wrong_by_the_oracle(steps, told.sizes, goal) == (told.step, {oracle.SOUND})
            confirm(told, steps, goal)
            assert "None" not in told.reason
            return False
        case Unknown(reason):
            raise AssertionError(reason)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("goal", OTHERS)
def test_valid_programs_are_proved_for_all_sizes(goal: Goal, depth: int) -> None:
    most = 2 if goal is Goal.REDUCE and depth == 3 else 3
    tree = Tree.of(*[2] * depth)
    for steps in all_valid(depth, Language(most, True, goal)):
        assert prove(spelled(steps, tree), tree, goal, regular=True) == Proved()


@pytest.mark.slow
@pytest.mark.parametrize("goal", OTHERS)
def test_long_programs_are_proved_for_all_sizes(goal: Goal) -> None:
    """All of up to four steps on three digits; of four digits some."""
    for depth, every in ((3, 1), (4, 40 if goal is Goal.REDUCE else 3)):
        tree = Tree.of(*[2] * depth)
        for steps in all_valid(depth, Language(4, goal=goal))[::every]:
            assert prove(spelled(steps, tree), tree, goal, regular=True) == Proved()


@pytest.mark.parametrize("goal", OTHERS)
def test_valid_programs_are_proved_at_their_sizes(goal: Goal) -> None:
    tree = Tree.of(2, 3)
    for steps in all_valid(2, Language(3, goal=goal)):
        assert prove_at(spelled(steps, tree), tree, goal) == Proved((2, 3))


@pytest.mark.parametrize("goal", OTHERS)
def test_meddled_programs_are_refuted_unless_the_oracle_finds_them_right(goal: Goal) -> None:
    """A step dropped, or two of them swapped."""
    tree, refuted = Tree.of(2, 2), 0
    for steps in all_valid(2, Language(3, goal=goal)):
        meddled = [steps[:place] + steps[place + 1 :] for place in range(len(steps))]
        meddled += [
            (*steps[:place], steps[place + 1], steps[place], *steps[place + 2 :])
            for place in range(len(steps) - 1)
        ]
        for other in meddled:
            refuted += not judged(prove(spelled(other, tree), tree, goal), other, (2, 2), goal)
    assert refuted >= 3


@pytest.mark.parametrize("goal", [Goal.REDUCE_SCATTER, Goal.ALL_TO_ALL])
def test_every_order_of_scattering_is_right_and_none_can_lack_a_step(goal: Goal) -> None:
    tree = Tree.of(2, 2, 2)
    for steps in all_valid(3, Language(3, goal=goal)):
        assert prove(spelled(steps[::-1], tree), tree, goal) == Proved()
        for place in range(len(steps)):
            rest = steps[:place] + steps[place + 1 :]
            told = prove(spelled(rest, tree), tree, goal)
            assert not judged(told, rest, (2, 2, 2), goal)
            assert isinstance(told, Refuted)
            assert told.step is None


@examples(20, 150)
@given(trees(), st.sampled_from(OTHERS), st.data())
def test_random_programs_are_judged_as_the_oracle_does(
    tree: Tree, goal: Goal, data: st.DataObject
) -> None:
    valid = data.draw(valid_programs(tree, goal)).steps
    cut = data.draw(st.integers(0, len(valid)))
    more = data.draw(programs(tree, most_steps=1, goal=goal)).steps
    program = Program(valid[:cut] + more + valid[cut + data.draw(st.integers(0, 1)) :])
    steps = instructions(program, tree)
    right = wrong_by_the_oracle(steps, tree.sizes, goal) == (None, set())
    assert judged(prove(program, tree, goal), steps, tree.sizes, goal) == right


@examples(20, 150)
@given(st.sampled_from([(2,), (3,), (2, 2), (2, 3)]), st.sampled_from(OTHERS), st.data())
def test_one_size_is_judged_as_the_oracle_does(
    sizes: tuple[int, ...], goal: Goal, data: st.DataObject
) -> None:
    tree = Tree.of(*sizes)
    source = data.draw(st.sampled_from([valid_programs(tree, goal), programs(tree, 3, goal=goal)]))
    program = data.draw(source)
    steps = instructions(program, tree)
    here = prove_at(program, tree, goal)
    assert judged(here, steps, sizes, goal) == (prove(program, tree, goal) == Proved())


@examples(10, 60)
@given(st.integers(1, 3), st.sampled_from(OTHERS), st.data())
def test_regularity_agrees_with_the_oracle(depth: int, goal: Goal, data: st.DataObject) -> None:
    tree = Tree.of(*[2] * depth)
    program = data.draw(programs(tree, 3, goal=goal))
    words = [word(meant) for meant in instructions(program, tree)]
    asked = [oracle.SOUND, oracle.REGULAR]
    told = prove(program, tree, goal, regular=True)
    assert not isinstance(told, Unknown)
    step = told.step if isinstance(told, Refuted) else None
    found, classes = oracle.verdict(words, tree.sizes, asked, goal.value)
    assert (found, bool(classes)) == (step, isinstance(told, Refuted))


REASONS = [
    ("reduce-scatter", "all-reduce root inside", "still holds the contribution of device (node "),
    ("reduce-scatter", "reduce-scatter node inside", "lacks the contribution of device (node "),
    ("all-gather", "all-gather node inside", " lacks chunk (node "),
    ("broadcast", "broadcast node master", " lacks chunk (node "),
    ("reduce", "reduce node inside", "device (node 0, gpu 0) lacks the contribution of device (n"),
    ("all-to-all", "all-to-all node inside", " lacks what device (node "),
    (
        "all-to-all",
        "all-to-all node inside; all-to-all root inside",
        "step 2, all-to-all root inside: device (node ",
    ),
    ("all-to-all", "all-to-all node inside; all-to-all root inside", " holds something for devic"),
]


@pytest.mark.parametrize(("goal", "text", "reason"), REASONS)
def test_missing_units_are_named_in_words(goal: str, text: str, reason: str) -> None:
    for told in (prove(parse(text), TREE, Goal(goal)), prove_at(parse(text), TREE, Goal(goal))):
        assert isinstance(told, Refuted)
        assert reason in told.reason


@pytest.mark.parametrize("goal", [Goal.REDUCE_SCATTER, Goal.ALL_TO_ALL])
def test_nothing_done_is_missed(goal: Goal) -> None:
    told = prove(Program(()), Tree.of(2), goal)
    assert isinstance(told, Refuted)
    assert (told.step, told.violation) == (None, Violation.GOAL_MISSED)


def test_too_much_is_refuted_where_nothing_is_lacking() -> None:
    for told in (
        prove(parse("all-reduce root inside"), TREE, Goal.REDUCE_SCATTER),
        prove_at(parse("all-reduce root inside"), TREE, Goal.REDUCE_SCATTER),
    ):
        assert isinstance(told, Refuted)
        assert (told.step, told.violation) == (None, Violation.GOAL_EXCEEDED)
        assert told.chunk != told.device


@pytest.mark.parametrize("goal", Goal)
def test_nobody_to_talk_to_is_done_at_once(goal: Goal) -> None:
    assert prove(Program(()), Tree(()), goal) == Proved()
    assert prove_at(Program(()), Tree(()), goal) == Proved(())


@pytest.mark.parametrize("goal", OTHERS)
def test_too_little_effort_is_unknown(goal: Goal) -> None:
    program = parse(f"{goal.value} root inside")
    for effort in (0, 3):
        assert isinstance(prove(program, TREE, goal, effort=effort), Unknown)
    assert isinstance(prove_at(program, Tree.of(2, 2), goal, effort=1), Unknown)


@pytest.mark.parametrize("goal", Goal)
def test_collectives_of_other_goals_are_the_callers_mistake(goal: Goal) -> None:
    strange = Collective.ALL_REDUCE if goal is Goal.ALL_TO_ALL else Collective.ALL_TO_ALL
    program = parse(f"{strange.value} root inside")
    with pytest.raises(InputError, match="has such a step"):
        prove(program, TREE, goal)
    with pytest.raises(InputError, match="has such a step"):
        prove_at(program, TREE, goal)
    with pytest.raises(InputError, match="no step of a program for"):
        prove_groups([GroupStep(strange, ((0, 1),))], 2, goal)


# Programs of explicit groups.


def step(name: str, *groups: tuple[int, ...]) -> GroupStep:
    return GroupStep(Collective(name), groups)


FIVE = (0, 1, 2, 3, 4)


@pytest.mark.parametrize(
    ("goal", "steps"),
    [
        ("reduce", [step("reduce", (2, 1), (3, 4)), step("reduce", (0, 2, 3))]),
        ("broadcast", [step("broadcast", (0, 3)), step("broadcast", (0, 1, 2), (3, 4))]),
        ("all-gather", [step("all-gather", (0, 1), (2, 3, 4)), step("all-gather", (1, 2))]),
        ("reduce-scatter", [step("reduce-scatter", FIVE)]),
        ("all-to-all", [step("all-to-all", FIVE)]),
    ],
)
def test_explicit_groups_are_judged_for_every_goal(goal: str, steps: list[GroupStep]) -> None:
    told = prove_groups(steps, 5, Goal(goal))
    if goal == "all-gather":
        steps = [*steps, step("broadcast", (1, 0), (2, 3, 4))]
        assert isinstance(told, Refuted)
        told = prove_groups(steps, 5, Goal(goal))
    assert told == Proved((5,))
    assert isinstance(prove_groups(steps[:-1], 5, Goal(goal)), Refuted)


def test_all_to_all_in_explicit_groups_and_pieces() -> None:
    """Two by two: the i-th of both pairs first, with what is for either pair."""
    pairs, across = ((0, 1), (2, 3)), ((0, 2), (1, 3))
    even, odd = frozenset({0, 2}), frozenset({1, 3})
    low, high = frozenset({0, 1}), frozenset({2, 3})
    inside = GroupStep(Collective.ALL_TO_ALL, pairs, ((even, odd), (even, odd)))
    between = GroupStep(Collective.ALL_TO_ALL, across, ((low, high), (low, high)))
    assert prove_groups([inside, between], 4, Goal.ALL_TO_ALL) == Proved((4,))
    assert prove_groups([between, inside], 4, Goal.ALL_TO_ALL) == Proved((4,))
    told = prove_groups([inside, inside], 4, Goal.ALL_TO_ALL)
    assert isinstance(told, Refuted)
    assert (told.step, told.violation) == (1, Violation.UNEQUAL_ROWS)


def test_two_receivers_must_not_both_forward_a_value() -> None:
    both = frozenset({0, 1})
    twice = GroupStep(Collective.ALL_TO_ALL, ((0, 1),), ((both, both),))
    told = prove_groups([twice, step("all-to-all", (0, 1))], 2, Goal.ALL_TO_ALL)
    assert isinstance(told, Refuted)
    assert (told.step, told.violation) == (1, Violation.SENT_TWICE)
    assert "both hold what device" in told.reason


@pytest.mark.parametrize("goal", [goal for goal in Goal if goal.in_pieces])
def test_a_piece_for_each_device_is_needed(goal: Goal) -> None:
    with pytest.raises(InputError, match="2 devices, 3 chunks") as caught:
        prove_groups([step(goal.value, (0, 1))], 2, goal, chunks=3)
    assert f"{goal.value} has as many of both" in caught.value.hint
