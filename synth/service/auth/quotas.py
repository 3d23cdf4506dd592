"""Quotas: how many jobs a key may bring in a day, and how many of a team may wait at once."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from synth.service.auth.identity import Caller
from synth.service.errors import too_many
from synth.service.limits import Limits
from synth.service.store import Status, Store
from synth.service.threads import Threads

_FRESH_SECONDS = 5.0
_RETRY_QUEUED_SECONDS = 10
_RETRY_DAY_SECONDS = 600


@dataclass
class _Count:
    """How many jobs there are by the last count, which holds ``until`` then."""

    jobs: int
    until: float


class Quotas:
    """Enforces quotas by a count in the store every few seconds, plus what this server has added.

    So quotas are not exact: several servers of a store may together exceed one by what they accept
    within those seconds, and one server by the jobs that are being written while it counts.
    """

    def __init__(self, store: Store, threads: Threads, limits: Limits) -> None:
        self._store = store
        self._threads = threads
        self._limits = limits
        self._queued: dict[str, _Count] = {}
        self._today: dict[str, _Count] = {}
        self._turn = asyncio.Lock()

    async def take(self, caller: Caller) -> None:
        """Count one more job. Raises RefusalError where it would be too many."""
        async with self._turn:  # else two could pass by the same count
            await self._check(caller)
            self._add(caller, 1)

    def give_back(self, caller: Caller) -> None:
        """Take back one count: the job was not made."""
        self._add(caller, -1)

    async def _check(self, caller: Caller) -> None:
        most = self._limits.queued_jobs_per_team
        if await self._of_team(caller.team) >= most:
            raise too_many(
                f"{most} jobs of your team are waiting already",
                _RETRY_QUEUED_SECONDS,
                "let some end, or cancel some",
            )
        if caller.key_id is None:
            return
        quota = self._limits.jobs_per_day if caller.jobs_per_day is None else caller.jobs_per_day
        if await self._of_key(caller.key_id) >= quota:
            problem = f"this key brought {quota} jobs within 24 hours, and may bring no more"
            raise too_many(problem, _RETRY_DAY_SECONDS, "known answers are still given")

    def _add(self, caller: Caller, jobs: int) -> None:
        for known in (self._queued.get(caller.team), self._today.get(caller.key_id or "")):
            if known is not None:
                known.jobs += jobs

    async def _of_team(self, team: str) -> int:
        known = self._queued.get(team)
        if known is None or known.until < time.monotonic():
            counts = await self._threads.do(self._store.jobs.counts, team)
            known = _Count(counts[Status.QUEUED], time.monotonic() + _FRESH_SECONDS)
            self._queued[team] = known
        return known.jobs

    async def _of_key(self, key_id: str) -> int:
        known = self._today.get(key_id)
        if known is None or known.until < time.monotonic():
            since = datetime.now(UTC) - timedelta(days=1)
            jobs = await self._threads.do(self._store.jobs.since, key_id, since)
            known = _Count(jobs, time.monotonic() + _FRESH_SECONDS)
            self._today[key_id] = known
        return known.jobs
