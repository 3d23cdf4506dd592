"""The proxy of docs/deploy.md that signs people in: a real nginx, a stand-in for oauth2-proxy."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from manual import ROOT
from patience import PATIENCE_SECONDS, until
from serving import Served, served
from synth.service.http.examples import EXAMPLES
from synth.service.server import listen

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/bin")
SECRET = "hush-hush-hush-hush"
PEOPLE = {"ann": ("ann@example.org", "ml-infra,staff"), "eve": ("eve@example.org", "guests")}
TEAMS: dict[str, Any] = {"proxy_secret": SECRET, "teams": {"ml-infra": "infra"}}

pytestmark = pytest.mark.skipif(NGINX is None, reason="needs nginx, a package of Debian")


class StandIn(BaseHTTPRequestHandler):
    """Oauth2-proxy with --set-xauthrequest: who has its cookie is signed in."""

    def do_GET(self) -> None:
        cookie = re.search(r"\bidp=(\w+)", self.headers.get("Cookie", ""))
        who = PEOPLE.get(cookie[1]) if cookie else None
        if urlsplit(self.path).path == "/oauth2/sign_in":
            self._answer(200, {})
        elif who is None:
            self._answer(401, {})
        else:
            named = zip(("X-Auth-Request-Email", "X-Auth-Request-Groups"), who, strict=True)
            self._answer(202, dict(named))

    def _answer(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": "0"}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *given: object) -> None:
        pass


def configuration(folder: Path, port: int, service: int, stand_in: int) -> str:
    """The block of the page, at the ports of a test and without TLS."""
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```nginx\n(.*?)```", page, re.DOTALL)
    block = re.sub(r" *ssl_certificate.*\n", "", block)
    for said, here in (
        ("listen 443 ssl;", f"listen 127.0.0.1:{port};"),
        ("127.0.0.1:8000", f"127.0.0.1:{service}"),
        ("127.0.0.1:4180", f"127.0.0.1:{stand_in}"),
        ('"the secret"', f'"{SECRET}"'),
    ):
        assert said in block
        block = block.replace(said, here)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"{kind}_temp_path {folder / kind};\n" for kind in kinds)
    return (
        f"daemon off; master_process off; pid {folder / 'pid'}; error_log stderr;\n"
        f"events {{}}\nhttp {{ access_log off;\n{places}{block}}}\n"
    )


@contextmanager
def nginx(folder: Path, service: int) -> Iterator[str]:
    """The address of the proxy."""
    assert NGINX is not None
    with ThreadingHTTPServer(("127.0.0.1", 0), StandIn) as stand_in:
        threading.Thread(target=stand_in.serve_forever, daemon=True).start()
        with listen("127.0.0.1", 0) as free:
            port = free.getsockname()[1]
        file = folder / "nginx.conf"
        file.write_text(configuration(folder, port, service, stand_in.server_address[1]))
        process = subprocess.Popen([NGINX, "-e", "stderr", "-p", str(folder), "-c", str(file)])
        address = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            assert process.poll() is None
            try:
                return httpx.get(f"{address}/healthz", trust_env=False).status_code == 200
            except httpx.HTTPError:
                return False

        try:
            until(answers)
            yield address
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)
            stand_in.shutdown()


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str]]:
    folder = tmp_path_factory.mktemp("front")
    with (
        served(folder, keys=True, **TEAMS) as server,
        nginx(folder, urlsplit(server.url).port or 0) as address,
    ):
        yield server, address


def browser(address: str, who: str | None = None) -> httpx.Client:
    cookies = {"idp": who} if who else {}
    how: dict[str, Any] = {"trust_env": False, "timeout": PATIENCE_SECONDS}
    headers = {"Origin": address}
    return httpx.Client(base_url=address, cookies=cookies, headers=headers, **how)


def test_signing_in_goes_to_the_provider_and_back(
    front: tuple[Served, str],
) -> None:
    with browser(front[1]) as client:
        first = client.get("/jobs")
        assert first.headers["location"].endswith("/login?next=/jobs")
        second = client.get("/login?next=/jobs")
        place = urlsplit(second.headers["location"])
        assert (second.status_code, place.path) == (302, "/oauth2/sign_in")
        back = parse_qs(place.query)["rd"][0]
        client.cookies.set("idp", "ann")
        third = client.get(back)
        assert (third.status_code, urlsplit(third.headers["location"]).path) == (303, "/jobs")
        assert client.get("/jobs").status_code == 200
        asked = client.post("/v1/place", json=EXAMPLES["place"], headers={"Prefer": "wait=60"})
        assert asked.status_code == 200
        [job] = client.get("/v1/jobs").json()["jobs"]
        assert job["asked_by"] == "ann@example.org"
        assert client.post("/logout").headers["location"].endswith("/signed-out")
        assert client.get("/v1/jobs").status_code == 401


def test_a_person_without_a_team_group_is_not_admitted(front: tuple[Served, str]) -> None:
    with browser(front[1], "eve") as client:
        refused = client.get("/login")
        assert (refused.status_code, "no group of" in refused.text) == (403, True)


FORGED = {
    "X-Forwarded-Email": "root@example.org",
    "X-Forwarded-Groups": "ml-infra",
    "X-Collsynth-Proxy": SECRET,
}


def test_headers_set_by_clients_are_replaced(front: tuple[Served, str]) -> None:
    """Even where they know the secret: it is the proxy that says who they are."""
    with browser(front[1]) as client:
        assert client.get("/login", headers=FORGED).status_code == 302
        assert client.get("/%6Cogin", headers=FORGED).status_code == 302
        assert client.get("/v1/jobs", headers=FORGED).status_code == 401
        assert "collsynth_session" not in client.cookies
    with browser(front[1], "ann") as client:
        assert client.get("/login", headers=FORGED).status_code == 303
        client.post("/v1/count", json={"digits": 1}, headers={"Prefer": "wait=60"})
        assert client.get("/v1/jobs").json()["jobs"][0]["asked_by"] == "ann@example.org"
    with browser(front[1], "eve") as client:
        assert client.get("/login", headers=FORGED).status_code == 403


def test_keys_come_through_without_a_sign_in(front: tuple[Served, str]) -> None:
    server, address = front
    secret = server.service.store.keys.create("ci", "").secret
    with browser(address) as client:
        assert client.get("/v1/jobs", headers={"X-API-Key": secret}).status_code == 200
        assert client.get("/v1/jobs", headers={"X-API-Key": secret[:-1]}).status_code == 403
