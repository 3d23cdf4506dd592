"""Rules, replay and z3 give one verdict on every program, though each reaches it its own way.

Whoever refuses a step refuses whatever follows it; so programs are walked as a tree, and only what
is sound is continued. Each node is one program, put whole to each judge. Where there are thousands
the rules walk, and the others judge a sample; all of it, in ``make exhaustive``.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from at_size import prove_at
from exhaustive import Sample, sampled
from grammar import Goal, Instruction, Program, list_instructions, spell
from hierarchies import Tree
from synth.collective.semantics.rules import DemandKind, Derivation, derive
from synth.collective.verify.replay import Failure, expected_multiplicities, multiplicities
from synth.collective.verify.symbolic import Proved, Refuted, Unknown, prove

OTHERS = tuple(goal for goal in Goal if goal is not Goal.ALL_REDUCE)
ONE, TWO, THREE = Tree.of(2), Tree.of(2, 2), Tree.of(2, 2, 2)


class Word(NamedTuple):
    """A judge's verdict: whether every step is sound, and whether the goal is reached."""

    sound: bool
    reached: bool


def rules(program: Program, tree: Tree, goal: Goal) -> Word:
    told = derive(program, tree, goal, kinds=frozenset({DemandKind.SOUND}))
    if isinstance(told, Derivation):
        return Word(sound=True, reached=True)
    assert told.step in (None, len(program.steps) - 1)
    return Word(sound=told.step is None, reached=False)


def replay(program: Program, tree: Tree, goal: Goal) -> Word:
    """Of a program whose steps but the last are sound."""
    counts = multiplicities(program, tree, goal)
    if isinstance(counts, Failure):
        assert counts.phase == len(program.steps) - 1
        return Word(sound=False, reached=False)
    sound = bool(counts.max() <= 1)
    return Word(sound, sound and bool((counts == expected_multiplicities(counts, goal)).all()))


def z3(program: Program, tree: Tree, goal: Goal) -> Word:
    match prove(program, tree, goal):
        case Proved():
            return Word(sound=True, reached=True)
        case Refuted(step=step):
            assert step in (None, len(program.steps) - 1)
            return Word(sound=step is None, reached=False)
        case Unknown(reason):
            raise AssertionError(f"{program}: {reason}")


def z3_here(program: Program, tree: Tree, goal: Goal) -> Word:
    """At the tree's own sizes."""
    match prove_at(program, tree, goal):
        case Proved(sizes=sizes):
            assert sizes == tree.sizes
            return Word(sound=True, reached=True)
        case Refuted(step=step):
            return Word(sound=step is None, reached=False)
        case Unknown(reason):
            raise AssertionError(f"{program}: {reason}")


def candidates(
    tree: Tree, longest: int, goal: Goal = Goal.ALL_REDUCE, begun: tuple[Instruction, ...] = ()
) -> list[Program]:
    """Every program so begun of so many steps, of which all but the last are sound."""
    program = Program(tuple(spell(step, tree) for step in begun))
    found = [program]
    if len(begun) < longest and rules(program, tree, goal).sound:
        for step in list_instructions(len(tree.digits), goal=goal):
            found += candidates(tree, longest, goal, (*begun, step))
    return found


def agree(programs: list[Program], tree: Tree, goal: Goal = Goal.ALL_REDUCE) -> int:
    """How many programs were judged, all alike."""
    for program in programs:
        word = rules(program, tree, goal)
        assert replay(program, tree, goal) == word, program
        assert z3(program, tree, goal) == word, program
        if goal is not Goal.ALL_REDUCE:
            assert z3_here(program, tree, goal) == word, program
    return len(programs)


@pytest.mark.parametrize(
    ("tree", "longest", "every"),
    [
        pytest.param(ONE, 3, 1, id="1 digit"),
        pytest.param(TWO, 2, 5, id="2 digits, one in five"),
        pytest.param(TWO, 2, 1, id="2 digits", marks=pytest.mark.slow),
    ],
)
def test_the_judges_agree_on_short_programs(tree: Tree, longest: int, every: int) -> None:
    found = candidates(tree, longest)
    assert len(found) > len(list_instructions(len(tree.digits)))
    agree(found[::every], tree)


@pytest.mark.parametrize(
    ("tree", "longest"),
    [
        pytest.param(ONE, 3, id="1 digit"),
        pytest.param(TWO, 2, id="2 digits", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("goal", OTHERS)
def test_the_judges_agree_on_short_programs_for_every_goal(
    goal: Goal, tree: Tree, longest: int
) -> None:
    found = candidates(tree, longest, goal)
    assert agree(found, tree, goal) > len(list_instructions(len(tree.digits), goal=goal))


@pytest.mark.slow
@pytest.mark.parametrize("goal", OTHERS)
@sampled(300, seed=23, parts=2)
def test_the_judges_agree_on_two_digits_to_three_steps_for_every_goal(
    goal: Goal, sample: Sample
) -> None:
    assert agree(sample(candidates(TWO, 3, goal)), TWO, goal)


@pytest.mark.slow
@sampled(500, seed=2, parts=4)
def test_the_judges_agree_on_two_digits_to_three_steps(sample: Sample) -> None:
    found = candidates(TWO, 3)
    assert len(found) == 2781
    assert agree(sample(found), TWO)


@pytest.mark.slow
@sampled(1000, seed=3, parts=32)
def test_the_judges_agree_on_three_digits_to_three_steps(sample: Sample) -> None:
    found = candidates(THREE, 3)
    assert len(found) == 30196
    assert agree(sample(found), THREE)
