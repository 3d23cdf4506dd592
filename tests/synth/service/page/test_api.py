"""The page about the API has all that /openapi.json has, and its commands work as they stand."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from serving import Served, served
from synth.service.http.examples import EXAMPLES
from synth.service.jobs.questions import prepare, question_in
from synth.service.page.reference import Curl
from synth.service.page.rendering import POLICY
from synth.service.store import Scope

_INLINE = re.compile(r"</?(?:code|a|strong)\b[^>]*>")
_TAG = re.compile(r"<[^>]*>")
_BEFORE = {"look-at-system": "keep-system", "forget-system": "keep-system"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("api"), wait_seconds=60.0, keys=True) as found:
        yield found


@pytest.fixture(scope="module")
def secret(server: Served) -> str:
    return server.service.store.keys.create("ours", "", scopes=frozenset(Scope)).secret


@pytest.fixture(scope="module")
def page(server: Served, secret: str) -> str:
    assert server.ask.get("/api").headers["location"] == "/login?next=/api"
    server.ask.post("/login", data={"key": secret}, headers={"Origin": server.url.rstrip("/")})
    response = server.ask.get("/api")
    assert response.status_code == 200
    assert response.headers["content-security-policy"] == POLICY
    return response.text


@pytest.fixture(scope="module")
def document(server: Served) -> Any:
    return server.ask.get("/openapi.json").json()


def sections(page: str) -> Mapping[str, str]:
    """The parts of the page by their anchors."""
    found = re.findall(r'<section class="operation" id="([^"]+)"[^>]*>(.*?)</section>', page, re.S)
    assert len({name for name, _ in found}) == len(found)
    return dict(found)


def keys_in(part: str) -> set[str]:
    return set(re.findall(r'<th scope="row"><code>([^<]+)</code>', part))


def plain(part: str) -> str:
    return " ".join(unescape(_TAG.sub(" ", _INLINE.sub("", part))).split())


def test_every_route_is_there_with_all_that_it_takes_and_gives(page: str, document: Any) -> None:
    told = sections(page)
    groups = dict(re.findall(r'<h2 id="group-([a-z]+)">(.*?)<section', page, re.S))
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            part = told[one["operationId"]]
            shown = plain(part)
            assert f"{method.upper()} {path} " in shown
            assert " ".join(one["description"].replace("``", "").split()) in shown
            assert f'href="#{one["operationId"]}"' in page
            scopes = {scope for way in one.get("security", ()) for [scope] in way.values()}
            assert set(re.findall(r"\b(ask|keep|admin)\b", shown.split("scope ")[-1])) >= scopes
            assert ("No key is needed." in shown) == (not scopes)
            asked = {parameter["name"] for parameter in one.get("parameters", ())}
            assert asked <= keys_in(part) | keys_in(groups[one["tags"][0]])
            taken, _, refused = shown.partition("refused:")
            for status, reply in one["responses"].items():
                refuses = "application/problem+json" in reply.get("content", {})
                assert status in (refused if refuses else taken).replace(",", " ").split()
                assert not refuses or f'id="error-{status}"' in page


def test_every_key_of_every_object_is_there_with_what_is_said_of_it(
    page: str, document: Any
) -> None:
    told = sections(page)
    questions = {
        one["requestBody"]["content"]["application/json"]["schema"].get("$ref", ""): name
        for methods in document["paths"].values()
        for one in methods.values()
        if "requestBody" in one and (name := one["operationId"])
    }
    for name, schema in document["components"]["schemas"].items():
        part = told[questions.get(f"#/components/schemas/{name}", f"type-{name}")]
        assert set(schema.get("properties", ())) <= keys_in(part), name
        shown = plain(part)
        for key, one in schema.get("properties", {}).items():
            assert " ".join(one.get("description", "").replace("`", "").split()) in shown, key
        for word in schema.get("enum", ()):
            assert word in shown


def test_types_say_their_bounds_units_and_defaults(page: str) -> None:
    top = plain(sections(page)["top"])
    assert "k integer 10 Number of answers. Here at most 1,000." in top
    assert "segments integer ≥ 1 ≤ 4096 or auto auto" in top.replace('"', "")
    assert (
        'bytes 1073741824 Size of the whole tensor on each device. As text with a unit: "64MiB"'
        in top
    )
    assert "The body has at most 576 KiB." in top
    assert "bandwidth_GB_per_s number ≥ 0, GB/s always" in plain(sections(page)["type-LevelInFull"])
    for link in re.findall(r'href="#([^"]+)"', page):
        assert f'id="{link}"' in page, link


def test_it_needs_no_script_and_is_a_link_of_every_page(server: Served, page: str) -> None:
    assert re.findall(r"<script[^>]*>", page) == re.findall(
        r"<script[^>]*>", server.ask.get("/help").text
    )
    assert server.ask.get("/jobs").text.count('href="/api"') == 2


@pytest.mark.parametrize("host", ["a'b", "x;reboot", '"><script>alert(1)</script>', "$(id)"])
def test_no_name_of_a_server_becomes_a_command_or_a_tag(
    server: Served, page: str, host: str
) -> None:
    shown = server.ask.get("/api", headers={"Host": host}).text
    assert "<script>alert" not in shown
    command = Curl(f"http://{host}", keys=False).command("health", "get", "/healthz")
    said = subprocess.run(
        ["bash", "-c", command.replace("curl -s", "printf %s", 1)], capture_output=True, text=True
    )
    assert said.stdout == f"http://{host}/healthz"


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_its_commands_work_as_they_stand(page: str, secret: str, document: Any) -> None:
    told = {
        name: unescape(found[1])
        for name, part in sections(page).items()
        if (found := re.search(r"<pre[^>]*><code>(.*?)</code>", part, re.S))
    }
    operations = [one for methods in document["paths"].values() for one in methods.values()]
    assert set(told) == {one["operationId"] for one in operations}
    assert set(EXAMPLES) <= set(told)
    environment = {**os.environ, "COLLSYNTH_KEY": secret, "no_proxy": "*"}
    for name, command in told.items():
        whole = "\n".join(filter(None, (told.get(_BEFORE.get(name, "")), command)))
        failing = whole.replace("curl -s", "curl --fail-with-body --max-time 120 -s")
        words = ["bash", "-euo", "pipefail", "-c", failing]
        said = subprocess.run(words, env=environment, capture_output=True, text=True)
        assert said.returncode == 0, (name, said.stdout, said.stderr)
        assert said.stdout or name == "forget-system", name


@pytest.mark.parametrize("verb", EXAMPLES)
def test_a_question_that_was_asked_is_the_same_without_what_is_as_usual(verb: str) -> None:
    asked = prepare(verb, dict(EXAMPLES[verb]))
    command = Curl("http://here", keys=True).again(verb, question_in(asked.text))
    *_, sent = shlex.split(command)
    assert prepare(verb, json.loads(sent)).text == asked.text
    assert Curl("http://here", keys=True).again(verb, {"files": "x" * 5000}) == ""


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_an_answer_says_how_a_script_asks_it(server: Served, page: str, secret: str) -> None:
    head = {"Authorization": f"Bearer {secret}", "Origin": server.url.rstrip("/")}
    found = server.ask.post("/v1/systems", json=EXAMPLES["systems"], headers=head)
    shown = server.ask.get(found.headers["content-location"].removeprefix("/v1")).text
    [command] = re.findall(r'<details id="script">.*?<code>(.*?)</code>', shown, re.S)
    environment = {**os.environ, "COLLSYNTH_KEY": secret, "no_proxy": "*"}
    words = ["bash", "-euc", unescape(command)]
    said = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert json.loads(said.stdout) == found.json()
    assert 'href="/api#systems"' in shown
