"""What the verb ``train`` answers for a framework: a plan as its configuration."""

from __future__ import annotations

from pydantic import Field

from synth.ask.answers.parts import Axes, Matrix, ReplyModel, TextFile
from synth.ask.answers.training.gained import ProgramOfPlan


class ConfiguredReply(ReplyModel):
    """A plan of a step as the files of a framework that runs it."""

    model: str = Field(description="What is trained.")
    framework: str = Field(description="Which, and the version that is written for.")
    system: str = Field(description="The name of the machine.")
    axes: Axes = Field(description="Sizes by name, in the order of the placement.")
    placement: Matrix = Field(description="One row an axis, one column a level.")
    plan: str = Field(description="As it was asked for.")
    recipe: str = Field(description="What the files say.")
    notes: list[str] = Field(description="In which that is another plan; they say so, too.")
    programs: list[ProgramOfPlan] = Field(
        description="What gains by a program of ours, the most first."
    )
    files: list[TextFile] = Field(min_length=1, description="What to save.")
