"""Which tests are not quick: those that took longer than half a second when that was last noted.

``pytest --note-slow`` notes it in slow.txt, a test a line, of all that it runs. They are marked
slow and thorough, as the properties that are put to many examples are: ``make slow`` runs them,
``make quick`` does not, and where a mistake is looked for (``make mutants``) they are there.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from places import TESTS

RECORD = TESTS / "slow.txt"
MOST_SECONDS = 0.5


def mark(items: Iterable[pytest.Item], file: Path = RECORD) -> None:
    """Mark those that were noted."""
    noted = set(file.read_text(encoding="utf-8").splitlines())
    for one in items:
        if one.nodeid in noted:
            one.add_marker(pytest.mark.slow)
            one.add_marker(pytest.mark.thorough)


class Noter:
    """Notes in slow.txt which tests of a session took long; others stay as they were noted.

    What a test's own fixtures take is not its own: they would be made for the next one.
    """

    def __init__(self, file: Path = RECORD) -> None:
        self.file = file
        self.before = set(file.read_text(encoding="utf-8").splitlines())
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        always = "slow" in report.keywords and report.nodeid not in self.before
        if report.when == "call" and not always:
            self.seconds[report.nodeid] = report.duration

    def pytest_sessionfinish(self) -> None:
        long = {name for name, seconds in self.seconds.items() if seconds > MOST_SECONDS}
        found = sorted(self.before - self.seconds.keys() | long)
        self.file.write_text("".join(f"{name}\n" for name in found), encoding="utf-8")
