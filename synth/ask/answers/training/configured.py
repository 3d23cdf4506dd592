"""What the verb ``train`` answers for a framework: a plan as its configuration."""

from __future__ import annotations

from pydantic import Field

from synth.ask.answers.parts import Axes, Matrix, ReplyModel, TextFile
from synth.ask.answers.training.gained import ProgramOfPlan


class ConfiguredReply(ReplyModel):
    """A plan of a step as the files of a framework that runs it."""

    model: str = Field(description="Model.")
    framework: str = Field(description="Framework and the version it is written for.")
    system: str = Field(description="The name of the machine.")
    axes: Axes = Field(description="Sizes by name, in the order of the placement.")
    placement: Matrix = Field(description="One row an axis, one column a level.")
    plan: str = Field(description="Plan as requested.")
    recipe: str = Field(description="Recipe that the files express.")
    notes: list[str] = Field(
        description="Differences from the requested plan, noted in the files as well."
    )
    programs: list[ProgramOfPlan] = Field(description="Programs that gain, the largest gain first.")
    files: list[TextFile] = Field(min_length=1, description="Files to save.")
