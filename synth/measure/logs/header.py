"""Facts about a run that its file states outside the rows; only numbers and known words are kept.

Logs contain whole environments, command lines and host names, which may be private. Only facts that
this module understands are kept: the name of a test, variables that choose algorithms, protocols
and groups, each as one of a few known values, and hosts as numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from hierarchies import InputError
from synth.collective.algorithms.nccl_model import COLLNET_DIRECT, NVLS, NVLS_TREE, SPELLINGS
from synth.measure.logs.tables import (
    COLLECTIVES,
    MOST_ROWS,
    UNREAD,
    ForcedChoice,
    LogRow,
    RankRecord,
    Table,
)

ALGORITHMS = {spelling.lower(): name for name, spelling in SPELLINGS.items()}
ALGORITHMS["collnet"] = COLLNET_DIRECT  # NCCL before 2.14
PROTOCOLS = {"simple": "simple", "ll": "ll", "ll128": "ll128"}
KNOWN = {
    "NCCL_ALGO": tuple(SPELLINGS.values()),
    "NCCL_PROTO": ("Simple", "LL", "LL128"),
    "NCCL_NVLS_ENABLE": ("0", "1", "2"),
}
"""The values of each variable, as NVIDIA spells them."""
_TESTS = "|".join([*UNREAD, *COLLECTIVES])
_PROGRAM = re.compile(rf"(?<![\w])({_TESTS})_perf")
_CALL = re.compile(
    rf"(?P<before>.*?)(?<![\w])(?:{_TESTS})_perf(?:_mpi)?[\"']?"
    r"(?P<after>\s+-{1,2}\w|\s*$|\s*[|>&;])"
)
_LAUNCHERS = re.compile(
    r"NCCL_|\b(?:mpirun|mpiexec|prterun|orterun|srun|torchrun|aprun|jsrun|sudo|env|bash|docker|"
    r"kubectl|numactl|singularity|apptainer)\b"
)
_PROMPT = re.compile(r"\s*(?:\S{0,80}[$#>%]\s|\$|\+{1,3}\s)?\s*[\w./~${}-]{0,200}$")
_NAMES = r"NCCL_(?P<name>ALGO|PROTO|NVLS_ENABLE)"
_SET = re.compile(
    rf"(?:-g?env\s+|\bsetenv\s+(?=\S+\s)){_NAMES}\s+(?P<given>[\w:^;,]{{1,200}})|"
    rf"{_NAMES.replace('?P<name>', '?P<other>')}(?: +set by environment to +| *= *)"
    r"[\"']?(?P<value>(?:(?!,\w{1,60}=)[\w:^;,]){0,200})"
)
_UNSET = re.compile(r"(?:\bunset(?:env)?|\benv\s+-u)\s+(?P<names>[\w ]{1,400})")
_SPLIT = re.compile(
    r"NCCL_TESTS_SPLIT(?P<mask>_MASK)?(?: *= *|: +)[\"']?"
    r"(?P<rule>(?:(?:AND|OR|MOD|DIV|[&|%/]) *)?(?:0[xX][0-9a-fA-F]{1,8}|0[bB][01]{1,31}|\d{1,9}))"
)
_RULE = re.compile(r"(?P<name>AND|OR|MOD|DIV|[&|%/]) *(?P<value>\w+)")
_RULES = {"&": "AND", "|": "OR", "%": "MOD", "/": "DIV"}

ForcedNames = Mapping[str, frozenset[str]]
"""The names that a variable allows, by collective; "" stands for all other collectives."""


def find_program(line: str) -> str | None:
    """Returns the collective whose test a line names, by the tests' name."""
    found = _PROGRAM.search(line)
    return found[1] if found else None


def is_command(line: str) -> bool:
    """Whether a line starts a test: a command, perhaps after a prompt, variables or a launcher.

    >>> [is_command(line) for line in ("$ ./all_reduce_perf -g 8", "NCCL_ALGO=Tree all_reduce_perf",
    ...  "# Collective test starting: all_reduce_perf", "all_reduce_perf: not found")]
    [True, True, False, False]
    """
    found = _CALL.match(line)
    if not found:
        return False
    before = found["before"]
    if line.lstrip().startswith("#"):
        return _LAUNCHERS.search(before) is not None
    return bool(_LAUNCHERS.search(before) or _PROMPT.fullmatch(before))


def parse_split(text: str) -> str | None:
    """Returns ``MOD 8`` for ``NCCL_TESTS_SPLIT="%8"``, ``AND 7`` for ``..._MASK=0x7``."""
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


@dataclass
class Environment:
    """The variables of the run that is being read, with known words only.

    A file may contain several runs. An export lasts until it is repeated or unset. Variables on a
    command line or in the runtime's output apply only to that run.
    """

    _lasting: dict[str, ForcedNames | str] = field(default_factory=dict)
    _of_run: dict[str, ForcedNames | str] = field(default_factory=dict)

    def read(self, line: str) -> None:
        """Applies the variables that a line sets or unsets, for its run or for all that follow."""
        if "NCCL_" not in line:
            return
        one_run = "NCCL INFO" in line or find_program(line) is not None
        held = self._of_run if one_run else self._lasting
        for found in _UNSET.finditer(line):
            for name in re.findall(r"NCCL_(\w+)", found["names"]):
                held[name] = {}
        for found in _SET.finditer(line):
            name = found["name"] or found["other"]
            held[name] = _parse_choice(name, found["given"] or found["value"])
        if split := parse_split(line):
            held["TESTS_SPLIT"] = split

    def after_run(self) -> Environment:
        """Returns the variables for the next run: the exported ones."""
        return Environment(dict(self._lasting))

    def forced(self, collective: str | None) -> ForcedChoice:
        """Returns the choices that the variables force on a test, given by the tests' name."""
        held = {**self._lasting, **self._of_run}
        function = (collective or "").replace("_", "")
        ways = {
            name: chosen.get(function, chosen.get(""))
            for name, chosen in held.items()
            if not isinstance(chosen, str)
        }
        left = ways.get("ALGO") or frozenset(ALGORITHMS.values())
        left -= frozenset((NVLS, NVLS_TREE)) if ways.get("NVLS_ENABLE") == frozenset("0") else set()
        protocols = ways.get("PROTO") or frozenset()
        split = held.get("TESTS_SPLIT")
        unknown = [f"NCCL_{name}" for name, words in sorted(ways.items()) if words == frozenset()]
        return ForcedChoice(
            next(iter(left)) if len(left) == 1 else None,
            next(iter(protocols)) if len(protocols) == 1 else None,
            tuple(name for name in SPELLINGS if name not in left) if len(left) > 1 else (),
            split if isinstance(split, str) else None,
            tuple(unknown),
            ("NCCL_PROTO",) if len(protocols) > 1 else (),
        )


def _parse_choice(name: str, value: str) -> ForcedNames:
    """Returns the names that a value such as ``ring,tree;allgather:^nvls`` allows, by collective.

    Unknown words give an empty set. An empty value gives no entry, like an unset variable
    (parseList in NCCL's tuning).
    """
    known = {"ALGO": ALGORITHMS, "PROTO": PROTOCOLS, "NVLS_ENABLE": {"0": "0", "1": "1", "2": "2"}}
    words = known[name]
    found = {}
    for part in value.lower().split(";"):
        function, colon, listed = part.rpartition(":")
        names = [name.strip() for name in listed.lstrip("^").split(",") if name.strip()]
        if not names and not colon:
            continue
        chosen = frozenset(words[name] for name in names if name in words)
        if len(chosen) < len({*names}):
            chosen = frozenset()
        elif listed.startswith("^"):
            chosen = frozenset(words.values()) - chosen
        found[function] = chosen
    return found


def color(split: str, rank: int) -> int:
    """Returns the group of a rank by NCCL_TESTS_SPLIT (nccl-tests, src/common.cu)."""
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

    ``stated`` is the table so far, ``environment`` the settings of the run. ``ended``: a table of
    the run was read to its end.
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
        """Returns the facts for the next run in the file, with comment notes but without output.

        A run's list of devices and its command line are dropped with its table, unless more tables
        follow without their own list: a test of several types or roots prints a single list.
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
"""The facts that comment lines state: the name of each fact in a table, and its parser."""
