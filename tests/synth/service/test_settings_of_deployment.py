"""What is in deploy/ agrees with the commands, and its build steps work where there is no Docker.

No image is built here: there is no engine. The lines of the Dockerfile are carried out in folders.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import typer

from image import BUILD, COMPOSE, DEPLOY, ENVIRONMENT, FINAL, of
from manual import ROOT
from patience import PATIENCE_SECONDS
from server_process import free_port
from synth.cli.app import app

UNIT = (DEPLOY / "collsynth.service").read_text(encoding="utf-8")
LAST_REPLIES_SECONDS = 5


def serve_parameters() -> list[Any]:
    command: Any = typer.main.get_command(app)
    return list(command.commands["serve"].params)


def default(flag: str) -> Any:
    [found] = [parameter for parameter in serve_parameters() if flag in parameter.opts]
    return found.default


def unit(key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", UNIT, re.MULTILINE)


def test_variables_are_those_that_serve_reads() -> None:
    line: Any = typer.main.get_command(app)
    known = {str(parameter.envvar) for parameter in (*line.params, *serve_parameters())}
    texts = (UNIT, (DEPLOY / "Dockerfile").read_text(), (DEPLOY / "compose.yaml").read_text())
    for text in texts:
        named = set(re.findall(r"COLLSYNTH_[A-Z_]+", text))
        assert named
        assert named <= known


def test_flags_are_those_of_serve() -> None:
    [line] = unit("ExecStart")
    program, verb, *words = shlex.split(line)
    assert (Path(program).name, verb) == ("collsynth", "serve")
    known = {flag for parameter in serve_parameters() for flag in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known
    assert "--keys" in words
    assert [json.loads(command) for command in of(FINAL, "CMD")] == [["collsynth", "serve"]]


def test_ports_agree() -> None:
    port = ENVIRONMENT["COLLSYNTH_PORT"]
    assert of(FINAL, "EXPOSE") == [port]
    assert f":{port}/readyz" in of(FINAL, "HEALTHCHECK")[0]
    server, scheduler = COMPOSE["services"]["server"], COMPOSE["services"]["scheduler"]
    assert [published.split(":")[-1] for published in server["ports"]] == [port]
    dask = server["environment"]["COLLSYNTH_EXECUTOR"].removeprefix("dask://scheduler:")
    assert scheduler["command"][scheduler["command"].index("--port") + 1] == dask
    assert f"tcp://scheduler:{dask}" in COMPOSE["services"]["worker"]["command"]
    assert f"', {dask})" in str(scheduler["healthcheck"]["test"])


def test_nobody_is_killed_while_work_may_still_end() -> None:
    least = default("--grace") + LAST_REPLIES_SECONDS
    assert float(unit("TimeoutStopSec")[0]) > least
    assert unit("KillMode") == ["mixed"]
    assert float(COMPOSE["services"]["server"]["stop_grace_period"].removesuffix("s")) > least


def test_services_wait_for_what_they_need() -> None:
    services = COMPOSE["services"]
    assert set(services) == {"store", "scheduler", "worker", "server"}
    for service in services.values():
        for needed, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert services[needed]["healthcheck"]["test"][0] == "CMD"
    assert services["worker"]["deploy"]["replicas"] == 2
    assert set(COMPOSE["volumes"]) == {services["store"]["volumes"][0].partition(":")[0]}


def test_the_store_is_the_same_for_both_ends_and_no_secret_is_written_down() -> None:
    store = COMPOSE["services"]["store"]["environment"]
    server = COMPOSE["services"]["server"]["environment"]
    assert server["COLLSYNTH_STORE"] == f"postgresql://{store['POSTGRES_USER']}@store/collsynth"
    assert store["POSTGRES_DB"] == "collsynth"
    assert server["PGPASSWORD"] == store["POSTGRES_PASSWORD"]
    assert re.fullmatch(r"\$\{STORE_PASSWORD:\?.+\}", server["PGPASSWORD"])


def test_the_image_has_what_it_copies_and_runs_as_nobody_special() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for line in of(BUILD, "COPY"):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert f"!{source}" in ignored
    assert of(FINAL, "USER") == ["collsynth"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [extras] = re.findall(r"\[([\w,]+)\]\"", "\n".join(of(BUILD, "RUN")))
    assert set(extras.split(",")) <= set(project["project"]["optional-dependencies"])


def test_compose_takes_the_file() -> None:
    if shutil.which("docker") is None:
        pytest.skip("needs docker with its plug-in compose")
    if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode:
        pytest.skip("needs docker's plug-in compose")
    words = ("docker", "compose", "-f", str(DEPLOY / "compose.yaml"), "config", "--quiet")
    secret = {**os.environ, "STORE_PASSWORD": "x"}
    said = subprocess.run(words, env=secret, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    file = tmp_path / "collsynth.service"
    file.write_text(UNIT.replace("/opt/collsynth/bin/collsynth", sys.executable), encoding="utf-8")
    said = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True)
    assert (said.returncode, said.stderr) == (0, "")


@pytest.mark.slow
def test_the_steps_of_the_image_give_a_server_that_answers(tmp_path: Path) -> None:
    """COPY and RUN of the first stage, then CMD and HEALTHCHECK of the last, in folders."""
    source, port = tmp_path / "src", free_port()
    source.mkdir()
    for line in of(BUILD, "COPY"):
        *names, target = line.split()
        for name in names:
            found = ROOT / name
            if found.is_dir():
                shutil.copytree(found, source / target)
            else:
                shutil.copy(found, source / target)

    def here(text: str) -> str:
        moved = re.sub(r"(?<![\w:/])/(build|wheels|opt|var/lib)\b", rf"{tmp_path}/\1", text)
        return moved.replace("sqlite:////var/lib", f"sqlite:///{tmp_path}/var/lib")

    plain = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    kept = {name: value for name, value in os.environ.items() if "PIP" in name or "PROXY" in name}
    for line in of(BUILD, "RUN"):
        words = ["bash", "-euc", here(line)]
        said = subprocess.run(
            words, cwd=source, env={**kept, **plain}, capture_output=True, text=True
        )
        assert said.returncode == 0, said.stderr
    environment = {name: here(value) for name, value in ENVIRONMENT.items()}
    environment |= {"COLLSYNTH_PORT": str(port), "COLLSYNTH_WORKERS": "1"}
    state = tmp_path / "var/lib/collsynth"
    state.mkdir(parents=True)

    def asked(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, cwd=state, env=environment, capture_output=True, text=True)

    assert "collsynth keys create" in asked("collsynth", "serve").stderr
    key = asked("collsynth", "keys", "create", "team").stdout.strip()
    assert key.startswith("cs_"), key
    command = json.loads(of(FINAL, "CMD")[0])
    server = subprocess.Popen(command, cwd=state, env=environment, stderr=subprocess.DEVNULL)
    try:
        wait_for(f"http://127.0.0.1:{port}/healthz")
        [health] = re.findall(r"CMD (\[.*\])", of(FINAL, "HEALTHCHECK")[0])
        checked = asked(*json.loads(health.replace(":8000/", f":{port}/")))
        assert checked.returncode == 0, checked.stderr
        assert (state / "collsynth.db").is_file()
    finally:
        server.terminate()
        server.wait(PATIENCE_SECONDS)


def wait_for(address: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            urlopen(address, timeout=3).close()
            return
        except OSError:
            assert time.monotonic() < end, "nobody answers"
            time.sleep(0.2)
