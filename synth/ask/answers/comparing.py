"""What ``diff`` answers, and what of kept answers it reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from hierarchies.units import format_bytes
from synth.ask.answers.parts import AnswerPart, ReplyModel, Seconds

Scalar = bool | int | float | str | None
_QUESTION_KEYS = ("job", "request", "bytes", "algorithm", "collapse")


class ValueDifference(AnswerPart):
    """One thing that two answers say differently; null where one does not say it."""

    what: str = Field(description="Its key; of a machine's level, with the level's name.")
    first: Scalar = Field(description="In the first answer.")
    second: Scalar = Field(description="In the second answer.")


class Recommendation(AnswerPart):
    """One line of an answer: what is recommended, and what it takes."""

    how: str = Field(description="Placement and program.")
    seconds: Seconds = Field(description="Predicted.")


class LineDifference(AnswerPart):
    """The same line of two answers; null where one has no such line."""

    what: str = Field(description="To take now; a rank, a size, or an entry of a job.")
    first: Recommendation | None = Field(description="In the first answer.")
    second: Recommendation | None = Field(description="In the second answer.")


class DiffReply(ReplyModel):
    """How two answers differ: in what was asked, in the machine, and in what is recommended."""

    same: bool = Field(description="Whether the two answers agree in all that follows.")
    asked: list[ValueDifference] = Field(description="Differences between the questions.")
    machine: list[ValueDifference] = Field(description="Differences between the machines.")
    lines: list[LineDifference] = Field(description="Recommendations that differ.")


class _KeptPart(BaseModel):
    """Part of an answer: other keys are not read."""

    model_config = ConfigDict(extra="ignore")


class _KeptAnswerRow(_KeptPart):
    rank: int
    placement: list[list[int]] = []
    program: str
    segments: int = 1
    seconds: Seconds

    @property
    def told(self) -> Recommendation:
        cut = f" in {self.segments} segments" if self.segments > 1 else ""
        where = f"{self.placement} " if self.placement else ""
        return Recommendation(
            how=f"{where}{self.program or 'nothing to do'}{cut}", seconds=self.seconds
        )


class _KeptLevel(_KeptPart):
    """A level with its numbers: those are read whatever they are called."""

    model_config = ConfigDict(extra="allow")

    name: str


class _Unit(_KeptPart):
    unit: str


class _Calibration(_KeptPart):
    sources: list[str] = []


class _KeptMachine(_KeptPart):
    name: str
    levels: list[_KeptLevel]
    device: dict[str, Any] = {}
    exceptions: list[_Unit] = []
    calibration: _Calibration | None = None

    @property
    def numbers(self) -> dict[str, Scalar]:
        """What prices rest on, by name: ``node bandwidth_GB_per_s``."""
        found: dict[str, Scalar] = {
            "name": self.name,
            "levels": _join_names(one.name for one in self.levels),
        }
        for level in self.levels:
            numbers = _scalars_of(level.model_extra or {})
            found |= {f"{level.name} {key}": value for key, value in numbers}
        found |= {f"device {key}": value for key, value in _scalars_of(self.device)}
        found["missing or slower"] = _join_names(one.unit for one in self.exceptions)
        found["calibrated by"] = _join_names(self.calibration.sources if self.calibration else ())
        return found


class KeptAnswer(_KeptPart, ABC):
    """What was asked, of which machine, and the lines of the answer."""

    system: _KeptMachine
    reduce: list[str] = []
    job: Scalar = None
    request: Scalar = None
    bytes: Scalar | list[Scalar] | dict[str, Scalar] = None
    algorithm: Scalar = None
    collapse: Scalar = None

    @property
    def asked(self) -> dict[str, Scalar]:
        """What an answer repeats of its question."""
        given = {key: getattr(self, key) for key in _QUESTION_KEYS}
        return {"reduce": _join_names(self.reduce)} | {
            key: value if isinstance(value, Scalar) else _size_words(value)
            for key, value in given.items()
        }

    @property
    @abstractmethod
    def lines(self) -> dict[str, Recommendation]:
        """What is recommended, by rank, size or entry, in order."""


class KeptRanking(KeptAnswer):
    """What ``top`` answers for one size, also of a machine that lacks devices."""

    answers: list[_KeptAnswerRow]

    @property
    def lines(self) -> dict[str, Recommendation]:
        several = len({one.rank for one in self.answers}) < len(self.answers)
        return {
            f"rank {one.rank}{f' of {one.placement}' if several else ''}": one.told
            for one in self.answers
        }


class _KeptStretch(_KeptPart):
    from_bytes: int
    first: _KeptAnswerRow


class KeptSweep(KeptAnswer):
    """What ``top`` answers for a range of sizes."""

    stretches: list[_KeptStretch]

    @property
    def lines(self) -> dict[str, Recommendation]:
        return {f"from {format_bytes(one.from_bytes)}": one.first.told for one in self.stretches}


class _Option(_KeptPart):
    axes: dict[str, int]
    placement: list[list[int]]
    exposed_seconds: Seconds


class _KeptEntry(_KeptPart):
    name: str
    answer: _KeptAnswerRow


class KeptPlan(KeptAnswer):
    """What ``plan`` answers: its placement, then the job's entries on it."""

    ranking: Annotated[list[_Option], Field(min_length=1)]
    entries: list[_KeptEntry]

    @property
    def lines(self) -> dict[str, Recommendation]:
        best = self.ranking[0]
        axes = ", ".join(f"{name}={size}" for name, size in best.axes.items())
        step = Recommendation(how=f"{axes} as {best.placement}", seconds=best.exposed_seconds)
        return {"the step": step} | {one.name: one.answer.told for one in self.entries}


def _scalars_of(found: Mapping[str, Any]) -> Iterator[tuple[str, Scalar]]:
    """The keys that are one word or number, but for the names of things."""
    for key, value in found.items():
        if key not in ("name", "source") and isinstance(value, bool | int | float | str | None):
            yield key, value


def _size_words(value: object) -> str:
    """The ends of a range of sizes as one reads them, anything else as it is."""
    match value:
        case [int(low), int(high)]:
            return f"{format_bytes(low)} to {format_bytes(high)}"
    return str(value)


def _join_names(names: Iterable[str]) -> str | None:
    return ", ".join(names) or None
