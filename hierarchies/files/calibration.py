"""The ``[calibration]`` part of a description: as TOML reads it, and written again."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from math import inf, nextafter
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from hierarchies.calibration import (
    ANY,
    FASTEST,
    Calibration,
    Crossing,
    Fit,
    Measured,
    Residual,
    Stray,
)
from hierarchies.errors import InputError

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Duration = Annotated[float, Field(ge=0, allow_inf_nan=False)]
MICROSECOND = 1e-6


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Way(_Strict):
    collective: str = ANY
    algorithm: str = ANY
    protocol: str = ANY


class FitTable(_Way):
    """One ``[[calibration.fit]]``: numbers of a way, by level."""

    launch_us: Duration
    hop_us: dict[str, Duration]
    gap_us: dict[str, Duration]
    share: dict[str, Positive]
    rows: int = Field(default=0, ge=0)


class ResidualTable(_Way):
    """One ``[[calibration.residual]]``: ratios measured to fitted in a class of sizes."""

    from_bytes: int = Field(ge=0)
    rows: int = Field(ge=1)
    low: Positive
    median: Positive
    high: Positive


class MeasuredTable(_Strict):
    """One ``[[calibration.measured]]``: what rows were of; ways as "algorithm protocol"."""

    collective: str
    members: dict[str, Annotated[int, Field(ge=1)]]
    ways: list[Annotated[str, Field(pattern=r"^\S+ \S+$")]]
    from_bytes: int = Field(ge=1)
    to_bytes: int = Field(ge=1)


class StrayTable(_Strict):
    """One ``[[calibration.stray]]``: ratios measured to fitted of tables that were left out."""

    from_bytes: int = Field(ge=0)
    tables: int = Field(ge=0)
    low: Positive
    high: Positive


class CalibrationTable(_Strict):
    """The whole part."""

    runtime: str = FASTEST
    sources: list[str] = []
    undetermined: list[str] = []
    dropped: list[str] = []
    fit: list[FitTable] = Field(min_length=1)
    residual: list[ResidualTable] = []
    measured: list[MeasuredTable] = []
    stray: list[StrayTable] = []


def calibration_of(table: CalibrationTable, levels: Sequence[str]) -> Calibration:
    """What a table says. Raises InputError for levels that are missing or not the system's."""
    return Calibration(
        tuple(_fit(each, levels) for each in table.fit),
        tuple(
            Residual(
                each.from_bytes,
                each.rows,
                each.low,
                each.median,
                each.high,
                each.protocol,
                each.algorithm,
                each.collective,
            )
            for each in table.residual
        ),
        tuple(table.sources),
        tuple(table.undetermined),
        tuple(table.dropped),
        table.runtime,
        tuple(_measured(each, levels) for each in table.measured),
        tuple(Stray(each.from_bytes, each.tables, each.low, each.high) for each in table.stray),
    )


def _measured(table: MeasuredTable, levels: Sequence[str]) -> Measured:
    _check_levels("measured, members", table.members, levels)
    members = tuple(table.members[name] for name in levels)
    ways = ((algorithm, protocol) for algorithm, protocol in map(str.split, table.ways))
    return Measured(table.collective, members, tuple(ways), table.from_bytes, table.to_bytes)


def _check_levels(where: str, given: Mapping[str, float], levels: Sequence[str]) -> None:
    for name in sorted({*given} ^ {*levels}):
        raise InputError(
            f"level {name!r} is missing or unknown",
            where=f"calibration, {where}",
            hint=f"one number for each: {', '.join(levels)}",
        )


def _fit(table: FitTable, levels: Sequence[str]) -> Fit:
    for key in ("hop_us", "gap_us", "share"):
        _check_levels(f"fit, {key}", getattr(table, key), levels)
    crossings = tuple(
        Crossing(
            table.hop_us[name] * MICROSECOND, table.gap_us[name] * MICROSECOND, table.share[name]
        )
        for name in levels
    )
    launch = table.launch_us * MICROSECOND
    return Fit(table.protocol, crossings, launch, table.algorithm, table.collective, table.rows)


def written(found: Calibration, levels: Sequence[str]) -> str:
    """The part as TOML text, read back as the same numbers to the last bit."""
    return "\n".join(_lines(found, levels)) + "\n"


def table_of(found: Calibration, levels: Sequence[str]) -> dict[str, Any]:
    """The part as TOML reads it: plain data, as ``CalibrationTable`` takes it."""
    table: dict[str, Any] = tomllib.loads(written(found, levels))["calibration"]
    return table


def _lines(found: Calibration, levels: Sequence[str]) -> Iterator[str]:
    yield "[calibration]"
    yield f"runtime = {quoted(found.runtime)}"
    for key in ("sources", "undetermined", "dropped"):
        sentences: tuple[str, ...] = getattr(found, key)
        yield f"{key} = [" if sentences else f"{key} = []"
        if sentences:
            yield from (f"  {quoted(sentence)}," for sentence in sentences)
            yield "]"
    for fit in found.fits:
        yield ""
        yield "[[calibration.fit]]"
        yield from _way(fit.key)
        yield f"launch_us = {scaled(fit.launch_seconds, MICROSECOND)}"
        for key, numbers in (
            ("hop_us", [scaled(level.hop_seconds, MICROSECOND) for level in fit.levels]),
            ("gap_us", [scaled(level.gap_seconds, MICROSECOND) for level in fit.levels]),
            ("share", [repr(level.share) for level in fit.levels]),
        ):
            pairs = zip(levels, numbers, strict=True)
            yield f"{key} = {{ {', '.join(f'{quoted(name)} = {n}' for name, n in pairs)} }}"
        yield f"rows = {fit.rows}"
    for residual in found.residuals:
        yield ""
        yield "[[calibration.residual]]"
        yield from _way(residual.key)
        yield f"from_bytes = {residual.smallest_bytes}"
        yield f"rows = {residual.rows}"
        for key in ("low", "median", "high"):
            yield f"{key} = {getattr(residual, key)!r}"
    for one in found.measured:
        yield ""
        yield "[[calibration.measured]]"
        yield f"collective = {quoted(one.collective)}"
        members = zip(levels, one.members, strict=True)
        yield f"members = {{ {', '.join(f'{quoted(name)} = {n}' for name, n in members)} }}"
        yield f"ways = [{', '.join(quoted(' '.join(way)) for way in one.ways)}]"
        yield f"from_bytes = {one.smallest_bytes}"
        yield f"to_bytes = {one.largest_bytes}"
    for stray in found.strays:
        yield ""
        yield "[[calibration.stray]]"
        yield f"from_bytes = {stray.smallest_bytes}"
        yield f"tables = {stray.tables}"
        yield f"low = {stray.low!r}"
        yield f"high = {stray.high!r}"


def _way(key: tuple[str, str, str]) -> Iterator[str]:
    for name, value in zip(("collective", "algorithm", "protocol"), key, strict=True):
        if value:
            yield f"{name} = {quoted(value)}"


def quoted(text: str) -> str:
    """A TOML basic string: JSON's, whose escapes it shares."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def scaled(number: float, unit: float) -> str:
    """A number of units that gives the same float again when multiplied by the unit."""
    guess = number / unit
    tried = (round(guess, 6), guess, nextafter(guess, inf), nextafter(guess, -inf))
    return repr(next((each for each in tried if each * unit == number), guess))
