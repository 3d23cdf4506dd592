"""Answers and proofs that are kept change no price, and are those that would be found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grammar import Goal
from hierarchies import Axis, Placement, Reduction, System, load
from synth.cache.choice import NONE, VARIABLE
from synth.collective.algorithms.algorithms import Choice
from synth.collective.ranking import answers, library, oracle
from synth.collective.ranking.oracle import PlacedGoal, ProgramPrices
from synth.collective.ranking.request import Answer, Watcher
from synth.collective.verify.symbolic import Unknown

SYSTEM = load("dgx-h100:4")
ROWS = (((4, 2), (1, 4)), ((1, 8), (4, 1)), ((2, 4), (2, 2)))
"""Of the reduced axis and of another, on nodes and GPUs."""


def goals(size: int = 2**24, system: System = SYSTEM, axis: str = "data") -> list[PlacedGoal]:
    found = []
    for first, rest in ROWS:
        axes = Axis(axis, first[0] * first[1]), Axis("rest", rest[0] * rest[1])
        placement = Placement(system.hierarchy, axes, (first, rest))
        for goal in (Goal.ALL_REDUCE, Goal.ALL_GATHER, Goal.ALL_TO_ALL):
            found.append(PlacedGoal(goal, size, Reduction(placement, (axis,))))
    return found


def forget() -> None:
    for each in (oracle.KEPT, library.PROOFS):
        each.forget()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    forget()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "kept"))
    yield tmp_path / "kept"
    forget()


def prices(**settings: Any) -> ProgramPrices:
    return ProgramPrices(settings.pop("system", SYSTEM), **{"stripes": False, **settings})


def asked(programs: ProgramPrices, several: list[PlacedGoal]) -> list[Answer]:
    programs.prove(several, Watcher())
    return [programs.answer(placed) for placed in several]


def coded(several: list[Answer]) -> list[str]:
    nowhere: Any = None
    return [
        oracle.KEPT._codec.encode(
            replace(answer, candidate=replace(answer.candidate, reduction=nowhere))
        )
        for answer in several
    ]


@pytest.mark.parametrize("name", ["dgx-h100:4", "dgx-a100:4"])
def test_answers_that_are_kept_are_those_that_are_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    system = load(name)
    several = goals(system=system)
    with monkeypatch.context() as patch:
        patch.setenv(VARIABLE, NONE)
        alone = asked(prices(system=system), several)
    assert not folder.exists()
    assert asked(prices(system=system), several) == alone
    monkeypatch.setattr(oracle, "prove_answers", None)
    monkeypatch.setattr(oracle, "CandidateSearch", None)
    for where in ("in memory", "on disk"):
        if where == "on disk":
            forget()
        again = asked(prices(system=system), several)
        assert again == alone
        assert coded(again) == coded(alone)


def test_another_name_of_an_axis_finds_the_same_answers_in_its_own_place(folder: Path) -> None:
    asked(prices(), goals())
    forget()
    others = goals(axis="batch")
    for answer, placed in zip(asked(prices(), others), others, strict=True):
        assert answer.candidate.reduction == placed.reduction
    assert coded(asked(prices(), others)) == coded(asked(prices(), goals()))


OTHERS: list[dict[str, Any]] = [
    {"system": replace(SYSTEM, calibration=None)},
    {"choice": Choice.ANY},
    {"segments": (1,)},
    {"stripes": True},
]


@pytest.mark.parametrize("other", OTHERS, ids=lambda other: next(iter(other)))
def test_other_prices_and_settings_need_other_answers(
    folder: Path, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any]
) -> None:
    several = goals()[:3]
    asked(prices(), several)
    forget()
    others = asked(prices(**other), several)
    monkeypatch.setenv(VARIABLE, NONE)
    assert others == asked(prices(**other), several)


def test_a_program_is_proved_once_for_all_sizes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All-gathers of few bytes and of many are the same program, and z3 knows no bytes."""
    gathers = [placed for placed in goals() if placed.goal is Goal.ALL_GATHER]
    first = asked(prices(), gathers)
    proved = {answer.candidate.derivation.instructions for answer in first}
    forget()
    judged = []
    judge = answers.judge_symbolically

    def count(derivation: Any) -> Any:
        judged.append(derivation.instructions)
        return judge(derivation)

    monkeypatch.setattr(answers, "judge_symbolically", count)
    asked(prices(), [replace(placed, payload_bytes=2**25) for placed in gathers])
    assert not proved & {*judged}


def test_what_is_not_proved_or_may_be_stopped_is_not_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(prices(go_on=lambda: True), goals()[:1])
    kept = [path.read_text() for path in folder.iterdir()]
    assert [text for text in kept if '"Answer"' in text] == []
    forget()
    monkeypatch.setenv(VARIABLE, str(folder / "other"))
    monkeypatch.setattr(answers, "judge_symbolically", lambda derivation: Unknown("tired"))
    [answer] = asked(prices(), goals()[:1])
    assert answer.verdict == Unknown("tired")
    assert not (folder / "other").exists()


def test_damaged_answers_are_found_again_and_written_again(folder: Path) -> None:
    several = goals()[:2]
    expected = asked(prices(), several)
    entries = {path: path.read_bytes() for path in folder.iterdir()}
    for number, path in enumerate(entries):
        path.write_bytes(entries[path][:-9] if number % 2 else b"0" + entries[path])
    forget()
    assert asked(prices(), several) == expected
    assert {path: path.read_bytes() for path in folder.iterdir()} == entries
