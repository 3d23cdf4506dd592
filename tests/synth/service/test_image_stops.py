"""The image's command as the first process of a container: what SIGTERM makes of its jobs.

There is no engine: the process is the first of a PID namespace (``unshare``), with the image's
variables. So it has no default for signals, and nobody above it collects the dead.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from image import COMPOSE, command, environment, health
from manual import DOCS
from patience import PATIENCE_SECONDS, until
from server_process import AT_ONCE, LONG, free_port, started, status_of
from synth.service.store import Store

_ALONE = ("unshare", "--fork", "--pid", "--mount-proc", "--kill-child")
_AS_ROOT_THERE = ("--user", "--map-root-user")
GRACE_SECONDS = 6


def isolated() -> tuple[str, ...]:
    """What gives a process a PID namespace of its own. Skips where nothing does."""
    for words in (_ALONE, (*_ALONE, *_AS_ROOT_THERE)):
        try:
            if subprocess.run([*words, "true"], capture_output=True).returncode == 0:
                return words
        except OSError:
            break
    pytest.skip("needs unshare, and the right to make a PID namespace")


@contextmanager
def contained(home: Path, port: int) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The image's command in a namespace of its own, healthy; and what its process is outside."""
    own = {
        **environment(home),
        "COLLSYNTH_PORT": str(port),
        "COLLSYNTH_WORKERS": "2",
        "COLLSYNTH_GRACE": str(GRACE_SECONDS),
    }
    with started((*isolated(), *command(), "--quiet"), own, cwd=home) as outer:
        checked = [word.replace(":8000/", f":{port}/") for word in health()]
        until(lambda: subprocess.run(checked, env=own, capture_output=True).returncode == 0)
        [inner] = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        assert re.search(r"^NSpid:.*\t1$", Path(f"/proc/{inner}/status").read_text(), re.MULTILINE)
        yield outer, int(inner)


def test_the_first_process_of_a_container_stops_and_loses_nothing(tmp_path: Path) -> None:
    port = free_port()
    made = subprocess.run(
        ["collsynth", "keys", "create", "ours"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    own = {"X-API-Key": made.stdout.strip()}
    address = f"http://127.0.0.1:{port}"
    with (
        contained(tmp_path, port) as (outer, inner),
        httpx.Client(
            base_url=address, headers=own, timeout=PATIENCE_SECONDS, trust_env=False
        ) as client,
    ):
        short = {**LONG, "max_steps": 7}
        ends = client.post("/v1/count?budget=3", json=short, headers=AT_ONCE).json()
        stays = client.post("/v1/count", json=LONG, headers=AT_ONCE).json()
        for job in (ends, stays):
            status_of(client, job, "running")
        os.kill(inner, signal.SIGTERM)
        assert until(lambda: client.get("/readyz").status_code == 503)
        assert client.get(ends["url"]).status_code == 200
        _, log = outer.communicate(timeout=PATIENCE_SECONDS)
        assert outer.returncode == 0, log
    with Store(environment(tmp_path)["COLLSYNTH_STORE"]) as store:
        ended, back = store.jobs.one(ends["id"]), store.jobs.one(stays["id"])
    assert ended is not None
    assert back is not None
    assert (ended.status.value, back.status.value, back.attempts) == ("partial", "queued", 0)


def test_container_files_allow_for_the_grace_period() -> None:
    """Docker kills after ten seconds unless it is told otherwise: as long as the grace alone."""
    pages = (DOCS / "deploy.md").read_text(encoding="utf-8")
    detached = [line for line in pages.splitlines() if line.startswith("docker run -d ")]
    assert detached
    least = COMPOSE["services"]["server"]["stop_grace_period"].removesuffix("s")
    for line in detached:
        assert f" --stop-timeout {least} " in line
        assert " --init " in line
    assert COMPOSE["services"]["server"]["init"] is True
