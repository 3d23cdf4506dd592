"""Reads what ``rocm-smi --showtopo`` and ``amd-smi topology --json`` print."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hierarchies.errors import InputError
from hierarchies.importers.nodes.islands import parts_of
from hierarchies.importers.nodes.picture import MOST_GPUS, Grouping, Picture, check_length

SOURCE = "rocm-smi --showtopo"
_AMD_SMI = "amd-smi topology"
_TABLES = {"weight between": "weight", "hops between": "hops", "link type between": "type"}
_GPU = re.compile(r"GPU[0-9]+")
_NUMBER = re.compile(r"[0-9]{1,6}")
_DIRECT, _TYPES = "XGMI", ("XGMI", "PCIE", "0", "N/A")

Table = list[list[str]]


@dataclass(frozen=True)
class _Tables:
    """For every two GPUs weight, hops and type of what joins them, as text, as far as printed."""

    gpus: tuple[str, ...]
    printed: Mapping[str, Table]
    source: str


def read(text: str) -> Picture:
    """The node that a text describes. Raises InputError for what is none, or far too long."""
    check_length(text, SOURCE)
    tables = _from_json(text) if text.lstrip().startswith(("[", "{")) else _from_text(text)
    _check(tables)
    return _picture(tables)


def _from_text(text: str) -> _Tables:
    printed: dict[str, Table] = {}
    gpus: tuple[str, ...] = ()
    lines = iter(text.splitlines())
    for line in lines:
        name = next((key for start, key in _TABLES.items() if start in line.lower()), None)
        if name is None or "=" not in line:
            continue
        header = tuple(next(lines, "").split())
        if not header or not all(_GPU.fullmatch(word) for word in header):
            raise InputError(f"no row of GPU0, GPU1, ... under {line.strip(' =')!r}")
        if (gpus and header != gpus) or name in printed or len(set(header)) < len(header):
            raise InputError("tables of different GPUs", hint="give the text of one node")
        if len(header) > MOST_GPUS:
            raise InputError(f"{len(header)} GPUs in one node")
        gpus = header
        printed[name] = [_row(next(lines, ""), gpu, len(gpus)) for gpu in gpus]
    if not printed:
        raise InputError(f"no table of {SOURCE} was found", hint="it is headed 'Hops between ...'")
    return _Tables(gpus, printed, SOURCE)


def _row(line: str, gpu: str, gpus: int) -> list[str]:
    name, *cells = line.split() or [""]
    if name != gpu or len(cells) != gpus:
        hint = "the text is cut off or changed: copy it again"
        raise InputError(f"a row of {gpu} with {gpus} cells is wanted", hint=hint)
    return cells


def _from_json(text: str) -> _Tables:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("not JSON, or cut off") from None
    entries = raw if isinstance(raw, list) else []
    if not entries or not all(_is_entry(entry) for entry in entries):
        hint = "each GPU has 'gpu' and 'links', as since ROCm 6.1"
        raise InputError(f"not what {_AMD_SMI} --json prints", hint=hint)
    numbers = [entry["gpu"] for entry in entries]
    if len(set(numbers)) < len(numbers) or len(numbers) > MOST_GPUS:
        raise InputError("GPUs are listed twice, or there are too many")
    links = [{link.get("gpu"): link for link in entry["links"]} for entry in entries]
    if any(set(row) != set(numbers) for row in links):
        raise InputError("a GPU has no link to each of the others", hint="the file is cut off")
    keys = {"weight": "weight", "hops": "num_hops", "type": "link_type"}
    printed = {
        name: [[str(row[number].get(key, "N/A")) for number in numbers] for row in links]
        for name, key in keys.items()
    }
    known = {name: table for name, table in printed.items() if not _is_void(table)}
    return _Tables(tuple(f"GPU{number}" for number in numbers), known, _AMD_SMI)


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or type(entry.get("gpu")) is not int:
        return False
    links = entry.get("links")
    return isinstance(links, list) and all(
        isinstance(link, dict) and type(link.get("gpu")) is int for link in links
    )


def _is_void(table: Table) -> bool:
    return all(cell == "N/A" for row in table for cell in row)


def _check(tables: _Tables) -> None:
    """Refuse tables that are not symmetric: what joins A to B is what joins B to A."""
    for name, table in tables.printed.items():
        for one, row in enumerate(table):
            for other, cell in enumerate(row):
                if one == other:
                    continue
                known = cell in _TYPES if name == "type" else _NUMBER.fullmatch(cell)
                if not known and cell != "N/A":
                    raise InputError(f"{cell[:20]!r} is no {name} of a link")
                if cell != table[other][one]:
                    raise InputError(
                        f"{name} from {tables.gpus[one]} to {tables.gpus[other]} is {cell}, "
                        f"the other way it is {table[other][one]}",
                        hint="the text is damaged: copy it again",
                    )


def _picture(tables: _Tables) -> Picture:
    types, hops = tables.printed.get("type"), tables.printed.get("hops")
    gpus = len(tables.gpus)
    pairs = [(one, other) for one in range(gpus) for other in range(one + 1, gpus)]
    notes: tuple[str, ...] = ()
    if types is not None:
        direct = {(a, b): 1 for a, b in pairs if types[a][b] == _DIRECT}
        if hops is not None and any(_hops(hops, a, b) > 1 for a, b in direct):
            notes = ("xGMI links over several hops are taken as direct.",)
    elif hops is not None:
        direct = {(a, b): 1 for a, b in pairs if _hops(hops, a, b) == 1}
        notes = ("The types of the links are not told: one hop is taken as an xGMI link.",)
    else:
        raise InputError(
            "neither types of links nor hops are told", hint=f"give all that {SOURCE} prints"
        )
    if direct:
        notes = (*notes, "How many xGMI links join two GPUs is not told: taken as one.")
    return Picture(
        tables.source,
        tables.gpus,
        direct,
        groups=_groups(tables, pairs),
        amd=True,
        notes=notes,
        counted={"gpus": gpus, "xgmi": len(direct)},
    )


def _hops(hops: Table, one: int, other: int) -> int:
    return int(hops[one][other]) if hops[one][other].isdigit() else 0


def _groups(tables: _Tables, pairs: list[tuple[int, int]]) -> tuple[Grouping, ...]:
    """Parts of GPUs that are nearer to each other, by the weights of their links."""
    weights = tables.printed.get("weight")
    if weights is None:
        return ()
    known = {pair: int(text) for pair in pairs if (text := weights[pair[0]][pair[1]]).isdigit()}
    if len(set(known.values())) != 2:
        return ()
    least = min(known.values())
    near = {pair: 1 for pair, weight in known.items() if weight == least}
    return (Grouping("socket", parts_of(len(tables.gpus), near)),)
