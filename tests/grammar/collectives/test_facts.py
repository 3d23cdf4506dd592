"""The facts of collectives against the rules, which know them apart, and against other tables."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from grammar import Collective, Goal
from grammar.collectives.program import FACTS
from hierarchies.hierarchy import RESERVED
from places import ROOT
from synth.ask.answers.parts import CollectiveName
from synth.collective.semantics.rules import AIMS, Rulebook
from synth.collective.semantics.truth_tables import own_chunks, own_contributions, truth_tables
from synth.measure.calibration.prior import TRAITS
from synth.measure.logs.tables import PIECES

DEPTH = 2
SPACE = truth_tables(DEPTH)
FIRST = SPACE.all_zero(SPACE.devices)


def rows(table: int) -> int:
    """Which device holds anything of which chunk."""
    return SPACE.drop(table, 2 * DEPTH)


def test_every_collective_can_be_requested_and_has_facts() -> None:
    names = [one.value for one in Collective]
    assert names == [one.value for one in Goal] == list(FACTS)
    assert all(Goal(one.value).facts is one.facts for one in Collective)


@pytest.mark.parametrize("goal", Goal)
def test_facts_are_those_of_starts_and_ends(goal: Goal) -> None:
    """Who holds what before and after, as the rules have it."""
    aim = AIMS[goal]
    before, after = aim.start(SPACE), aim.end(SPACE)
    assert goal.gathers == (rows(before) == rows(own_chunks(SPACE)))
    assert goal.scatters == (rows(after) == rows(own_chunks(SPACE)))
    assert goal.from_first == (not before & ~FIRST)
    assert goal.to_first == (aim.watched(SPACE) == FIRST)
    assert (goal.reduces or goal.apart) == (before == own_contributions(SPACE))


@pytest.mark.parametrize("goal", Goal)
def test_the_alphabet_has_the_goal_in_one_step(goal: Goal) -> None:
    assert Collective(goal.value) in goal.alphabet
    for one, other in product(Goal, Goal):
        assert (one.alphabet == other.alphabet) == (one.apart == other.apart)
    assert Rulebook(DEPTH, (), goal=goal).start == AIMS[goal].start(SPACE)


def test_facts_by_hand() -> None:
    """Rounds are those of a ring: an all-reduce is a reduce-scatter and an all-gather."""
    assert {one.value: one.rounds for one in Collective} == {
        "all-reduce": 2,
        "reduce-scatter": 1,
        "all-gather": 1,
        "reduce": 1,
        "broadcast": 1,
        "all-to-all": 1,
    }
    assert [one.value for one in Goal if one.reduces] == ["all-reduce", "reduce-scatter", "reduce"]
    assert [one.value for one in Goal if not one.copies] == ["reduce-scatter", "reduce"]
    assert [one.value for one in Goal if one.rooted] == ["reduce", "broadcast"]
    assert [one.value for one in Goal if one.in_pieces] == [
        "reduce-scatter",
        "all-gather",
        "all-to-all",
    ]


def test_bus_bandwidth_has_the_factors_of_nccl_tests() -> None:
    """From doc/PERFORMANCE.md of nccl-tests, for 8 ranks."""
    factors = {
        "all-reduce": 14 / 8,
        "reduce-scatter": 7 / 8,
        "all-gather": 7 / 8,
        "all-to-all": 7 / 8,
        "broadcast": 1.0,
        "reduce": 1.0,
    }
    assert {goal.value: goal.busbw_factor(8) for goal in Goal} == factors


def test_tables_of_measurements_agree() -> None:
    assert set(PIECES) == {one.value for one in Goal if one.in_pieces}
    for goal in Goal:
        traits = {
            "one way" if goal.rooted else "both ways": 1.0,
            "reducing": goal.facts.reducing / goal.rounds,
            "copying": goal.facts.copying / goal.rounds,
        }
        assert TRAITS[goal.value] == {name: part for name, part in traits.items() if part}


def test_names_that_are_written_out_are_those_of_the_collectives() -> None:
    names = [one.value for one in Collective]
    assert list(get_args(CollectiveName)) == names
    assert set(names) <= RESERVED
    grammar = ROOT / "grammar" / "collectives" / "program.lark"
    assert f"({'|'.join(names)})" in grammar.read_text(encoding="utf-8")
