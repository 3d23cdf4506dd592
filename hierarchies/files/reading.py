"""Read a system from its TOML description."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, get_args

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from hierarchies.errors import InputError, error_context, suggest_nearest
from hierarchies.faults import Fault, find_first_refused
from hierarchies.files.machine import Machine
from hierarchies.files.schema import (
    FILE,
    NO_NUMBERS,
    DevicePart,
    LevelInFull,
    MachineException,
)
from hierarchies.files.values import check_sources
from hierarchies.hierarchy import MOST_LEVELS
from hierarchies.parts import reshape_system
from hierarchies.system import Domain, Link, System

BLANK = "?"
MOST_CHARACTERS = 2**20
MOST_EXCEPTIONS = 4096
MOST_DOTS = 100
Source = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_MISSING = {
    "count": "say how many children each unit above has: count = 8",
    "through": "through = [] if its ports hang on the devices beside the inner links, "
    "else the inner levels its traffic crosses too",
}
"""Hints for missing keys."""
_EXCEPTION = re.compile(r"[ \t]*\[\[[ \t]*(exception|'exception'|\"exception\")[ \t]*\]\]")
_GIGABITS = re.compile(r"Gb|[Gg]bps|[Gg]bit")


class _DeviceTable(DevicePart):
    name: str
    source: Source


class _LevelTable(LevelInFull):
    sources: dict[str, Source] = Field(alias="source")


class _Description(Machine):
    default_count: int = Field(default=1, ge=1)
    device: _DeviceTable
    levels: Sequence[_LevelTable] = Field(alias="level", min_length=1)
    exceptions: list[MachineException] = Field(
        default=[], alias="exception", max_length=MOST_EXCEPTIONS
    )


def read(text: str, *, where: str = "description", shape: Sequence[int] = ()) -> System:
    """Return the system that a TOML text describes, reshaped if a ``shape`` is given.

    Raises InputError, naming the place and the key.
    """
    if len(text) > MOST_CHARACTERS:
        hint = f"{MOST_CHARACTERS} at most"
        raise InputError("so many characters are no description", where=where, hint=hint)
    _check_dots(text, where)
    try:
        raw = tomllib.loads(text)
    except RecursionError:
        problem = "not a TOML file: brackets in brackets in brackets"
        raise InputError(problem, where=where) from None
    except ValueError as error:
        raise InputError(f"not a TOML file: {error}", where=where) from None
    try:
        _check_blanks(raw)
        description = _Description.model_validate(_complete(raw), context=FILE)
        return _system(description, raw["level"], shape, _exception_lines(text))
    except ValidationError as error:
        raise _first_error(error, raw, where, _exception_lines(text)) from None
    except InputError as error:
        raise error.at(where) from None


def _check_dots(text: str, where: str) -> None:
    """Refuse long dotted keys (``a.b.c...``): ``tomllib`` needs time quadratic in their dots."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > MOST_DOTS:
            hint = f"at most {MOST_DOTS}"
            raise InputError(f"{line.count('.')} dots in line {number}", where=where, hint=hint)


def _check_blanks(raw: dict[str, Any]) -> None:
    """Refuse a description in which an importer left blanks: first blank values, then sources."""
    sections = [("device", raw.get("device"))]
    levels = raw.get("level")
    for level in levels if isinstance(levels, list) else []:
        sections.append((f"level {level.get('name')!r}" if isinstance(level, dict) else "", level))
    tables = [(place, table) for place, table in sections if isinstance(table, dict)]
    values = [_blank_keys(place, table, "source") for place, table in tables]
    sources = [_blank_keys(place, _sources(table)) for place, table in tables]
    for problem, texts in (("not known", values), ("without a source", sources)):
        blank = [text for text in texts if text]
        if blank:
            raise InputError(
                f"{problem} yet: {'; '.join(blank)}",
                hint=f'write a value, and its source, wherever "{BLANK}" stands',
            )


def _sources(table: dict[str, Any]) -> dict[str, Any]:
    source = table.get("source")
    return source if isinstance(source, dict) else {"all": source}


def _blank_keys(place: str, table: dict[str, Any], other: str = "") -> str:
    names = [key for key, value in table.items() if value == BLANK and key != other]
    return f"{place}: {', '.join(names)}" if names else ""


def _exception_lines(text: str) -> list[int]:
    """Return the line of each exception's header, counted from 1."""
    return [n for n, line in enumerate(text.split("\n"), 1) if _EXCEPTION.match(line)]


def _exception_place(lines: list[int], number: int) -> str:
    line = f"line {lines[number]}, " if number < len(lines) else ""
    return f"{line}exception {number + 1}"


def _complete(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the tables with what only some levels may omit, and a source of each number."""
    tables = raw.get("level")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        return raw
    if len(tables) > MOST_LEVELS:
        raise InputError(f"{len(tables)} levels", hint=f"at most {MOST_LEVELS}")
    levels = [dict(table) for table in tables]
    for level in levels:
        if isinstance(level.get("source"), str):
            level["source"] = dict.fromkeys(_stated_numbers(level), level["source"])
        if _joined_at(level):
            level["wraps"] = True
    for level in levels[:1]:
        usual = raw.get("default_count")
        level.setdefault("count", usual if type(usual) is int and usual > 0 else 1)
    for level in levels[-1:]:
        level.setdefault("through", [])
    return raw | {"level": levels}


def _stated_numbers(level: Mapping[str, Any]) -> list[str]:
    """Return the numbers that a level's table gives, and ``reduces``: each needs a source."""
    return [key for key in _LevelTable.model_fields if key in level and key not in NO_NUMBERS]


def _joined_at(level: Mapping[str, Any]) -> int:
    """Return the number whose multiples are the counts at which the ends are joined, 0 if none.

    The ends are joined only if the counts of all levels that state a number are multiples.
    """
    wraps = level.get("wraps")
    return max(0, wraps) if type(wraps) is int else 0


def _system(
    description: _Description,
    tables: Sequence[Mapping[str, Any]],
    shape: Sequence[int],
    lines: list[int],
) -> System:
    for level, table in zip(description.levels, tables, strict=True):
        with error_context(f"level {level.name!r}"):
            check_sources(level.sources, level.unconfirmed, _stated_numbers(table))
    with error_context("device"):
        memory = {"memory_GB_per_s": description.device.source}
        check_sources(memory, description.device.unconfirmed, list(memory))
    if len(shape) == 1:
        description.levels[0].count = shape[0]
    system = replace(description.healthy_system(), device=description.device.name)
    if len(shape) > 1:
        system = reshape_system(system, shape)
    system = replace(system, links=_open_partial_torus(system, tables))
    return _add_exceptions(system, description.exceptions, lines)


def _open_partial_torus(system: System, tables: Sequence[Mapping[str, Any]]) -> tuple[Link, ...]:
    """Return the links; those of a torus are open unless its counts allow its ends to be joined."""
    rules = [_joined_at(table) for table in tables]
    pairs = zip(rules, system.hierarchy.cardinalities, strict=True)
    joined = all(count % rule == 0 for rule, count in pairs if rule)
    return tuple(
        replace(link, wraps=joined) if rule else link
        for link, rule in zip(system.links, rules, strict=True)
    )


def _add_exceptions(
    system: System, exceptions: Sequence[MachineException], lines: list[int]
) -> System:
    """Return the system with all exceptions.

    Raises InputError with the place of the first invalid one.
    """
    faults: list[Fault] = []
    for number, exception in enumerate(exceptions):
        with error_context(_exception_place(lines, number)):
            if exception.bandwidth_share is not None and not exception.source.strip():
                raise InputError("no 'source'", hint="say where the number is from")
            faults.append(exception.fault(system.hierarchy))

    def check(count: int) -> None:
        replace(system, faults=tuple(faults[:count])).missing  # noqa: B018 - raises for impossible faults

    try:
        check(len(faults))
    except InputError:
        count = find_first_refused(len(faults), check)
        with error_context(_exception_place(lines, count - 1)):
            check(count)
    return system.with_faults(faults) if faults else system


def _first_error(
    error: ValidationError, raw: dict[str, Any], where: str, exceptions: list[int]
) -> InputError:
    """Return pydantic's first error in our words; an unknown key precedes a missing key."""
    first = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")[0]
    part, *inner = first["loc"]
    place, key = where, part
    if part == "level" and len(inner) > 1:
        entry = raw["level"][inner[0]]
        name = entry.get("name", inner[0]) if isinstance(entry, dict) else inner[0]
        place, key = f"{where}, level {name!r}", inner[1]
        if key == "source" and len(inner) > 2 and isinstance(entry["source"], dict):
            place, key = f"{place}, source", inner[2]
    elif part == "exception" and len(inner) > 1:
        place, key = f"{where}, {_exception_place(exceptions, int(inner[0]))}", inner[1]
    elif part == "device" and inner:
        place, key = f"{where}, device", inner[0]
    elif part == "calibration" and inner:
        place, key = ", ".join([where, "calibration", *map(str, inner[:-1])]), inner[-1]
    if first["type"] == "extra_forbidden":
        fields = _model_at(first["loc"]).model_fields
        known = [field.alias or name for name, field in fields.items()]
        with_unit = [name for name in known if name.startswith(f"{key}_")]
        hint = (
            f"a unit is missing: {with_unit[0]}" if with_unit else suggest_nearest(str(key), known)
        )
        if _GIGABITS.search(str(key)):
            hint = "GB are 10^9 bytes: divide gigabits by 8 and write bandwidth_GB_per_s"
        return InputError(f"unknown key {key!r}", where=place, hint=hint)
    if first["type"] == "missing":
        return InputError(
            f"no {key!r}", where=place, hint=_MISSING.get(str(key), f"add {key} = ...")
        )
    if first["type"] == "enum":
        hint = suggest_nearest(str(first["input"]), [domain.value for domain in Domain])
        return InputError(f"no {key} {first['input']!r}", where=place, hint=hint)
    return InputError(f"{key} = {_shorten(first['input'])}", where=place, hint=first["msg"].lower())


def _model_at(place: Sequence[int | str]) -> type[BaseModel]:
    """Return the model of the table that has a key, from the places of both in a description."""
    model: type[BaseModel] = _Description
    for key in place[:-1]:
        if isinstance(key, str):
            fields = model.model_fields
            by_key = {field.alias or name: field for name, field in fields.items()}
            annotation = by_key[key].annotation
            [model] = [
                part
                for part in (annotation, *get_args(annotation))
                if isinstance(part, type) and issubclass(part, BaseModel)
            ]
    return model


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
