"""Which tests are not quick is noted, and of tests that there are."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from durations import RECORD, Noter
from places import ROOT


def test_the_record_names_tests_that_exist() -> None:
    for noted in RECORD.read_text(encoding="utf-8").splitlines():
        file, _, name = noted.partition("[")[0].partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), noted


def test_slow_tests_are_noted_and_entries_of_tests_not_run_stay(tmp_path: Path) -> None:
    file = tmp_path / "slow.txt"
    file.write_text("a.py::gone\na.py::mended\na.py::still\n")
    noter = Noter(file)
    for name, seconds, when, marks in (
        ("a.py::mended", 0.1, "call", ("slow",)),
        ("a.py::still", 2.0, "call", ("slow",)),
        ("a.py::new[x]", 2.0, "call", ()),
        ("a.py::quick", 0.1, "call", ()),
        ("a.py::first", 2.0, "setup", ()),
        ("a.py::first", 0.1, "call", ()),
        ("a.py::minutes", 90.0, "call", ("slow",)),
    ):
        keywords = dict.fromkeys(marks, 1)
        report = SimpleNamespace(nodeid=name, duration=seconds, when=when, keywords=keywords)
        noter.pytest_runtest_logreport(report)  # type: ignore[arg-type]
    noter.pytest_sessionfinish()
    assert file.read_text().splitlines() == ["a.py::gone", "a.py::new[x]", "a.py::still"]
