"""Where no plan fits: the one that needs the least memory, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import Field

from synth.ask.answers.parts import AnswerPart, Whole
from synth.step.search.hints import MemorySaving
from synth.step.search.planning import PlanningResult


class FreedMemory(AnswerPart):
    """A change with which a plan would need less memory."""

    what: str = Field(description="A pin that is left out, more devices, fewer tokens.")
    bytes: Whole = Field(description="Of the fullest device then, at least.")
    freed_bytes: Whole = Field(description="How much less that is.")


class LeastMemory(AnswerPart):
    """The plan that needs the least memory, where none fits."""

    plan: str = Field(description="As simulate takes it.")
    bytes: Whole = Field(description="Of the fullest device.")
    excess_bytes: Whole = Field(description="How much of that is too much.")
    freed: list[FreedMemory] = Field(description="What would help, the most first.")

    @classmethod
    def of(
        cls, found: PlanningResult, memory_bytes: float, helps: Sequence[MemorySaving] = ()
    ) -> Self | None:
        """None where something fits."""
        if found.nearest is None:
            return None
        candidate, size = found.nearest
        return cls(
            plan=str(candidate.recipe),
            bytes=round(size),
            excess_bytes=max(0, round(size - memory_bytes)),
            freed=[
                FreedMemory(
                    what=one.what,
                    bytes=round(one.size_bytes),
                    freed_bytes=round(one.freed_bytes),
                )
                for one in helps
            ],
        )
