"""Who asks: a team, and the key that it came with."""

from __future__ import annotations

from dataclasses import dataclass

LOCAL = "local"
"""The team of everybody where no keys are needed."""


@dataclass(frozen=True)
class Caller:
    """A team; the key it came with and what that may, where keys are needed."""

    team: str = LOCAL
    key_id: str | None = None
    jobs_per_day: int | None = None
