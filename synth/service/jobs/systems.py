"""Systems of teams: descriptions of machines that the team's questions may name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from http import HTTPStatus

from hierarchies import InputError, read
from synth.service.auth.identity import Caller
from synth.service.errors import RefusalError, not_found
from synth.service.jobs.questions import check_own_name
from synth.service.limits import Limits
from synth.service.store import Store, StoredSystem
from synth.service.threads import Readers, Threads

_MOST_NAMES = 128


class TeamSystems:
    """Reads, keeps and deletes a team's systems; no other team can see them."""

    def __init__(self, store: Store, threads: Threads, readers: Readers, limits: Limits) -> None:
        self._store = store
        self._threads = threads
        self._readers = readers
        self._limits = limits
        self._turn = asyncio.Lock()

    async def all(self, caller: Caller) -> list[StoredSystem]:
        """Return all systems of the team, sorted by name."""
        return await self._threads.do(self._store.systems.known, caller.team)

    async def one(self, caller: Caller, name: str) -> StoredSystem:
        """Return the system of that name. Raises RefusalError if the team has none."""
        system = await self._threads.do(self._store.systems.one, caller.team, name)
        if system is None:
            raise not_found("system")
        return system

    async def put(self, caller: Caller, name: str, text: str) -> StoredSystem:
        """Keep a description under a name, replacing an earlier one.

        Raises InputError for an invalid name or description, and RefusalError if the team would
        have too many systems or too many bytes.
        """
        check_own_name(name)
        await self._readers.do(caller.team, self._check, name, text)
        async with self._turn:
            texts = {system.name: system.text for system in await self.all(caller)} | {name: text}
            limits, total_bytes = self._limits, sum(len(each.encode()) for each in texts.values())
            most, most_bytes = limits.systems_per_team, limits.systems_bytes_per_team
            check_room("systems", len(texts), most, total_bytes, most_bytes)
            return await self._threads.do(self._store.systems.put, caller.team, name, text)

    async def delete(self, caller: Caller, name: str) -> None:
        """Delete the system of that name. Raises RefusalError if the team has none."""
        if not await self._threads.do(self._store.systems.remove, caller.team, name):
            raise not_found("system")

    async def texts(self, caller: Caller, names: Iterable[str]) -> dict[str, str]:
        """Return the team's descriptions by name; {} if too many names are given."""
        names = tuple(names)
        if len(names) > _MOST_NAMES:
            return {}
        systems = [
            await self._threads.do(self._store.systems.one, caller.team, name) for name in names
        ]
        return {system.name: system.text for system in systems if system is not None}

    def _check(self, name: str, text: str) -> None:
        self._limits.check_description(text)
        system = read(text, where=name)
        if not system.devices:
            raise InputError("the system has no devices", where=name)
        self._limits.check_devices(system.devices, name)


def check_room(what: str, count: int, most: int, total_bytes: int, most_bytes: int) -> None:
    """Raise RefusalError if a team would keep too many texts, or too many bytes of them."""
    if count > most:
        raise _refuse_full(f"your team keeps {most} {what} already")
    if total_bytes > most_bytes:
        raise _refuse_full(f"your team's {what} would take more than {most_bytes} bytes")


def _refuse_full(problem: str) -> RefusalError:
    return RefusalError(HTTPStatus.CONFLICT, problem, hint="delete one first")
