"""What the verb ``plan`` answers of single operations of its first plan."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from synth.ask.answers.parts import AnswerPart, Number, Seconds, Whole
from synth.step.search.operations.finer import RESOLUTION, Refinement


class RowsOfOperations(AnswerPart):
    """The first plan looked at operation by operation."""

    because: str = Field(description="Why rows were not chosen together; empty if they were.")
    sums: Seconds | None = Field(description="Seconds of the chosen rows in sequence, or null.")
    sums_gap: Number | None = Field(description="Upper limit of the gap to the optimum.")
    recipe_sums: Seconds | None = Field(description="Seconds of the first plan in sequence.")
    rows_seconds: Seconds | None = Field(description="Simulated seconds of a step with these rows.")
    rows_bytes: Whole | None = Field(description="Bytes of the fullest device with them.")
    rounded: Whole = Field(
        description="Casts that these have sums on the other side of: added up narrower."
    )
    tried: Whole = Field(description="Substitutions where the first plan redistributes.")
    substituted_seconds: Seconds = Field(
        description="Seconds of the best of them, or of the first plan."
    )
    pays: bool = Field(description="Whether that is faster beyond the prediction's uncertainty.")
    substitutions: list[str] = Field(description="The rows that this has otherwise.")
    better: bool = Field(description="Whether there is a file rows.plan: a better plan in full.")

    @classmethod
    def of(cls, found: Refinement) -> Self:
        """What was found."""
        rows, tried = found.rows, found.substituted
        return cls.like(
            found,
            tried,
            sums=rows.chosen.found.seconds if rows else None,
            sums_gap=rows.chosen.found.gap if rows else None,
            recipe_sums=rows.recipe_seconds if rows else None,
            rows_seconds=rows.found.seconds if rows else None,
            rows_bytes=rows.size_bytes if rows else None,
            substituted_seconds=tried.seconds,
            pays=tried.seconds < (1 - RESOLUTION) * tried.before_seconds,
            substitutions=tried.kept,
            better=bool(found.text),
        )
