"""What a file says about a run besides its rows; only numbers and known words are kept.

Logs hold whole environments, command lines and host names, which may be private. Only what this
module understands is kept: the name of a test, NCCL_ALGO, NCCL_PROTO and NCCL_TESTS_SPLIT, each
as one of few known values, and hosts as numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from hierarchies import InputError
from synth.calibration.logs.tables import COLLECTIVES, MOST_ROWS, UNREAD, Rank, Row, Table
from synth.collectives.nccl_model import SPELLINGS

ALGORITHMS = {spelling.lower(): name for name, spelling in SPELLINGS.items()}
PROTOCOLS = {"simple": "simple", "ll": "ll", "ll128": "ll128"}
_PROGRAM = re.compile(rf"(?<![\w])({'|'.join([*UNREAD, *COLLECTIVES])})_perf")
_FORCED = re.compile(
    r"NCCL_(ALGO|PROTO)(?: +set by environment to +| *= *)[\"']?([A-Za-z0-9:^;,_]{1,200})"
)
_SPLIT = re.compile(
    r"NCCL_TESTS_SPLIT(?P<mask>_MASK)?(?: *= *|: +)[\"']?"
    r"(?P<rule>(?:(?:AND|OR|MOD|DIV|[&|%/]) *)?(?:0[xX][0-9a-fA-F]{1,8}|0[bB][01]{1,31}|\d{1,9}))"
)
_RULE = re.compile(r"(?P<name>AND|OR|MOD|DIV|[&|%/]) *(?P<value>\w+)")
_RULES = {"&": "AND", "|": "OR", "%": "MOD", "/": "DIV"}


def program_of(line: str) -> str | None:
    """The collective whose test a line names (``all_reduce_perf``), in the tests' words."""
    found = _PROGRAM.search(line)
    return found[1] if found else None


def algorithm_of(value: str) -> str | None:
    """NCCL_ALGO's value as one of our algorithms; None for none, several, unknown."""
    return ALGORITHMS.get(value.strip().lower())


def protocol_of(value: str) -> str | None:
    """NCCL_PROTO's value as one of our protocols; None if it names none, several, unknown ones."""
    return PROTOCOLS.get(value.strip().lower())


def split_of(text: str) -> str | None:
    """``MOD 8`` of ``NCCL_TESTS_SPLIT="%8"``, ``AND 7`` of ``NCCL_TESTS_SPLIT_MASK=0x7``."""
    found = _SPLIT.search(text)
    if not found:
        return None
    rule = f"AND {found['rule']}" if found["mask"] else found["rule"]
    parts = _RULE.fullmatch(rule)
    if not parts:
        return None
    try:
        value = int(parts["value"], 0)
    except ValueError:
        return None
    return f"{_RULES.get(parts['name'], parts['name'])} {value}"


def color(split: str, rank: int) -> int:
    """The group that NCCL_TESTS_SPLIT puts a rank in (nccl-tests, src/common.cu)."""
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


def forced(facts: Facts, line: str) -> None:
    """Note the algorithm, protocol or split that a line says the environment sets."""
    if "NCCL_" not in line:
        return
    one_run = "NCCL INFO" in line or program_of(line) is not None
    for which, value in _FORCED.findall(line):
        way = algorithm_of(value) if which == "ALGO" else protocol_of(value)
        if way is None:
            facts.unknown.append(f"NCCL_{which}")
        else:
            facts.force(which, way, one_run)
    if split := split_of(line):
        facts.force("SPLIT", split, one_run)


def check_rows(count: int, source: str) -> None:
    """Raises InputError for more rows than logs have."""
    if count > MOST_ROWS:
        raise InputError(f"more than {MOST_ROWS} rows", where=source, hint="give them in parts")


@dataclass
class Facts:
    """Gathers what a file says of a run until the table of the run has been read.

    ``stated`` is that table as far as it is known; ``unknown`` are variables whose values name no
    way of ours; ``ended``: a table of the run was read to its end.
    """

    stated: Table
    places: list[Rank] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    ended: bool = False
    _hosts: dict[str, int] = field(default_factory=dict)
    _forced: dict[str, str] = field(default_factory=dict)
    _lasting: dict[str, str] = field(default_factory=dict)

    def add(self, **facts: Any) -> None:
        """Take facts by the names that they have in a table."""
        self.stated = replace(self.stated, **facts)

    def force(self, which: str, value: str, one_run: bool) -> None:
        """Note a forced way: of this run (its command line, NCCL's own words), or from here on."""
        (self._forced if one_run else self._lasting)[which] = value

    def host_number(self, name: str) -> int:
        """The number of a host, in the order in which their names come up."""
        return self._hosts.setdefault(name, len(self._hosts))

    def note(self, key: str, value: str) -> None:
        """Take a comment line ``# key: value`` that states a fact of the run."""
        if key in _NOTES:
            name, read = _NOTES[key]
            if found := read(value):
                self.add(**{name: found})

    def table(self, rows: Iterable[Row | None]) -> Table:
        """What is known, with these rows; those that could not be read (None) are counted.

        Raises InputError where there are too many.
        """
        found = list(islice(rows, MOST_ROWS + 1))
        check_rows(len(found), self.stated.source)
        good = tuple(row for row in found if row is not None)
        ways = {**self._lasting, **self._forced}
        names = sorted(set(self.unknown))
        return replace(
            self.stated,
            rows=good,
            places=tuple(self.places),
            algorithm=ways.get("ALGO"),
            protocol=ways.get("PROTO"),
            split=ways.get("SPLIT"),
            broken=len(found) - len(good),
            warnings=tuple(f"{name} has a value that names no single way" for name in names),
        )

    def afresh(self, keep_places: bool = False) -> Facts:
        """The facts for the next run in the same file: comment notes stay, what a run printed goes.

        A run's list of devices goes with its table, unless more tables follow without a list of
        their own (a test of several types or roots prints one list).
        """
        return Facts(
            replace(self.stated, single_size=False, columns=()),
            list(self.places) if keep_places else [],
            _hosts=dict(self._hosts) if keep_places else {},
            _lasting=dict(self._lasting),
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
    "members": ("members", _wholes),
    "busy": ("busy", _wholes),
}
"""The facts that comment lines state: the name of each in a table, and how it is read."""
