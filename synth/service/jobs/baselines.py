"""Baselines of teams: earlier logs that the team's questions to ``doctor`` may name."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from hierarchies import InputError
from synth.measure.logs.reading import check_log
from synth.service.auth.identity import Caller
from synth.service.errors import not_found
from synth.service.jobs.questions import KEPT, OWN_NAME
from synth.service.jobs.systems import check_room
from synth.service.limits import Limits
from synth.service.store import Store, StoredBaseline
from synth.service.threads import Readers, Threads


class TeamBaselines:
    """Reads, keeps and deletes a team's baselines; no other team can see them."""

    def __init__(self, store: Store, threads: Threads, readers: Readers, limits: Limits) -> None:
        self._store = store
        self._threads = threads
        self._readers = readers
        self._limits = limits
        self._turn = asyncio.Lock()

    async def all(self, caller: Caller) -> list[StoredBaseline]:
        """Return all baselines of the team, sorted by machine and test."""
        return await self._threads.do(self._store.baselines.known, caller.team)

    async def one(self, caller: Caller, machine: str, test: str) -> StoredBaseline:
        """Return a baseline. Raises RefusalError if the team has none of that machine and test."""
        found = await self._threads.do(self._store.baselines.one, caller.team, machine, test)
        if found is None:
            raise not_found("baseline")
        return found

    async def put(self, caller: Caller, machine: str, test: str, text: str) -> StoredBaseline:
        """Keep a log under a machine and a test, replacing an earlier one.

        Raises InputError for invalid names and for a text that is no log, and RefusalError if the
        team would have too many baselines or too many bytes.
        """
        _check_name(machine, "machine")
        _check_name(test, "test")
        await self._readers.do(caller.team, check_log, text, test)
        async with self._turn:
            texts = {(each.machine, each.test): each.text for each in await self.all(caller)}
            texts[machine, test] = text
            limits = self._limits
            check_room(
                texts, "baselines", limits.baselines_per_team, limits.baselines_bytes_per_team
            )
            put = self._store.baselines.put
            return await self._threads.do(put, caller.team, machine, test, text)

    async def delete(self, caller: Caller, machine: str, test: str) -> None:
        """Delete a baseline. Raises RefusalError if the team has none of that machine and test."""
        if not await self._threads.do(self._store.baselines.remove, caller.team, machine, test):
            raise not_found("baseline")

    async def texts(self, caller: Caller, machine: str) -> Mapping[str, str]:
        """Return the team's baselines of a machine by test."""
        found = await self._threads.do(self._store.baselines.known, caller.team, machine)
        return {baseline.test: baseline.text for baseline in found}


def _check_name(name: str, where: str) -> None:
    if not OWN_NAME.fullmatch(name):
        hint = "at most 64 letters, digits, '.', '_' and '-', the first a letter or digit"
        raise InputError(f"{name[:80]!r} is not a valid name", where=where, hint=hint)
    if where == "test" and name == KEPT:
        hint = f"choose another name: {KEPT!r} stands for all baselines of a machine"
        raise InputError(f"{name!r} names no test", where=where, hint=hint)
