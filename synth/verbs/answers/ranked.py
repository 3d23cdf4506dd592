"""Ranked answers: a placement, a program, its price, its proof, and the runtime's default."""

from __future__ import annotations

from pydantic import Field

from synth.verbs.answers.parts import (
    Axes,
    ChoiceName,
    Defaults,
    GoalName,
    Interval,
    Judged,
    MachineInFull,
    Matrix,
    Number,
    Part,
    Positive,
    Reply,
    Seconds,
    Share,
    StepPrice,
    Whole,
)


class Stripe(Judged):
    """One of the programs that share the payload."""

    program: str = Field(description="Its steps, separated by '; '.")
    share: Share = Field(description="Of the payload.")
    bytes: Positive = Field(description="Of the payload; all stripes' sum to it.")
    segments: Positive = Field(description="Into how many its slice is cut.")
    steps: Whole = Field(description="How many there are.")


class Answer(Judged, Defaults):
    """A placement and the programs that run on it, with their price, proof and reasons."""

    rank: Positive = Field(description="1 is the best; of an entry, its number.")
    axes: Axes = Field(description="Sizes by name.")
    placement: Matrix = Field(description="One row an axis, one column a level.")
    program: str = Field(description="Its steps; empty where there is nothing to do.")
    segments: Positive = Field(description="Into how many the first stripe's slice is cut.")
    seconds: Seconds = Field(description="Predicted.")
    barrier_seconds: Seconds = Field(description="Of the first stripe's program, uncut.")
    baseline_seconds: Seconds = Field(description="Of the default on the same placement.")
    speedup: Number = Field(description="baseline_seconds / seconds.")
    bound_seconds: Seconds = Field(description="What no schedule can beat on this placement.")
    limited_by: str = Field(description="A level, memory or latency; empty: nothing to do.")
    steps: list[StepPrice] = Field(description="Of one segment; of all stripes in turn.")
    stripes: list[Stripe] = Field(min_length=1, description="The programs side by side.")
    interval_seconds: Interval | None = Field(description="Of a calibrated system; else null.")
    baseline_interval_seconds: Interval | None = Field(description="The same of the default.")
    why: list[str] = Field(min_length=1, description="Sentences: what the prices say.")


class RankedAnswer(Answer):
    """An answer beside others."""

    tied: bool = Field(description="Whether its interval overlaps that of the first.")


class Asked(Reply):
    """What was asked."""

    system: MachineInFull = Field(description="The machine.")
    request: GoalName = Field(description="What is to be done.")
    reduce: list[str] = Field(min_length=1, description="The axes it is over.")


class Considered(Part):
    """What the answers were chosen from."""

    placements: Whole = Field(description="How many were looked at.")
    of_placements: Whole = Field(description="How many there are.")
    programs: Whole = Field(description="How many were ranked.")


class RankingReply(Asked):
    """The best placements and programs for one size, best first."""

    bytes: Positive = Field(description="The largest buffer of a device.")
    algorithm: ChoiceName = Field(description="Which algorithms steps may use.")
    collapse: bool = Field(description="Whether a level has one digit in programs.")
    answers: list[RankedAnswer] = Field(description="Best first.")
    best_default_seconds: Seconds = Field(description="Of the fastest default of all placements.")
    considered: Considered = Field(description="What they were chosen from.")
    complete: bool = Field(description="True if nothing better can exist.")
    explain: bool = Field(description="Whether the table says why of every answer.")


class Stretch(Part):
    """Neighbouring sizes with the same placement and program."""

    from_bytes: Positive = Field(description="Its smallest size.")
    until_bytes: Positive = Field(description="Its largest size.")
    first: Answer = Field(description="The answer at the smallest size.")
    last: Answer = Field(description="The answer at the largest size.")


class SizeFigures(Part):
    """The figures of one size."""

    bytes: Positive = Field(description="The size.")
    seconds: Seconds = Field(description="Of the best answer.")
    baseline_seconds: Seconds = Field(description="Of the default on its placement.")
    bound_seconds: Seconds = Field(description="What no schedule can beat there.")


class SweepReply(Asked):
    """From which size on which placement and program is the best."""

    bytes: list[Positive] = Field(min_length=2, max_length=2, description="Both ends.")
    algorithm: ChoiceName = Field(description="Which algorithms steps may use.")
    collapse: bool = Field(description="Whether a level has one digit in programs.")
    stretches: list[Stretch] = Field(description="From the smallest size on.")
    sizes: list[SizeFigures] = Field(description="Every size that was asked.")
    complete: bool = Field(description="True if nothing better can exist.")
