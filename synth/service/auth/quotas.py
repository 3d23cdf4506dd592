"""Quotas: daily jobs of a key, daily work of a team, and a team's queued jobs and bytes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil

from synth.service.auth.identity import Caller
from synth.service.errors import RefusalError, too_many
from synth.service.limits import Limits
from synth.service.store import Status, Store
from synth.service.threads import Threads

_FRESH_SECONDS = 5.0
_RETRY_QUEUED_SECONDS = 10
_DAY = timedelta(days=1)


@dataclass
class _Count:
    """An amount counted in the store, and the time ``until`` which it is valid."""

    amount: float
    until: float


class Quotas:
    """Enforces quotas: counts in the store every few seconds, and adds new jobs in memory.

    Quotas are therefore approximate. Servers that share a store may exceed them by the jobs that
    they accept within those seconds, and a single server by the jobs being written while it counts.
    Work is counted when it ends. Queued jobs are counted again before a refusal, because some may
    have ended in the meantime.
    """

    def __init__(self, store: Store, threads: Threads, limits: Limits) -> None:
        self._store = store
        self._threads = threads
        self._limits = limits
        self._queued: dict[str, _Count] = {}
        self._bytes: dict[str, _Count] = {}
        self._today: dict[str, _Count] = {}
        self._worked: dict[str, _Count] = {}
        self._turn = asyncio.Lock()

    async def take(self, caller: Caller, size_bytes: int) -> None:
        """Count one more job. Raises RefusalError if a quota would be exceeded."""
        async with self._turn:  # otherwise two jobs could be admitted on the same count
            await self._check(caller, size_bytes)
            self._add(caller, 1, size_bytes)

    def give_back(self, caller: Caller, size_bytes: int) -> None:
        """Undo ``take``: the job was not created."""
        self._add(caller, -1, -size_bytes)

    async def _check(self, caller: Caller, size_bytes: int) -> None:
        team, limits, jobs = caller.team, self._limits, self._store.jobs
        most = limits.queued_jobs_per_team
        if await self._recounted(self._queued, team, self._queued_jobs, most - 1) >= most:
            raise too_many(
                f"your team has {most} waiting jobs already",
                _RETRY_QUEUED_SECONDS,
                "wait until some end, or cancel some",
            )
        most, left = limits.queued_bytes_per_team, limits.queued_bytes_per_team - size_bytes
        if await self._recounted(self._bytes, team, jobs.waiting_bytes, left) > left:
            raise too_many(
                f"your team's waiting jobs take {most} bytes already",
                _RETRY_QUEUED_SECONDS,
                "wait until some end, or cancel some",
            )
        if caller.key_id is not None:
            await self._check_key(caller, caller.key_id)
        local = caller.name is None and caller.key_id is None
        if not local and (free_at := await self._counted(self._worked, team, self._free_at)):
            seconds = limits.work_seconds_per_day
            problem = f"your team's jobs took {seconds:g} s of work within 24 hours"
            raise _refuse_until(free_at, problem)

    async def _check_key(self, caller: Caller, key_id: str) -> None:
        limits = self._limits
        quota = limits.jobs_per_day if caller.jobs_per_day is None else caller.jobs_per_day
        if await self._counted(self._today, key_id, self._jobs_today) >= quota:
            problem = f"this key has submitted {quota} jobs within 24 hours, and may submit no more"
            came = await self._threads.do(self._store.jobs.came_since, key_id, quota)
            raise _refuse_until(((came or datetime.now(UTC)) + _DAY).timestamp(), problem)

    def _add(self, caller: Caller, jobs: int, size_bytes: int) -> None:
        for counted, added in (
            (self._queued.get(caller.team), jobs),
            (self._today.get(caller.key_id or ""), jobs),
            (self._bytes.get(caller.team), size_bytes),
        ):
            if counted is not None:
                counted.amount += added

    async def _counted(
        self, counts: dict[str, _Count], owner: str, count: Callable[[str], float]
    ) -> float:
        counted = counts.get(owner)
        if counted is None or counted.until < time.monotonic():
            amount = await self._threads.do(count, owner)
            counted = counts[owner] = _Count(amount, time.monotonic() + _FRESH_SECONDS)
        return counted.amount

    async def _recounted(
        self, counts: dict[str, _Count], team: str, count: Callable[[str], float], most: float
    ) -> float:
        """Return a team's amount in the queue, counted again if it is above ``most``."""
        amount = await self._counted(counts, team, count)
        if amount > most:
            del counts[team]
            amount = await self._counted(counts, team, count)
        return amount

    def _queued_jobs(self, team: str) -> int:
        return self._store.jobs.counts(team)[Status.QUEUED]

    def _jobs_today(self, key_id: str) -> int:
        return self._store.jobs.since(key_id, datetime.now(UTC) - _DAY)

    def _free_at(self, team: str) -> float:
        """Return the timestamp when the team's daily work falls below its limit; 0 if it is."""
        most = self._limits.work_seconds_per_day
        came = self._store.jobs.worked_since(team, datetime.now(UTC) - _DAY, most)
        return 0.0 if came is None else (came + _DAY).timestamp()


def _refuse_until(free_at: float, problem: str) -> RefusalError:
    """Return a refusal with the time from which jobs are accepted again."""
    when = datetime.fromtimestamp(free_at, UTC)
    hint = f"try again from {when:%Y-%m-%d %H:%M} UTC on; known answers are still returned"
    return too_many(problem, ceil(free_at - time.time()), hint)
