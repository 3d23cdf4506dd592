"""The ``[calibration]`` part of a description, read from and written to TOML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
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
_NUMBERS = {
    "hop_us": ("hop_seconds", MICROSECOND),
    "gap_us": ("gap_seconds", MICROSECOND),
    "share": ("share", 1.0),
    "peer_us": ("peer_seconds", MICROSECOND),
    "wide": ("wide", 1.0),
    "loss": ("loss", 1.0),
}
"""The numbers of a level's links by key: the name in Python, and the unit in the file."""
_ABSENT = {"peer_us": 0.0, "wide": 1.0, "loss": 0.0}
"""Optional numbers of a fit, with their values for all levels if a file omits them."""


class _CalibrationPart(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _WayTable(_CalibrationPart):
    collective: str = ANY
    algorithm: str = ANY
    protocol: str = ANY


class FitTable(_WayTable):
    """One ``[[calibration.fit]]``: the numbers of a fit, by level."""

    launch_us: Duration
    hop_us: dict[str, Duration]
    gap_us: dict[str, Duration]
    share: dict[str, Positive]
    peer_us: dict[str, Duration] = {}
    wide: dict[str, Wide] = {}
    loss: dict[str, Loss] = {}
    rows: int = Field(default=0, ge=0)


class ResidualTable(_WayTable):
    """One ``[[calibration.residual]]``: measured over fitted seconds in a class of sizes."""

    from_bytes: int = Field(ge=0)
    rows: int = Field(ge=1)
    low: Positive
    median: Positive
    high: Positive


class MeasuredRangeTable(_CalibrationPart):
    """One ``[[calibration.measured]]``; a way is written "algorithm protocol"."""

    collective: str
    members: dict[str, Annotated[int, Field(ge=1)]]
    ways: list[Annotated[str, Field(pattern=r"^\S+ \S+$")]]
    from_bytes: int = Field(ge=1)
    to_bytes: int = Field(ge=1)
    forced: bool


class StrayTable(_CalibrationPart):
    """One ``[[calibration.stray]]``: measured over fitted seconds of tables that were left out."""

    collective: str = ANY
    from_bytes: int = Field(ge=0)
    tables: int = Field(ge=0)
    low: Positive
    high: Positive


class UndeterminedTable(_CalibrationPart):
    """One ``[[calibration.untold]]``: levels, one of which is slow, and the one assumed to be."""

    levels: list[str] = Field(min_length=2)
    taken: str


class CalibrationTable(_CalibrationPart):
    """The whole ``[calibration]`` part."""

    runtime: str = FASTEST
    nccl: str = ""
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
    """Return the calibration of a table. Raises InputError for missing or unknown levels."""
    return Calibration(
        tuple(_fit(row, levels) for row in table.fit),
        tuple(Residual(row.from_bytes, **_same_fields(row)) for row in table.residual),
        tuple(table.sources),
        tuple(table.undetermined),
        tuple(table.dropped),
        table.runtime,
        tuple(_measured_range(row, levels) for row in table.measured),
        tuple(TableResidual(row.from_bytes, **_same_fields(row)) for row in table.stray),
        table.families,
        tuple(Residual(row.from_bytes, **_same_fields(row)) for row in table.machines),
        tuple(_undetermined_levels(row, levels) for row in table.untold),
        table.nccl,
    )


def _undetermined_levels(table: UndeterminedTable, levels: Sequence[str]) -> UndeterminedLevels:
    for name in table.levels:
        if name not in levels:
            hint = f"levels of the system: {', '.join(levels)}"
            raise InputError(f"no level {name!r}", where="calibration, untold", hint=hint)
    return UndeterminedLevels(tuple(table.levels), table.taken)


def _same_fields(table: ResidualTable | StrayTable) -> dict[str, Any]:
    """Return the fields with the same name in the file and in Python."""
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
    by_key: dict[str, dict[str, float]] = {key: getattr(table, key) for key in _NUMBERS}
    for key, given in by_key.items():
        if given or key not in _ABSENT:
            _check_levels(f"fit, {key}", given, levels)
    crossings = tuple(
        Crossing(
            **{
                field: by_key[key].get(name, _ABSENT.get(key, 0.0)) * unit
                for key, (field, unit) in _NUMBERS.items()
            }
        )
        for name in levels
    )
    launch = table.launch_us * MICROSECOND
    return Fit(table.protocol, crossings, launch, table.algorithm, table.collective, table.rows)


def calibration_to_toml(calibration: Calibration, levels: Sequence[str]) -> str:
    """Return the calibration as TOML text, which reads back as exactly the same numbers."""
    return "\n".join(_lines(table_of(calibration, levels))) + "\n"


def table_of(calibration: Calibration, levels: Sequence[str]) -> dict[str, Any]:
    """Return the calibration as plain data, as TOML gives it to ``CalibrationTable``."""
    tables = {
        "fit": [_fit_table(fit, levels) for fit in calibration.fits],
        "residual": [_residual_table(row) for row in calibration.residuals],
        "measured": [
            {
                "collective": row.collective,
                "members": dict(zip(levels, row.members, strict=True)),
                "ways": [" ".join(way) for way in row.ways],
                "from_bytes": row.smallest_bytes,
                "to_bytes": row.largest_bytes,
                "forced": row.forced,
            }
            for row in calibration.measured
        ],
        "stray": [_residual_table(row) for row in calibration.strays],
        "machines": [_residual_table(row) for row in calibration.machines],
        "untold": [
            {"levels": list(row.levels), "taken": row.taken}
            for row in calibration.undetermined_levels
        ],
    }
    sentences = {
        key: list(getattr(calibration, key)) for key in ("sources", "undetermined", "dropped")
    }
    present = {key: rows for key, rows in tables.items() if rows}
    optional = {key: given for key in ("nccl", "families") if (given := getattr(calibration, key))}
    return {"runtime": calibration.runtime, **optional, **sentences, **present}


def _fit_table(fit: Fit, levels: Sequence[str]) -> dict[str, Any]:
    named = list(zip(levels, fit.levels, strict=True))
    by_level = {
        key: {name: scale_exactly(getattr(level, field), unit) for name, level in named}
        for key, (field, unit) in _NUMBERS.items()
    }
    given = {
        key: numbers
        for key, numbers in by_level.items()
        if key not in _ABSENT or {*numbers.values()} != {_ABSENT[key]}
    }
    launch = {"launch_us": scale_exactly(fit.launch_seconds, MICROSECOND)}
    names = zip(("collective", "algorithm", "protocol"), fit.key, strict=True)
    return {name: value for name, value in names if value} | launch | given | {"rows": fit.rows}


def _residual_table(row: Residual | TableResidual) -> dict[str, Any]:
    values = {"from_bytes": row.smallest_bytes, **asdict(row)}
    keys = ("collective", "algorithm", "protocol", "from_bytes", "rows", "tables")
    given = {key: values[key] for key in (*keys, "low", "median", "high") if key in values}
    return {key: value for key, value in given.items() if value != ANY}


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
