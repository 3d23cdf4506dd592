"""Pydantic models of schedule documents, which define their JSON Schema.

A document is one schedule, or several that run side by side, its stripes. Class docstrings are
descriptions in the published schema.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, TypeAdapter

from hierarchies.files.schema import DocumentPart as DocumentPart
from hierarchies.files.schema import LevelPart as LevelPart
from hierarchies.files.schema import Positive as Positive

Json = dict[str, Any]

FORMAT = "collsynth.schedule"
VERSION = 1

Device = Annotated[int, Field(ge=0)]
Group = Annotated[list[Device], Field(min_length=1)]


class ExchangePart(DocumentPart):
    """One collective, run by several groups of devices at once."""

    collective: Literal[
        "all-reduce", "reduce-scatter", "all-gather", "reduce", "broadcast", "all-to-all"
    ] = Field(
        description="What every group does, with its members' whole buffers; reductions "
        "add, or do what op says."
    )
    groups: Annotated[list[Group], Field(min_length=1)] = Field(
        description="Device ids in member order; the first member is the root of a reduce or "
        "broadcast. Groups are disjoint and of one size; devices in none of them do nothing."
    )
    bytes: Positive = Field(description="The largest of the members' buffers before and after.")


class TransposePart(DocumentPart):
    """A change of the order of memory inside each device; nothing is sent."""

    collective: Literal["transpose"] = Field(description="Marks a step without communication.")
    groups: Annotated[list[Group], Field(max_length=0)] = Field(description="Always empty.")
    bytes: Positive = Field(description="The size of a device's buffer.")
    devices: Group = Field(description="The ids of the devices that do it.")
    shape: list[Positive] = Field(
        description="The buffer is an array of this shape and one more dimension for the rest."
    )
    axes: list[Annotated[int, Field(ge=0)]] = Field(
        description="The order in which the dimensions of shape come out; the rest stays last."
    )


StepPart = Annotated[ExchangePart | TransposePart, Field(discriminator="collective")]


Payload = Annotated[
    int, Field(ge=1, description="The largest buffer of a device, before or after.")
]


class StripePart(DocumentPart):
    """A slice of the payload and the steps that carry it, beside those of the other stripes."""

    program: str = Field(description="The program these steps carry out.")
    payload_bytes: Payload
    padded_bytes: Positive = Field(
        description="These bytes with padding at their end: the next multiple of "
        "pieces * segments. Of requests in pieces each piece is padded at its end."
    )
    pieces: Positive = Field(description="Into how many equal parts each segment is cut.")
    segments: Positive = Field(
        description="Into how many equal segments the padded bytes are cut. Each goes through all "
        "steps; a step waits for the step before of its segment and for itself in the segment "
        "before, so that segments overlap."
    )
    steps: list[StepPart] = Field(description="What is done, in this order.")


class Head(DocumentPart):
    """What all documents say: the machine, and whose payloads are added up."""

    schema_version: Literal[1] | None = Field(
        default=None, description="The version of the command line's answers, if this is one."
    )
    format: Literal["collsynth.schedule"] = Field(description="What this document is.")
    version: Literal[1] = Field(
        description="Keys may be added under the same number; readers refuse other numbers."
    )
    system: str | None = Field(default=None, description="The name of the machine, for people.")
    levels: Annotated[list[LevelPart], Field(min_length=1)] = Field(
        description="The machine, outermost level first. A device's id is the mixed-radix number "
        "of its digits, one a level."
    )
    axes: dict[str, Positive] = Field(
        description="The parallelism axes and their sizes; their order counts.", min_length=1
    )
    placement: list[list[Positive]] = Field(
        description="The parallelism matrix: one row an axis, one column a level."
    )
    reduce: Annotated[list[str], Field(min_length=1)] = Field(description="The axes reduced over.")
    request: Literal["reduce-scatter", "all-gather", "reduce", "broadcast", "all-to-all"] | None = (
        Field(default=None, description="What is requested; by default an all-reduce.")
    )
    op: Literal["max", "min"] | None = Field(
        default=None, description="The reduction operation; by default the sum."
    )
    collapse: bool = Field(
        description="Whether the axes reduced over make one digit a level in the program, named "
        "after the level; else one each, named level.axis."
    )
    devices: Positive = Field(description="How many devices there are; ids count from 0.")
    reduction_groups: Annotated[list[Group], Field(min_length=1)] = Field(
        description="The devices that belong together: at the end of an all-reduce each member of "
        "a group holds the sum (or what op says) of all its members' payloads. The order counts: "
        "pieces are numbered by it, and the first member is the root."
    )


class Document(StripePart, Head):
    """A schedule of collsynth: what each device does, step by step, to carry out a request."""


class StripedDocument(Head):
    """Several schedules that run side by side, each for a slice of the payload."""

    payload_bytes: Payload
    stripes: Annotated[list[StripePart], Field(min_length=2)] = Field(
        description="Slices follow each other in the payload, or in each piece of a request in "
        "pieces, in this order; their payload_bytes sum to it. No stripe waits for another."
    )


def _kind(given: object) -> str:
    return "stripes" if isinstance(given, dict) and "stripes" in given else "schedule"


DOCUMENTS: TypeAdapter[Document | StripedDocument] = TypeAdapter(
    Annotated[
        Annotated[Document, Tag("schedule")] | Annotated[StripedDocument, Tag("stripes")],
        Discriminator(_kind),
    ]
)


def schema() -> Json:
    """Returns the JSON Schema (draft 2020-12) of documents."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **DOCUMENTS.json_schema(),
    }
