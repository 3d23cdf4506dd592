"""Compose's file: what it may say, and its services run by hand, as there is no engine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")
pytest.importorskip("distributed", reason="distributed is not installed: the extra cluster has it")

from distributed.cli import dask_scheduler, dask_worker

from compose_by_hand import NAMESPACES, SERVICES
from databases import programs_there
from image import COMPOSE
from places import ROOT, TESTS

SERVICE_KEYS = {
    "build",
    "cap_drop",
    "command",
    "depends_on",
    "deploy",
    "environment",
    "healthcheck",
    "image",
    "init",
    "ports",
    "read_only",
    "restart",
    "security_opt",
    "stop_grace_period",
    "tmpfs",
    "volumes",
}
"""Those that the Compose specification has, https://docs.docker.com/reference/compose-file/."""
STORE_VARIABLES = {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD"}
"""Those that the image has, https://hub.docker.com/_/postgres."""


def test_services_use_the_terms_of_the_specification() -> None:
    assert set(COMPOSE) == {"name", "x-collsynth", "services", "volumes"}
    for service in SERVICES.values():
        assert set(service) <= SERVICE_KEYS
        times = {"interval", "timeout", "retries"}
        assert set(service.get("healthcheck", ())) <= {"test", "disable", *times}
    assert set(SERVICES["store"]["environment"]) == STORE_VARIABLES


@pytest.mark.parametrize(
    ("name", "module"), [("scheduler", dask_scheduler), ("worker", dask_worker)]
)
def test_options_of_dask_are_there(name: str, module: Any) -> None:
    program, what, *words = SERVICES[name]["command"]
    assert (program, what) == ("dask", name)
    known = {flag for one in module.main.params for flag in (*one.opts, *one.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= known


def test_all_services_by_hand(tmp_path: Path) -> None:
    if programs_there() is None or shutil.which("ip") is None:
        pytest.skip("needs Debian's packages postgresql and iproute2")
    try:
        allowed = subprocess.run([*NAMESPACES, "mount", "-t", "tmpfs", "none", "/mnt"])
    except OSError:
        pytest.skip("needs unshare")
    if allowed.returncode:
        pytest.skip("needs root, and the right to make namespaces")
    said = subprocess.run(
        [*NAMESPACES, sys.executable, TESTS / "compose_by_hand.py", tmp_path],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT}:{TESTS}", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    logs = [f"{one.name}: {one.read_text()[-1000:]}" for one in tmp_path.glob("*.log")]
    assert said.returncode == 0, "\n".join([said.stderr[-3000:], *logs])
    assert said.stdout.endswith("all went well\n")
