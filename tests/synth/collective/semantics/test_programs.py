"""All valid programs: as many as P² has, and the same ones that the oracle finds."""

from __future__ import annotations

import pytest

import oracle
from grammar import Goal, Instruction, list_instructions
from hierarchies import InputError, Tree
from strategies import all_valid, spelled, word
from synth.collective.semantics.layout import Move
from synth.collective.semantics.lowering import moves
from synth.collective.semantics.programs import Language, explore_moves, explore_states
from synth.collective.semantics.rules import Derivation, Rulebook, State, derive
from synth.search.best_first import PathGraph

COUNTS = [
    (1, [1, 2, 0, 0, 0]),
    (2, [1, 4, 24, 42, 22]),
    (3, [1, 6, 59, 319, 1250]),
    (4, [1, 8, 105, 940, 6582]),
]
"""The table of the language page."""


def found(depth: int, language: Language) -> set[tuple[oracle.Word, ...]]:
    programs = [tuple(word(step) for step in steps) for steps in all_valid(depth, language)]
    assert len(programs) == len(set(programs))
    return set(programs)


@pytest.mark.parametrize(("depth", "counts"), COUNTS)
def test_the_counts_of_the_language_page(depth: int, counts: list[int]) -> None:
    graph = explore_states(depth, Language(5))
    assert graph.count() == [0, *counts]
    assert graph.complete
    assert [len(program) for program in all_valid(depth)] == [
        length for length, count in enumerate(counts, 1) for _ in range(count)
    ]


@pytest.mark.parametrize("most_steps", range(1, 7))
@pytest.mark.parametrize("sizes", [(2,), (5,), (2, 2), (2, 3), (3, 2)], ids=str)
def test_they_are_the_oracles_programs(sizes: oracle.Label, most_steps: int) -> None:
    wanted = set(oracle.programs(sizes, most_steps))
    assert found(len(sizes), Language(most_steps)) == wanted


@pytest.mark.parametrize("sizes", [(2, 2, 2), (2, 3, 2)], ids=str)
def test_they_are_the_oracles_programs_with_three_digits(sizes: oracle.Label) -> None:
    assert found(3, Language(3)) == set(oracle.programs(sizes, 3))


@pytest.mark.parametrize(
    ("sizes", "most_steps"), [((3,), 5), ((2, 2), 5), ((2, 3), 4), ((2, 2, 2), 2)], ids=str
)
def test_across_finds_the_oracles_programs_too(sizes: oracle.Label, most_steps: int) -> None:
    wanted = set(oracle.programs(sizes, most_steps, across=True))
    assert found(len(sizes), Language(most_steps, across=True)) == wanted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "most_steps", "across"),
    [((2, 2, 2), 4, False), ((3, 2, 2), 3, False), ((2, 2, 2), 3, True), ((2, 2, 2, 2), 2, False)],
    ids=str,
)
def test_longer_programs_are_the_oracles_too(
    sizes: oracle.Label, most_steps: int, across: bool
) -> None:
    wanted = set(oracle.programs(sizes, most_steps, across))
    assert found(len(sizes), Language(most_steps, across)) == wanted


@pytest.mark.parametrize("depth", [2, 3])
def test_across_only_adds(depth: int) -> None:
    plain, more = found(depth, Language(4)), found(depth, Language(4, across=True))
    assert plain <= more
    with_gaps = {program for program in more if program not in plain}
    known = set(oracle.words(depth))
    assert all(set(program) - known for program in with_gaps)
    assert bool(with_gaps) == (depth > 2)


@pytest.mark.parametrize(("depth", "count"), [(2, 34), (3, 456)])
def test_the_states_that_a_program_of_five_steps_can_still_leave(depth: int, count: int) -> None:
    """34 and 456, the goal not counted, on every tree of that depth."""
    rules = Rulebook(depth, list_instructions(depth))
    seen = {rules.start}
    frontier = {rules.start}
    for _ in range(4):
        frontier = {then for state in frontier for _, then in rules.moves(state)} - seen
        seen |= frontier
    assert len(seen - {rules.end}) == count


@pytest.mark.parametrize(
    ("sizes", "count"), [((2, 2), 34), ((2, 3), 34), ((3, 2), 34), ((2, 2, 2), 456)], ids=str
)
def test_results_match_the_oracle(sizes: oracle.Label, count: int) -> None:
    assert oracle.reachable(sizes, 4) - 1 == count


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_priced_moves_are_the_same_programs(depth: int, across: bool) -> None:
    """One path a program, and every move as lowering sees it."""
    language = Language(4, across)
    graph = explore_moves(depth, language)
    assert graph.complete
    assert graph.count() == explore_states(depth, language).count()
    tree = Tree.of(*[2] * depth)
    labels = range(len(graph.alphabet))
    programs = []
    for path in graph.cheapest([0] * len(labels), labels):
        steps: list[Move] = [graph.alphabet[label] for label in path.labels]
        program = tuple(move.instruction for move in steps)
        derivation = derive(spelled(program, tree), tree)
        assert isinstance(derivation, Derivation)
        assert moves(derivation) == tuple(steps)
        programs.append(program)
    assert len(programs) == len(set(programs))
    assert set(programs) == set(all_valid(depth, language))


@pytest.mark.parametrize("goal", Goal)
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_priced_paths_are_as_many_for_every_goal_and_length(goal: Goal, depth: int) -> None:
    for most_steps in range(1, 4):
        language = Language(most_steps, across=depth < 3, goal=goal)
        priced = explore_moves(depth, language)
        assert priced.complete
        assert priced.count() == explore_states(depth, language).count()


@pytest.mark.parametrize("budget", [0, 1, 5, 20])
def test_a_budget_stops_the_walk_and_is_reported(budget: int) -> None:
    language = Language(5)

    def go_on(expanded: int) -> bool:
        return expanded < budget

    states = explore_states(3, language, go_on)
    priced = explore_moves(3, language, go_on)
    assert not states.complete
    assert not priced.complete
    assert labels_of(states) <= set(all_valid(3))
    assert 1 <= sum(priced.count()) <= sum(states.count()) < 1635


def labels_of(graph: PathGraph[State, Instruction]) -> set[tuple[Instruction, ...]]:
    labels = range(len(graph.alphabet))
    paths = graph.cheapest([0] * len(labels), labels)
    return {tuple(graph.alphabet[label] for label in path.labels) for path in paths}


def test_a_tree_without_digits_has_the_empty_program_only() -> None:
    assert explore_states(0, Language(3)).count() == [1, 0, 0, 0]
    assert explore_moves(0, Language(3)).count() == [1, 0, 0, 0]


@pytest.mark.parametrize("max_steps", [0, -1])
def test_a_program_may_have_a_step(max_steps: int) -> None:
    with pytest.raises(InputError, match=f"max-steps is {max_steps}; at least 1"):
        Language(max_steps)
