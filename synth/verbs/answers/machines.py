"""What the verbs answer that look at machines and at what can be said on them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from synth.verbs.answers.machine_parts import Machine, MachineInFull
from synth.verbs.answers.parts import (
    Axes,
    GoalName,
    Matrix,
    Positive,
    Reply,
    Whole,
    having,
)


class CatalogueReply(Reply):
    """All known machines."""

    systems: list[Machine] = Field(min_length=1, description="The catalogue, in few words.")


class SystemReply(Reply):
    """One machine with all its numbers and their sources."""

    system: MachineInFull = Field(description="The machine that was asked for.")


SystemsReply = Annotated[
    Annotated[CatalogueReply, Tag("systems")] | Annotated[SystemReply, Tag("")],
    Discriminator(having("systems")),
]


class PlaceReply(Reply):
    """Every placement of axes on a machine."""

    system: Machine = Field(description="The machine.")
    axes: Axes = Field(description="Sizes by name; their order is that of the rows.")
    count: Positive = Field(description="How many placements there are.")
    placements: list[Matrix] = Field(description="One row an axis, one column a level.")


class CountReply(Reply):
    """How many valid programs a tree of so many digits has."""

    request: GoalName = Field(description="What they are for.")
    digits: Whole = Field(description="Of the tree.")
    by_length: list[Whole] = Field(description="Valid programs of 1, 2, ... steps.")
    instructions: Whole = Field(description="What the tree admits.")
    complete: bool = Field(description="False if the search was ended.")
