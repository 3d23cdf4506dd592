"""A disk that is really full: a small file system of the test's own, filled up under a server."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from databases import cluster
from patience import until
from serving import Served, served
from synth.service.http.examples import EXAMPLES

MiB = 2**20
SIZES = {"sqlite": 32 * MiB, "postgresql": 160 * MiB}
"""An empty cluster of PostgreSQL takes some 40 MiB."""
DESCRIBED = (resources.files("hierarchies") / "catalogue" / "dgx-h100.toml").read_text("utf-8")
FULL = "the disk of the store is full"


@contextmanager
def small_disk(size_bytes: int) -> Iterator[Path]:
    """A folder on a disk of that size. Skips where none can be made."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small disk")
    folder = Path(tempfile.mkdtemp(prefix="collsynth-disk-"))
    words = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "none", str(folder)]
    if subprocess.run(words, capture_output=True).returncode:
        folder.rmdir()
        pytest.skip("needs the right to mount a small disk")
    folder.chmod(0o755)  # PostgreSQL runs as another user
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


@pytest.fixture(params=[*SIZES])
def on_small_disk(request: pytest.FixtureRequest) -> Iterator[tuple[Path, str]]:
    """A small disk, and the URL of a store on it."""
    with ExitStack() as ending:
        disk = ending.enter_context(small_disk(SIZES[request.param]))
        if request.param == "sqlite":
            yield disk, f"sqlite:///{disk}/store.db"
        else:
            yield disk, ending.enter_context(cluster(within=disk)).new_database()


def fill(file: Path) -> None:
    """Write until nothing more fits."""
    with suppress(OSError), file.open("wb", buffering=0) as filler:
        while True:
            filler.write(os.urandom(64 * 1024) * 16)
    with suppress(OSError), file.open("ab", buffering=0) as filler:
        while True:
            filler.write(b"x" * 512)


def large(number: int) -> dict[str, Any]:
    """A question that needs room of its own in the store."""
    text = os.urandom(50_000).hex()
    return {**EXAMPLES["place"], "system": {"name": f"n{number}", "text": f"# {text}\n{DESCRIBED}"}}


def readiness(server: Served) -> tuple[int, list[str]]:
    told = server.ask.get("/readyz")
    return told.status_code, told.json()["problems"]


def test_a_full_disk_is_reported_and_what_was_accepted_stays(
    on_small_disk: tuple[Path, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk, url = on_small_disk
    with served(tmp_path, store_url=url) as server:
        said = server.ask.post("/v1/place", json=EXAMPLES["place"], headers={"Prefer": "wait=60"})
        assert said.status_code == 200
        assert readiness(server) == (200, [])
        fill(disk / "filler")
        refused = [server.ask.post("/v1/place", json=large(number)) for number in range(20)]
        assert {one.status_code for one in refused[-3:]} == {503}
        assert until(lambda: FULL in readiness(server)[1])
        errors = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
        assert any(re.search("the store failed.*(full|No space left)", one) for one in errors)
        assert not [one for one in caplog.records if one.exc_info]
        assert server.ask.get("/healthz").status_code == 200
        assert server.ask.get(said.headers["content-location"]).json()["answer"] == said.json()
        (disk / "filler").unlink()
        assert until(lambda: readiness(server) == (200, []))
        other = {**EXAMPLES["place"], "axes": {"other": 32}}
        again = server.ask.post("/v1/place", json=other, headers={"Prefer": "wait=60"})
        assert again.status_code == 200
