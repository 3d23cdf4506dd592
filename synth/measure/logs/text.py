"""The tables that nccl-tests and rccl-tests print, extracted from a launcher's output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path

from hierarchies import InputError
from synth.measure.logs.header import RunFacts, check_rows, find_program, is_command
from synth.measure.logs.tables import BARE, WORD_BYTES, LogRow, RankRecord, Table, Timing

LONGEST_LINE = 4096
"""Longer lines are skipped, as no test prints them."""
MOST_DIGITS = 18
_DEVICE = re.compile(
    r"Rank +(?P<rank>\d{1,9}) +(?:Group +(?P<group>\d{1,9}) +)?Pid +\d+ +(?:on +(?P<host>\S+) +)?"
    r"device +(?P<device>\d{1,6}) +\[[^\]]{0,64}\] *(?P<name>[^\r\n]{0,80})"
)
_RUN = re.compile(r"# +nThread +(?P<threads>\d{1,6}) +nGpus +(?P<gpus>\d{1,6}) .*?")
_SIZES = re.compile(r"minBytes +(\d{1,18}) +maxBytes +(\d{1,18})")
_NOTE = re.compile(r"# +(?P<key>[a-z_]+): +(?P<value>.{1,400})")
_FULL, _HALF = (8, 9), (4, 5)
_GAP = 30
_MOST_JOINED = 64
_ENDS = ("# Out of bounds values", "# Avg bus bandwidth", "# Collective test concluded")


def parse_text_tables(text: str, source: str) -> list[Table]:
    """Returns every table of a text, in order.

    A table ends where the tests print its end or announce the next table. Rows torn apart by other
    output are rejoined if their rest follows on a separate line; others are counted as broken.
    Tables of one size each, as from scripts that start a test for each size, are merged if the runs
    were otherwise the same. Raises InputError for too many rows.
    """
    reader = _LogReader(RunFacts(Table(source)))
    for line in join_lines(text.splitlines()):
        if len(line) <= LONGEST_LINE:
            reader.read(line)
    reader.close()
    return _merge_single_sizes(reader.logs)


def join_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yields the lines, joining commands continued by a backslash."""
    kept: list[str] = []
    for line in lines:
        if line.rstrip().endswith("\\") and len(kept) < _MOST_JOINED:
            kept.append(line.rstrip()[:-1])
            continue
        yield " ".join([*kept, line.strip()]) if kept else line
        kept = []
    yield from kept


@dataclass
class _LogReader:
    """Reads line by line: collects facts until rows come, and rows until the table ends."""

    facts: RunFacts
    logs: list[Table] = field(default_factory=list)
    _rows: list[LogRow | None] = field(default_factory=list)
    _count: int = 0
    _torn: _TornRow | None = None

    def read(self, line: str) -> None:
        if found := _find_row_head(line) or (self._bare and _bare_row(line)):
            self._settle()
            self._torn = found
            return
        if self._torn is not None and self._torn.continues(line):
            return
        if is_command(line):
            self._begin()
        elif _DEVICE.search(line) or _RUN.search(line) or "Collective test starting" in line:
            self.close()
        if any(mark in line for mark in _ENDS):
            self.close(ended=True)
        _take_facts(self.facts, line)

    @property
    def _bare(self) -> bool:
        return self.facts.stated.columns == BARE

    def close(self, ended: bool = False) -> None:
        """Ends the table, if there is one, and the facts of its run."""
        self._settle()
        if self._rows:
            self.logs.append(self.facts.table(self._rows))
            self._rows = []
            self.facts = self.facts.afresh(keep_places=ended)
        elif self.facts.ended and not ended:
            self.facts = self.facts.afresh()
        self.facts.ended = self.facts.ended or (ended and bool(self.logs))

    def _begin(self) -> None:
        """Begins a run at its command line, without the facts of other runs."""
        self.close()
        self.facts = self.facts.afresh()

    def _settle(self) -> None:
        if self._torn is not None:
            self._rows.append(self._torn.row())
            self._torn = None
            self._count += 1
            check_rows(self._count, self.facts.stated.source)


def _take_facts(facts: RunFacts, line: str) -> None:
    if device := _DEVICE.search(line):
        host = device["host"]
        facts.places.append(
            RankRecord(
                int(device["rank"]),
                int(device["group"] or 0),
                None if host is None else facts.host_number(host),
                int(device["device"]),
                device["name"].strip(),
            )
        )
        return
    head = line.partition("#")[2].split()
    if head[:3] in (["size", "count", "type"], [*BARE, "time"]):
        facts.add(columns=tuple(head[: head.index("time")] if "time" in head else head[:8]))
        return
    if not facts.stated.version and ("NCCL" in line or "nccl" in line):
        facts.add(version=find_version(line))
    if _RUN.search(line) and (sizes := _SIZES.search(line)):
        facts.add(single_size=sizes[1] == sizes[2])
    if (name := find_program(line)) and not line.lstrip().startswith("# source:"):
        facts.add(collective=name)
    facts.environment.read(line)
    if (note := _NOTE.match(line)) and not facts.places:
        facts.note(note["key"], note["value"].strip())


_VERSIONS = (
    re.compile(r"[NR]CCL version *:? *(\d[\w.+:-]{0,40})"),
    re.compile(r"nccl-library=(\d{1,9})"),
)


def find_version(line: str) -> str:
    """Returns the version of NCCL or RCCL that a line names, without the build, or ""."""
    for pattern in _VERSIONS:
        if found := pattern.search(line):
            return version_text(found[1])
    return ""


def version_text(text: str) -> str:
    """Returns ``2.16.5`` for ``2.16.5+cuda11.8`` and ``21605``."""
    if text.isdigit() and len(text) >= 4:
        code = int(text)
        scale = 10000 if code >= 10000 else 1000
        return f"{code // scale}.{code % scale // 100}.{code % 100}"
    return re.split(r"[^\d.]", text)[0].strip(".")


@dataclass
class _TornRow:
    """A partial row: its head, the numbers after it, and whether it can have only one half."""

    size_bytes: int
    count: int
    kind: str
    operation: str | None
    numbers: list[str]
    gap: bool
    junk: bool

    def continues(self, line: str) -> bool:
        """Adds the rest of the row, if the line contains nothing else. Whole rows are unchanged."""
        if len(self.numbers) in _FULL or (len(self.numbers) in _HALF and not self.junk):
            return False
        more = _strip_rank_mark(line).split()
        if not more or not all(_is_number(token) for token in more):
            return False
        if len(self.numbers) + len(more) > max(_FULL):
            return False
        self.numbers += more
        return True

    def row(self) -> LogRow | None:
        """Returns the row, or None if incomplete: 4 columns of each half, and perhaps a root."""
        numbers = self.numbers
        if len(numbers) not in _FULL + _HALF:
            return None
        root, halves = (numbers[0], numbers[1:]) if len(numbers) % 4 else (None, numbers)
        timings = [_timing(halves[i : i + 4]) for i in range(0, len(halves), 4)]
        if any(timing is None for timing in timings) or (root and not _is_whole(root)):
            return None
        first = timings[0]
        second = timings[1] if len(timings) == 2 else None
        if second is None and self.gap:
            first, second = None, first
        where = None if root is None else int(root)
        return LogRow(self.size_bytes, self.count, self.kind, self.operation, where, first, second)


def _find_row_head(line: str) -> _TornRow | None:
    """Returns the head of a row (size, count, type) in a line, and the numbers after it."""
    tokens = line.split()
    for i in range(2, len(tokens)):
        if tokens[i] not in WORD_BYTES:
            continue
        size, count = tokens[i - 2].rpartition(":")[2], tokens[i - 1]
        if _is_whole(size) and _is_whole(count) and not size.startswith("-"):
            return _begin_row(line, tokens, i, (int(size), int(count)))
    return None


def _bare_row(line: str) -> _TornRow | None:
    """Returns a row of mscclpp-test: no type, and one half, in-place unless a gap precedes it."""
    match _strip_rank_mark(line).split():
        case [size, count, *numbers] if (
            len(numbers) in (3, 4)
            and size.isdecimal()
            and all(map(_is_whole, (size, count)))
            and all(map(_is_number, numbers))
        ):
            half = [*numbers, "N/A"][:4]
            amounts = int(size), int(count)
            return _TornRow(*amounts, "int32", None, half, not _wide_gap(line), junk=False)
    return None


def _begin_row(line: str, tokens: Sequence[str], i: int, amounts: tuple[int, int]) -> _TornRow:
    after = i + 1
    operation = None
    if after < len(tokens) and tokens[after].isalpha():
        operation, after = tokens[after], after + 1
    numbers = []
    for token in tokens[after:]:
        if not _is_number(token):
            break
        numbers.append(token)
    junk = after + len(numbers) < len(tokens)
    if junk and not numbers and (root := re.match(r"-1(?=[A-Za-z])", tokens[after])):
        numbers.append(root[0])
    return _TornRow(*amounts, tokens[i], operation, numbers[: max(_FULL)], _wide_gap(line), junk)


def _wide_gap(line: str) -> bool:
    """Whether the first half of a row is blank: only the in-place time was measured."""
    return " " * _GAP in line.strip()


def _timing(columns: Sequence[str]) -> Timing | None:
    values = [_value(column, scale) for column, scale in zip(columns, (-6, 9, 9), strict=False)]
    if any(value is None for value in values):
        return None
    (seconds, a), (algbw, b), (busbw, c) = (value or (0.0, 0.0) for value in values)
    wrong = None if columns[3] == "N/A" else _wrong(columns[3])
    return Timing(seconds, algbw, busbw, wrong, (a, b, c))


def _wrong(column: str) -> float:
    """Returns the number of wrong elements; old tests print the largest error, which is below 1."""
    error = float(column)
    return 0.0 if 0 <= error < 1e-2 else error


def _value(text: str, power: int) -> tuple[float, float] | None:
    """Returns a printed number times a power of ten, and half a unit of its last digit."""
    if text.lower().lstrip("-") == "nan":
        return float("nan"), 0.0
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or abs(number.adjusted()) > MOST_DIGITS:
        return float("nan"), 0.0
    return float(number.scaleb(power)), 0.5 * float(Decimal(1).scaleb(exponent + power))


def _is_number(token: str) -> bool:
    if token == "N/A" or token.lower().lstrip("-") == "nan":
        return True
    return len(token) <= 40 and re.fullmatch(r"-?\d+(\.\d*)?(e[+-]?\d{1,4})?", token) is not None


def _is_whole(token: str) -> bool:
    return len(token) <= MOST_DIGITS and re.fullmatch(r"-?[0-9]+", token) is not None


_MARK = re.compile(r"\s*(?:\[[^\]]{0,40}\](?:<\w{1,10}>)?:?|\d{1,7}:)\s")


def _strip_rank_mark(line: str) -> str:
    """Returns a line without its rank's tag: ``[1,0]<stdout>:``, ``[STAT]:``, ``0:``."""
    mark = _MARK.match(line)
    return line[mark.end() :] if mark else line


def _merge_single_sizes(logs: Iterable[Table]) -> list[Table]:
    """Merges consecutive tables of one size each if they differ only in size."""
    found: list[Table] = []
    for log in logs:
        if found and _is_same_run(found[-1], log):
            rows, broken = found[-1].rows + log.rows, found[-1].broken + log.broken
            found[-1] = replace(found[-1], rows=rows, broken=broken)
        else:
            found.append(log)
    return found


def _is_same_run(first: Table, second: Table) -> bool:
    def alike(log: Table) -> tuple[object, ...]:
        kinds = {(row.kind, row.operation, row.root) for row in log.rows}
        return (
            log.collective,
            log.stated_ranks,
            [(p.rank, p.group, p.host, p.device) for p in log.places],
            (log.forced, log.members, log.busy),
            kinds if len(kinds) == 1 else log.rows,
        )

    new = set(second.sizes) - set(first.sizes)
    return (
        len(second.rows) == 1 and bool(new) and second.single_size and alike(first) == alike(second)
    )


MOST_BYTES = 2**28


def read_log_text(path: str | Path) -> str:
    """Returns the text of a log; undecodable bytes become U+FFFD.

    Raises InputError for a file that cannot be read, or is too large for a log.
    """
    try:
        with Path(path).open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except ValueError:
        raise InputError("is no name of a file", where=repr(str(path))[:80]) from None
    if len(raw) > MOST_BYTES:
        raise InputError(f"larger than {MOST_BYTES} bytes", where=str(path), hint="is it a log?")
    # Windows PowerShell redirects output as UTF-16 with a byte order mark.
    encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return raw.decode(encoding, errors="replace")
