"""The identity of a caller: a team, and the key it used."""

from __future__ import annotations

from dataclasses import dataclass

LOCAL = "local"
"""The team of every caller where no keys are needed."""


@dataclass(frozen=True)
class Caller:
    """A team; where keys are needed, also the id and the daily quota of the key it used."""

    team: str = LOCAL
    key_id: str | None = None
    jobs_per_day: int | None = None
