"""What README and docs say of the service, put to a server that the command line starts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from manual import DOCS, README, blocks
from patience import PATIENCE_SECONDS

pytest.importorskip("fastapi", reason="needs the extra server")
SHOWN = "http://127.0.0.1:8000"
NEEDS_CURL = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server as README starts it, but for its port and its store."""
    folder = tmp_path_factory.mktemp("served")
    words = ("serve", "--port", "0", "--workers", "1", "--store", f"sqlite:///{folder}/a.db")
    command = [str(Path(sys.executable).parent / "collsynth"), *words]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert server.stdout is not None
        said = server.stdout.readline().strip()
        assert said.startswith("http://127.0.0.1:"), (folder / "log").read_text()
        yield said.rstrip("/")
    finally:
        server.terminate()
        server.communicate(timeout=PATIENCE_SECONDS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where what the pages name stands."""
    described = next(iter(blocks("toml", DOCS / "describe.md")))
    (tmp_path / "ours.toml").write_text(described.text, encoding="utf-8")
    return tmp_path


def carried_out(commands: str, folder: Path, address: str) -> str:
    """The commands put to the server, each reply on lines of its own."""
    plain = {**os.environ, "no_proxy": "*"}
    told = commands.replace(SHOWN, address).replace("\ncurl ", "\necho; curl ")
    words = ["bash", "-euc", told.replace("curl -s", "curl --fail-with-body --max-time 120 -s")]
    said = subprocess.run(words, cwd=folder, env=plain, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr
    return said.stdout


def with_curl(page: Path) -> list[str]:
    return [block.text for block in blocks("sh", page) if "curl" in block.text]


@NEEDS_CURL
def test_a_question_posted_as_the_readme_does_gives_proved_programs(
    folder: Path, address: str
) -> None:
    [command] = with_curl(README)
    found = json.loads(carried_out(command, folder, address))
    assert [answer["proof"] for answer in found["answers"]] == ["proved"] * 3


@NEEDS_CURL
def test_the_commands_of_the_page_about_serving_work(folder: Path, address: str) -> None:
    asked, kept, baseline, job = with_curl(DOCS / "serve.md")
    assert json.loads(carried_out(asked, folder, address))["answers"]
    put, top, listed = carried_out(kept, folder, address).strip().splitlines()
    assert json.loads(put)["name"] == "ours"
    assert json.loads(top)["system"]["devices"] == 64
    assert [system["name"] for system in json.loads(listed)["systems"]] == ["ours"]
    put, *compared = baseline.splitlines(keepends=True)
    for name in ("all_reduce.txt", "today.txt"):
        shutil.copyfile(DOCS / "logs" / "sophia-all-reduce-2x8.csv", folder / name)
    assert json.loads(carried_out(put, folder, address))["test"] == "all-reduce-2x8"
    if shutil.which("jq"):
        findings = json.loads(carried_out("".join(compared), folder, address))["findings"]
        assert findings[0]["kind"] == "as-before"
    said = carried_out(job, folder, address)
    assert "event: end" in said
    *_, listed = said.strip().splitlines()
    assert [found["verb"] for found in json.loads(listed)["jobs"]] == ["plan"]


@pytest.mark.skipif(find_spec("httpx") is None, reason="needs httpx, of the extra client")
def test_the_client_of_the_page_about_python_works(folder: Path, address: str) -> None:
    [code] = [
        block.text for block in blocks("python", DOCS / "python.md") if "Client" in block.text
    ]
    plain = {**os.environ, "no_proxy": "*"}
    words = [sys.executable, "-c", code.replace(SHOWN, address)]
    said = subprocess.run(words, cwd=folder, env=plain, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    first, *events, seconds = said.stdout.splitlines()
    assert first.endswith(" proved")
    assert events[-1].startswith("end")
    assert float(seconds) > 0
