"""Threads for what takes long: a team has one of them at a time."""

from __future__ import annotations

import asyncio
from threading import Event

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from patience import PATIENCE_SECONDS
from synth.service.metrics import Metrics
from synth.service.threads import Readers


def test_jobs_of_one_team_do_not_delay_another() -> None:
    begun: list[str] = []
    hold = Event()

    def read(team: str, name: str) -> str:
        begun.append(f"{team} {name}")
        assert team == "blue" or hold.wait(PATIENCE_SECONDS)
        return name

    async def all_of_them() -> list[str]:
        readers = Readers(Metrics())
        red = [asyncio.create_task(readers.do("red", read, "red", name)) for name in "123456"]
        for name in "ab":
            assert await readers.do("blue", read, "blue", name) == name
        assert sorted(begun) == ["blue a", "blue b", "red 1"]
        hold.set()
        found = [await one for one in red]
        readers.close()
        return found

    assert asyncio.run(all_of_them()) == [*"123456"]
