"""What the verb answers that reads other people's descriptions of machines."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from hierarchies import importers
from hierarchies.importers import Draft, DraftLevel, StatedValue, draft_to_toml, scale_to_unit
from hierarchies.importers.draft import Value
from synth.ask.answers.machine_parts import DomainName
from synth.ask.answers.parts import (
    AnswerPart,
    Number,
    OneFile,
    Positive,
    ReplyModel,
    Whole,
    optional_key,
)


class DraftedLevel(AnswerPart):
    """One level as far as it is known: null where it is blank, left out where there is no such."""

    name: str = Field(description="Name of its units.")
    count: Positive | None = optional_key("Number of units in each parent.")
    domain: DomainName | None = Field(description="How children of one parent are connected.")
    bandwidth_GB_per_s: Number | None = Field(description="Bandwidth of one port in one direction.")
    latency_us: Number | None = Field(description="Latency of a message by protocol Simple.")
    ll_latency_us: Number | None = optional_key("Latency of a message by protocol LL.")
    ll128_latency_us: Number | None = optional_key("Latency of a message by protocol LL128.")
    ports: Positive | None = optional_key("Ports of one child.")
    reduces: bool | None = optional_key("Whether its switches reduce.")
    through: list[str] = Field(description="Inner levels whose links are crossed, too.")
    sources: dict[str, str] = Field(description="Where each known value stands, by its key.")

    @classmethod
    def of(cls, level: DraftLevel) -> Self:
        entries = level.entries()
        known = {key: entry for key, entry in entries.items() if isinstance(entry, StatedValue)}
        stated = {key: scale_to_unit(key, entry.value) for key, entry in known.items()}
        return cls.like(
            name=level.name,
            through=level.through,
            sources={key: entry.source for key, entry in known.items()},
            **dict.fromkeys(entries) | stated,
        )


class DraftPart(AnswerPart):
    """Recipe that the files express."""

    name: str = Field(description="Name of the description.")
    title: str = Field(description="Title; may be empty.")
    device: str = Field(description="The model of its devices; empty where it is not said.")
    memory_GB_per_s: Number | None = Field(
        description="Memory bandwidth of a device; null where it is blank."
    )
    levels: list[DraftedLevel] = Field(min_length=1, description="Outermost first.")
    counted: dict[str, Whole] = Field(description="Numbers of units found, by name.")
    warnings: list[str] = Field(description="Contradictions and faults that the files show.")
    notes: list[str] = Field(description="What no description can hold.")

    @classmethod
    def of(cls, draft: Draft) -> Self:
        memory = draft.memory_bytes_per_second
        rate = (
            scale_to_unit("memory_GB_per_s", memory.value)
            if isinstance(memory, StatedValue)
            else None
        )
        return cls.like(draft, memory_GB_per_s=rate)


class BlankPart(AnswerPart):
    """A value that the files do not say."""

    place: str = Field(description="device, or the name of a level.")
    key: str = Field(description="Name of the value.")
    needed: bool = Field(description="False if it may be left out.")
    suggestion: Value | None = Field(description="Usual value; null if unknown.")
    reason: str = Field(description="Source of the suggestion and its reason.")

    @classmethod
    def of(cls, place: str, key: str, blank: importers.Blank) -> Self:
        perhaps = blank.suggestion
        return cls.like(
            blank,
            place=place,
            key=key,
            suggestion=None if perhaps is None else scale_to_unit(key, perhaps),
            reason=blank.source,
        )


class ImportReply(ReplyModel):
    """What files say of a machine, what they leave open, and the description to be completed."""

    kind: str = Field(description="Kind of the files.")
    draft: DraftPart = Field(description="The draft that the files give.")
    blanks: list[BlankPart] = Field(description="Values that the files do not give.")
    complete: bool = Field(description="Whether all required values are known.")
    files: OneFile = Field(description="The description, in TOML.")

    @classmethod
    def of(cls, kind: str, draft: Draft) -> Self:
        blanks = [BlankPart.of(place, key, blank) for place, key, blank in draft.blanks()]
        return cls.like(
            kind=kind,
            draft=draft,
            blanks=blanks,
            complete=not any(blank.needed for blank in blanks),
            files={f"{draft.name}.toml": draft_to_toml(draft)},
        )
