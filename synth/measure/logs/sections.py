"""Files of several runs whose tests wrote JSON or CSV, with the command lines that started them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from synth.measure.logs.documents import (
    check_json,
    is_csv,
    is_json,
    parse_csv_tables,
    parse_json_tables,
)
from synth.measure.logs.header import Environment, is_command
from synth.measure.logs.tables import Table
from synth.measure.logs.text import LONGEST_LINE, join_lines

_BEGINS = re.compile(r"\s*(\{|\[\s*$|\[\s*\{)")
_ANYWHERE = re.compile(
    r"^[ \t]*(?:\{|\[[ \t]*(?:$|\{)|(?:numCycle, *)?(?:collective|name), )", re.MULTILINE
)
_SETS = re.compile(r"[^{\[\"]*NCCL_")


def has_sections(text: str) -> bool:
    """Whether JSON or CSV begins below other lines."""
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
    """Returns the table with its command line's settings, if its own part states none."""
    known = table.forced
    if known.algorithm or known.protocol or known.without or known.split:
        return table
    forced = environment.forced(table.collective)
    return replace(table, forced=forced, warnings=table.warnings + forced.warnings)
