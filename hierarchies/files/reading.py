"""Read a system from its TOML description."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from hierarchies.errors import InputError, error_context, suggest_nearest
from hierarchies.faults import Fault, find_first_refused, parse_fault
from hierarchies.files.calibration import CalibrationTable, calibration_of
from hierarchies.files.values import check_sources
from hierarchies.hierarchy import MOST_LEVELS, Hierarchy, Level
from hierarchies.parts import reshape_system
from hierarchies.system import Domain, Link, System

BLANK = "?"
MOST_CHARACTERS = 2**20
MOST_EXCEPTIONS = 4096
MOST_DOTS = 100
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Latency = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Source = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_NO_NUMBERS = ("name", "domain", "medium", "through", "source", "unconfirmed")
"""Keys of a level whose values need no source."""
_EXCEPTION = re.compile(r"[ \t]*\[\[[ \t]*(exception|'exception'|\"exception\")[ \t]*\]\]")
_GIGABITS = re.compile(r"Gb|[Gg]bps|[Gg]bit")


class _StrictTable(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _DeviceTable(_StrictTable):
    name: str
    memory_GB_per_s: Positive  # noqa: N815 - the unit in its usual spelling
    source: Source
    unconfirmed: list[str] = []


class _LevelTable(_StrictTable):
    name: str
    count: int | None = Field(default=None, ge=1)
    domain: str
    medium: str = ""
    bandwidth_GB_per_s: Positive  # noqa: N815
    latency_us: Latency
    ll_latency_us: Latency | None = None
    ll128_latency_us: Latency | None = None
    ports: int = Field(default=1, ge=1)
    reduces: bool = False
    wraps: bool | Annotated[int, Field(ge=1)] = True
    through: list[str] | None = None
    source: Source | dict[str, Source]
    unconfirmed: list[str] = []

    def sources(self) -> dict[str, str]:
        """Return the source of each number given here, and of ``reduces``.

        Raises InputError if one is missing.
        """
        fields = type(self).model_fields
        stated = [name for name in fields if name in self.model_fields_set]
        given = [name for name in stated if name not in _NO_NUMBERS]
        sources = self.source
        if isinstance(sources, str):
            sources = dict.fromkeys(given, sources)
        check_sources(sources, self.unconfirmed, given)
        return sources

    @property
    def joined_at(self) -> int | None:
        """The number whose multiples are the counts at which the ends are joined, if stated.

        The ends are joined only if the counts of all levels that state a number are multiples.
        """
        return None if isinstance(self.wraps, bool) else self.wraps


class _ExceptionTable(_StrictTable):
    """A missing or slower unit, port or cable."""

    unit: Source
    missing: bool = False
    bandwidth_share: float | None = None
    source: Source | None = None

    def fault(self, hierarchy: Hierarchy) -> Fault:
        share = self.bandwidth_share
        if self.missing is (share is not None):
            problem = "both missing and slower" if self.missing else "as it should be"
            raise InputError(
                f"{self.unit} is {problem}",
                hint="either missing = true or bandwidth_share = ...",
            )
        if share is not None and not 0 < share <= 1:
            raise InputError(
                f"bandwidth_share = {share}", hint="above 0 and at most 1; else missing = true"
            )
        if share is not None and self.source is None:
            raise InputError("no 'source'", hint="say where the number is from")
        return parse_fault(self.unit, hierarchy, share or 0.0, self.source or "")


class _Description(_StrictTable):
    name: str = Field(min_length=1)
    title: str = ""
    default_count: int = Field(default=1, ge=1)
    launches: bool = True
    device: _DeviceTable
    level: list[_LevelTable] = Field(min_length=1, max_length=MOST_LEVELS)
    exception: list[_ExceptionTable] = Field(default=[], max_length=MOST_EXCEPTIONS)
    calibration: CalibrationTable | None = None


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
        return _system(_Description.model_validate(raw), shape, _exception_lines(text))
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


def _system(description: _Description, shape: Sequence[int], lines: list[int]) -> System:
    levels, links = [], []
    for position, level in enumerate(description.level):
        innermost = position == len(description.level) - 1
        with error_context(f"level {level.name!r}"):
            levels.append(Level(level.name, _cardinality(description, position, shape)))
            links.append(_link(level, innermost))
    with error_context("device"):
        memory = {"memory_GB_per_s": description.device.source}
        check_sources(memory, description.device.unconfirmed, list(memory))
    hierarchy, table = Hierarchy(tuple(levels)), description.calibration
    system = System(
        description.name,
        description.title,
        hierarchy,
        tuple(links),
        description.device.memory_GB_per_s * 1e9,
        description.device.source,
        tuple(description.device.unconfirmed),
        calibration_of(table, hierarchy.names) if table else None,
        launches=description.launches,
        device=description.device.name,
    )
    if len(shape) > 1:
        system = reshape_system(system, shape)
    system = replace(system, links=_open_partial_torus(system, description))
    return _add_exceptions(system, description.exception, lines)


def _open_partial_torus(system: System, description: _Description) -> tuple[Link, ...]:
    """Return the links; those of a torus are open unless its counts allow its ends to be joined."""
    pairs = list(zip(description.level, system.hierarchy.cardinalities, strict=True))
    joined = all(count % rule == 0 for level, count in pairs if (rule := level.joined_at))
    return tuple(
        link if level.joined_at is None else replace(link, wraps=joined)
        for link, level in zip(system.links, description.level, strict=True)
    )


def _add_exceptions(
    system: System, exceptions: Sequence[_ExceptionTable], lines: list[int]
) -> System:
    """Return the system with all exceptions.

    Raises InputError with the place of the first invalid one.
    """
    faults: list[Fault] = []
    for number, exception in enumerate(exceptions):
        with error_context(_exception_place(lines, number)):
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


def _cardinality(description: _Description, position: int, shape: Sequence[int]) -> int:
    count = description.level[position].count
    if position == 0:
        only = shape[0] if len(shape) == 1 else None
        return only or count or description.default_count
    if count is None:
        raise InputError("no count", hint="say how many children each unit above has: count = 8")
    return count


def _link(level: _LevelTable, innermost: bool) -> Link:
    if level.through is None and not innermost:
        raise InputError(
            "no 'through'",
            hint="through = [] if its ports hang on the devices beside the inner links, "
            "else the inner levels its traffic crosses too",
        )
    try:
        domain = Domain(level.domain)
    except ValueError:
        known = [known.value for known in Domain]
        raise InputError(
            f"no domain {level.domain!r}", hint=suggest_nearest(level.domain, known)
        ) from None
    sources = level.sources()
    return Link(
        domain,
        level.bandwidth_GB_per_s * 1e9,
        level.latency_us * 1e-6,
        level.ports,
        tuple(level.through or ()),
        sources,
        tuple(level.unconfirmed),
        level.reduces,
        _seconds(level.ll_latency_us),
        _seconds(level.ll128_latency_us),
        level.medium,
        level.wraps is not False,
    )


def _seconds(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds * 1e-6


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
    elif part == "exception" and len(inner) > 1:
        place, key = f"{where}, {_exception_place(exceptions, int(inner[0]))}", inner[1]
    elif part == "device" and inner:
        place, key = f"{where}, device", inner[0]
    elif part == "calibration" and inner:
        place, key = ", ".join([where, "calibration", *map(str, inner[:-1])]), inner[-1]
    if first["type"] == "extra_forbidden":
        known = list(_model_at(first["loc"]).model_fields)
        with_unit = [name for name in known if name.startswith(f"{key}_")]
        hint = (
            f"a unit is missing: {with_unit[0]}" if with_unit else suggest_nearest(str(key), known)
        )
        if _GIGABITS.search(str(key)):
            hint = "GB are 10^9 bytes: divide gigabits by 8 and write bandwidth_GB_per_s"
        return InputError(f"unknown key {key!r}", where=place, hint=hint)
    if first["type"] == "missing":
        return InputError(f"no {key!r}", where=place, hint=f"add {key} = ...")
    return InputError(f"{key} = {_shorten(first['input'])}", where=place, hint=first["msg"].lower())


def _model_at(place: Sequence[int | str]) -> type[BaseModel]:
    """Return the model of the table that has a key, from the places of both in a description."""
    model: type[BaseModel] = _Description
    for key in place[:-1]:
        if isinstance(key, str):
            annotation = model.model_fields[key].annotation
            [model] = [
                part
                for part in (annotation, *get_args(annotation))
                if isinstance(part, type) and issubclass(part, BaseModel)
            ]
    return model


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
