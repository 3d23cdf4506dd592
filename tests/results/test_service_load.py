"""The load and kill scripts: what they count, a short run of each, and the page made of them."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from results import record

pytest.importorskip("fastapi", reason="needs the extra server")

from results.service import asked, calls, killing, load, measuring, promises, serving
from synth.service.server import listen


def test_the_page_matches_the_data() -> None:
    assert load.page(record.read(load.DATA)).is_current


def test_every_promise_is_measured_and_told() -> None:
    measured = record.read(load.DATA)["measured"]
    wanted = {"cached", "uncached", "jobs", "kills-server", "kills-workers"}
    assert wanted == {entry["name"] for entry in measured if entry["store"] == "sqlite"}
    assert all(entry["command"] and entry["commit"] != "unknown" for entry in measured)
    kills = {entry["kills"] for entry in measured if entry["name"].startswith("kills")}
    assert kills == {20}


def test_a_listener_is_known_as_tcp_so_that_answers_are_sent_at_once() -> None:
    with listen("127.0.0.1", 0) as made:
        assert made.proto == socket.IPPROTO_TCP


def test_both_spellings_of_a_question_have_one_answer() -> None:
    for one in (next(asked.small(1)), next(asked.usual(1))):
        few = asked.Asked(one.system, one.axes, one.reduce, 2**20, 1, 1, False)
        [body] = asked.all_answered([few])
        assert body == few.answered()
        assert json.loads(body)["bytes"] == 2**20


def entry(name: str, **more: Any) -> dict[str, Any]:
    """What a measurement keeps where all is well."""
    counts = dict.fromkeys(("errors", "lost", "twice", "logged_twice", "undone"), 0)
    counts |= dict.fromkeys(("unended", "wrong"), 0)
    done = 1000 if name == "jobs" else 7
    fine = {"p99_ms": 5.0, "difference_max_s": 0.1, "same_bytes": True, "accepted": done}
    return {"name": name, **counts, **fine, "statuses": {"done": done}, **more}


@pytest.mark.parametrize(
    ("name", "spoilt"),
    [
        ("cached", {"p99_ms": 20.1}),
        ("cached", {"errors": 1}),
        ("uncached", {"difference_max_s": 1.1}),
        ("uncached", {"same_bytes": False}),
        ("jobs", {"statuses": {"done": 999, "failed": 1}}),
        ("jobs", {"lost": 1}),
        ("jobs", {"twice": 1}),
        ("jobs", {"logged_twice": 1}),
        ("kills-server", {"statuses": {"done": 6, "failed": 1}}),
        ("kills-server", {"lost": 1}),
        ("kills-workers", {"wrong": 1}),
        ("kills-workers", {"undone": 1}),
        ("kills-workers", {"unended": 1}),
    ],
)
def test_shortfalls_are_reported(name: str, spoilt: dict[str, Any]) -> None:
    assert promises.met(entry(name))
    assert not promises.met(entry(name, **spoilt))


@pytest.mark.parametrize(
    ("states", "back"),
    [
        (["queued", "running", "done"], False),
        (["queued", "running", "queued", "running"], False),
        (["running", "done", "running"], True),
        (["running", "status 404"], True),
        ([], False),
    ],
)
def test_a_job_that_goes_back_is_seen(states: list[str], back: bool) -> None:
    assert killing._went_back(states) is back


class OneByOne(asyncio.Protocol):
    """A server that answers one request after the other, each after 20 ms."""

    def __init__(self, turn: asyncio.Lock) -> None:
        self.turn = turn
        self.tasks: list[asyncio.Task[None]] = []

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.tasks.append(asyncio.create_task(self.answer()))

    async def answer(self) -> None:
        async with self.turn:
            await asyncio.sleep(0.02)
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")


def test_latencies_count_from_the_moment_a_request_was_due() -> None:
    async def measured() -> list[Any]:
        turn = asyncio.Lock()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: OneByOne(turn), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, calls.lines("127.0.0.1", port) as wires:
            request = b"GET / HTTP/1.1\r\n\r\n"
            many = [(request, lambda heard: heard.body == b"{}")] * 20
            many += [(request, lambda heard: heard.body == b"other")]
            return list(await measuring.open_loop(wires, many, 1000.0))

    told = measuring.figures(asyncio.run(measured()))
    assert told["errors"] == 1
    assert told["max_ms"] >= 21 * 20 - 100  # whoever comes last waits for all before


def test_a_share_of_values_is_the_least_that_so_many_do_not_exceed() -> None:
    values = [float(n) for n in range(1, 101)]
    assert measuring.share_of(values, 0.5) == 51
    assert measuring.share_of(values, 0.99) == 100
    assert measuring.share_of([7.0], 0.99) == 7


def test_processes_and_their_memory_are_found() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in serving.descendants(os.getpid())
        assert serving.alive(child.pid)
        assert serving.resident_bytes(os.getpid()) > 2**20
    finally:
        child.kill()
        child.wait()
        assert child.stdin is not None
        child.stdin.close()
    assert not serving.alive(child.pid)
    assert serving.resident_bytes(child.pid) == 0


@pytest.mark.slow
@pytest.mark.parametrize("who", ["server", "worker"])
def test_accepted_jobs_survive_kill_9(who: str, tmp_path: Path) -> None:
    kills = {"server": killing.server_kills, "worker": killing.worker_kills}[who]
    told = kills(f"sqlite:///{tmp_path / 'service.db'}", tmp_path, 2)
    assert told["accepted"] > 0
    assert told["statuses"] == {"done": told["accepted"]}
    for key in ("lost", "unended", "twice", "undone", "wrong"):
        assert told[key] == 0, told
    assert told.get("left_behind", 0) == 0, told
