"""The verb that compares two kept answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from hierarchies import InputError
from hierarchies.units import format_bytes
from synth.ask.answers.parts import AnswerPart, ReplyModel, Seconds
from synth.ask.answers.planning import TopReply
from synth.ask.questions.fields import CostLimit, File, Flag
from synth.ask.questions.question import Question
from synth.ask.reply import Outcome, Reply, reply
from synth.ask.taking import Recommendation, recommend
from synth.collective.ranking.request import Watcher

_TOLERANCE = 1e-9
_TOP_REPLY: TypeAdapter[Any] = TypeAdapter(TopReply)


class DiffQuestion(Question):
    """Say how two kept answers of top or plan differ, and what of the question or machine did."""

    first: Annotated[
        dict[str, Any],
        CostLimit.TEXT,
        Flag("Output of 'top --json' or 'plan --json'", spelled="FIRST", file=File.ANSWER),
    ]
    second: Annotated[
        dict[str, Any],
        CostLimit.TEXT,
        Flag("A later answer, or one to a changed question", spelled="SECOND", file=File.ANSWER),
    ]

    def check_early(self) -> None:
        read_kept_answers(self)


Scalar = bool | int | float | str | None
_QUESTION_KEYS = ("job", "request", "bytes", "algorithm", "collapse")


class ValueDifference(AnswerPart):
    """One thing that two answers say differently; null where one does not say it."""

    what: str = Field(description="Its key; of a machine's level, with the level's name.")
    first: Scalar = Field(description="In the first answer.")
    second: Scalar = Field(description="In the second answer.")


class LineDifference(AnswerPart):
    """The same line of two answers; null where one has no such line."""

    what: str = Field(description="To take now; a rank, a size, or an entry of a job.")
    first: Recommendation | None = Field(description="In the first answer.")
    second: Recommendation | None = Field(description="In the second answer.")


class DiffReply(ReplyModel):
    """How two answers differ: in what was asked, in the machine, and in what is recommended."""

    same: bool = Field(description="Whether the two answers agree in all that follows.")
    question: list[ValueDifference] = Field(description="Differences between the questions.")
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
    def choice(self) -> Recommendation:
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
            "levels": _join_names(level.name for level in self.levels),
        }
        for level in self.levels:
            numbers = _scalars_of(level.model_extra or {})
            found |= {f"{level.name} {key}": value for key, value in numbers}
        found |= {f"device {key}": value for key, value in _scalars_of(self.device)}
        found["missing or slower"] = _join_names(fault.unit for fault in self.exceptions)
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
        several = len({answer.rank for answer in self.answers}) < len(self.answers)
        return {
            f"rank {answer.rank}{f' of {answer.placement}' if several else ''}": answer.choice
            for answer in self.answers
        }


class _KeptStretch(_KeptPart):
    from_bytes: int
    first: _KeptAnswerRow


class KeptSweep(KeptAnswer):
    """What ``top`` answers for a range of sizes."""

    stretches: list[_KeptStretch]

    @property
    def lines(self) -> dict[str, Recommendation]:
        return {
            f"from {format_bytes(stretch.from_bytes)}": stretch.first.choice
            for stretch in self.stretches
        }


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
        return {"the step": step} | {entry.name: entry.answer.choice for entry in self.entries}


def _scalars_of(found: Mapping[str, Any]) -> Iterator[tuple[str, Scalar]]:
    """Yield the keys whose values are single words or numbers, except names."""
    for key, value in found.items():
        if key not in ("name", "source") and isinstance(value, bool | int | float | str | None):
            yield key, value


def _size_words(value: object) -> str:
    """Return the ends of a range of sizes in readable units, other values unchanged."""
    match value:
        case [int(low), int(high)]:
            return f"{format_bytes(low)} to {format_bytes(high)}"
    return str(value)


def _join_names(names: Iterable[str]) -> str | None:
    return ", ".join(names) or None


_KINDS: Mapping[str, type[KeptAnswer]] = {
    "ranking": KeptPlan,
    "stretches": KeptSweep,
    "answers": KeptRanking,
}
"""The model of an answer by the key that identifies it; the first key that matches applies."""


def diff(question: DiffQuestion, watcher: Watcher) -> Reply:
    """What two answers say differently; the outcome is NO if there is anything."""
    first, second = read_kept_answers(question)
    asked = list(_diff_values(first.asked, second.asked))
    machine = list(_diff_values(first.system.numbers, second.system.numbers))
    lines = [*_diff_recommendation(question), *_diff_lines(first, second)]
    same = not (asked or machine or lines)
    found = DiffReply.like(same=same, question=asked, machine=machine, lines=lines)
    return reply(found, Outcome.OK if same else Outcome.NO)


def _diff_recommendation(question: DiffQuestion) -> Iterator[LineDifference]:
    """Yield the recommendations of both answers if they differ, for answers of this edition."""
    first, second = map(_recommendation_of, (question.first, question.second))
    if first and second and not _agree(first, second):
        yield LineDifference(what="to take now", first=first, second=second)


def _recommendation_of(given: Mapping[str, Any]) -> Recommendation | None:
    try:
        return recommend(_TOP_REPLY.validate_python(given))
    except ValidationError:
        return None  # of another edition: its rows are compared


def read_kept_answers(question: DiffQuestion) -> tuple[KeptAnswer, KeptAnswer]:
    """Parse both answers. Raises InputError for other JSON, and for answers of two kinds."""
    first, second = (
        _read_kept_answer(question.first, "first"),
        _read_kept_answer(question.second, "second"),
    )
    if type(first) is not type(second):
        raise InputError(
            "the two answer different questions: one size, a range of sizes, or a whole job",
            hint="give two of a kind, as two of 'collsynth top --bytes 1GiB --json'",
        )
    return first, second


def _read_kept_answer(given: Mapping[str, Any], where: str) -> KeptAnswer:
    """Parse an answer. Raises InputError for JSON that is not an answer of ``top`` or ``plan``."""
    hint = "give what 'collsynth top --json' or 'collsynth plan --json' printed"
    model = next((model for key, model in _KINDS.items() if key in given), None)
    if model is None:
        raise InputError("this is no answer of top or plan", where=where, hint=hint)
    try:
        return model.model_validate(given)
    except ValidationError as error:
        found = error.errors()[0]
        place = ".".join((where, *(str(part) for part in found["loc"])))
        raise InputError(found["msg"].lower(), where=place, hint=hint) from None


def _diff_values(
    first: Mapping[str, Scalar], second: Mapping[str, Scalar]
) -> Iterator[ValueDifference]:
    for what in dict.fromkeys((*first, *second)):
        if first.get(what) != second.get(what):
            yield ValueDifference(what=what, first=first.get(what), second=second.get(what))


def _diff_lines(first: KeptAnswer, second: KeptAnswer) -> Iterator[LineDifference]:
    """Yield the lines that differ; prices that differ by rounding only count as equal."""
    before, after = first.lines, second.lines
    for what in dict.fromkeys((*before, *after)):
        line, other = before.get(what), after.get(what)
        if not (line and other and _agree(line, other)):
            yield LineDifference(what=what, first=line, second=other)


def _agree(line: Recommendation, other: Recommendation) -> bool:
    return line.how == other.how and abs(line.seconds - other.seconds) <= _TOLERANCE * line.seconds
