"""Who watches the server hears what it is to hear: else it is started anew, or never is."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from patience import PATIENCE_SECONDS, until
from serving import ThreadWorkers, served
from synth.service.jobs import dispatcher
from synth.service.supervisor import Supervisor

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="needs Unix sockets")


class Manager:
    """A service manager: all lines that it was told."""

    def __init__(self, listening: socket.socket, name: str) -> None:
        self._socket = listening
        self.environment = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "40000000"}

    def heard(self) -> list[str]:
        found: list[str] = []
        while True:
            try:
                found += self._socket.recv(4096).decode().splitlines()
            except BlockingIOError:
                return found


@pytest.fixture(params=["file", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    name = str(tmp_path / "notify")
    if request.param == "abstract":
        name = f"@collsynth-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(name.replace("@", "\0", 1))
        listening.setblocking(False)
        yield Manager(listening, name)


def test_readiness_is_notified_once_and_liveness_often(manager: Manager) -> None:
    now = [100.0]
    supervisor = Supervisor(manager.environment, lambda: now[0])
    heard = []
    for second in range(41):
        now[0] = 100.0 + second
        supervisor.beat(lives=True, trouble=None)
        heard += [(second, line) for line in manager.heard()]
    assert heard[:2] == [(0, "READY=1"), (0, "STATUS=ready")]
    assert heard[2:] == [(second, "WATCHDOG=1") for second in (0, 10, 20, 30, 40)]


def test_dead_services_are_not_reported_as_alive(manager: Manager) -> None:
    now = [0.0]
    supervisor = Supervisor(manager.environment, lambda: now[0])
    supervisor.beat(lives=True, trouble="there are no workers")
    assert manager.heard() == ["READY=1", "STATUS=not ready: there are no workers", "WATCHDOG=1"]
    now[0] = 1000.0
    supervisor.beat(lives=False, trouble="the dispatcher is not running")
    assert manager.heard() == ["STATUS=not ready: the dispatcher is not running"]
    supervisor.stop()
    assert manager.heard() == ["STOPPING=1"]


@pytest.mark.parametrize(
    "other",
    [{"WATCHDOG_USEC": ""}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_PID": "1"}],
)
def test_without_a_watchdog_of_its_own_it_does_not_beat(
    manager: Manager, other: dict[str, str]
) -> None:
    supervisor = Supervisor({**manager.environment, **other}, lambda: 0.0)
    supervisor.beat(lives=True, trouble=None)
    assert manager.heard() == ["READY=1", "STATUS=ready"]


@pytest.mark.parametrize("name", ["", "/nowhere/notify", "x" * 200])
def test_a_manager_that_does_not_listen_stops_nothing(name: str) -> None:
    supervisor = Supervisor({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "1"})
    supervisor.beat(lives=True, trouble=None)
    supervisor.stop()


def test_a_server_reports_readiness_until_its_dispatcher_hangs(
    tmp_path: Path, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**manager.environment, "WATCHDOG_USEC": "1"}.items():
        monkeypatch.setenv(name, value)
    heard: list[str] = []

    def hears(line: str) -> Callable[[], bool]:
        def heard_it() -> bool:
            heard.extend(manager.heard())
            return line in heard

        return heard_it

    with served(tmp_path, ThreadWorkers(1)) as server:
        until(hears("WATCHDOG=1"))
        assert heard[:2] == ["READY=1", "STATUS=ready"]
        monkeypatch.setattr(dispatcher, "_HANGS_SECONDS", -1.0)
        until(hears("STATUS=not ready: the dispatcher is not running"))
        assert server.ask.get("/readyz", timeout=PATIENCE_SECONDS).status_code == 503
        heard.clear()
        until(lambda: server.ask.get("/healthz").status_code == 200)
        hears("")()
        assert "WATCHDOG=1" not in heard
    hears("")()
    assert "STOPPING=1" in heard
