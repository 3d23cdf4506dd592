"""Where no plan fits: the one that needs the least memory, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import Field

from synth.ask.answers.parts import AnswerPart, Whole
from synth.step.search.explaining import PlanningResult
from synth.step.search.hints import MemorySaving


class FreedMemory(AnswerPart):
    """A change with which a plan would need less memory."""

    what: str = Field(description="A pin that is left out, more devices, fewer tokens.")
    bytes: Whole = Field(description="Lower bound of the bytes of the fullest device then.")
    freed_bytes: Whole = Field(description="Bytes saved.")


class LeastMemory(AnswerPart):
    """The plan that needs the least memory, where none fits."""

    plan: str = Field(description="Plan, as simulate reads it.")
    bytes: Whole = Field(description="Bytes of the fullest device.")
    excess_bytes: Whole = Field(description="Excess over the device's memory.")
    freed: list[FreedMemory] = Field(
        description="Changes that would help, the largest effect first."
    )

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
