"""/openapi.json has a command for each operation that works; /api shows it with Redoc."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from html import unescape
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from browsing import CHROMIUM, browsing, chromium, until
from serving import Served, served
from synth.service.http.commands import Curl
from synth.service.http.examples import EXAMPLES
from synth.service.jobs.questions import prepare, question_in
from synth.service.page.rendering import POLICY, REDOC_POLICY
from synth.service.store import Scope

_BEFORE = {
    "look-at-system": "keep-system",
    "forget-system": "keep-system",
    "look-at-baseline": "keep-baseline",
    "forget-baseline": "keep-baseline",
}
_LOG = Path(__file__).parents[4] / "docs" / "logs" / "sophia-all-reduce-2x8.csv"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("api"), wait_seconds=60.0, keys=True) as found:
        yield found


@pytest.fixture(scope="module")
def secret(server: Served) -> str:
    """A key with all scopes; the client is logged in with it."""
    secret = server.service.store.keys.create("ours", "", scopes=frozenset(Scope)).secret
    assert server.ask.get("/api").headers["location"] == "/login?next=/api"
    server.ask.post("/login", data={"key": secret}, headers={"Origin": server.url.rstrip("/")})
    return secret


@pytest.fixture(scope="module")
def document(server: Served) -> Any:
    return server.ask.get("/openapi.json").json()


@pytest.fixture(scope="module")
def operations(document: Any) -> Mapping[str, Any]:
    return {
        operation["operationId"]: operation
        for methods in document["paths"].values()
        for operation in methods.values()
    }


def environment_of(server: Served, secret: str) -> dict[str, str]:
    variables = {"COLLSYNTH_URL": server.url.rstrip("/"), "COLLSYNTH_KEY": secret}
    return {**os.environ, **variables, "no_proxy": "*"}


def test_the_page_allows_what_redoc_needs_and_no_more(server: Served, secret: str) -> None:
    response = server.ask.get("/api")
    assert response.status_code == 200
    policy = response.headers["content-security-policy"]
    assert policy == REDOC_POLICY
    assert policy.startswith(POLICY)
    assert "unsafe" not in policy
    assert re.findall(r'<(?:script|link)[^>]*(?:src|href)="(?!/static/)', response.text) == []
    assert server.ask.get("/jobs").text.count('href="/api"') == 2


def test_operations_name_their_scopes_and_the_document_the_limits(
    document: Any, operations: Mapping[str, Any]
) -> None:
    for name, operation in operations.items():
        scopes = {scope for way in operation.get("security", ()) for [scope] in way.values()}
        notes = operation["description"].rpartition("\n\n")[2]
        assert set(re.findall("`(ask|keep|admin)`", notes)) == scopes
        assert ("No key is needed." in notes) == (not scopes), name
    assert "The body has at most 576 KiB." in operations["top"]["description"]
    assert "* answers (`k`): at most 1,000\n" in document["info"]["description"]


@pytest.mark.skipif(not CHROMIUM.exists(), reason="needs chromium")
def test_redoc_shows_the_document_in_a_browser(tmp_path: Path) -> None:
    with (
        served(tmp_path) as server,
        chromium() as browser,
        browsing(browser, server.url.rstrip("/")) as seen,
    ):
        seen.page.goto("/api#operation/top")
        until(seen.page, "document.getElementById('operation/top') !== null")
        until(seen.page, "document.body.innerText.includes('/v1/top')")
        assert seen.strangers == []
        refused = [text for text in seen.complaints if "Content Security Policy" in text]
        assert all("logo" in text for text in refused)
        assert not [text for text in seen.complaints if "rror" in text]


@pytest.mark.parametrize("host", ["a'b", "x;reboot", '"><script>alert(1)</script>', "$(id)"])
def test_no_name_of_a_server_becomes_a_command_or_a_tag(
    server: Served, secret: str, host: str
) -> None:
    head = {"X-API-Key": secret, "Origin": server.url.rstrip("/")}
    found = server.ask.post("/v1/systems", json={}, headers=head)
    address = found.headers["content-location"].removeprefix("/v1")
    assert "<script>alert" not in server.ask.get(address, headers={"Host": host}).text
    command = Curl(shlex.quote(f"http://{host}"), keys=False).command("health", "get", "/healthz")
    said = subprocess.run(
        ["bash", "-c", command.replace("curl -s", "printf %s", 1)], capture_output=True, text=True
    )
    assert said.stdout == f"http://{host}/healthz"


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_its_commands_work_unchanged(
    server: Served, secret: str, operations: Mapping[str, Any], tmp_path: Path
) -> None:
    shutil.copyfile(_LOG, tmp_path / "all_reduce.txt")  # a caller's own log
    commands = {
        name: operation["x-codeSamples"][0]["source"] for name, operation in operations.items()
    }
    assert set(EXAMPLES) <= set(commands)
    for name, command in commands.items():
        whole = "\n".join(filter(None, (commands.get(_BEFORE.get(name, "")), command)))
        failing = whole.replace("curl -s", "curl --fail-with-body --max-time 120 -s")
        words = ["bash", "-euo", "pipefail", "-c", failing]
        environment = environment_of(server, secret)
        said = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert said.returncode == 0, (name, said.stdout, said.stderr)
        assert said.stdout or name.startswith("forget-"), name


@pytest.mark.parametrize("verb", EXAMPLES)
def test_a_question_that_was_asked_is_the_same_without_what_is_as_usual(verb: str) -> None:
    asked = prepare(verb, dict(EXAMPLES[verb]))
    command = Curl("http://here", keys=True).again(verb, question_in(asked.text))
    *_, sent = shlex.split(command)
    assert prepare(verb, json.loads(sent)).text == asked.text
    assert Curl("http://here", keys=True).again(verb, {"files": "x" * 5000}) == ""


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_an_answer_shows_its_question_as_a_script(server: Served, secret: str) -> None:
    head = {"Authorization": f"Bearer {secret}", "Origin": server.url.rstrip("/")}
    found = server.ask.post("/v1/systems", json=EXAMPLES["systems"], headers=head)
    shown = server.ask.get(found.headers["content-location"].removeprefix("/v1")).text
    [command] = re.findall(r'<details id="script">.*?<code>(.*?)</code>', shown, re.S)
    words = ["bash", "-euc", unescape(command)]
    said = subprocess.run(words, env=environment_of(server, secret), capture_output=True, text=True)
    assert json.loads(said.stdout) == found.json()
    assert 'href="/api#operation/systems"' in shown
