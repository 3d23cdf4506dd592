"""Reads the output of ``rocm-smi --showtopo`` and ``amd-smi topology``, as text or as JSON.

Types and hops report two GPUs of one hive as linked even if other GPUs are between them. Directly
linked pairs are known from weights, 15 for every link of the path, and from bandwidths, which only
such pairs have (https://github.com/ROCm/rocm-systems/issues/5763).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from hierarchies.errors import InputError
from hierarchies.importers.claims import Claim, NumberRange
from hierarchies.importers.nodes.islands import parts_of
from hierarchies.importers.nodes.picture import (
    MOST_GPUS,
    GpuGrouping,
    NodeLinks,
    NodePicture,
    check_length,
)

ROCM_SMI, AMD_SMI = "rocm-smi --showtopo", "amd-smi topology"
DIRECT = "XGMI"
DISABLED = "DISABLED"
_WORDS = {"link type": (DIRECT, "PCIE", "0", "SELF"), "access": ("ENABLED", DISABLED)}
_HEADINGS = re.compile(
    r"=+\s*(?P<rocm>weight|hops|link type) between.*=|"
    r"(?P<amd>access|weight|hops|link type|numa bw) table:",
    re.IGNORECASE,
)
_BANDWIDTH = "numa bw"
_KEYS = {
    "access": "link_status",
    "weight": "weight",
    "hops": "num_hops",
    "link type": "link_type",
    _BANDWIDTH: "bandwidth",
}
_GPU = re.compile(r"GPU[0-9]+|[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]")
_NUMBER = re.compile(r"[0-9]{1,6}")
_SPAN = re.compile(r"[0-9]{1,9}-[0-9]{1,9}")

Table = list[list[str]]
SOURCE = ROCM_SMI
_TOPIC = "xGMI link"
_LINKED, _APART = NumberRange(1, 1), NumberRange(0, 0)

_Pair = tuple[int, int]


@dataclass(frozen=True)
class RocmTables:
    """The cells of each usable table for every two GPUs, by the table's name.

    Names are ``access``, ``weight``, ``hops``, ``link type`` and ``numa bw``; ``notes`` say which
    others are left out and why.
    """

    gpus: tuple[str, ...]
    printed: Mapping[str, Table]
    source: str
    notes: tuple[str, ...] = ()

    def number(self, name: str, first: int, second: int) -> int | None:
        """Return a weight or a number of hops; None if the table or the number is missing."""
        cell = self.printed[name][first][second] if name in self.printed else ""
        return int(cell) if cell.isdigit() else None


def read(text: str) -> NodePicture:
    """Return the node that a text describes.

    Raises InputError for an invalid or far too long text.
    """
    check_length(text, SOURCE)
    return _picture(parse_tables(text))


def _picture(tables: RocmTables) -> NodePicture:
    gpus = len(tables.gpus)
    pairs = list(combinations(range(gpus), 2))
    hive = _find_xgmi_pairs(tables, pairs)
    claims = [*_claims(tables, hive), *_claims_of_hops(tables, {*pairs} - {*hive})]
    apart = {claim.subject for claim in claims if claim.values == _APART}
    direct = {pair: 1 for pair in hive if _subject(tables, pair) not in apart}
    notes = tables.notes
    if "link type" not in tables.printed:
        hops = "The types of the links are missing: one hop is read as an xGMI link."
        notes = (*notes, hops)
    if direct:
        notes = (*notes, "The number of xGMI links between two GPUs is missing: assumed to be one.")
    return NodePicture(
        tables.source,
        tables.gpus,
        NodeLinks(direct=direct, counted=False),
        _groups(tables, pairs),
        amd=True,
        notes=notes,
        counted={"gpus": gpus, "xgmi": len(direct)},
        claims=tuple(claims),
    )


def _subject(tables: RocmTables, pair: _Pair) -> str:
    return f"{tables.gpus[pair[0]]} and {tables.gpus[pair[1]]}"


def _find_xgmi_pairs(tables: RocmTables, pairs: list[_Pair]) -> list[_Pair]:
    """Return the pairs in one hive, directly linked or not: by the types, or else by one hop."""
    types = tables.printed.get("link type")
    if types is not None:
        return [(first, second) for first, second in pairs if types[first][second] == DIRECT]
    return [pair for pair in pairs if tables.number("hops", *pair) == 1]


def _claims(tables: RocmTables, hive: list[_Pair]) -> Iterator[Claim]:
    """Yield each table's claims on which pairs are linked; types and hops yield to the others."""
    weights = {pair: tables.number("weight", *pair) for pair in hive}
    least = min((weight for weight in weights.values() if weight is not None), default=0)
    rates = tables.printed.get("numa bw")
    rated = {(a, b) for a, b in hive if rates and any(c in "123456789" for c in rates[a][b])}
    access = tables.printed.get("access")
    disabled = {(a, b) for a, b in hive if access and access[a][b] == DISABLED}
    typed = "link type" in tables.printed
    name, words = ("link type", DIRECT) if typed else ("hops", "1 hop")
    for pair in hive:
        subject = _subject(tables, pair)
        yield Claim(_TOPIC, subject, f"the table {name!r}", words, _LINKED, True)
        hops = tables.number("hops", *pair)
        if hops is not None and hops > 1:
            yield Claim(_TOPIC, subject, "the table 'hops'", f"{hops} hops", _APART)
        weight = weights[pair]
        if weight is not None and weight > least:
            none = f"none at weight {weight} ({least} for one link)"
            yield Claim(_TOPIC, subject, "the table 'weight'", none, _APART)
        if 0 < len(disabled) < len(hive) and pair in disabled:
            yield Claim(
                _TOPIC, subject, "the table 'access'", "none, because access is disabled", _APART
            )
        if rated and pair not in rated:
            none = "none, because it has no bandwidth"
            yield Claim(_TOPIC, subject, "the table 'numa bw'", none, _APART)


def _claims_of_hops(tables: RocmTables, others: Set[_Pair]) -> Iterator[Claim]:
    """Yield claims of hops: one hop means xGMI by the tools' manuals, and excludes other links."""
    for pair in sorted(others):
        if "link type" in tables.printed and tables.number("hops", *pair) == 1:
            cell = tables.printed["link type"][pair[0]][pair[1]]
            subject = _subject(tables, pair)
            yield Claim(_TOPIC, subject, "the table 'link type'", cell, _APART)
            yield Claim(_TOPIC, subject, "the table 'hops'", "1 hop", _LINKED, True)


def _groups(tables: RocmTables, pairs: list[_Pair]) -> tuple[GpuGrouping, ...]:
    """Return groups of GPUs that are nearer to each other, by the weights of their links."""
    known = {pair: n for pair in pairs if (n := tables.number("weight", *pair)) is not None}
    if len(set(known.values())) != 2:
        return ()
    least = min(known.values())
    near = {pair: 1 for pair, weight in known.items() if weight == least}
    return (GpuGrouping("socket", parts_of(len(tables.gpus), near)),)


def parse_tables(text: str) -> RocmTables:
    """Return the tables of a text.

    Raises InputError if none is usable, or if there are several nodes.
    """
    tables = _parse_json(text) if text.lstrip().startswith(("[", "{")) else _parse_text(text)
    return _select_usable(tables)


def _parse_text(text: str) -> RocmTables:
    printed: dict[str, Table] = {}
    gpus: tuple[str, ...] = ()
    notes: list[str] = []
    lines = text.splitlines()
    source = ROCM_SMI
    for number, line in enumerate(lines):
        heading = _HEADINGS.match(line.strip())
        if not heading:
            continue
        name = (heading["rocm"] or heading["amd"]).lower()
        source = ROCM_SMI if heading["rocm"] else AMD_SMI
        try:
            header, rows = _table(lines, number + 1)
        except InputError as error:
            notes.append(_note_left_out(name, error))
            continue
        if (gpus and header != gpus) or name in printed:
            raise InputError("tables of different GPUs", hint="give the text of one node")
        gpus, printed[name] = header, rows
    if not printed:
        hint = notes[0] if notes else "the heading is 'Hops between ...' or 'HOPS TABLE:'"
        raise InputError(f"no table of {source} found", hint=hint)
    return RocmTables(gpus, printed, source, tuple(notes))


def _note_left_out(name: str, error: InputError) -> str:
    return f"The table {name!r} is left out: {error}."


def _table(lines: Sequence[str], start: int) -> tuple[tuple[str, ...], Table]:
    """Return the GPUs in the row under a heading, and the cells below. Raises InputError."""
    header = tuple(lines[start].split()) if start < len(lines) else ()
    if not header or not all(_GPU.fullmatch(word) for word in header):
        raise InputError(f"no row of GPU0, GPU1, ... in line {start + 1}")
    if len(set(header)) < len(header):
        raise InputError("tables of different GPUs", hint="give the text of one node")
    if len(header) > MOST_GPUS:
        raise InputError(f"{len(header)} GPUs in one node")
    rows = lines[start + 1 : start + 1 + len(header)]
    if len(rows) < len(header):
        raise InputError(f"{len(header)} rows expected, the text has {len(rows)}")
    return header, [_row(row, gpu, len(header)) for row, gpu in zip(rows, header, strict=True)]


def _row(line: str, gpu: str, gpus: int) -> list[str]:
    name, *cells = line.split() or [""]
    if name != gpu or len(cells) != gpus:
        hint = "the text is incomplete or changed: copy it again"
        raise InputError(f"a row of {gpu} with {gpus} cells expected", hint=hint)
    return cells


def _parse_json(text: str) -> RocmTables:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("not JSON, or cut off") from None
    entries = raw if isinstance(raw, list) else []
    if not entries or not all(_is_entry(entry) for entry in entries):
        hint = "each GPU has 'gpu' and 'links', as since ROCm 6.1"
        raise InputError(f"not the output of {AMD_SMI} --json", hint=hint)
    numbers = [entry["gpu"] for entry in entries]
    if len(set(numbers)) < len(numbers) or len(numbers) > MOST_GPUS:
        raise InputError("GPUs are listed twice, or there are too many")
    links = [{link.get("gpu"): link for link in entry["links"]} for entry in entries]
    if any(set(row) != set(numbers) for row in links):
        raise InputError("a GPU has no link to each of the others", hint="the file is cut off")
    printed = {
        name: [[_cell(row[number], key) for number in numbers] for row in links]
        for name, key in _KEYS.items()
    }
    return RocmTables(tuple(f"GPU{number}" for number in numbers), printed, AMD_SMI)


def _cell(link: Mapping[str, Any], key: str) -> str:
    value = link.get(key, "N/A")
    return f"{value:d}" if isinstance(value, int) and abs(value) < 10**9 else str(value)[:40]


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or type(entry.get("gpu")) is not int:
        return False
    links = entry.get("links")
    return isinstance(links, list) and all(
        isinstance(link, dict) and type(link.get("gpu")) is int for link in links
    )


def _select_usable(tables: RocmTables) -> RocmTables:
    """Return the tables whose cells are valid, and the same both ways.

    Raises InputError if no remaining table says which GPUs are linked.
    """
    kept, notes, first_error = {}, list(tables.notes), None
    for name, table in tables.printed.items():
        if all(cell == "N/A" for row in table for cell in row):
            continue
        try:
            _check(name, table, tables.gpus)
        except InputError as error:
            first_error = first_error or error
            notes.append(_note_left_out(name, error))
            continue
        kept[name] = table
    if "link type" not in kept and "hops" not in kept:
        if first_error is not None:
            raise first_error
        hint = f"give the whole output of {tables.source}"
        raise InputError("the text has neither types of links nor hops", hint=hint)
    return RocmTables(tables.gpus, kept, tables.source, tuple(notes))


def _check(name: str, table: Table, gpus: Sequence[str]) -> None:
    """Refuse invalid cells, and a table that is not symmetric."""
    for first, row in enumerate(table):
        for second, cell in enumerate(row):
            if first == second:
                continue
            if not _is_cell(name, cell):
                raise InputError(f"{cell[:20]!r} is not a {name} of a link")
            if cell != table[second][first]:
                raise InputError(
                    f"{name} from {gpus[first]} to {gpus[second]} is {cell}, in the "
                    "other direction it is "
                    f"{table[second][first]}",
                    hint="the text is damaged: copy it again",
                )


def _is_cell(name: str, cell: str) -> bool:
    if cell == "N/A":
        return True
    if name in _WORDS:
        return cell in _WORDS[name]
    return bool((_SPAN if name == _BANDWIDTH else _NUMBER).fullmatch(cell))
