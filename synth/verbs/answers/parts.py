"""What answers have in common: numbers, machines, prices, proofs."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from grammar import Goal
from hierarchies import Domain, Level, Link, System, table_of
from synth.collectives.algorithms import Algorithm, Choice
from synth.collectives.protocols import Protocol
from synth.emit.document.schema import Part as Part
from synth.emit.document.schema import Positive as Positive
from synth.price.defaults import Defaults as RuntimeDefaults
from synth.price.intervals import Interval as PriceInterval
from synth.price.steps import StepPrice as PricedStep
from synth.verify.symbolic import Proved, Refuted, Unknown, Verdict
from synth.verify.verdict import Violation

Json = dict[str, Any]
SCHEMA_VERSION = 1
Version = Annotated[int, Field(ge=1, le=1, description="The version of these keys.")]
Whole = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Interval = Annotated[list[Seconds], Field(min_length=2, max_length=2)]
Matrix = Annotated[list[Annotated[list[Positive], Field(min_length=1)]], Field(min_length=1)]
Axes = Annotated[dict[str, Positive], Field(min_length=1)]

GoalName = Annotated[Goal, Field(strict=False)]
ChoiceName = Annotated[Choice, Field(strict=False)]
AlgorithmName = Annotated[Algorithm, Field(strict=False)]
ProtocolName = Annotated[Protocol, Field(strict=False)]
DomainName = Annotated[Domain, Field(strict=False)]
ViolationName = Annotated[Violation, Field(strict=False)]
CollectiveName = Literal[
    "all-reduce", "reduce-scatter", "all-gather", "reduce", "broadcast", "all-to-all"
]
StepName = CollectiveName | Literal["transpose"]
DefaultName = Literal["ring", "tree", "nvls", "nvls_tree", "direct"]


def as_json(answer: BaseModel) -> Json:
    """The JSON of an answer: keys in the order of the model, those that were not given left out."""
    return answer.model_dump(mode="json", exclude_unset=True)


def _without_default(schema: Json) -> None:
    schema.pop("default", None)


def sometimes(description: str, default: Any = None) -> Any:
    """A key that may be left out; the default is no value it ever has, or null."""
    return Field(default=default, description=description, json_schema_extra=_without_default)


Told = Annotated[str, Field(min_length=1)]


class Reply(Part):
    """What every answer begins with."""

    schema_version: Version


class LevelInBrief(Part):
    """One level of a machine."""

    name: str = Field(description="What its units are called.")
    count: Positive = Field(description="How many of them each unit of the level above has.")


class LevelInFull(LevelInBrief):
    """One level, every number of its links, and who says so."""

    domain: DomainName = Field(description="How the children of one parent are joined.")
    bandwidth_GB_per_s: Number = Field(description="Of one port, in one direction.")
    latency_us: Number = Field(description="Of a message by protocol Simple, in microseconds.")
    ll_latency_us: Number | None = Field(description="By LL; null where there is no such protocol.")
    ll128_latency_us: Number | None = Field(description="By LL128; null as well.")
    reduces: bool = Field(description="Whether its switches can add up.")
    ports: Positive = Field(description="Of one child.")
    through: list[str] = Field(description="Inner levels whose links are crossed, too.")
    sources: dict[str, str] = Field(description="Where each number comes from, by its key.")
    unconfirmed: list[str] = Field(description="Keys whose numbers no primary source confirms.")

    @classmethod
    def of(cls, level: Level, link: Link) -> LevelInFull:
        return cls(
            name=level.name,
            count=level.cardinality,
            domain=link.domain,
            bandwidth_GB_per_s=link.bandwidth_bytes_per_second / 1e9,
            latency_us=link.latency_seconds * 1e6,
            ll_latency_us=_microseconds(link.ll_latency_seconds),
            ll128_latency_us=_microseconds(link.ll128_latency_seconds),
            reduces=link.reduces,
            ports=link.ports,
            through=list(link.through),
            sources=dict(link.sources or {}),
            unconfirmed=list(link.unconfirmed),
        )


def _microseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e6


class Device(Part):
    """The device of a machine."""

    memory_GB_per_s: Number = Field(description="The bandwidth of its memory.")
    source: str = Field(description="Where the number comes from.")
    unconfirmed: list[str] = Field(description="Keys whose numbers no primary source confirms.")


class MachineException(Part):
    """Something of a machine that is missing or slower than its description says."""

    unit: str = Field(description="Which: a path like rack0/node3, numbers from 0.")
    missing: bool = Field(description="Whether it is missing altogether.")
    bandwidth_share: Share | None = Field(description="What is left; null if it is missing.")
    source: str = Field(description="Who says so.")

    @classmethod
    def all_of(cls, system: System) -> list[MachineException]:
        """What of a machine is missing or slower."""
        return [
            cls(
                unit=fault.name(system.hierarchy),
                missing=fault.missing,
                bandwidth_share=None if fault.missing else fault.share,
                source=fault.source,
            )
            for fault in system.faults
        ]


class _Way(Part):
    """What a fitted number is of; a key that is left out stands for all of them."""

    collective: Told = sometimes("Of this collective only.", "")
    algorithm: Told = sometimes("Of this algorithm only.", "")
    protocol: Told = sometimes("Of this protocol only.", "")


class Fit(_Way):
    """Fitted numbers of one way, by level."""

    launch_us: Number = Field(description="What a call costs, whatever its size.")
    hop_us: dict[str, Number] = Field(description="Waited for with every message.")
    gap_us: dict[str, Number] = Field(description="What must lie between two messages.")
    share: dict[str, Number] = Field(description="Of the bandwidth described, what is had.")
    rows: Whole = Field(description="How many measured rows were taken to have gone this way.")


class Residual(_Way):
    """How far measured times lay from fitted ones, in one class of sizes."""

    from_bytes: Whole = Field(description="Where the class begins.")
    rows: Positive = Field(description="How many rows it has.")
    low: Number = Field(description="Nine of ten ratios of measured to fitted lie above.")
    median: Number = Field(description="The middle one.")
    high: Number = Field(description="Nine of ten lie below.")


class MeasuredTable(Part):
    """What measured rows were of."""

    collective: str = Field(description="Of this collective.")
    members: dict[str, Positive] = Field(description="By level: children a group has ranks in.")
    ways: list[str] = Field(description="Algorithm and protocol, with a space between.")
    from_bytes: Positive = Field(description="The smallest size.")
    to_bytes: Positive = Field(description="The largest size.")


class Stray(Part):
    """How far tables lay from fits without them, in one class of sizes."""

    from_bytes: Whole = Field(description="Where the class begins.")
    tables: Whole = Field(description="How many were left out, one after the other.")
    low: Number = Field(description="Nine of ten ratios of measured to fitted lie above.")
    high: Number = Field(description="Nine of ten lie below.")


class Calibration(Part):
    """What was measured on a machine: the ``[calibration]`` of its description."""

    runtime: Literal["fastest", "model"] = Field(description="How the runtime was seen to choose.")
    sources: list[str] = Field(description="Which measurements.")
    undetermined: list[str] = Field(description="What they do not tell.")
    dropped: list[str] = Field(description="Rows that the fit did not follow.")
    fit: list[Fit] = Field(min_length=1, description="The fitted numbers.")
    residual: Annotated[list[Residual], Field(min_length=1)] = sometimes("How far off.", [])
    measured: Annotated[list[MeasuredTable], Field(min_length=1)] = sometimes("Of what.", [])
    stray: Annotated[list[Stray], Field(min_length=1)] = sometimes("How far off others.", [])


class Machine(Part):
    """A machine in a few words."""

    name: str = Field(description="Its name in the catalogue, or in its description.")
    title: str = Field(description="What people call it; may be empty.")
    devices: Positive = Field(description="How many devices it has.")
    levels: list[LevelInBrief] = Field(min_length=1, description="Outermost first.")

    @classmethod
    def of(cls, system: System) -> Machine:
        return cls(
            name=system.name,
            title=system.title,
            devices=system.devices,
            levels=[
                LevelInBrief(name=level.name, count=level.cardinality)
                for level in system.hierarchy.levels
            ],
        )


class MachineInFull(Part):
    """A machine with every number of its links, and who says so."""

    name: str = Field(description="Its name in the catalogue, or in its description.")
    title: str = Field(description="What people call it; may be empty.")
    devices: Positive = Field(description="How many devices it has, the missing ones included.")
    levels: list[LevelInFull] = Field(min_length=1, description="Outermost first.")
    exceptions: list[MachineException] = Field(description="What is missing or slower.")
    device: Device = Field(description="What its devices are.")
    calibration: Calibration | None = Field(description="What was measured; null if nothing was.")

    @classmethod
    def of(cls, system: System) -> MachineInFull:
        known, hierarchy = system.calibration, system.hierarchy
        return cls(
            name=system.name,
            title=system.title,
            devices=system.devices,
            levels=list(map(LevelInFull.of, hierarchy.levels, system.links)),
            exceptions=MachineException.all_of(system),
            device=Device(
                memory_GB_per_s=system.memory_bytes_per_second / 1e9,
                source=system.memory_source,
                unconfirmed=list(system.unconfirmed),
            ),
            calibration=Calibration.model_validate(table_of(known, hierarchy.names))
            if known
            else None,
        )


class StepPrice(Part):
    """What one step costs, and why."""

    collective: StepName = Field(description="What it does.")
    algorithm: AlgorithmName | None = Field(description="How; null where nothing is sent.")
    protocol: ProtocolName | None = Field(description="By which; null where nothing is sent.")
    bytes: Number = Field(description="The larger of a member's buffers before and after.")
    seconds: Seconds = Field(description="How long it takes.")
    latency_seconds: Seconds = Field(description="What of that is waiting for messages.")
    limited_by: str = Field(description="A level, memory or latency.")
    bytes_per_port: dict[str, Number] = Field(description="Of the busiest port of each level.")

    @classmethod
    def of(cls, price: PricedStep) -> StepPrice:
        return cls(
            collective=cast(StepName, price.what),
            algorithm=price.algorithm,
            protocol=price.protocol if price.algorithm else None,
            bytes=price.size_bytes,
            seconds=price.seconds,
            latency_seconds=price.latency_seconds,
            limited_by=price.limited_by,
            bytes_per_port=dict(price.bytes_per_port),
        )


class Counterexample(Part):
    """Where a program goes wrong; digits are those of the program's tree."""

    step: Whole | None = Field(description="Counted from 0; null: the goal is missed.")
    violation: ViolationName = Field(description="What goes wrong.")
    sizes: list[Positive] = Field(description="The sizes of the digits at which it does.")
    device: list[Whole] = Field(description="The device, as digits.")
    other: list[Whole] | None = Field(description="The second device, if it takes two.")
    chunk: list[Whole] | None = Field(description="The chunk, as digits, if it is about one.")
    contributor: list[Whole] | None = Field(description="Whose contribution, if it is about one.")
    reason: str = Field(min_length=1, description="The same in a sentence.")

    @classmethod
    def of(cls, refuted: Refuted) -> Counterexample:
        return cls(
            step=refuted.step,
            violation=refuted.violation,
            sizes=list(refuted.sizes),
            device=list(refuted.device),
            other=_digits(refuted.other),
            chunk=_digits(refuted.chunk),
            contributor=_digits(refuted.contributor),
            reason=refuted.reason,
        )


def _digits(values: tuple[int, ...] | None) -> list[int] | None:
    return None if values is None else list(values)


_NO_REASON: Json = {"not": {"required": ["proof_reason"]}}
_NULL: Json = {"type": "null"}


def _case(proof: str, counterexample: Json) -> Json:
    said = {"proof": {"const": proof}, "counterexample": counterexample}
    rest = {"required": ["proof_reason"]} if proof == "unknown" else _NO_REASON
    return {"properties": said, **rest}


class Spliced(Part):
    """A part with keys of several models: they are written in the order they are given in.

    Fields of a model begin with those that it inherits, and a verdict does not stand first.
    """

    def __init__(self, /, **given: Any) -> None:
        super().__init__(**given)
        held = self.__dict__
        for key in given:
            if key in held:
                held[key] = held.pop(key)


class Judged(Spliced):
    """z3's verdict: the counterexample is there if it refutes, a reason if it does not know."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                _case("proved", _NULL),
                _case("refuted", {"type": "object"}),
                _case("unknown", _NULL),
            ]
        }
    )

    proof: Literal["proved", "refuted", "unknown"] = Field(description="What z3 says.")
    counterexample: Counterexample | None = Field(description="Of a refuted program; else null.")
    proof_reason: Told = sometimes("Why z3 does not know; only if it does not.", "")

    @model_validator(mode="after")
    def _agrees(self) -> Judged:
        if (self.counterexample is None) == (self.proof == "refuted"):
            raise ValueError("a counterexample belongs to what is refuted")
        if bool(self.proof_reason) != (self.proof == "unknown"):
            raise ValueError("a reason belongs to what is unknown")
        return self


def judged_keys(verdict: Verdict) -> Json:
    """What ``Judged`` is made of."""
    match verdict:
        case Proved():
            return {"proof": "proved", "counterexample": None}
        case Refuted():
            return {"proof": "refuted", "counterexample": Counterexample.of(verdict)}
        case Unknown():
            return {"proof": "unknown", "counterexample": None, "proof_reason": verdict.reason}


class DefaultChoice(Part):
    """What the runtime would choose for the plain collective."""

    name: DefaultName = Field(description="Which way.")
    protocol: ProtocolName = Field(description="By which protocol.")


class Defaults(Spliced):
    """What the runtime could do for the plain collective, and what it would choose."""

    defaults: dict[DefaultName, Seconds] = Field(
        min_length=1, description="The seconds of each way there is."
    )
    default: DefaultChoice = Field(description="The one that the runtime would choose.")


def default_keys(found: RuntimeDefaults) -> Json:
    """What ``Defaults`` is made of."""
    chosen = DefaultChoice(name=cast(DefaultName, found.chosen), protocol=found.protocol)
    return {"defaults": found.seconds, "default": chosen}


def interval_of(interval: PriceInterval | None) -> list[float] | None:
    """Its two ends in seconds."""
    return None if interval is None else [interval.low_seconds, interval.high_seconds]


class TextFile(Part):
    """A file of text."""

    name: str = Field(min_length=1, description="What to call it.")
    text: str = Field(description="What it holds.")

    @property
    def content(self) -> bytes:
        return self.text.encode()


class BinaryFile(Part):
    """A file that is no text."""

    name: str = Field(min_length=1, description="What to call it.")
    base64: str = Field(pattern=r"^[A-Za-z0-9+/]*={0,2}$", description="What it holds.")

    @property
    def content(self) -> bytes:
        return b64decode(self.base64)


OneFile = Annotated[list[TextFile], Field(min_length=1, max_length=1)]


def having(*keys: str) -> Callable[[Any], str]:
    """What tells shapes of an answer apart: the first of the keys that it has, or none."""

    def first(given: Any) -> str:
        has = type(given).model_fields if isinstance(given, BaseModel) else given
        return next((key for key in keys if isinstance(has, dict) and key in has), "")

    return first
