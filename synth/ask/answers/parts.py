"""The common parts of answers: numbers, prices, proofs, files."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)

from grammar import Goal
from grammar.tensors.sharding import ReductionKind
from hierarchies import Axis
from hierarchies.files.schema import DomainName as DomainName
from hierarchies.files.schema import NonEmptyText as NonEmptyText
from hierarchies.files.schema import Number as Number
from hierarchies.files.schema import Positive as Positive
from hierarchies.files.schema import Share as Share
from hierarchies.files.schema import Whole as Whole
from hierarchies.files.schema import optional_key as optional_key
from synth.ask.answers.spelling import AnswerPart as AnswerPart
from synth.ask.answers.spelling import KeySpelling
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.algorithms import Choice as Choice
from synth.collective.algorithms.nccl_versions import NVLS_OF_TWO as NVLS_OF_TWO
from synth.collective.algorithms.nccl_versions import hierarchical_need as hierarchical_need
from synth.collective.algorithms.nccl_versions import parse_version as parse_version
from synth.collective.algorithms.protocols import Protocol as Protocol
from synth.collective.price.defaults import ALGORITHMS
from synth.collective.price.defaults import HIERARCHICAL as HIERARCHICAL
from synth.collective.price.defaults import RuntimeDefaults as RuntimeDefaults
from synth.collective.price.intervals import Interval as PriceInterval
from synth.collective.price.steps import InstructionPrice as PricedStep
from synth.collective.ranking import how_to_get, settings
from synth.collective.ranking.how_to_get import ALTERNATE_RUNS as ALTERNATE_RUNS
from synth.collective.ranking.how_to_get import KEEP_DEFAULT as KEEP_DEFAULT
from synth.collective.ranking.how_to_get import AdviceKind as AdviceKind
from synth.collective.ranking.settings import explain_scope as explain_scope
from synth.collective.verify.symbolic import Proved, Refuted, Unknown, Verdict
from synth.collective.verify.verdict import Violation

Json = dict[str, Any]
SCHEMA_VERSION = 1
Version = Annotated[int, Field(ge=1, le=1, description="The version of these keys.")]
Seconds = Number


def axes_of(axes: Mapping[str, int] | Sequence[Axis] | Sequence[tuple[str, int]]) -> dict[str, int]:
    """The sizes of axes by name."""
    if isinstance(axes, Mapping):
        return dict(axes)
    return dict((axis.name, axis.size) if isinstance(axis, Axis) else axis for axis in axes)


def matrix_of(placement: Any) -> list[list[int]]:
    """The rows of a placement, or of its matrix."""
    return [list(row) for row in getattr(placement, "matrix", placement)]


def interval_of(interval: Any) -> list[float]:
    """The two ends of an interval, or of a difference, in seconds."""
    if isinstance(interval, Sequence):
        return list(interval)
    return [interval.low_seconds, interval.high_seconds]


Signed = Annotated[float, Field(allow_inf_nan=False)]
SignedInterval = Annotated[
    list[Signed], Field(min_length=2, max_length=2), KeySpelling(interval_of)
]
Interval = Annotated[list[Seconds], Field(min_length=2, max_length=2), KeySpelling(interval_of)]
Matrix = Annotated[
    list[Annotated[list[Positive], Field(min_length=1)]],
    Field(min_length=1),
    KeySpelling(matrix_of),
]
Axes = Annotated[dict[str, Positive], Field(min_length=1), KeySpelling(axes_of)]

GoalName = Annotated[Goal, Field(strict=False)]
OperationName = Annotated[ReductionKind, Field(strict=False)]
ChoiceName = Annotated[Choice, Field(strict=False)]
AlgorithmName = Annotated[Algorithm, Field(strict=False)]
ProtocolName = Annotated[Protocol, Field(strict=False)]
ViolationName = Annotated[Violation, Field(strict=False)]
CollectiveName = Literal[
    "all-reduce", "reduce-scatter", "all-gather", "reduce", "broadcast", "all-to-all"
]
StepName = CollectiveName | Literal["transpose"]
DefaultName = Literal["ring", "tree", "nvls", "nvls_tree", "direct", "hierarchical", "xla"]


def to_json(answer: BaseModel) -> Json:
    """Return the JSON of an answer: keys in the order of the model, without keys never set."""
    return answer.model_dump(mode="json", exclude_unset=True)


LimitedBy = Annotated[str, Field(description="A level, memory or latency; empty: nothing to do.")]
PredictedSeconds = Annotated[Seconds, Field(description="Predicted.")]
Complete = Annotated[bool, Field(description="True if nothing better can exist.")]


class ReplyModel(AnswerPart):
    """What every answer begins with."""

    schema_version: Version

    @classmethod
    def like(cls, *values: object, **others: Any) -> Self:
        return super().like(*values, schema_version=SCHEMA_VERSION, **others)


class StepPricePart(AnswerPart):
    """What one step costs, and why."""

    collective: StepName = Field(description="What it does.")
    algorithm: AlgorithmName | None = Field(description="Algorithm; null without communication.")
    protocol: ProtocolName | None = Field(description="Protocol; null without communication.")
    members: Positive = Field(description="Number of devices in each group.")
    bytes: Number = Field(description="The larger of a member's buffers before and after.")
    seconds: Seconds = Field(description="Seconds of the step.")
    latency_seconds: Seconds = Field(description="Part of it that is latency.")
    limited_by: str = Field(description="A level, memory or latency.")
    bytes_per_port: dict[str, Number] = Field(
        description="Bytes of the busiest port of each level."
    )

    @classmethod
    def of(cls, price: PricedStep) -> Self:
        return cls.like(
            price,
            collective=price.what,
            protocol=price.protocol if price.algorithm else None,
            members=prod(price.members),
        )


class Counterexample(AnswerPart):
    """Where a program goes wrong; digits are those of the program's tree."""

    step: Whole | None = Field(description="Counted from 0; null if the goal is missed.")
    violation: ViolationName = Field(description="What goes wrong.")
    sizes: list[Positive] = Field(description="The sizes of the digits of the counterexample.")
    device: list[Whole] = Field(description="The device, as digits.")
    other: list[Whole] | None = Field(description="The second device, if any.")
    chunk: list[Whole] | None = Field(description="The chunk, as digits, if it is about one.")
    contributor: list[Whole] | None = Field(
        description="Device of the contribution, if it is about one."
    )
    reason: str = Field(min_length=1, description="The violation in a sentence.")


_NO_REASON: Json = {"not": {"required": ["proof_reason"]}}
_NULL: Json = {"type": "null"}


def _case(proof: str, counterexample: Json) -> Json:
    properties = {"proof": {"const": proof}, "counterexample": counterexample}
    rest = {"required": ["proof_reason"]} if proof == "unknown" else _NO_REASON
    return {"properties": properties, **rest}


class OrderedPart(AnswerPart):
    """A part with keys of several models, of which ``last`` are written last, in that order.

    Fields of a model begin with those that it inherits, and a verdict does not stand first.
    """

    last: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _in_order(self, write: SerializerFunctionWrapHandler) -> Json:
        written: Json = write(self)
        for key in self.last:
            if key in written:
                written[key] = written.pop(key)
        return written


VERDICT: tuple[str, ...] = ("proof", "counterexample", "proof_reason")
DEFAULTS: tuple[str, ...] = ("defaults", "default", "later_default")


class VerdictPart(OrderedPart):
    """z3's verdict: the counterexample is there if it refutes, a reason if it does not know."""

    last = VERDICT
    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                _case("proved", _NULL),
                _case("refuted", {"type": "object"}),
                _case("unknown", _NULL),
            ]
        }
    )

    proof: Literal["proved", "refuted", "unknown"] = Field(description="Verdict of z3.")
    counterexample: Counterexample | None = Field(
        description="Counterexample of a refuted program, or null."
    )
    proof_reason: NonEmptyText = optional_key("Why z3 returned unknown.", "")

    @model_validator(mode="after")
    def _agrees(self) -> VerdictPart:
        if (self.counterexample is None) == (self.proof == "refuted"):
            raise ValueError("a counterexample belongs to what is refuted")
        if bool(self.proof_reason) != (self.proof == "unknown"):
            raise ValueError("a reason belongs to what is unknown")
        return self


def verdict_keys(verdict: Verdict) -> Json:
    """A verdict of z3 as the keys of ``VerdictPart``: proof, counterexample, reason."""
    match verdict:
        case Proved():
            return {"proof": "proved", "counterexample": None}
        case Refuted():
            return {"proof": "refuted", "counterexample": Counterexample.like(verdict)}
        case Unknown():
            return {"proof": "unknown", "counterexample": None, "proof_reason": verdict.reason}


class AdvicePart(AnswerPart):
    """How an answer is got from a runtime."""

    by: Annotated[AdviceKind, Field(strict=False)] = Field(description="Kind of advice.")
    text: str = Field(min_length=1, description="The line, the command, or why there is none.")


class DecidingRunPart(AnswerPart):
    """A run that decides between an answer and the default: they tie."""

    speedup: Number = Field(description="Expected speed-up over the default.")
    speedup_interval: Annotated[list[Number], Field(min_length=2, max_length=2)] = Field(
        description="Its range within the prediction's uncertainty."
    )
    seconds: Seconds = Field(description="Expected seconds in a runtime.")
    default_seconds: Seconds = Field(description="Expected seconds of the default.")
    commands: list[str] = Field(min_length=1, description="Commands to run in turn.")
    decides_speedup: Number = Field(
        description="Measured speed-up from which the program is worthwhile."
    )
    advice: AdvicePart = Field(description="How to use it.")
    expectation: str = Field(min_length=1, description="The expectation, in a line.")
    decides: str = Field(min_length=1, description="The deciding rule, in a line.")

    @classmethod
    def of(cls, found: how_to_get.SuggestedRun) -> Self:
        ratio = how_to_get.DECIDING_RATIO
        return cls.like(
            found, speedup_interval=found.between, decides_speedup=ratio, expectation=found.said
        )

    @property
    def emits(self) -> bool:
        """Whether the first command writes the file that the others run."""
        return self.commands[0].startswith("collsynth emit")


class DefaultChoice(AnswerPart):
    """What the runtime would choose for the plain collective."""

    name: DefaultName = Field(description="Algorithm.")
    protocol: ProtocolName = Field(description="Protocol.")
    seconds: Seconds = Field(description="Seconds of that algorithm.")
    interval_seconds: Interval | None = Field(
        description="Interval of a calibrated system, or null."
    )
    advice: AdvicePart = Field(description="How to get it: by setting nothing.")

    @property
    def algorithm(self) -> Algorithm | None:
        """The algorithm as in steps; None for XLA, which has one way."""
        return ALGORITHMS.get(self.name)

    def setting(self, collective: str) -> str:
        """Return the settings that keep it."""
        return settings.collective_settings({collective: (self.name, self.protocol)})

    def algorithm_setting(self, collective: str) -> str:
        """Return the setting that keeps its algorithm, and leaves the protocol to the runtime."""
        return settings.algorithm_setting(collective, self.name)


class LaterDefault(AnswerPart):
    """Choice of NCCL from 2.28.7 on, which has NVLS for two GPUs of a node in a group."""

    name: DefaultName = Field(description="Algorithm.")
    protocol: ProtocolName = Field(description="Protocol.")
    seconds: Seconds = Field(description="Seconds of that algorithm.")


class DefaultsPart(OrderedPart):
    """What the runtime could do for the plain collective, and what it would choose."""

    defaults: dict[DefaultName, Seconds] = Field(
        min_length=1, description="Seconds of each available algorithm."
    )
    default: DefaultChoice = Field(description="The one that the runtime would choose.")
    later_default: LaterDefault | None = optional_key(
        "Choice of NCCL from 2.28.7 on, if it differs and no version is stated."
    )


def default_keys(found: RuntimeDefaults, interval: PriceInterval | None) -> Json:
    """Return the runtime's choices as the keys of ``DefaultsPart``: all seconds, the default."""
    chosen = DefaultChoice.like(
        found,
        name=found.chosen,
        seconds=found.seconds[found.chosen],
        interval_seconds=interval,
        advice=KEEP_DEFAULT,
    )
    keys: Json = {"defaults": found.seconds, "default": chosen}
    if later := found.later:
        keys["later_default"] = LaterDefault.like(
            later, name=later.chosen, seconds=later.seconds[later.chosen]
        )
    return keys


class CallOfProgram(AnswerPart):
    """A call of a program, of one segment."""

    collective: CollectiveName = Field(description="What it does.")
    members: Positive = Field(description="Number of devices in each group.")
    bytes: Number = Field(description="The larger of a member's buffers before and after.")
    algorithm: str = Field(
        min_length=1, description="Algorithm of the price: ring, tree, nvls, ..."
    )
    protocol: ProtocolName = Field(description="Protocol.")
    own_algorithm: str = Field(min_length=1, description="Algorithm that the runtime would choose.")
    own_protocol: ProtocolName = Field(description="Protocol.")

    @classmethod
    def of(cls, call: settings.RuntimeCall) -> Self:
        way, protocol = call.way
        own_way, own_protocol = call.own_way
        return cls.like(
            call.price,
            collective=call.price.what,
            members=prod(call.price.members),
            algorithm=way,
            protocol=protocol,
            own_algorithm=own_way,
            own_protocol=own_protocol,
        )


class CallsOfProgram(AnswerPart):
    """The calls of a program, and what is to be set for them to go as priced."""

    own_seconds: Seconds = Field(description="Seconds of the program if nothing is set.")
    environment: str = Field(
        description="Variables to set; empty if there are none or none would do."
    )
    each: list[CallOfProgram] = Field(min_length=1, description="Calls of all stripes in turn.")

    @classmethod
    def of(cls, calls: settings.RuntimeCalls) -> Self:
        return cls.like(calls, environment=calls.line)


class TextFile(AnswerPart):
    """A file of text."""

    name: str = Field(min_length=1, description="What to call it.")
    text: str = Field(description="What it holds.")

    @property
    def content(self) -> bytes:
        return self.text.encode()


class BinaryFile(AnswerPart):
    """A file that is no text."""

    name: str = Field(min_length=1, description="What to call it.")
    base64: str = Field(pattern=r"^[A-Za-z0-9+/]*={0,2}$", description="What it holds.")

    @property
    def content(self) -> bytes:
        return b64decode(self.base64)


OneFile = Annotated[list[TextFile], Field(min_length=1, max_length=1)]


def discriminate_by(*keys: str) -> Callable[[Any], str]:
    """Return a discriminator for unions: the first of ``keys`` in an answer, or ""."""

    def first(given: Any) -> str:
        has = type(given).model_fields if isinstance(given, BaseModel) else given
        return next((key for key in keys if isinstance(has, dict) and key in has), "")

    return first


AnyFile = Annotated[
    Annotated[TextFile, Tag("")] | Annotated[BinaryFile, Tag("base64")],
    Discriminator(discriminate_by("base64")),
]
