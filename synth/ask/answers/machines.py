"""What the verbs answer that look at machines and at what can be said on them."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Discriminator, Field, Tag

from hierarchies import Placement, describe_axes
from synth.ask.answers.machine_parts import MachineInBrief, MachineInFull
from synth.ask.answers.parts import (
    AnswerPart,
    Axes,
    GoalName,
    Matrix,
    Positive,
    ReplyModel,
    Whole,
    discriminate_by,
)
from synth.collective.emit.conventions import conventions


class CatalogueReply(ReplyModel):
    """All known machines."""

    systems: list[MachineInBrief] = Field(min_length=1, description="The catalogue, in few words.")


class SystemReply(ReplyModel):
    """One machine with all its numbers and their sources."""

    system: MachineInFull = Field(description="The machine that was asked for.")


SystemsReply = Annotated[
    Annotated[CatalogueReply, Tag("systems")] | Annotated[SystemReply, Tag("")],
    Discriminator(discriminate_by("systems")),
]


class FrameworkOrder(AnswerPart):
    """What a placement asks of a framework that counts ranks in an order of its own."""

    framework: str = Field(description="Its name.")
    default: bool = Field(description="Whether its default order gives this placement.")
    possible: bool = Field(description="False if its order does not support these axes.")
    say: str = Field(min_length=1, description="The line to write or to change, or why not.")


class PlacementInWords(AnswerPart):
    """A placement as people say it."""

    lies: list[str] = Field(description="For each axis above 1 where its groups lie.")
    orders: list[FrameworkOrder] = Field(description="What each framework needs for it.")

    @classmethod
    def of(cls, placement: Placement, torus: bool) -> Self:
        return cls.like(lies=describe_axes(placement), orders=conventions(placement, torus))


class PlaceReply(ReplyModel):
    """Every placement of axes on a machine, or the one that was asked for."""

    system: MachineInBrief = Field(description="The machine.")
    axes: Axes = Field(description="Sizes by name; their order is that of the rows.")
    count: Positive = Field(description="Number of placements.")
    placements: list[Matrix] = Field(description="One row an axis, one column a level.")
    described: list[PlacementInWords] = Field(description="The same in words, in that order.")


class CountReply(ReplyModel):
    """How many valid programs a tree of so many digits has."""

    request: GoalName = Field(description="Request of the programs.")
    digits: Whole = Field(description="Of the tree.")
    by_length: list[Whole] = Field(description="Valid programs of 1, 2, ... steps.")
    instructions: Whole = Field(description="Number of instructions on the tree.")
    complete: bool = Field(description="False if the search was ended.")
