"""The answers of the verbs that plan a collective, a range of sizes, or a whole job."""

from __future__ import annotations

from math import inf
from typing import Annotated, Self

from pydantic import Discriminator, Field, Tag

from synth.ask.answers.degraded import UnevenReply
from synth.ask.answers.machine_parts import MachineInFull
from synth.ask.answers.parts import (
    AnswerPart,
    Axes,
    ChoiceName,
    GoalName,
    Interval,
    Matrix,
    Number,
    Positive,
    ReplyModel,
    Seconds,
    VerdictPart,
    Whole,
    discriminate_by,
    optional_key,
)
from synth.ask.answers.ranked import PlacedAnswer, RankingReply, SweepReply
from synth.collective.workload.planner import JobPlacement, JobPlan


class PlacementOption(AnswerPart):
    """A placement of a whole job."""

    axes: Axes = Field(description="Sizes by name, also of axes that the job leaves open.")
    placement: Matrix = Field(description="One row an axis, one column a level.")
    exposed_seconds: Seconds = Field(description="Exposed communication of a step.")
    interval_seconds: Interval | None = Field(
        description="Interval of a calibrated system, or null."
    )
    tied: bool = Field(description="Whether it ties with the first.")

    @classmethod
    def of(cls, plan: JobPlan, option: JobPlacement) -> Self:
        return cls.like(
            option,
            tied=not plan.ranking[0].estimate.told_from(option.estimate),
        )


class SideEffectPart(AnswerPart):
    """What a variable of an entry does to a call of another."""

    entry: str = Field(description="Name of the other entry.")
    seconds: Seconds = Field(description="One call of it without the variable, as advised.")
    seconds_with: Seconds | None = Field(description="With it; null: NCCL refuses the call.")
    exposed_seconds: float | None = Field(
        description="Exposed seconds of a step that it adds, below 0 if it saves; null: refused."
    )


class PlannedEntry(AnswerPart):
    """One of the job's collectives on the best placement."""

    name: str = Field(description="Name in the job.")
    request: GoalName = Field(description="Request.")
    over: list[str] = Field(min_length=1, description="The axes it is over.")
    bytes: Positive = Field(description="The largest buffer of a device.")
    times: Number = Field(description="Calls in one step.")
    hidden: float = Field(ge=0, le=1, description="The share that compute can run beside.")
    exposed_seconds: Seconds = Field(description="times * (1 - hidden) * seconds of a call.")
    default_exposed_seconds: Seconds = Field(
        description="Exposed seconds with the runtime's default."
    )
    alone_seconds: Seconds = Field(description="One call where it is best for this entry alone.")
    alone_placement: Matrix = Field(description="The placement on which it is.")
    loss: Number = Field(description="Seconds of one call / alone_seconds.")
    answer: PlacedAnswer = Field(description="Its best program.")
    side_effects: list[SideEffectPart] = optional_key(
        "What the variables that it needs do to other entries.", []
    )

    @property
    def side_effect_seconds(self) -> float:
        """Exposed seconds of a step that its variables cost other entries; infinite if refused."""
        costs = (effect.exposed_seconds for effect in self.side_effects)
        return sum(inf if cost is None else cost for cost in costs)

    @property
    def is_worth_setting(self) -> bool:
        """Whether it gains more than its variables cost the other entries."""
        gain = self.default_exposed_seconds - self.runtime_exposed_seconds
        return not self.side_effects or gain > self.side_effect_seconds

    @property
    def runtime_exposed_seconds(self) -> float:
        """The exposed seconds as the runtime runs it."""
        seconds = self.answer.seconds
        return self.exposed_seconds * self.answer.runtime_seconds / seconds if seconds else 0.0

    @classmethod
    def of(cls, plan: JobPlan, number: int) -> Self:
        placed = plan.entries[number]
        entry, alone = placed.entry, placed.alone_seconds
        effects = []
        for effect in plan.side_effects[number]:
            other, after = plan.entries[effect.position].entry, effect.seconds_with
            more = None if after is None else float(other.weight) * (after - effect.seconds)
            effects.append(SideEffectPart.like(effect, entry=other.name, exposed_seconds=more))
        return cls.like(
            entry,
            placed,
            loss=placed.answer.candidate.seconds / alone if alone else 1.0,
            **({"side_effects": effects} if effects else {}),
        )


class UnpricedEntry(AnswerPart):
    """Communication of a job that no collective can say."""

    name: str = Field(description="Name in the job.")
    over: list[str] = Field(min_length=1, description="The axes it is over.")
    bytes: Positive = Field(description="The largest buffer of a device.")
    times: Number = Field(description="Calls in one step.")
    why: str = Field(description="Why it has no price.")


class PlacementsConsidered(AnswerPart):
    """What a placement was chosen from."""

    placements: Whole = Field(description="Number of placements examined.")
    of_placements: Whole = Field(description="Number of placements, over all sizes of open axes.")


class PlanReply(ReplyModel):
    """The placement on which a job's collectives are exposed for least time."""

    system: MachineInFull = Field(description="The machine.")
    job: str = Field(description="The job's name.")
    title: str = Field(description="Its title; may be empty.")
    algorithm: ChoiceName = Field(description="Algorithms that steps may use.")
    collapse: bool = Field(description="Whether each level is one digit in programs.")
    ranking: list[PlacementOption] = Field(description="Placements, best first.")
    default_exposed_seconds: Seconds = Field(
        description="Exposed seconds with the runtime's defaults on the best placement."
    )
    entries: list[PlannedEntry] = Field(description="The job's collectives on the best.")
    unpriced: list[UnpricedEntry] = Field(description="Communication that is not a collective.")
    considered: PlacementsConsidered = Field(description="Candidates considered.")
    complete: bool = Field(description="False if a better placement may be missing.")

    @property
    def answers(self) -> list[PlacedAnswer]:
        """Those to the job's collectives."""
        return [entry.answer for entry in self.entries]

    @property
    def runtime_exposed_seconds(self) -> float:
        """What a step waits as the runtime runs each entry, on the best placement.

        An entry whose variables cost the others more than it gains keeps the default.
        """
        return sum(
            entry.runtime_exposed_seconds + entry.side_effect_seconds
            if entry.is_worth_setting
            else entry.default_exposed_seconds
            for entry in self.entries
        )

    @classmethod
    def of(cls, plan: JobPlan) -> Self:
        return cls.like(
            plan,
            plan.job,
            plan.how,
            job=plan.job.name,
            entries=[PlannedEntry.of(plan, number) for number in range(len(plan.entries))],
            ranking=[PlacementOption.of(plan, option) for option in plan.ranking],
            default_exposed_seconds=sum(entry.default_exposed_seconds for entry in plan.entries),
            considered=plan,
        )


TopReply = Annotated[
    Annotated[RankingReply, Tag("")]
    | Annotated[SweepReply, Tag("stretches")]
    | Annotated[UnevenReply, Tag("uneven")]
    | Annotated[PlanReply, Tag("entries")],
    Discriminator(discriminate_by("stretches", "uneven", "entries")),
]


class SystemsRankedReply(ReplyModel):
    """One question put to several systems."""

    systems: list[TopReply] = Field(
        min_length=1, description="Answers of top for each system, in order."
    )
    complete: bool = Field(description="False if something of one, or one, may be missing.")

    @property
    def answers(self) -> list[VerdictPart]:
        """Those of all systems."""
        return [answer for reply in self.systems for answer in reply.answers]
