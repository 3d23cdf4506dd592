"""Answers about machines with something missing or slower."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from synth.verbs.answers.parts import (
    Axes,
    ChoiceName,
    Judged,
    Matrix,
    Number,
    Part,
    Positive,
    Seconds,
    StepPrice,
    Whole,
)
from synth.verbs.answers.ranked import Asked

Ranks = list[Whole]


class Left(Part):
    """What is left of a machine."""

    left: str = Field(min_length=1, description="In words.")
    devices: list[Whole] = Field(min_length=1, description="The ids of its devices, by rank.")


class GroupStep(Part):
    """A step over explicit groups of ranks."""

    collective: Literal["all-reduce", "reduce-scatter", "all-gather", "reduce", "broadcast"] = (
        Field(description="What every group does.")
    )
    groups: list[Ranks] = Field(min_length=1, description="Ranks; the first is the root.")
    pieces: list[list[list[Whole]]] | None = Field(
        description="For each group and member of a reduce-scatter the chunks it keeps; else null."
    )


class UnevenAnswer(Judged):
    """A program of explicit groups."""

    rank: Positive = Field(description="1 is the best.")
    axes: Axes = Field(description="The one axis, of all devices that are left.")
    program: str = Field(description="Its steps in words.")
    chunks: Positive = Field(description="Into how many the payload is cut.")
    segments: Positive = Field(description="Into how many each goes through the steps.")
    seconds: Seconds = Field(description="Predicted.")
    speedup: Number = Field(description="flat_seconds / seconds.")
    limited_by: str = Field(description="A level, memory or latency; empty: nothing to do.")
    steps: list[StepPrice] = Field(description="Of one segment.")
    group_steps: list[GroupStep] = Field(description="Who does what with whom.")
    proved_for: Positive = Field(description="The proof is for so many devices.")


class EvenInside(Part):
    """One of the largest even machines inside, by itself."""

    machine: str = Field(description="In words.")
    devices: Positive = Field(description="How many it has.")
    program: str = Field(description="Its best program.")
    segments: Positive = Field(description="Into how many the payload is cut.")
    seconds: Seconds = Field(description="Predicted.")


class ProgramsConsidered(Part):
    """What the answers were chosen from."""

    programs: Whole = Field(description="How many were ranked.")


class UnevenReply(Asked):
    """The best programs of explicit groups for a machine that lacks devices."""

    bytes: Positive = Field(description="What each device has to reduce.")
    algorithm: ChoiceName = Field(description="Which algorithms steps may use.")
    uneven: Left = Field(description="What is left.")
    answers: list[UnevenAnswer] = Field(description="Best first.")
    choices: list[EvenInside] = Field(description="The largest even machines inside.")
    flat_seconds: Seconds = Field(description="The plain all-reduce in one step.")
    bound_seconds: Seconds = Field(description="What no schedule can beat.")
    bound_by: str = Field(description="The level whose links impose the bound.")
    considered: ProgramsConsidered = Field(description="What they were chosen from.")
    complete: bool = Field(description="True if nothing better can exist.")


class BestAnswer(Judged):
    """The best answer on one machine, in few words."""

    axes: Axes = Field(description="Sizes by name.")
    placement: Matrix | None = Field(description="Null where groups are explicit.")
    program: str = Field(description="Its steps.")
    seconds: Seconds = Field(description="Predicted.")
    baseline_seconds: Seconds = Field(description="Of the default.")
    bound_seconds: Seconds = Field(description="What no schedule can beat.")


class BusyLink(Part):
    """A link, and how much of the time it is busy."""

    link: str = Field(description="Which.")
    busy_share: float = Field(ge=0, allow_inf_nan=False, description="Of the time.")


class FollowedProgram(Part):
    """One program followed link by link."""

    program: str = Field(description="Its steps.")
    segments: Positive = Field(description="Into how many the payload was cut.")
    healthy_seconds: Seconds = Field(description="On the machine as described.")
    seconds: Seconds = Field(description="On the machine as it is.")
    busiest: list[BusyLink] = Field(description="The links that are busy most.")


class CostReply(Asked):
    """What it costs that something is missing or slower."""

    bytes: Positive = Field(description="The largest buffer of a device.")
    healthy: BestAnswer = Field(description="On the machine as described.")
    same_program_seconds: Seconds | None = Field(
        description="Its program on the machine as it is; null where devices are missing."
    )
    best: BestAnswer = Field(description="On the machine as it is.")
    lost_seconds: float = Field(allow_inf_nan=False, description="The difference.")
    choices: list[EvenInside] = Field(description="The largest even machines inside.")
    followed: FollowedProgram | None = Field(description="Null where devices are missing.")
    complete: bool = Field(description="True if nothing better can exist.")
