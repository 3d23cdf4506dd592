"""One team's many requests, and what they bring along, take no room from another's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from socket import create_connection

import httpx
import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from patience import PATIENCE_SECONDS, until
from serving import Served, ThreadWorkers, served
from synth.service.http.examples import EXAMPLES
from synth.service.limits import Limits

LIMITS = Limits(requests_at_once_per_team=5, body_bytes_at_once_per_team=2000)


class NobodyWorks(ThreadWorkers):
    """Every job stays where it is."""

    def __init__(self) -> None:
        super().__init__()
        self.slots = 0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path, NobodyWorks(), keys=True, limits=LIMITS) as found:
        yield found


def with_key(server: Served, team: str) -> dict[str, str]:
    return {"X-API-Key": server.service.store.keys.create(team, "").secret}


def test_streams_that_are_followed_leave_room_for_other_teams(server: Served) -> None:
    red, blue = (with_key(server, team) for team in ("red", "blue"))
    at_once = red | {"Prefer": "respond-async"}
    job = server.ask.post("/v1/place", json=EXAMPLES["place"], headers=at_once).json()["url"]
    with ExitStack() as opened, httpx.Client(base_url=server.url, trust_env=False) as other:
        for _ in range(5):
            stream = opened.enter_context(other.stream("GET", f"{job}/events", headers=red))
            assert stream.status_code == 200
        refused = server.ask.get(job, headers=red)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert "your team has 5 requests" in refused.json()["problem"]
        page = server.ask.get("/jobs", headers=red)
        assert page.status_code in (303, 429)
        assert server.ask.get("/v1/jobs", headers=blue).status_code == 200
        assert server.ask.get("/healthz").status_code == 200
    assert until(lambda: server.ask.get(job, headers=red).status_code == 200)


@pytest.mark.parametrize("length", [b"Content-Length: 1900", b"Transfer-Encoding: chunked"])
def test_bodies_that_are_sent_at_once_come_to_no_more_than_a_team_may(
    server: Served, length: bytes
) -> None:
    red, blue = (with_key(server, team) for team in ("red", "blue"))
    url = httpx.URL(server.url)
    head = b"POST /v1/place HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    key = b"X-API-Key: " + red["X-API-Key"].encode()

    def asked(headers: dict[str, str]) -> int:
        raw = b" " * 200 + b"{}"
        headers = headers | {"Content-Type": "application/json"}
        return server.ask.post("/v1/place", content=raw, headers=headers).status_code

    with create_connection((url.host, url.port or 80), timeout=PATIENCE_SECONDS) as slow:
        slow.sendall(b"\r\n".join((head + length, key, b"", b"")))
        if b"chunked" in length:
            slow.sendall(b"76c\r\n" + b" " * 1900 + b"\r\n")
        assert until(lambda: asked(red) == 429)
        assert asked(blue) == 422
    assert until(lambda: asked(red) == 422)
