"""The schema of a machine's parts: in its file, in answers, and in earlier answers that are read.

Keys state their units, so that numbers are those of the file. A part is built ``of`` values of the
domain and returns them again. A file may omit more keys than an answer does.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from hierarchies.errors import InputError
from hierarchies.faults import MISSING, Fault, parse_fault
from hierarchies.files.values import scale_exactly
from hierarchies.hierarchy import Hierarchy, Level
from hierarchies.system import Domain, Link, System

GIGA, MICROSECOND = 1e9, 1e-6
FILE, EARLIER = "file", "earlier answer"
"""Contexts of validation. Earlier answers may be of other versions: unknown keys are ignored."""
NO_NUMBERS = ("name", "domain", "medium", "through", "sources", "unconfirmed")
"""Keys of a level whose values need no source."""

Positive = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveNumber = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
NonEmptyText = Annotated[str, Field(min_length=1)]
DomainName = Annotated[Domain, Field(strict=False)]


class DocumentPart(BaseModel):
    """What all parts of a document have in common: nothing is guessed, nothing is unknown."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)


def _drop_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


def optional_key(description: str, default: Any = None) -> Any:
    """Return a key that may be omitted; the default is a value that it never has, or null."""
    return Field(default=default, description=description, json_schema_extra=_drop_default)


class MachinePart(DocumentPart):
    """A part of a machine; ``usual`` has the values of keys that a file may omit."""

    usual: ClassVar[dict[str, Any]] = {}

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any, info: ValidationInfo) -> Any:
        if not info.context or not isinstance(given, dict):
            return given
        if info.context == EARLIER:
            given = {key: value for key, value in given.items() if key in cls.model_fields}
        return cls.usual | given


class LevelPart(MachinePart):
    """One level of the machine."""

    name: str = Field(description="What its units are called.")
    count: Positive = Field(description="How many of them each unit of the level above has.")


class LevelInFull(LevelPart):
    """One level, every number of its links, and who says so."""

    usual: ClassVar = {
        "medium": "",
        "ll_latency_us": None,
        "ll128_latency_us": None,
        "reduces": False,
        "ports": 1,
        "wraps": True,
        "unconfirmed": [],
    }

    domain: DomainName = Field(description="How children of one parent are connected.")
    medium: str = Field(description="Medium of its links: nvlink, infiniband, ...; may be empty.")
    bandwidth_GB_per_s: PositiveNumber = Field(  # noqa: N815 - the unit in its usual spelling
        description="Bandwidth of one port in one direction."
    )
    latency_us: Number = Field(
        description="Latency of a message by protocol Simple, in microseconds."
    )
    ll_latency_us: Number | None = Field(
        description="Latency by protocol LL; null where it does not exist."
    )
    ll128_latency_us: Number | None = Field(
        description="Latency by protocol LL128; null where it does not exist."
    )
    reduces: bool = Field(description="Whether its switches reduce.")
    ports: Positive = Field(description="Ports of one child.")
    wraps: bool = Field(description="Whether the ends of a ring or torus are connected.")
    through: list[str] = Field(description="Inner levels whose links are crossed, too.")
    sources: dict[str, str] = Field(description="Where each number comes from, by its key.")
    unconfirmed: list[str] = Field(description="Keys whose numbers no primary source confirms.")

    @classmethod
    def of(cls, level: Level, link: Link) -> Self:
        """Return the part of a level and its links."""
        return cls(
            name=level.name,
            count=level.cardinality,
            domain=link.domain,
            medium=link.medium,
            bandwidth_GB_per_s=scale_exactly(link.bandwidth_bytes_per_second, GIGA),
            latency_us=scale_exactly(link.latency_seconds, MICROSECOND),
            ll_latency_us=_microseconds(link.ll_latency_seconds),
            ll128_latency_us=_microseconds(link.ll128_latency_seconds),
            reduces=link.reduces,
            ports=link.ports,
            wraps=link.wraps,
            through=list(link.through),
            sources=dict(link.sources or {}),
            unconfirmed=list(link.unconfirmed),
        )

    @classmethod
    def of_all(cls, system: System) -> list[Self]:
        """Return the levels of a machine, outermost first."""
        return list(map(cls.of, system.hierarchy.levels, system.links))

    def link(self) -> Link:
        """Return the links of the level, as ``of`` was given them."""
        return Link(
            self.domain,
            self.bandwidth_GB_per_s * GIGA,
            self.latency_us * MICROSECOND,
            self.ports,
            tuple(self.through),
            self.sources,
            tuple(self.unconfirmed),
            self.reduces,
            _seconds(self.ll_latency_us),
            _seconds(self.ll128_latency_us),
            self.medium,
            self.wraps,
        )


def _microseconds(seconds: float | None) -> float | None:
    return None if seconds is None else scale_exactly(seconds, MICROSECOND)


def _seconds(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds * MICROSECOND


class DevicePart(MachinePart):
    """The device of a machine."""

    usual: ClassVar = {"unconfirmed": []}

    memory_GB_per_s: PositiveNumber = Field(  # noqa: N815
        description="The bandwidth of its memory."
    )
    source: str = Field(description="Where the number comes from.")
    unconfirmed: list[str] = Field(description="Keys whose numbers no primary source confirms.")

    @classmethod
    def of(cls, system: System) -> DevicePart:
        """Return the device of a machine."""
        return cls(
            memory_GB_per_s=scale_exactly(system.memory_bytes_per_second, GIGA),
            source=system.memory_source,
            unconfirmed=list(system.unconfirmed),
        )


class MachineException(MachinePart):
    """Something of a machine that is missing or slower than its description says."""

    usual: ClassVar = {"missing": False, "bandwidth_share": None, "source": ""}

    unit: str = Field(description="Path of the unit, such as rack0/node3, counted from 0.")
    missing: bool = Field(description="Whether it is missing.")
    bandwidth_share: Share | None = Field(
        description="Remaining share of its bandwidth; null if it is missing."
    )
    source: str = Field(description="Source of the information.")

    @classmethod
    def of(cls, unit: str, source: str, share: float = MISSING) -> Self:
        """Return the part of a unit with a remaining share of its bandwidth, 0 if it is missing."""
        left = None if share == MISSING else share
        return cls(unit=unit, missing=left is None, bandwidth_share=left, source=source)

    @classmethod
    def all_of(cls, system: System) -> list[Self]:
        """Return what of a machine is missing or slower."""
        names = [fault.name(system.hierarchy) for fault in system.faults]
        faults = zip(names, system.faults, strict=True)
        return [cls.of(name, fault.source, fault.share) for name, fault in faults]

    def fault(self, hierarchy: Hierarchy) -> Fault:
        """Return the same of a machine. Raises InputError for what is not there, or not at all."""
        if self.missing is (self.bandwidth_share is not None):
            problem = "both missing and slower" if self.missing else "as it should be"
            hint = "either missing = true or bandwidth_share = ..."
            raise InputError(f"{self.unit} is {problem}", hint=hint)
        return parse_fault(self.unit, hierarchy, self.bandwidth_share or MISSING, self.source)
