"""Reads the files that nccl-tests (-J) and rccl-tests (-Z json, -Z csv) write, and users' tables.

nccl-tests' files contain the whole environment of the run. It is discarded while the file is read,
except for known values of the variables for algorithm, protocol and split. A user's own table has
comment lines that state what was run, and columns of bytes and seconds:

# source: our cluster, 2026-10-02
# collective: all_gather
# nodes: 2
# ranks: 16
bytes,seconds,inplace_seconds
1048576,0.0000891,0.0000883
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

from hierarchies import InputError
from synth.measure.logs.header import Environment, RunFacts, check_rows, find_program, is_command
from synth.measure.logs.tables import COLLECTIVES, UNREAD, LogRow, RankRecord, Table, Timing
from synth.measure.logs.text import LONGEST_LINE, join_lines, version_text

_BEGINS = re.compile(r"\s*(\{|\[\s*$|\[\s*\{)")
_ANYWHERE = re.compile(
    r"^[ \t]*(?:\{|\[[ \t]*(?:$|\{)|(?:numCycle, *)?(?:collective|name), )", re.MULTILINE
)
_SETS = re.compile(r"[^{\[\"]*NCCL_")
MOST_OBJECTS = 100_000
_NOTE = re.compile(r"# *(?P<key>[a-z_]+): *(?P<value>.{1,400})")
_NAN = float("nan")
MOST_RANKS = 100_000
_DIGITS = 6
"""Number of decimals that C's %lf prints."""
_RCCL_NAMES = {name.replace("_", ""): name for name in (*COLLECTIVES, *UNREAD)}
_CSV_TAIL = ("size", "type", "redop", "inPlace", "time", "algBw", "busBw", "wrong")
_CSV_HEADS = {2: ("name", "gpus"), 5: ("name", "nodes", "ranks", "ranksPerNode", "gpusPerRank")}


def is_json(text: str) -> bool:
    """Whether a text begins with JSON, rather than with a launcher's ``[1,0]``."""
    return re.match(r"\s*(\{|\[\s*[{\]])", text[:1000]) is not None


def is_csv(text: str) -> bool:
    """Whether a text begins with rccl-tests' CSV."""
    return re.match(r"\s*(numCycle, *)?(collective|name), ", text[:200]) is not None


def parse_json_tables(text: str, source: str) -> list[Table]:
    """Returns the table of an nccl-tests file, or the tables of rccl-tests' lines.

    Raises InputError for other JSON, without quoting the text, because it may be private.
    """
    whole, lines = _parse_documents(text)
    if isinstance(whole, dict) and "results" in whole:
        return [_nccl(whole, source)]
    rows = whole if isinstance(whole, list) else [whole] if isinstance(whole, dict) else lines
    found = [row for row in rows if isinstance(row, dict) and "size" in row and "time" in row]
    if not found:
        raise _no_log_error(source)
    return _rccl(found, source)


def check_json(text: str, source: str) -> None:
    """Raises InputError for JSON with more objects than logs have, or without any size."""
    if (count := text.count("{")) > MOST_OBJECTS:
        hint = f"at most {MOST_OBJECTS} are read"
        raise InputError(f"JSON of {count} objects", where=source, hint=hint)
    if '"size"' not in text and '"results"' not in text:
        raise _no_log_error(source)


def _no_log_error(source: str) -> InputError:
    hint = "a file of nccl-tests' -J, or of rccl-tests' -Z json"
    return InputError("JSON that is no log", where=source, hint=hint)


def parse_csv_tables(text: str, source: str) -> list[Table]:
    """Returns the tables of rccl-tests' CSV, whose header has fewer columns than its rows.

    Raises InputError for too many rows.
    """
    rows: list[dict[str, str]] = []
    for cells in csv_rows(text.splitlines()[1:]):
        check_rows(len(rows), source)
        head = _CSV_HEADS.get(len(cells) - len(_CSV_TAIL))
        cycle = _CSV_HEADS.get(len(cells) - len(_CSV_TAIL) - 1)
        names = (*head, *_CSV_TAIL) if head else ("numCycle", *(cycle or ()), *_CSV_TAIL)
        rows.append(dict(zip(names, cells, strict=False)) if head or cycle else {})
    return _rccl(rows, source)


def _parse_documents(text: str) -> tuple[Any, list[Any]]:
    """Returns a JSON document, or its lines if each line is a document."""
    try:
        return _loads(text), []
    except (ValueError, RecursionError):
        return None, [row for line in text.splitlines() if (row := _line(line)) is not None]


def _line(text: str) -> Any:
    text = text.strip().rstrip(",")
    if not text.startswith("{") or len(text) > 10_000:
        return None
    try:
        return _loads(_quote_bare_words(text))
    except (ValueError, RecursionError):
        return None


_BARE = re.compile(r"(?<=:)\s*(?!true|false|null|nan\b)([A-Za-z][\w/]*)(?=\s*[,}])")


def _quote_bare_words(text: str) -> str:
    """Quotes the words that rccl-tests does not quote, such as ``"wrong":N/A`` and names."""
    return re.sub(r":\s*nan\b", ': "nan"', _BARE.sub(r'"\1"', text))


def _loads(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_strip_environment, parse_int=_integer)


def _integer(text: str) -> int | float:
    return int(text) if len(text) <= 20 else float(text)


def _strip_environment(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a JSON object whose ``env`` keeps only algorithm, protocol and split."""
    return {key: _parse_known_ways(value) if key == "env" else value for key, value in pairs}


def _parse_known_ways(environment: Any) -> Environment:
    found = Environment()
    for entry in environment if isinstance(environment, list) else ():
        named = isinstance(entry, str) and len(entry) < 300
        if named and re.match(r"NCCL_(ALGO|PROTO|NVLS_ENABLE|TESTS_SPLIT(_MASK)?)=", entry):
            found.read(entry)
    return found


def _nccl(run: Mapping[str, Any], source: str) -> Table:
    environment = run.get("env")
    facts = RunFacts(Table(source))
    if isinstance(environment, Environment):
        facts.environment = environment
    arguments = run.get("args")
    if isinstance(arguments, list) and arguments and isinstance(arguments[0], str):
        facts.add(collective=find_program(PurePosixPath(arguments[0][:1000]).name))
    version = run.get("nccl_version")
    facts.add(version=version_text(str(version)) if isinstance(version, int) else "")
    config = run.get("config")
    if isinstance(config, dict):
        _read_configuration(facts, config)
    results = run.get("results")
    return facts.table(map(_nccl_row, results if isinstance(results, list) else ()))


def _read_configuration(facts: RunFacts, config: Mapping[str, Any]) -> None:
    devices = config.get("devices")
    per_process = _amount(config.get("nthreads"), 1) * _amount(config.get("ngpus"), 1)
    devices = devices if isinstance(devices, list) else []
    per_process = min(per_process, 1024)
    if len(devices) * per_process > MOST_RANKS:
        raise InputError(f"more than {MOST_RANKS} ranks", hint="is it a log?")
    for device in devices:
        if not isinstance(device, dict):
            continue
        host = device.get("hostname")
        number = facts.host_number(host) if isinstance(host, str) else None
        first = (_amount(device.get("rank"), 0), _amount(device.get("device"), 0))
        group = _amount(device.get("group"), 0)
        name = str(device.get("device_info", ""))[:80].strip()
        # For a process with several devices, only the first is recorded; the others follow it.
        facts.places += [
            RankRecord(first[0] + i, group, number, first[1] + i, name) for i in range(per_process)
        ]
    ranks = {place.rank for place in facts.places}
    if len(ranks) < len(facts.places):  # every device was recorded
        kept = {place.rank: place for place in reversed(facts.places)}
        facts.places = [kept[rank] for rank in sorted(kept)]


def _amount(value: Any, otherwise: int) -> int:
    return value if type(value) is int and 0 <= value < 10**6 else otherwise


def _nccl_row(row: Any) -> LogRow | None:
    if not isinstance(row, dict):
        return None
    size, count = row.get("size"), row.get("count")
    if type(size) is not int or type(count) is not int or size < 0:
        return None
    halves = [_nccl_timing(row.get(half)) for half in ("out_of_place", "in_place")]
    if halves == [None, None]:
        return None
    root = str(row.get("root", "")).strip()
    where = int(root) if re.fullmatch(r"-?\d{1,9}", root) else None
    operation = row.get("redop")
    named = operation if isinstance(operation, str) and operation.isalpha() else None
    return LogRow(size, count, str(row.get("type", ""))[:20], named, where, halves[0], halves[1])


def _nccl_timing(half: Any) -> Timing | None:
    if not isinstance(half, dict):
        return None
    keys = ("time" if "time" in half else "cpu_time", "alg_bw", "bus_bw")
    return _timing([half.get(key) for key in keys], half.get("nwrong"))


def _timing(values: Sequence[Any], wrong: Any) -> Timing | None:
    numbers = [_number(value) for value in values]
    if any(number is None for number in numbers):
        return None
    seconds, algbw, busbw = ((n or 0.0) * s for n, s in zip(numbers, (1e-6, 1e9, 1e9), strict=True))
    slack = [_half_digit(value) * s for value, s in zip(values, (1e-6, 1e9, 1e9), strict=True)]
    errors = None if wrong in (None, "N/A") else _number(wrong)
    return Timing(seconds, algbw, busbw, errors, (slack[0], slack[1], slack[2]))


def _half_digit(value: Any) -> float:
    """Returns half a unit of the last digit: C++ streams print six digits, %lf six decimals."""
    number = _number(value)
    if not number or number != number or abs(number) == float("inf"):
        return 0.5e-6
    last = float(10.0 ** (Decimal(number).adjusted() - _DIGITS + 1))
    return 0.5 * max(1e-6, last)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        return float(value) if isinstance(value, (int, float, str)) else None
    except (ValueError, OverflowError):
        return None


def _rccl(rows: Iterable[Mapping[str, Any]], source: str) -> list[Table]:
    """Returns one table for each test, with in-place rows joined to the others of the same size."""
    runs: dict[tuple[object, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        keys = ("name", "ranks", "nodes", "gpus", "type", "redop")
        runs.setdefault(tuple(str(row.get(key)).strip() for key in keys), []).append(row)
    return [_rccl_log(found, source) for found in runs.values()]


def _rccl_log(rows: Sequence[Mapping[str, Any]], source: str) -> Table:
    first = rows[0]
    name = str(first.get("name", "")).strip().lower().replace("_", "")
    facts = RunFacts(Table(source, _RCCL_NAMES.get(name)))
    for key, note in (
        ("ranks", "ranks"),
        ("gpus", "ranks"),
        ("nodes", "nodes"),
        ("ranksPerNode", "gpus_per_node"),
    ):
        if first.get(key) is not None:
            facts.note(note, str(first[key]))
    return facts.table(_rccl_rows(rows))


def _rccl_rows(rows: Sequence[Mapping[str, Any]]) -> Iterator[LogRow | None]:
    """Yields a row for each size and turn; an in-place time is joined to the row before it."""
    good: list[LogRow] = []
    for row in rows:
        timing = _timing([row.get(key) for key in ("time", "algBw", "busBw")], row.get("wrong"))
        size = str(row.get("size", "")).strip()
        if timing is None or not re.fullmatch(r"\d{1,18}", size):
            yield None
            continue
        kind, operation = (str(row.get(key, "")).strip() for key in ("type", "redop"))
        inside = str(row.get("inPlace", "")).strip() in ("1", "true", "True")
        if not inside:
            good.append(LogRow(int(size), -1, kind, operation, None, timing, None))
        elif good and good[-1].in_place is None and good[-1].size_bytes == int(size):
            good[-1] = replace(good[-1], kind=kind, operation=operation, in_place=timing)
        else:
            good.append(LogRow(int(size), -1, kind, operation, None, None, timing))
    yield from good


def is_plain_csv(text: str) -> bool:
    """Whether the first line that is not a comment names a column of bytes."""
    lines = (line for line in text[:100_000].splitlines() if line.strip())
    return next((line for line in lines if not line.startswith("#")), "").startswith("bytes,")


def parse_plain_tables(text: str, source: str) -> list[Table]:
    """Returns the only table of such a text; lines without numbers count as broken.

    Raises InputError for too many lines.
    """
    facts, body = RunFacts(Table(source)), []
    for line in text.splitlines():
        if not line.startswith("#"):
            body.append(line)
        elif note := _NOTE.match(line):
            facts.note(note["key"], note["value"].strip())
            facts.environment.read(line)
    rows = (cells for cells in csv_rows(body) if cells)
    names = next(rows, [])
    return [facts.table(_plain_row(dict(zip(names, cells, strict=False))) for cells in rows)]


def csv_rows(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yields the cells of every line of plausible length, with any quotation.

    An unclosed quotation mark affects only its line. Never raises.
    """
    for line in lines:
        if len(line) <= LONGEST_LINE:
            yield from csv.reader([line], skipinitialspace=True)


def _plain_row(cells: Mapping[str, str]) -> LogRow | None:
    size = str(cells.get("bytes") or "").strip()
    out, inside = (_plain_timing(cells.get(key)) for key in ("seconds", "inplace_seconds"))
    if not re.fullmatch(r"[0-9]{1,18}", size) or (out is None and inside is None):
        return None
    return LogRow(int(size), -1, "", None, None, out, inside)


def _plain_timing(text: str | None) -> Timing | None:
    seconds = _number(text)
    return None if seconds is None else Timing(seconds, _NAN, _NAN)


def has_sections(text: str) -> bool:
    """Whether JSON or CSV begins after other lines."""
    return _ANYWHERE.search(text) is not None


def parse_sections(text: str, source: str) -> list[Table]:
    """Returns the tables of all JSON or CSV parts, with the settings of the preceding command.

    Raises InputError if such a part is not a log.
    """
    found = []
    for environment, part in _split_into_sections(text):
        if is_json(part):
            check_json(part, source)
            read = parse_json_tables(part, source)
        else:
            read = parse_csv_tables(part, source)
        found += [_add_forced(table, environment) for table in read]
    return found


def _split_into_sections(text: str) -> Iterator[tuple[Environment, str]]:
    environment, lines = Environment(), list[str]()
    for line in join_lines(text.splitlines()):
        begins = is_csv(line) or (not lines and _BEGINS.match(line))
        sets = len(line) <= LONGEST_LINE and (is_command(line) or _SETS.match(line))
        if lines and (sets or is_csv(line)):
            yield environment, "\n".join(lines)
            lines = []
        if sets:
            environment = environment.after_run() if is_command(line) else environment
            environment.read(line)
        elif begins or lines:
            lines.append(line)
    if lines:
        yield environment, "\n".join(lines)


def _add_forced(table: Table, environment: Environment) -> Table:
    """Returns the table with its command line's settings, unless its own part states any."""
    known = table.forced
    if known.algorithm or known.protocol or known.without or known.split:
        return table
    forced = environment.forced(table.collective)
    return replace(table, forced=forced, warnings=table.warnings + forced.warnings)
