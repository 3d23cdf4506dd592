"""Sweeps: samples are what their seeds say, parts leave nothing out, and the record is honest."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exhaustive import (
    RARELY,
    RECORD,
    Entry,
    Recorder,
    Sample,
    a_few,
    entries,
    in_turn,
    written,
)
from places import ROOT


@given(st.lists(st.integers(), unique=True), st.integers(1, 9))
def test_parts_together_have_each_case_once(cases: list[int], parts: int) -> None:
    found = [case for part in range(parts) for case in Sample(part=part, of=parts)(cases)]
    assert sorted(found) == sorted(cases)


@given(st.lists(st.integers(), unique=True), st.integers(0, 20), st.integers())
def test_a_seed_determines_its_sample(cases: list[int], count: int, seed: int) -> None:
    found = Sample(count, seed)(cases)
    assert found == Sample(count, seed)(cases)
    assert len(set(found)) == min(count, len(cases))
    assert set(found) <= set(cases)


def test_all_but_a_few_are_exhaustive() -> None:
    found = a_few([(number, 0) for number in range(9)], 2, seed=1)
    assert [param.values for param in found] == [(number, 0) for number in range(9)]
    assert sum(tuple(param.marks) == RARELY for param in found) == 7
    assert sum(not param.marks for param in found) == 2


def test_each_of_these_comes_once_with_those_in_turn() -> None:
    found = in_turn("abcd", [1, 2, 3])
    assert [one.values for one in found if not one.marks] == [
        ("a", 1),
        ("b", 2),
        ("c", 3),
        ("d", 1),
    ]
    assert len(found) == 12
    assert all(tuple(one.marks) == RARELY for one in found if one.marks)


def test_the_record_names_tests_and_commits_that_exist() -> None:
    for entry in entries(RECORD.read_text(encoding="utf-8")):
        file, _, name = entry.test.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")
        assert "+" not in entry.commit
        assert entry.cases > 0


def test_only_what_was_right_in_all_parts_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exhaustive.here", lambda: "c1")
    file, old = tmp_path / "record.toml", Entry("a.py::before", "c0", "2026-01-01", 4, 5)
    file.write_text(written([old]))
    recorder = Recorder(file)
    for test, passed, marks, when in (
        ("a.py::good[1]", True, ("exhaustive",), "setup"),
        ("a.py::good[1]", True, ("exhaustive",), "call"),
        ("a.py::good[2]", True, ("exhaustive",), "call"),
        ("a.py::bad[1]", True, ("exhaustive",), "call"),
        ("a.py::bad[2]", False, ("exhaustive",), "call"),
        ("a.py::plain", True, (), "call"),
    ):
        report = SimpleNamespace(
            nodeid=test,
            passed=passed,
            keywords=dict.fromkeys(marks, 1),
            when=when,
            duration=2.0,
            user_properties=[("cases", 10)],
        )
        recorder.pytest_runtest_logreport(report)  # type: ignore[arg-type]
    recorder.pytest_sessionfinish()
    kept, new = entries(file.read_text())
    assert kept == old
    assert (new.test, new.commit, new.cases, new.seconds) == ("a.py::good", "c1", 20, 4)
