"""The ``[calibration]`` part of a machine: its schema, in files and in answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from hierarchies.calibration import (
    ANY,
    FASTEST,
    Calibration,
    Crossing,
    Fit,
    MeasuredRange,
    MessageCurve,
    Residual,
    TableResidual,
    UndeterminedLevels,
)
from hierarchies.errors import InputError
from hierarchies.files.schema import (
    MICROSECOND,
    MachinePart,
    NonEmptyText,
    Number,
    Positive,
    PositiveNumber,
    Whole,
    optional_key,
)
from hierarchies.files.values import quote, scale_exactly, spell_pairs

Loss = Annotated[float, Field(ge=0, lt=1)]
_NUMBERS = {
    "hop_us": ("hop_seconds", MICROSECOND),
    "share": ("share", 1.0),
    "peer_us": ("peer_seconds", MICROSECOND),
    "loss": ("loss", 1.0),
}
"""The numbers of a level's links by key: the name in Python, and the unit in the file."""
_ABSENT = {"peer_us": 0.0, "loss": 0.0}
"""Optional numbers of a fit, with their values for all levels if they are omitted."""
_LOW = "Lower end of the range of 9 in 10 ratios of measured to fitted."
_HIGH = "Upper end of that range."


class _CalibrationPart(MachinePart):
    @classmethod
    def of_row(cls, row: Any, **others: Any) -> Self:
        """Return the part of values with the same names; empty values are omitted."""
        values = {"from_bytes": vars(row).get("smallest_bytes")} | vars(row) | others
        return cls(**{key: values[key] for key in cls.model_fields if values.get(key, ANY) != ANY})


class _FitScopePart(_CalibrationPart):
    """What a fitted number is of; a key that is left out stands for all of them."""

    collective: NonEmptyText = optional_key("The only collective it holds for.", ANY)
    algorithm: NonEmptyText = optional_key("The only algorithm it holds for.", ANY)
    protocol: NonEmptyText = optional_key("The only protocol it holds for.", ANY)


class FitPart(_FitScopePart):
    """Fitted numbers of one way, by level."""

    usual: ClassVar = {"rows": 0}

    launch_us: Number = Field(description="Cost of a call, whatever its size.")
    hop_us: dict[str, Number] = Field(description="Latency of every message.")
    share: dict[str, PositiveNumber] = Field(
        description="Share of the described bandwidth that is reached."
    )
    peer_us: dict[str, Number] = optional_key(
        "Cost of each member that a device exchanges with at once.", {}
    )
    loss: dict[str, Loss] = optional_key("Loss of that share per doubling of children.", {})
    rows: Whole = Field(description="Number of measured rows attributed to this algorithm.")

    @classmethod
    def of(cls, fit: Fit, levels: Sequence[str]) -> Self:
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
        return cls.of_row(fit, launch_us=scale_exactly(fit.launch_seconds, MICROSECOND), **given)

    def fit(self, levels: Sequence[str]) -> Fit:
        """Return the fit. Raises InputError for missing or unknown levels."""
        by_key: dict[str, dict[str, float]] = {key: getattr(self, key) for key in _NUMBERS}
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
        launch = self.launch_us * MICROSECOND
        return Fit(self.protocol, crossings, launch, self.algorithm, self.collective, self.rows)


class ResidualPart(_FitScopePart):
    """How far measured times lay from fitted ones, in one class of sizes."""

    from_bytes: Whole = Field(description="Size at which the class begins.")
    rows: Positive = Field(description="Number of its rows.")
    low: PositiveNumber = Field(description=_LOW)
    median: PositiveNumber = Field(description="Median ratio.")
    high: PositiveNumber = Field(description=_HIGH)


class MeasuredTablePart(_CalibrationPart):
    """What measured rows were of."""

    collective: str = Field(description="Of this collective.")
    members: dict[str, Positive] = Field(
        description="By level: number of children in which a group has ranks."
    )
    ways: list[Annotated[str, Field(pattern=r"^\S+ \S+$")]] = Field(
        description="Algorithm and protocol, with a space between."
    )
    from_bytes: Positive = Field(description="The smallest size.")
    to_bytes: Positive = Field(description="The largest size.")
    forced: bool = Field(
        description="Whether the algorithm is known to have run, or else was assigned."
    )

    @classmethod
    def of(cls, row: MeasuredRange, levels: Sequence[str]) -> Self:
        return cls.of_row(
            row,
            members=dict(zip(levels, row.members, strict=True)),
            ways=[" ".join(way) for way in row.ways],
            to_bytes=row.largest_bytes,
        )

    def measured(self, levels: Sequence[str]) -> MeasuredRange:
        """Return the range. Raises InputError for missing or unknown levels."""
        _check_levels("measured, members", self.members, levels)
        members = tuple(self.members[name] for name in levels)
        ways = ((algorithm, protocol) for algorithm, protocol in map(str.split, self.ways))
        sizes = self.from_bytes, self.to_bytes
        return MeasuredRange(self.collective, members, tuple(ways), *sizes, self.forced)


class StrayPart(_CalibrationPart):
    """How far tables lay from fits without them, in one class of sizes."""

    collective: NonEmptyText = optional_key("The only collective it holds for.", ANY)
    from_bytes: Whole = Field(description="Size at which the class begins.")
    tables: Whole = Field(description="Number of tables left out in turn.")
    low: PositiveNumber = Field(description=_LOW)
    high: PositiveNumber = Field(description=_HIGH)


class AmbiguityPart(_CalibrationPart):
    """Levels of which one is slower than expected, and no row tells which."""

    levels: Annotated[list[str], Field(min_length=2)] = Field(
        description="Levels of which one is slow."
    )
    taken: str = Field(description="The one that is taken to be.")

    def undetermined(self, levels: Sequence[str]) -> UndeterminedLevels:
        """Return the levels. Raises InputError for unknown levels."""
        for name in self.levels:
            _check_level("ambiguity", name, levels)
        return UndeterminedLevels(tuple(self.levels), self.taken)


class CurvePart(_CalibrationPart):
    """Cost of a message by its size, as a factor of the fitted hops and peers of one level."""

    algorithm: NonEmptyText = optional_key("Algorithm; without it, all but direct exchange.", ANY)
    protocol: NonEmptyText = Field(description="The protocol it holds for.")
    level: NonEmptyText = Field(description="The level it holds for.")
    bytes: list[PositiveNumber] = Field(min_length=1, description="Sizes of messages, ascending.")
    factor: list[PositiveNumber] = Field(min_length=1, description="The factor at each size.")

    @classmethod
    def of(cls, curve: MessageCurve, levels: Sequence[str]) -> Self:
        sizes, factors = list(curve.sizes), list(curve.factors)
        return cls.of_row(curve, level=levels[curve.level], bytes=sizes, factor=factors)

    def curve(self, levels: Sequence[str]) -> MessageCurve:
        """Return the curve. Raises InputError for an unknown level."""
        _check_level("curve", self.level, levels)
        sizes, factors = tuple(self.bytes), tuple(self.factor)
        level = levels.index(self.level)
        return MessageCurve(level, sizes, factors, self.protocol, self.algorithm)


class CalibrationPart(_CalibrationPart):
    """What was measured on a machine: the ``[calibration]`` of its description."""

    usual: ClassVar = {
        "runtime": FASTEST,
        "families": 0,
        "sources": [],
        "undetermined": [],
        "dropped": [],
    }

    runtime: Literal["fastest", "model"] = Field(description="Observed choices of the runtime.")
    nccl: NonEmptyText = optional_key("Version of NCCL of the measurements, if they state it.", "")
    families: Whole = Field(
        description="Number of other machines it is taken from, if none is this one."
    )
    sources: list[str] = Field(description="Measurements used.")
    undetermined: list[str] = Field(description="Numbers that they do not determine.")
    dropped: list[str] = Field(description="Rows that the fit did not follow.")
    fit: list[FitPart] = Field(min_length=1, description="The fitted numbers.")
    curve: Annotated[list[CurvePart], Field(min_length=1)] = optional_key(
        "Cost of messages by their size.", []
    )
    residual: Annotated[list[ResidualPart], Field(min_length=1)] = optional_key(
        "Residuals of the fit.", []
    )
    measured: Annotated[list[MeasuredTablePart], Field(min_length=1)] = optional_key("Of what.", [])
    stray: Annotated[list[StrayPart], Field(min_length=1)] = optional_key(
        "Residuals where tables were left out.", []
    )
    machines: Annotated[list[ResidualPart], Field(min_length=1)] = optional_key(
        "Spread of machines with such links.", []
    )
    ambiguity: Annotated[list[AmbiguityPart], Field(min_length=1)] = optional_key(
        "Levels that cannot be distinguished.", []
    )

    @classmethod
    def of(cls, known: Calibration, levels: Sequence[str]) -> Self:
        """Return the part of a calibration of these levels."""
        tables: dict[str, Any] = {
            "curve": [CurvePart.of(curve, levels) for curve in known.curves],
            "residual": list(map(ResidualPart.of_row, known.residuals)),
            "measured": [MeasuredTablePart.of(row, levels) for row in known.measured],
            "stray": list(map(StrayPart.of_row, known.strays)),
            "machines": list(map(ResidualPart.of_row, known.machines)),
            "ambiguity": [
                AmbiguityPart(levels=list(row.levels), taken=row.taken)
                for row in known.undetermined_levels
            ],
        }
        keys: dict[str, Any] = {
            "runtime": known.runtime,
            **({"nccl": known.nccl} if known.nccl else {}),
            "families": known.families,
            "sources": list(known.sources),
            "undetermined": list(known.undetermined),
            "dropped": list(known.dropped),
            "fit": [FitPart.of(fit, levels) for fit in known.fits],
        }
        return cls(**keys, **{key: rows for key, rows in tables.items() if rows})

    def calibration(self, levels: Sequence[str]) -> Calibration:
        """Return the calibration. Raises InputError for missing or unknown levels."""
        return Calibration(
            tuple(row.fit(levels) for row in self.fit),
            tuple(map(_residual, self.residual)),
            tuple(self.sources),
            tuple(self.undetermined),
            tuple(self.dropped),
            self.runtime,
            tuple(row.measured(levels) for row in self.measured),
            tuple(TableResidual(row.from_bytes, **_ratios(row)) for row in self.stray),
            self.families,
            tuple(map(_residual, self.machines)),
            tuple(row.undetermined(levels) for row in self.ambiguity),
            self.nccl,
            tuple(row.curve(levels) for row in self.curve),
        )

    def lines(self) -> Iterator[str]:
        """Yield the lines of TOML, which read back as exactly the same numbers."""
        yield "[calibration]"
        for key, value in self.model_dump(exclude_unset=True).items():
            if isinstance(value, str) or value == []:
                yield from spell_pairs({key: value})
            elif isinstance(value, int):
                yield from spell_pairs({key: value or None})
            elif isinstance(value[0], str):
                yield from (f"{key} = [", *(f"  {quote(sentence)}," for sentence in value), "]")
            else:
                for row in value:
                    yield from ("", f"[[calibration.{key}]]", *spell_pairs(row))


def _ratios(part: ResidualPart | StrayPart) -> dict[str, Any]:
    """Return the fields with the same name in the file and in Python."""
    return part.model_dump(exclude={"from_bytes"})


def _residual(part: ResidualPart) -> Residual:
    return Residual(part.from_bytes, **_ratios(part))


def _check_level(where: str, name: str, levels: Sequence[str]) -> None:
    if name not in levels:
        hint = f"levels of the system: {', '.join(levels)}"
        raise InputError(f"no level {name!r}", where=f"calibration, {where}", hint=hint)


def _check_levels(where: str, given: Mapping[str, float], levels: Sequence[str]) -> None:
    for name in sorted({*given} ^ {*levels}):
        raise InputError(
            f"level {name!r} is missing or unknown",
            where=f"calibration, {where}",
            hint=f"one number for each: {', '.join(levels)}",
        )
