"""Law F2: no row is wrong; of what is right and no row, the reason is written down."""

from __future__ import annotations

import tomllib
from collections import Counter

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from math import prod

from equations.cases import Case, cases
from equations.enumerated import Combination, Found, enumerated, lies_of
from exhaustive import Sample, sampled
from grammar.tensors.sharding import ReductionKind
from places import TESTS
from synth.primitives import PRIMITIVES, REPLICATED_ONLY
from synth.primitives.factor import spell_shardings
from synth.step.factors import Row, list_rows

CASES = cases()
MISSING = TESTS / "equations" / "missing.toml"
PROBED = ("add", "exp", "reduce_max", "reshape joins")


def spelled(one: Combination) -> str:
    return f"{spell_shardings(one[0])} -> {spell_shardings(one[1])}"


def known_missing() -> dict[str, set[str]]:
    """By equation, what is right and no row."""
    found: dict[str, set[str]] = {}
    for entry in tomllib.loads(MISSING.read_text(encoding="utf-8"))["missing"]:
        assert entry["reason"]
        for equation, combinations in entry["right"].items():
            known = found.setdefault(equation, set())
            assert not known.intersection(combinations), equation
            known.update(combinations)
    return found


def combinations(case: Case) -> int:
    values = (*case.operation.operands, *case.operation.results)
    return prod(len(lies_of(value)) for value in values)


def test_there_are_enough() -> None:
    assert sum(map(combinations, CASES)) >= 25_000
    assert len({case.operation.primitive for case in CASES}) >= 53


def test_all_primitives_of_the_table_are_judged() -> None:
    assert {case.operation.primitive for case in CASES} == PRIMITIVES.keys() - REPLICATED_ONLY


def test_missing_entries_refer_to_existing_equations() -> None:
    assert known_missing().keys() <= {case.name for case in CASES}


@sampled(12, seed=4, parts=2)
def test_no_row_is_wrong_and_none_is_missing_without_a_reason(sample: Sample) -> None:
    known = known_missing()
    count = Counter[str]()
    for case in sample(CASES):
        found = enumerated(case)
        assert not found.wrong, (case.name, sorted(map(spelled, found.wrong)))
        assert set(map(spelled, found.missing)) == known.get(case.name, set()), case.name
        assert found.combinations == combinations(case)
        count["combinations"] += found.combinations
    sample.note("combinations", count["combinations"])


@pytest.mark.parametrize("name", PROBED)
def test_the_judge_finds_a_row_that_is_left_out_or_made_up(name: str) -> None:
    case = next(one for one in CASES if one.name == name)
    legal = list_rows(case.operation)
    for at, left_out in enumerate(legal[1:], 1):
        found = enumerated(case, (*legal[:at], *legal[at + 1 :]))
        implied = (left_out.operands, left_out.results) not in found.missing
        assert (
            not implied
            or ReductionKind.MAX in left_out.operands
            or ReductionKind.MIN in left_out.operands
        )
    for at, damaged in enumerate(legal[1:], 1):
        results = tuple(ReductionKind.SUM if lie is None else None for lie in damaged.results)
        found = enumerated(case, (*legal[:at], Row(damaged.operands, results), *legal[at + 1 :]))
        assert found.wrong


def test_the_summary_counts_results() -> None:
    case = next(one for one in CASES if one.name == "neg")
    assert enumerated(case) == Found(36, 6, frozenset(), frozenset())
