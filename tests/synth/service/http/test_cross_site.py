"""Pages of other sites cannot ask through the browser of somebody who may."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from serving import Served, served
from synth.service.http.authentication import COOKIE
from synth.service.http.examples import EXAMPLES
from synth.service.settings import is_loopback


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("guard")) as found:
        yield found


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1:80", "localhost:9999", "[::1]:8000", "LOCALHOST"]
)
def test_names_of_this_machine_are_answered(server: Served, host: str) -> None:
    assert server.ask.get("/v1/jobs", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "rebound.example",
        "127.0.0.1.rebound.example",
        "localhost.rebound.example",
        "10.0.0.1",
        "[",
        "",
    ],
)
def test_other_names_are_refused(server: Served, host: str) -> None:
    for path in ("/v1/jobs", "/", "/metrics", "/openapi.json"):
        answer = server.ask.get(path, headers={"Host": host})
        assert answer.status_code == 403
        assert answer.json()["where"] == "Host"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://other.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Origin": "http://["},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_a_page_of_another_site_is_refused(server: Served, headers: dict[str, str]) -> None:
    answer = server.ask.post("/v1/place", json=EXAMPLES["place"], headers=headers)
    assert answer.status_code == 403
    assert server.ask.put("/v1/systems/x", content="", headers=headers).status_code == 403


def test_our_own_page_is_not(server: Served) -> None:
    origin = server.url.rstrip("/")
    headers = {"Origin": origin, "Sec-Fetch-Site": "same-origin"}
    answer = server.ask.post("/v1/place", json=EXAMPLES["place"], headers=headers)
    assert answer.status_code in (200, 202)


@pytest.mark.parametrize("path", ["/logout", "/", "/v1/place", f"/v1/jobs/{'0' * 32}/cancel"])
def test_the_page_s_cookie_changes_something_only_from_the_page(tmp_path: Path, path: str) -> None:
    with served(tmp_path, keys=True) as server:
        key = server.service.store.keys.create("red", "").secret
        token = server.ask.post("/login", data={"key": key}).cookies[COOKIE]
        server.ask.cookies.clear()
        cookie, own = {"Cookie": f"{COOKIE}={token}"}, server.url.rstrip("/")

        def refused(**headers: str) -> bool:
            answer = server.ask.post(
                path, headers={k.replace("_", "-"): v for k, v in headers.items()}
            )
            return answer.status_code == 403 and "Origin" in answer.text

        assert refused(**cookie)
        assert refused(**cookie, Origin="null")
        assert refused(**cookie, Origin="https://other.example")
        assert refused(**cookie, Origin=f"{own}.other.example")
        assert refused(**cookie, Origin=own, Sec_Fetch_Site="cross-site")
        assert refused(**cookie, Sec_Fetch_Site="same-site")
        assert server.ask.get("/v1/jobs", headers=cookie).status_code == 200
        assert not refused(**cookie, Sec_Fetch_Site="same-origin")
        assert not refused(**cookie, Origin=own)
        assert not refused(X_API_Key=key)


@pytest.mark.parametrize(
    ("host", "so"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.1.2.3", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_rates_that_only_this_machine_reaches(host: str, so: bool) -> None:
    assert is_loopback(host) is so
