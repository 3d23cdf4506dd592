"""A user's own table: comment lines that say what was run, and columns of bytes and seconds.

# source: our cluster, 2026-10-02
# collective: all_gather
# nodes: 2
# ranks: 16
bytes,seconds,inplace_seconds
1048576,0.0000891,0.0000883
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping

from synth.measure.logs.header import RunFacts
from synth.measure.logs.tables import LogRow, Table, Timing
from synth.measure.logs.text import LONGEST_LINE

_NOTE = re.compile(r"# *(?P<key>[a-z_]+): *(?P<value>.{1,400})")
_NAN = float("nan")


def is_plain_csv(text: str) -> bool:
    """Whether the first line that is not a comment names a column of bytes."""
    lines = (line for line in text[:100_000].splitlines() if line.strip())
    return next((line for line in lines if not line.startswith("#")), "").startswith("bytes,")


def parse_plain_table(text: str, source: str) -> Table:
    """Returns the table of such a text; lines without numbers count as broken.

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
    return facts.table(_row(dict(zip(names, cells, strict=False))) for cells in rows)


def csv_rows(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yields the cells of every line of plausible length, whatever is quoted.

    A quotation mark that nothing closes affects only its line. Never raises.
    """
    for line in lines:
        if len(line) <= LONGEST_LINE:
            yield from csv.reader([line], skipinitialspace=True)


def _row(cells: Mapping[str, str]) -> LogRow | None:
    size = str(cells.get("bytes") or "").strip()
    out, inside = (_timing(cells.get(key)) for key in ("seconds", "inplace_seconds"))
    if not re.fullmatch(r"[0-9]{1,18}", size) or (out is None and inside is None):
        return None
    return LogRow(int(size), -1, "", None, None, out, inside)


def _timing(text: str | None) -> Timing | None:
    if text is None or not text.strip():
        return None
    try:
        return Timing(float(text), _NAN, _NAN)
    except ValueError:
        return None
