"""The ``[calibration]`` part of a description: as TOML reads it, and written again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from hierarchies.calibration import (
    ANY,
    FASTEST,
    Calibration,
    Crossing,
    Fit,
    MeasuredRange,
    Residual,
    TableResidual,
    UndeterminedLevels,
)
from hierarchies.errors import InputError
from hierarchies.files.values import quote, scale_exactly, spell_pairs

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Duration = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Wide = Annotated[float, Field(gt=0, le=1)]
Loss = Annotated[float, Field(ge=0, lt=1)]
MICROSECOND = 1e-6
_ABSENT = {"peer_us": {0.0}, "wide": {1.0}, "loss": {0.0}}
"""What the numbers of a fit are that a file need not have: the same for all levels."""


class _CalibrationPart(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _WayTable(_CalibrationPart):
    collective: str = ANY
    algorithm: str = ANY
    protocol: str = ANY


class FitTable(_WayTable):
    """One ``[[calibration.fit]]``: numbers of a way, by level."""

    launch_us: Duration
    hop_us: dict[str, Duration]
    gap_us: dict[str, Duration]
    share: dict[str, Positive]
    peer_us: dict[str, Duration] = {}
    wide: dict[str, Wide] = {}
    loss: dict[str, Loss] = {}
    rows: int = Field(default=0, ge=0)


class ResidualTable(_WayTable):
    """One ``[[calibration.residual]]``: ratios measured to fitted in a class of sizes."""

    from_bytes: int = Field(ge=0)
    rows: int = Field(ge=1)
    low: Positive
    median: Positive
    high: Positive


class MeasuredRangeTable(_CalibrationPart):
    """One ``[[calibration.measured]]``: what rows were of; ways as "algorithm protocol"."""

    collective: str
    members: dict[str, Annotated[int, Field(ge=1)]]
    ways: list[Annotated[str, Field(pattern=r"^\S+ \S+$")]]
    from_bytes: int = Field(ge=1)
    to_bytes: int = Field(ge=1)
    forced: bool


class StrayTable(_CalibrationPart):
    """One ``[[calibration.stray]]``: ratios measured to fitted of tables that were left out."""

    collective: str = ANY
    from_bytes: int = Field(ge=0)
    tables: int = Field(ge=0)
    low: Positive
    high: Positive


class UndeterminedTable(_CalibrationPart):
    """One ``[[calibration.untold]]``: levels of which one is slow, and which is taken to be."""

    levels: list[str] = Field(min_length=2)
    taken: str


class CalibrationTable(_CalibrationPart):
    """The whole part."""

    runtime: str = FASTEST
    families: int = Field(default=0, ge=0)
    sources: list[str] = []
    undetermined: list[str] = []
    dropped: list[str] = []
    fit: list[FitTable] = Field(min_length=1)
    residual: list[ResidualTable] = []
    measured: list[MeasuredRangeTable] = []
    stray: list[StrayTable] = []
    machines: list[ResidualTable] = []
    untold: list[UndeterminedTable] = []


def calibration_of(table: CalibrationTable, levels: Sequence[str]) -> Calibration:
    """What a table says. Raises InputError for levels that are missing or not the system's."""
    return Calibration(
        tuple(_fit(each, levels) for each in table.fit),
        tuple(Residual(each.from_bytes, **_same_fields(each)) for each in table.residual),
        tuple(table.sources),
        tuple(table.undetermined),
        tuple(table.dropped),
        table.runtime,
        tuple(_measured_range(each, levels) for each in table.measured),
        tuple(TableResidual(each.from_bytes, **_same_fields(each)) for each in table.stray),
        table.families,
        tuple(Residual(each.from_bytes, **_same_fields(each)) for each in table.machines),
        tuple(_undetermined_levels(each, levels) for each in table.untold),
    )


def _undetermined_levels(table: UndeterminedTable, levels: Sequence[str]) -> UndeterminedLevels:
    for name in table.levels:
        if name not in levels:
            hint = f"levels of the system: {', '.join(levels)}"
            raise InputError(f"no level {name!r}", where="calibration, untold", hint=hint)
    return UndeterminedLevels(tuple(table.levels), table.taken)


def _same_fields(table: ResidualTable | StrayTable) -> dict[str, Any]:
    """The fields that have the same name in the file and in Python."""
    return table.model_dump(exclude={"from_bytes"})


def _measured_range(table: MeasuredRangeTable, levels: Sequence[str]) -> MeasuredRange:
    _check_levels("measured, members", table.members, levels)
    members = tuple(table.members[name] for name in levels)
    ways = ((algorithm, protocol) for algorithm, protocol in map(str.split, table.ways))
    sizes = table.from_bytes, table.to_bytes
    return MeasuredRange(table.collective, members, tuple(ways), *sizes, table.forced)


def _check_levels(where: str, given: Mapping[str, float], levels: Sequence[str]) -> None:
    for name in sorted({*given} ^ {*levels}):
        raise InputError(
            f"level {name!r} is missing or unknown",
            where=f"calibration, {where}",
            hint=f"one number for each: {', '.join(levels)}",
        )


def _fit(table: FitTable, levels: Sequence[str]) -> Fit:
    for key in ("hop_us", "gap_us", "share", *_ABSENT):
        given = getattr(table, key)
        if given or key not in _ABSENT:
            _check_levels(f"fit, {key}", given, levels)
    crossings = tuple(
        Crossing(
            table.hop_us[name] * MICROSECOND,
            table.gap_us[name] * MICROSECOND,
            table.share[name],
            table.peer_us.get(name, 0.0) * MICROSECOND,
            table.wide.get(name, 1.0),
            table.loss.get(name, 0.0),
        )
        for name in levels
    )
    launch = table.launch_us * MICROSECOND
    return Fit(table.protocol, crossings, launch, table.algorithm, table.collective, table.rows)


def calibration_to_toml(found: Calibration, levels: Sequence[str]) -> str:
    """The part as TOML text, read back as the same numbers to the last bit."""
    return "\n".join(_lines(table_of(found, levels))) + "\n"


def table_of(found: Calibration, levels: Sequence[str]) -> dict[str, Any]:
    """The part as TOML reads it: plain data, as ``CalibrationTable`` takes it."""
    tables = {
        "fit": [_fit_table(fit, levels) for fit in found.fits],
        "residual": [_residual_table(each) for each in found.residuals],
        "measured": [
            {
                "collective": each.collective,
                "members": dict(zip(levels, each.members, strict=True)),
                "ways": [" ".join(way) for way in each.ways],
                "from_bytes": each.smallest_bytes,
                "to_bytes": each.largest_bytes,
                "forced": each.forced,
            }
            for each in found.measured
        ],
        "stray": [
            _way((each.collective, ANY, ANY)) | _spread(each, ("tables", "low", "high"))
            for each in found.strays
        ],
        "machines": [_residual_table(each) for each in found.machines],
        "untold": [{"levels": list(each.levels), "taken": each.taken} for each in found.untold],
    }
    sentences = {key: list(getattr(found, key)) for key in ("sources", "undetermined", "dropped")}
    some = {key: rows for key, rows in tables.items() if rows}
    others = {"families": found.families} if found.families else {}
    return {"runtime": found.runtime, **others, **sentences, **some}


def _fit_table(fit: Fit, levels: Sequence[str]) -> dict[str, Any]:
    named = list(zip(levels, fit.levels, strict=True))
    by_level = {
        "hop_us": {name: scale_exactly(level.hop_seconds, MICROSECOND) for name, level in named},
        "gap_us": {name: scale_exactly(level.gap_seconds, MICROSECOND) for name, level in named},
        "share": {name: level.share for name, level in named},
        "peer_us": {name: scale_exactly(level.peer_seconds, MICROSECOND) for name, level in named},
        "wide": {name: level.wide for name, level in named},
        "loss": {name: level.loss for name, level in named},
    }
    told = {
        key: numbers for key, numbers in by_level.items() if {*numbers.values()} != _ABSENT.get(key)
    }
    launch = {"launch_us": scale_exactly(fit.launch_seconds, MICROSECOND)}
    return _way(fit.key) | launch | told | {"rows": fit.rows}


def _residual_table(found: Residual) -> dict[str, Any]:
    return _way(found.key) | _spread(found, ("rows", "low", "median", "high"))


def _spread(found: Residual | TableResidual, numbers: Sequence[str]) -> dict[str, Any]:
    return {"from_bytes": found.smallest_bytes, **{key: getattr(found, key) for key in numbers}}


def _way(key: tuple[str, str, str]) -> dict[str, Any]:
    named = zip(("collective", "algorithm", "protocol"), key, strict=True)
    return {name: value for name, value in named if value}


def _lines(table: Mapping[str, Any]) -> Iterator[str]:
    yield "[calibration]"
    for key, value in table.items():
        if isinstance(value, (str, int)) or not value:
            yield from spell_pairs({key: value})
        elif isinstance(value[0], str):
            yield from (f"{key} = [", *(f"  {quote(sentence)}," for sentence in value), "]")
        else:
            for row in value:
                yield from ("", f"[[calibration.{key}]]", *spell_pairs(row))
