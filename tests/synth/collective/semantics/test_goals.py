"""Every request: the same search with other starts and goals, against the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import pytest

import oracle
from exhaustive import RARELY
from grammar import (
    Collective,
    Goal,
    Groups,
    Instruction,
    Program,
    instructions,
    list_instructions,
    parse,
)
from hierarchies import Digit, InputError, Tree
from strategies import all_valid, spelled, word
from synth.collective.semantics.programs import Language, explore_moves, explore_states
from synth.collective.semantics.rules import (
    AIMS,
    DemandKind,
    Derivation,
    Refusal,
    Rulebook,
    State,
    derive,
    derive_on,
)
from synth.search.best_first import Puzzle, explore

COUNTS = {
    Goal.ALL_REDUCE: {
        1: [1, 2, 0, 0, 0],
        2: [1, 4, 24, 42, 22],
        3: [1, 6, 59, 319, 1250],
    },
    Goal.REDUCE_SCATTER: {
        1: [1, 0, 0, 0, 0],
        2: [1, 2, 0, 0, 0],
        3: [1, 4, 6, 0, 0],
    },
    Goal.ALL_GATHER: {
        1: [1, 0, 0, 0, 0],
        2: [1, 2, 2, 0, 0],
        3: [1, 4, 11, 23, 26],
    },
    Goal.REDUCE: {
        1: [2, 1, 0, 0, 0],
        2: [2, 9, 26, 19, 0],
        3: [2, 17, 90, 408, 919],
    },
    Goal.BROADCAST: {
        1: [1, 0, 0, 0, 0],
        2: [1, 2, 0, 0, 0],
        3: [1, 5, 6, 0, 0],
    },
    Goal.ALL_TO_ALL: {
        1: [1, 0, 0, 0, 0],
        2: [1, 2, 0, 0, 0],
        3: [1, 4, 6, 0, 0],
    },
}
"""By goal and digits: how many programs of 1 to 5 steps there are, in P²'s forms."""

WITH_ACROSS = {
    Goal.ALL_REDUCE: [1, 8, 88, 463, 1714],
    Goal.REDUCE_SCATTER: [1, 6, 6, 0, 0],
    Goal.ALL_GATHER: [1, 6, 16, 28, 32],
    Goal.REDUCE: [2, 23, 114, 502, 1066],
    Goal.BROADCAST: [1, 6, 8, 0, 0],
    Goal.ALL_TO_ALL: [1, 6, 6, 0, 0],
}
"""By goal, on three digits; on fewer ``across`` says nothing new."""

OTHERS = tuple(goal for goal in Goal if goal is not Goal.ALL_REDUCE)
TREE = Tree((Digit("node", 2), Digit("gpu", 4)))


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("goal", Goal)
def test_the_counts(goal: Goal, depth: int) -> None:
    for across in (False, True):
        language = Language(5, across, goal)
        graph = explore_states(depth, language)
        wanted = WITH_ACROSS[goal] if across and depth == 3 else COUNTS[goal][depth]
        assert graph.complete
        assert graph.count() == [0, *wanted]
        assert explore_moves(depth, language).count() == [0, *wanted]


@pytest.mark.parametrize("sizes", [(2,), (5,), (2, 2), (2, 3), (3, 2)], ids=str)
@pytest.mark.parametrize("goal", Goal)
def test_the_oracle_counts_as_many(goal: Goal, sizes: oracle.Label) -> None:
    for across in (False, True):
        assert oracle.count(sizes, 5, across, goal.value) == COUNTS[goal][len(sizes)]


@pytest.mark.parametrize("sizes", [(2, 2, 2), (2, 3, 2)], ids=str)
@pytest.mark.parametrize("goal", Goal)
def test_the_oracle_counts_as_many_on_three_digits(goal: Goal, sizes: oracle.Label) -> None:
    steps = 3 if sizes == (2, 2, 2) else 2
    assert oracle.count(sizes, steps, request=goal.value) == COUNTS[goal][3][:steps]
    assert oracle.count(sizes, steps, True, goal.value) == WITH_ACROSS[goal][:steps]


@pytest.mark.slow
@pytest.mark.parametrize("most", [4, pytest.param(5, marks=RARELY)])
@pytest.mark.parametrize("goal", Goal)
def test_the_oracle_counts_as_many_long_programs(goal: Goal, most: int) -> None:
    assert oracle.count((2, 2, 2), most, request=goal.value) == COUNTS[goal][3][:most]
    assert oracle.count((2, 2, 2), most, True, goal.value) == WITH_ACROSS[goal][:most]
    assert oracle.count((3, 2, 2), 3, request=goal.value) == COUNTS[goal][3][:3]


@pytest.mark.parametrize("sizes", [(3,), (2, 2), (2, 3), (2, 2, 2)], ids=str)
@pytest.mark.parametrize("goal", OTHERS)
def test_they_are_the_oracles_programs(goal: Goal, sizes: oracle.Label) -> None:
    most = 5 if len(sizes) < 3 else 3
    for across in (False, True):
        found = all_valid(len(sizes), Language(most, across, goal))
        words = {tuple(word(meant) for meant in steps) for steps in found}
        assert len(words) == len(found)
        assert words == set(oracle.programs(sizes, most, across, goal.value))


@pytest.mark.parametrize("goal", Goal)
def test_a_tree_without_digits_has_the_empty_program_only(goal: Goal) -> None:
    assert explore_states(0, Language(3, goal=goal)).count() == [1, 0, 0, 0]
    found = derive(Program(()), Tree(()), goal)
    assert isinstance(found, Derivation)
    assert found.goal is goal


# The estimate that prunes the search.


def reachable(rules: Rulebook) -> dict[State, list[State]]:
    """Every state that can be reached, with those that follow it."""
    after: dict[State, list[State]] = {}
    queue = [rules.start]
    for state in queue:
        if state not in after:
            after[state] = [then for _, then in rules.moves(state)]
            queue += after[state]
    return after


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("goal", Goal)
def test_at_least_never_promises_too_much(goal: Goal, depth: int) -> None:
    rules = Rulebook(depth, list_instructions(depth, across=True, goal=goal), goal=goal)
    after = reachable(rules)
    left = {state: 0 for state in after if rules.reached(state)}
    assert left
    for steps in range(1, len(after)):
        nearer = set(left)
        more = [s for s, then in after.items() if s not in left and nearer & set(then)]
        if not more:
            break
        left.update(dict.fromkeys(more, steps))
    for state, steps in left.items():
        assert rules.at_least(state) <= steps
        assert (rules.at_least(state) == 0) == (steps == 0)


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("goal", Goal)
def test_without_an_estimate_the_same_programs_are_found(goal: Goal, depth: int) -> None:
    rules = Rulebook(depth, list_instructions(depth, goal=goal), goal=goal)
    puzzle = Puzzle(rules.start, rules.moves, rules.reached, lambda state: 0)
    assert explore(puzzle, 4).count()[1:] == COUNTS[goal][depth][:4]


# All-to-alls, reduce-scatters and all-gathers are ordered partitions of the digits.


def ordered_partitions(digits: frozenset[int]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every way to name each digit once, in one or more steps."""
    if not digits:
        yield ()
    for size in range(1, len(digits) + 1):
        for first in combinations(sorted(digits), size):
            for rest in ordered_partitions(digits - set(first)):
                yield (first, *rest)


def with_gaps(digits: tuple[int, ...]) -> bool:
    return digits[-1] - digits[0] >= len(digits)


@pytest.mark.parametrize(("depth", "plain", "across"), [(1, 1, 1), (2, 3, 3), (3, 11, 13)])
@pytest.mark.parametrize("goal", [Goal.ALL_TO_ALL, Goal.REDUCE_SCATTER])
def test_programs_that_name_each_digit_once(
    goal: Goal, depth: int, plain: int, across: int
) -> None:
    every = set(ordered_partitions(frozenset(range(depth))))
    in_forms = {steps for steps in every if not any(map(with_gaps, steps))}
    assert (len(in_forms), len(every)) == (plain, across)
    collective = Collective(goal.value)
    for wanted, more in ((in_forms, False), (every, True)):
        found = set(all_valid(depth, Language(5, more, goal)))
        assert found == {
            tuple(Instruction(collective, Groups(free)) for free in steps) for steps in wanted
        }


def test_four_digits_have_as_many() -> None:
    every = list(ordered_partitions(frozenset(range(4))))
    in_forms = [steps for steps in every if not any(map(with_gaps, steps))]
    assert (len(in_forms), len(every)) == (49, 75)
    assert len(all_valid(4, Language(5, goal=Goal.ALL_TO_ALL))) == 49
    assert len(all_valid(4, Language(5, across=True, goal=Goal.ALL_TO_ALL))) == 75


ON_THREE_DIGITS = """
all-to-all root inside
all-to-all d0 inside; all-to-all d0 parallel(root)
all-to-all d0 parallel(root); all-to-all d0 inside
all-to-all d1 inside; all-to-all d1 parallel(root)
all-to-all d1 parallel(root); all-to-all d1 inside
all-to-all d0 parallel(root); all-to-all d1 inside; all-to-all d1 parallel(d0)
all-to-all d0 parallel(root); all-to-all d1 parallel(d0); all-to-all d1 inside
all-to-all d1 inside; all-to-all d0 parallel(root); all-to-all d1 parallel(d0)
all-to-all d1 inside; all-to-all d1 parallel(d0); all-to-all d0 parallel(root)
all-to-all d1 parallel(d0); all-to-all d0 parallel(root); all-to-all d1 inside
all-to-all d1 parallel(d0); all-to-all d1 inside; all-to-all d0 parallel(root)
"""


def test_all_to_alls_in_one_two_and_three_levels() -> None:
    tree = Tree.of(2, 2, 2)
    found = [str(spelled(s, tree)) for s in all_valid(3, Language(5, goal=Goal.ALL_TO_ALL))]
    assert sorted(found) == sorted(ON_THREE_DIGITS.strip().splitlines())


# Reduce-scatters backwards.

REVERSED = {
    Collective.REDUCE_SCATTER: Collective.ALL_GATHER,
    Collective.REDUCE: Collective.BROADCAST,
    Collective.BROADCAST: Collective.REDUCE,
}


def backwards(steps: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
    return tuple(Instruction(REVERSED[s.collective], s.groups) for s in reversed(steps))


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_reduce_scatter_backwards_is_an_all_gather(depth: int, across: bool) -> None:
    """And the other way round, but for all-gathers that pass a whole payload on by broadcast."""
    scatters = all_valid(depth, Language(5, across, Goal.REDUCE_SCATTER))
    gathers = all_valid(depth, Language(5, across, Goal.ALL_GATHER))
    plain = {
        steps for steps in gathers if all(s.collective is Collective.ALL_GATHER for s in steps)
    }
    assert {backwards(steps) for steps in scatters} == plain
    assert (plain == set(gathers)) == (depth == 1)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_broadcast_that_names_each_digit_once_is_a_reduce_backwards(depth: int) -> None:
    broadcasts = all_valid(depth, Language(5, goal=Goal.BROADCAST))
    once = [steps for steps in broadcasts if sum(len(s.groups.free) for s in steps) == depth]
    assert len(once) == 2 ** (depth - 1)
    tree = Tree.of(*[2] * depth)
    for steps in broadcasts:
        found = derive(
            spelled(backwards(steps), tree), tree, Goal.REDUCE, kinds=frozenset(DemandKind)
        )
        assert isinstance(found, Derivation) == (steps in once)


# Derivations.


@pytest.mark.parametrize("goal", Goal)
def test_states_are_the_oracles_on_the_skeleton(goal: Goal) -> None:
    """Every bit of every state of every program of two digits."""
    tree = Tree.of(3, 2)
    for steps in all_valid(2, Language(5, goal=goal)):
        found = derive(spelled(steps, tree), tree, goal)
        assert isinstance(found, Derivation)
        assert (found.goal, found.instructions) == (goal, steps)
        state = oracle.start((2, 2), goal.value)
        for meant, table in zip((None, *steps), found.states, strict=True):
            state = oracle.after(state, word(meant), (2, 2)) if meant else state
            for bits in product((0, 1), repeat=6):
                has = bits[4:] in state[bits[:2]].get(bits[2:4], frozenset())
                assert has == bool(table >> sum(bit << i for i, bit in enumerate(bits)) & 1)


@pytest.mark.parametrize("goal", Goal)
def test_translation_to_another_tree_keeps_the_goal(goal: Goal) -> None:
    small, large = Tree.of(2, 2), Tree((Digit("node", 5), Digit("gpu", 7)))
    for steps in all_valid(2, Language(3, goal=goal)):
        found = derive(spelled(steps, small), small, goal)
        assert isinstance(found, Derivation)
        again = derive_on(found, large)
        assert (again.goal, again.states, again.tree) == (goal, found.states, large)


REFUSALS = [
    ("all-reduce", "reduce root inside", None, "not every device ends with every contribution"),
    ("reduce-scatter", "all-reduce root inside", None, "its own chunk, complete, and nothing else"),
    ("reduce-scatter", "reduce-scatter node inside", None, "its own chunk, complete, and nothing"),
    ("all-gather", "all-gather node inside", None, "not every device ends with every chunk"),
    ("all-gather", "all-gather root inside; all-reduce root inside", 1, "added twice"),
    ("all-gather", "reduce root inside", 0, "different sets of chunks"),
    ("reduce", "reduce node inside", None, "the first device does not end with every contribution"),
    ("broadcast", "broadcast node master(root)", None, "not every device ends with every chunk"),
    ("broadcast", "broadcast node inside", 0, "a group holds nothing at all"),
    ("all-to-all", "all-to-all node inside", None, "ends with what all have for it"),
    ("all-to-all", "all-to-all node inside; all-to-all root inside", 1, "different sets"),
    ("all-to-all", "all-to-all node master(root); all-to-all root inside", 1, "different sets"),
]


@pytest.mark.parametrize(("goal", "text", "step", "reason"), REFUSALS)
def test_invalid_input_is_refused_with_a_reason(
    goal: str, text: str, step: int | None, reason: str
) -> None:
    found = derive(parse(text), TREE, Goal(goal))
    assert isinstance(found, Refusal)
    assert found.step == step
    assert reason in found.reason


@pytest.mark.parametrize("goal", Goal)
def test_collectives_of_other_goals_are_the_callers_mistake(goal: Goal) -> None:
    for collective in Collective:
        program = parse(f"{collective.value} root inside")
        if collective in goal.alphabet:
            assert instructions(program, TREE, goal) == instructions(program, TREE)
            continue
        assert instructions(program, TREE)
        with pytest.raises(InputError) as caught:
            derive(program, TREE, goal)
        assert f"no program for {goal.value} has such a step" in str(caught.value)
        assert goal.alphabet[0].value in caught.value.hint


def test_an_all_to_all_is_made_of_all_to_alls_and_nothing_else_is() -> None:
    assert Goal.ALL_TO_ALL.alphabet == (Collective.ALL_TO_ALL,)
    for goal in OTHERS[:-1]:
        assert goal.alphabet == Goal.ALL_REDUCE.alphabet
        assert Collective.ALL_TO_ALL not in goal.alphabet
    assert set(AIMS) == set(Goal)
    for depth, count in ((1, 1), (2, 4), (3, 9)):
        assert len(list_instructions(depth, goal=Goal.ALL_TO_ALL)) == count
        words = oracle.words(depth, True, "all-to-all")
        assert {
            word(m) for m in list_instructions(depth, across=True, goal=Goal.ALL_TO_ALL)
        } == set(words)


@pytest.mark.parametrize("goal", Goal)
def test_one_step_is_enough_for_every_goal(goal: Goal) -> None:
    program = parse(f"{goal.value} root inside")
    for tree in (TREE, Tree(())):
        assert isinstance(derive(program, tree, goal), Derivation)
