"""Sweeps over more cases than a change can wait for: all with ``make exhaustive``, some always.

A sweep is one test with two kinds of parameters: a sample, drawn with a seed that stands in the
test and run by ``make test``; and the rest, marked ``exhaustive``. exhaustive.toml says for each
test at which commit all of its cases were last found right.
"""

from __future__ import annotations

import json
import random
import subprocess
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from places import ROOT, TESTS

RECORD = TESTS / "exhaustive.toml"
HEAD = "# What `make exhaustive` found right, all of it: written by it, see exhaustive.py."
RARELY = (pytest.mark.slow, pytest.mark.exhaustive)
T = TypeVar("T")


@dataclass(frozen=True)
class Sample:
    """Which of a test's cases are its own: some, drawn with a seed, or one of equal parts of all.

    Sample(3, seed=1) has three of them. Sample(of=4, part=0) has every fourth, from the first on;
    parts 0 to 3 together have each case once.
    """

    count: int | None = None
    seed: int = 0
    part: int = 0
    of: int = 1
    note: Callable[[str, object], None] = lambda name, value: None

    def __call__(self, cases: Sequence[T]) -> list[T]:
        if self.count is None:
            found = list(cases[self.part :: self.of])
        else:
            found = random.Random(self.seed).sample(cases, min(self.count, len(cases)))
        self.note("cases", len(found))
        return found


def sampled(count: int, seed: int, parts: int = 1) -> pytest.MarkDecorator:
    """A test that takes a ``sample``: of so many cases, or exhaustive, of all, in parts."""
    whole = [
        pytest.param(Sample(part=part, of=parts), id=f"part {part} of {parts}", marks=RARELY)
        for part in range(parts)
    ]
    return pytest.mark.parametrize(
        "sample",
        [pytest.param(Sample(count, seed), id=f"{count} of seed {seed}"), *whole],
        indirect=True,
    )


def a_few(cases: Sequence[Any], count: int, seed: int) -> list[Any]:
    """All cases as parameters of a test; but for a few, drawn with the seed, exhaustive."""
    drawn = set(random.Random(seed).sample(range(len(cases)), count))
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=() if number in drawn else RARELY,
        )
        for number, case in enumerate(cases)
    ]


def in_turn(these: Iterable[Any], those: Iterable[Any]) -> list[Any]:
    """Each of these with one of those, the next with the next; exhaustive, each with all."""
    others = list(those)
    return [
        pytest.param(one, other, marks=() if place == at % len(others) else RARELY)
        for at, one in enumerate(these)
        for place, other in enumerate(others)
    ]


def examples(few: int, many: int) -> Callable[[T], T]:
    """A property that takes long: put to a few examples, and by the slow tests, to many.

    Hypothesis draws either with a seed that comes from the test.
    """

    def put(test: T) -> T:
        rarely = (pytest.mark.slow, pytest.mark.thorough)
        counts = [
            pytest.param(few, id=f"{few} examples"),
            pytest.param(many, id=f"{many} examples", marks=rarely),
        ]
        pytest.mark.parametrize("examples", counts, indirect=True)(test)
        pytest.mark.usefixtures("examples")(test)
        return test

    return put


@dataclass(frozen=True)
class Entry:
    """One sweep that was gone through whole: the test, when and where, and how much it was."""

    test: str
    commit: str
    date: str
    cases: int
    seconds: int


def entries(text: str) -> list[Entry]:
    return [Entry(**given) for given in tomllib.loads(text).get("sweep", [])]


def written(found: Sequence[Entry]) -> str:
    blocks = [
        "\n".join(["[[sweep]]", *(f"{k} = {json.dumps(v)}" for k, v in asdict(entry).items())])
        for entry in sorted(found, key=lambda entry: entry.test)
    ]
    return "\n\n".join([HEAD, *blocks]) + "\n"


@dataclass
class Right:
    """What of a test has passed so far: cases, and the seconds that they took."""

    cases: int = 0
    seconds: float = 0.0


class Recorder:
    """Notes in exhaustive.toml which sweeps of a session were right in all their parts."""

    def __init__(self, file: Path = RECORD) -> None:
        self.file = file
        self.right: dict[str, Right] = {}
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if "exhaustive" not in report.keywords:
            return
        test = report.nodeid.partition("[")[0]
        if not report.passed:
            self.failed.add(test)
        elif report.when == "call":
            cases = [value for name, value in report.user_properties if name == "cases"]
            right = self.right.setdefault(test, Right())
            right.cases += sum(cases) if cases else 1
            right.seconds += report.duration

    def pytest_sessionfinish(self) -> None:
        commit, date = here(), datetime.now(UTC).date().isoformat()
        found = {entry.test: entry for entry in entries(self.file.read_text(encoding="utf-8"))}
        for test in self.right.keys() - self.failed:
            right = self.right[test]
            found[test] = Entry(test, commit, date, right.cases, round(right.seconds))
        self.file.write_text(written(list(found.values())), encoding="utf-8")


def here() -> str:
    """The commit that is checked out; with a + if files differ from it."""
    words = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()
