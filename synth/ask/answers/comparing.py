"""What ``diff`` answers, and what of kept answers it reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from hierarchies.units import volume
from synth.ask.answers.parts import Part, Reply, Seconds

Scalar = bool | int | float | str | None
_ASKED = ("job", "request", "bytes", "algorithm", "collapse")


class Changed(Part):
    """One thing that two answers say differently; null where one does not say it."""

    what: str = Field(description="Its key; of a machine's level, with the level's name.")
    first: Scalar = Field(description="In the first answer.")
    second: Scalar = Field(description="In the second answer.")


class Told(Part):
    """One line of an answer: what is recommended, and what it takes."""

    how: str = Field(description="Placement and program.")
    seconds: Seconds = Field(description="Predicted.")


class Compared(Part):
    """The same line of two answers; null where one has no such line."""

    what: str = Field(description="To take now; a rank, a size, or an entry of a job.")
    first: Told | None = Field(description="In the first answer.")
    second: Told | None = Field(description="In the second answer.")


class DiffReply(Reply):
    """How two answers differ: in what was asked, in the machine, and in what is recommended."""

    same: bool = Field(description="Whether they agree in all of it.")
    asked: list[Changed] = Field(description="What was asked.")
    machine: list[Changed] = Field(description="Numbers of the machine.")
    lines: list[Compared] = Field(description="Recommendations that differ, in their order.")


class _Kept(BaseModel):
    """Part of an answer: other keys are not read."""

    model_config = ConfigDict(extra="ignore")


class _Answer(_Kept):
    rank: int
    placement: list[list[int]] = []
    program: str
    segments: int = 1
    seconds: Seconds

    @property
    def told(self) -> Told:
        cut = f" in {self.segments} segments" if self.segments > 1 else ""
        where = f"{self.placement} " if self.placement else ""
        return Told(how=f"{where}{self.program or 'nothing to do'}{cut}", seconds=self.seconds)


class _Named(_Kept):
    """A level with its numbers: those are read whatever they are called."""

    model_config = ConfigDict(extra="allow")

    name: str


class _Unit(_Kept):
    unit: str


class _Calibration(_Kept):
    sources: list[str] = []


class _Machine(_Kept):
    name: str
    levels: list[_Named]
    device: dict[str, Any] = {}
    exceptions: list[_Unit] = []
    calibration: _Calibration | None = None

    @property
    def numbers(self) -> dict[str, Scalar]:
        """What prices rest on, by name: ``node bandwidth_GB_per_s``."""
        found: dict[str, Scalar] = {
            "name": self.name,
            "levels": _joined(one.name for one in self.levels),
        }
        for level in self.levels:
            numbers = _plain(level.model_extra or {})
            found |= {f"{level.name} {key}": value for key, value in numbers}
        found |= {f"device {key}": value for key, value in _plain(self.device)}
        found["missing or slower"] = _joined(one.unit for one in self.exceptions)
        found["calibrated by"] = _joined(self.calibration.sources if self.calibration else ())
        return found


class KeptAnswer(_Kept, ABC):
    """What was asked, of which machine, and the lines of the answer."""

    system: _Machine
    reduce: list[str] = []
    job: Scalar = None
    request: Scalar = None
    bytes: Scalar | list[Scalar] | dict[str, Scalar] = None
    algorithm: Scalar = None
    collapse: Scalar = None

    @property
    def asked(self) -> dict[str, Scalar]:
        """What an answer repeats of its question."""
        given = {key: getattr(self, key) for key in _ASKED}
        return {"reduce": _joined(self.reduce)} | {
            key: value if isinstance(value, Scalar) else _in_words(value)
            for key, value in given.items()
        }

    @property
    @abstractmethod
    def lines(self) -> dict[str, Told]:
        """What is recommended, by rank, size or entry, in order."""


class KeptRanking(KeptAnswer):
    """What ``top`` answers for one size, also of a machine that lacks devices."""

    answers: list[_Answer]

    @property
    def lines(self) -> dict[str, Told]:
        several = len({one.rank for one in self.answers}) < len(self.answers)
        return {
            f"rank {one.rank}{f' of {one.placement}' if several else ''}": one.told
            for one in self.answers
        }


class _Stretch(_Kept):
    from_bytes: int
    first: _Answer


class KeptSweep(KeptAnswer):
    """What ``top`` answers for a range of sizes."""

    stretches: list[_Stretch]

    @property
    def lines(self) -> dict[str, Told]:
        return {f"from {volume(one.from_bytes)}": one.first.told for one in self.stretches}


class _Option(_Kept):
    axes: dict[str, int]
    placement: list[list[int]]
    exposed_seconds: Seconds


class _Entry(_Kept):
    name: str
    answer: _Answer


class KeptPlan(KeptAnswer):
    """What ``plan`` answers: its placement, then the job's entries on it."""

    ranking: Annotated[list[_Option], Field(min_length=1)]
    entries: list[_Entry]

    @property
    def lines(self) -> dict[str, Told]:
        best = self.ranking[0]
        axes = ", ".join(f"{name}={size}" for name, size in best.axes.items())
        step = Told(how=f"{axes} as {best.placement}", seconds=best.exposed_seconds)
        return {"the step": step} | {one.name: one.answer.told for one in self.entries}


def _plain(found: Mapping[str, Any]) -> Iterator[tuple[str, Scalar]]:
    """The keys that are one word or number, but for the names of things."""
    for key, value in found.items():
        if key not in ("name", "source") and isinstance(value, bool | int | float | str | None):
            yield key, value


def _in_words(value: object) -> str:
    """The ends of a range of sizes as one reads them, anything else as it is."""
    match value:
        case [int(low), int(high)]:
            return f"{volume(low)} to {volume(high)}"
    return str(value)


def _joined(names: Iterable[str]) -> str | None:
    return ", ".join(names) or None
