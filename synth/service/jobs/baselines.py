"""Baselines of teams: earlier logs that the team's questions to ``doctor`` may name."""

from __future__ import annotations

from collections.abc import Collection

from hierarchies import InputError
from synth.measure.logs.reading import check_log
from synth.service.auth.identity import Caller
from synth.service.errors import not_found
from synth.service.jobs.questions import KEPT, OWN_NAME
from synth.service.jobs.systems import check_room
from synth.service.limits import Limits
from synth.service.store import ListedBaseline, Store, StoredBaseline
from synth.service.threads import Readers, Threads


class TeamBaselines:
    """Reads, keeps and deletes a team's baselines; no other team can see them."""

    def __init__(self, store: Store, threads: Threads, readers: Readers, limits: Limits) -> None:
        self._store = store
        self._threads = threads
        self._readers = readers
        self._limits = limits

    async def all(self, caller: Caller) -> list[ListedBaseline]:
        """Return all baselines of the team without their texts, sorted by machine and test."""
        return await self._threads.do(self._store.baselines.listed, caller.team)

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
        return await self._readers.do(caller.team, self._put, caller.team, machine, test, text)

    async def delete(self, caller: Caller, machine: str, test: str) -> None:
        """Delete a baseline. Raises RefusalError if the team has none of that machine and test."""
        if not await self._threads.do(self._store.baselines.remove, caller.team, machine, test):
            raise not_found("baseline")

    async def texts(
        self, caller: Caller, machine: str, names: Collection[str], most_bytes: int
    ) -> dict[str, str]:
        """Return the team's baselines of a machine that are named, by test.

        Before it reads a text, raises InputError if they have more than ``most_bytes``, and
        RefusalError if they and the team's bodies exceed their limit.
        """
        baselines = self._store.baselines
        tests = None if KEPT in names else [name for name in names if OWN_NAME.fullmatch(name)]
        of = (caller.team, machine, tests)
        count, total_bytes = await self._threads.do(baselines.total, *of)
        if total_bytes > most_bytes:
            problem = f"the {count} baselines of {machine} that are named have {total_bytes} bytes"
            hint = f"name fewer: there is room for {most_bytes} bytes in this question"
            raise InputError(problem, where="baseline", hint=hint)
        caller.hold(total_bytes)
        return await self._threads.do(baselines.texts, *of) if count else {}

    def _put(self, team: str, machine: str, test: str, text: str) -> StoredBaseline:
        """Check and store a log, in the team's turn, so that it cannot pass its limits."""
        check_log(text, test)
        baselines, limits, call = self._store.baselines, self._limits, self._threads.at_once
        count, total_bytes = call(baselines.total, team)
        old_count, old_bytes = call(baselines.total, team, machine, [test])
        count, total_bytes = count - old_count + 1, total_bytes - old_bytes + len(text.encode())
        most, most_bytes = limits.baselines_per_team, limits.baselines_bytes_per_team
        check_room("baselines", count, most, total_bytes, most_bytes)
        return call(baselines.put, team, machine, test, text)


def _check_name(name: str, where: str) -> None:
    if not OWN_NAME.fullmatch(name):
        hint = "at most 64 letters, digits, '.', '_' and '-', the first a letter or digit"
        raise InputError(f"{name[:80]!r} is not a valid name", where=where, hint=hint)
    if where == "test" and name == KEPT:
        hint = f"choose another name: {KEPT!r} stands for all baselines of a machine"
        raise InputError(f"{name!r} names no test", where=where, hint=hint)
