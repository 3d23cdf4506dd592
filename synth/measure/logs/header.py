"""Facts about a run in its file besides the rows; only numbers and known words are kept.

Logs contain whole environments, command lines and host names, which may be private. Only what this
module and ``environment`` understand is kept: the name of a test, variables that choose ways, each
as one of a few known values, and hosts as numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from hierarchies import InputError
from synth.measure.logs.environment import Environment
from synth.measure.logs.tables import COLLECTIVES, MOST_ROWS, UNREAD, LogRow, RankRecord, Table


def color(split: str, rank: int) -> int:
    """Returns the group that NCCL_TESTS_SPLIT puts a rank in (nccl-tests, src/common.cu)."""
    rule, value = split.split()
    number = int(value)
    match rule:
        case "AND":
            return rank & number
        case "OR":
            return rank | number
        case "MOD":
            return rank % number if number else rank
        case _:
            return rank // number if number else rank


def check_rows(count: int, source: str) -> None:
    """Raises InputError for more rows than logs have."""
    if count > MOST_ROWS:
        raise InputError(f"more than {MOST_ROWS} rows", where=source, hint="give them in parts")


@dataclass
class RunFacts:
    """Collects a file's facts about a run until the table of the run has been read.

    ``stated`` is that table so far; ``environment`` the settings of the run; ``ended``: a table
    of the run was read to its end.
    """

    stated: Table
    places: list[RankRecord] = field(default_factory=list)
    environment: Environment = field(default_factory=Environment)
    ended: bool = False
    _hosts: dict[str, int] = field(default_factory=dict)

    def add(self, **facts: Any) -> None:
        """Sets facts by their names in a table."""
        self.stated = replace(self.stated, **facts)

    def host_number(self, name: str) -> int:
        """Returns the number of a host, in order of first occurrence."""
        return self._hosts.setdefault(name, len(self._hosts))

    def note(self, key: str, value: str) -> None:
        """Reads a comment line ``# key: value`` that states a fact of the run."""
        if key in _NOTES:
            name, read = _NOTES[key]
            if found := read(value):
                self.add(**{name: found})

    def table(self, rows: Iterable[LogRow | None]) -> Table:
        """Returns the table with these rows; unreadable rows (None) are counted.

        Raises InputError for too many rows.
        """
        found = list(islice(rows, MOST_ROWS + 1))
        check_rows(len(found), self.stated.source)
        good = tuple(row for row in found if row is not None)
        forced = self.environment.forced(self.stated.collective)
        return replace(
            self.stated,
            rows=good,
            places=tuple(self.places),
            forced=forced,
            broken=len(found) - len(good),
            warnings=forced.warnings,
        )

    def afresh(self, keep_places: bool = False) -> RunFacts:
        """Returns the facts for the next run in the file: comment notes stay, a run's output goes.

        A run's list of devices and its command line go with its table, unless more tables
        follow without a list of their own (a test of several types or roots prints one
        list).
        """
        return RunFacts(
            replace(self.stated, single_size=False, columns=()),
            list(self.places) if keep_places else [],
            self.environment if keep_places else self.environment.after_run(),
            _hosts=dict(self._hosts) if keep_places else {},
        )


def _test(text: str) -> str | None:
    return text if text in COLLECTIVES or text in UNREAD else None


def _whole(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 10 else None


def _wholes(text: str) -> tuple[int, ...] | None:
    parts = [_whole(part) for part in text.split(",")]
    return None if None in parts or len(parts) > 16 else tuple(part for part in parts if part)


_NOTES: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "collective": ("collective", _test),
    "ranks": ("stated_ranks", _whole),
    "nodes": ("stated_hosts", _whole),
    "hosts": ("stated_hosts", _whole),
    "gpus_per_node": ("stated_per_host", _whole),
    "members": ("members", _wholes),
    "busy": ("busy", _wholes),
}
"""The facts that comment lines state: the name of each in a table, and its parser."""
