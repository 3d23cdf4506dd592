"""The commands that serve: what they refuse to start with, and how a server stops, or is killed."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("fastapi", reason="needs the extra server")

from patience import PATIENCE_SECONDS
from server_process import AT_ONCE, LONG, serving, status_of
from synth.cli.app import app
from synth.service.settings import Settings, data_folder, default_name, parse_networks
from synth.service.store import NewJob, Person, Store


def run(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def store_in(folder: Path) -> str:
    return f"sqlite:///{folder / 'served.db'}"


def test_a_stopping_server_returns_jobs_that_do_not_end_in_time(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    with serving(store, "--grace", "1.5") as (process, client):
        job = client.post("/v1/count", json=LONG, headers=AT_ONCE).json()
        status_of(client, job, "running")
        with client.stream("GET", f"{job['url']}/events") as stream:
            process.send_signal(signal.SIGTERM)
            said = "".join(stream.iter_text())
        assert ": the service is stopping" in said
        assert "event: end" not in said
        ready = client.get("/readyz")
        assert ready.status_code == 503
        assert ready.json()["problems"] == ["the service is stopping"]
        refused = client.post("/v1/place", json={"system": "dgx-h100:2", "axes": {"data": 16}})
        assert refused.status_code == 503
        assert "retry-after" in refused.headers
        _, log = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, log
    assert all(json.loads(line)["time"] for line in log.splitlines())
    kept = Store(store)
    found = kept.jobs.one(job["id"])
    kept.close()
    assert found is not None
    assert (found.status.value, found.attempts) == ("queued", 0)


@pytest.mark.slow
def test_running_jobs_end_within_the_grace(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    with serving(store, "--grace", "600") as (process, client):
        job = client.post("/v1/count?budget=1.5", json=LONG, headers=AT_ONCE).json()
        status_of(client, job, "running")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0
    kept = Store(store)
    found = kept.jobs.one(job["id"])
    kept.close()
    assert found is not None
    assert found.status.value == "partial"


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    with serving(store, "--grace", "600") as (process, client):
        job = client.post("/v1/count", json=LONG, headers=AT_ONCE).json()
        status_of(client, job, "running")
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_SECONDS)
    kept = Store(store)
    found = kept.jobs.one(job["id"])
    kept.close()
    assert found is not None
    assert found.status.value == "queued"


@pytest.mark.slow
def test_a_killed_server_loses_nothing_and_does_nothing_twice(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    small = {"system": "dgx-h100:2", "axes": {"data": 16}}
    with serving(store, "--name", "one") as (process, client):
        first = client.post("/v1/count?budget=3", json=LONG, headers=AT_ONCE).json()
        second = client.post("/v1/place", json=small, headers=AT_ONCE).json()
        status_of(client, first, "running")
        process.kill()
        process.wait()
        workers = _children(process.pid)
    with serving(store, "--name", "one") as (_, client):
        done = status_of(client, first, "partial", "failed", "done")
        assert (done["status"], done["attempts"]) == ("partial", 2)
        placed = status_of(client, second, "done")
        assert placed["attempts"] <= 2
        assert len(client.get("/v1/jobs").json()["jobs"]) == 2
        assert client.get(placed["answer"]).json()["answer"]["count"] == 1
    assert workers == []


def _children(session: int) -> list[str]:
    """What is left of a session, which the server and its workers are, some seconds later."""
    for _ in range(100):
        found = subprocess.run(
            ["ps", "-o", "pid=,stat=,args=", "--sid", str(session)], capture_output=True, text=True
        ).stdout
        left = [line for line in found.splitlines() if " Z" not in line]
        if not left:
            return []
        time.sleep(0.1)
    return left


def told(result: Any, *words: str) -> None:
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("collsynth: ")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        told(run("serve", "--port", port, "--store", store_in(tmp_path)), port, "--port")


@pytest.mark.parametrize("words", [("serve", "--port", "1"), ("count", "--digits", "1", "-v")])
def test_a_command_leaves_the_log_as_it_was(tmp_path: Path, words: tuple[str, ...]) -> None:
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    if words[0] == "serve":
        words = (*words, "--host", "192.0.2.1", "--keys", "--store", store_in(tmp_path))
        run("keys", "create", "team", "--store", store_in(tmp_path))
    run(*words)
    assert (root.handlers, root.level) == before


def test_an_address_that_is_not_ours(tmp_path: Path) -> None:
    words = ("serve", "--host", "192.0.2.1", "--keys", "--store", store_in(tmp_path))
    run("keys", "create", "team", "--store", store_in(tmp_path))
    told(run(*words), "192.0.2.1")


@pytest.mark.parametrize("executor", ["ray://x", "dask://", "dask", "127.0.0.1:8786"])
def test_an_executor_that_is_not_known(tmp_path: Path, executor: str) -> None:
    words = ("serve", "--port", "0", "--executor", executor, "--store", store_in(tmp_path))
    told(run(*words), "--executor")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1"])
def test_a_public_address_needs_keys(tmp_path: Path, host: str) -> None:
    words = ("serve", "--host", host, "--port", "0", "--store", store_in(tmp_path))
    told(run(*words), "collsynth keys create")
    made = run("keys", "create", "team", "--store", store_in(tmp_path))
    run("keys", "revoke", made.stdout.split("_")[1], "--store", store_in(tmp_path))
    told(run(*words), "collsynth keys create")


@pytest.mark.parametrize(
    "url", ["nonsense", "mysql://x/y", "sqlite://", "sqlite:////nowhere/at/all.db"]
)
def test_a_store_that_cannot_be_used(url: str) -> None:
    told(run("serve", "--port", "0", "--store", url))
    told(run("keys", "list", "--store", url))


def test_a_data_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    monkeypatch.delenv("COLLSYNTH_STORE", raising=False)
    told(run("keys", "list"), "--store")


TOLD: dict[str, tuple[str, dict[str, Any]]] = {
    "--host": ("::1", {"host": "::1"}),
    "--port": ("0", {"port": 0}),
    "--workers": ("3", {"workers": 3}),
    "--executor": ("dask://a:1", {"executor": "dask://a:1"}),
    "--keys": ("1", {"keys": True}),
    "--name": ("one", {"name": "one"}),
    "--wait": ("0.5", {"wait_seconds": 0.5}),
    "--grace": ("7", {"grace_seconds": 7.0}),
    "--job-seconds": ("60", {"limits": {"job_seconds": 60.0}}),
    "--job-memory": ("1GiB", {"limits": {"job_memory_bytes": 2**30}}),
    "--keep-days": ("0", {"keep_days": None}),
    "--work-hours": ("2", {"limits": {"work_seconds_per_day": 7200.0}}),
    "--proxy-secret": ("x" * 16, {"proxy_secret": "x" * 16, "keys": True}),
    "--trusted-proxy": ("10.0.0.7", {"trusted_proxies": parse_networks("10.0.0.7"), "keys": True}),
}


def test_each_option_and_variable_of_serve_is_a_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Settings] = []
    monkeypatch.setattr("synth.service.server.serve", lambda settings, said: found.append(settings))

    def settings(*words: str, **variables: str) -> dict[str, Any]:
        words = ("serve", "--store", store_in(tmp_path), *words)
        with monkeypatch.context() as changed:
            for name, value in variables.items():
                changed.setenv(name, value)
            assert run(*words).exit_code == 0
        return asdict(found.pop())

    usual = settings("--name", "usual")
    for option, (value, changes) in TOLD.items():
        expected = usual | changes | {"limits": usual["limits"] | changes.get("limits", {})}
        word = (option,) if option == "--keys" else (option, value)
        named = () if option == "--name" else ("--name", "usual")
        assert settings(*word, *named) == expected, option
        variable = f"COLLSYNTH_{option[2:].replace('-', '_').upper()}"
        assert settings(*named, **{variable: value}) == expected, variable
    people = settings(
        *("--proxy-secret", "x" * 16, "--teams", "a=b,c=d", "--admins", "ops, root"), "--quiet"
    )
    assert (people["teams"], people["admins"]) == ({"a": "b", "c": "d"}, {"ops", "root"})


def test_keys_are_made_listed_and_revoked_in_json(tmp_path: Path) -> None:
    store = ("--store", store_in(tmp_path), "--json")
    assert json.loads(run("keys", "list", *store).stdout) == []
    made = json.loads(run("keys", "create", "team", "--name", "nightly", *store).stdout)
    assert made["secret"].startswith(f"cs_{made['id']}_")
    [listed] = json.loads(run("keys", "list", *store).stdout)
    assert (listed["id"], listed["team"], listed["state"]) == (made["id"], "team", "valid")
    revoked = json.loads(run("keys", "revoke", made["id"], *store).stdout)
    said = {"id": made["id"], "team": "team", "name": "nightly", "state": "revoked"}
    assert revoked == {**said, "was": "valid", "sessions": 0, "jobs": [], "cancelled": False}
    assert "again" in run("keys", "revoke", made["id"], "--store", store_in(tmp_path)).stdout
    run("keys", "create", "team", "--scope", "admin, ask", "--days", "9", *store)
    listed = json.loads(run("keys", "list", *store).stdout)[1]
    ends = datetime.fromisoformat(listed["expires"]) - datetime.fromisoformat(listed["created"])
    assert (listed["scopes"], ends.days, listed["last_used"]) == ("ask,admin", 9, "never")
    told(run("keys", "create", "team", "--scope", "all", *store), "ask, keep, admin")
    assert json.loads(run("keys", "list", *store).stdout)[0]["state"] == "revoked"


def test_the_data_folder_is_its_owners_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("COLLSYNTH_STORE", raising=False)
    assert run("keys", "list").exit_code == 0
    folder = tmp_path / "data" / "collsynth"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "collsynth.db").is_file()


def test_data_folders_of_other_platforms() -> None:
    home = {"HOME": "/home/ada"}
    assert data_folder(home, "linux") == Path("/home/ada/.local/share/collsynth")
    assert data_folder({**home, "XDG_DATA_HOME": "/data"}, "linux") == Path("/data/collsynth")
    assert data_folder({**home, "XDG_DATA_HOME": "data"}, "linux").is_absolute()
    assert data_folder(home, "darwin").parts[-3:] == ("Library", "Application Support", "collsynth")
    assert data_folder({**home, "LOCALAPPDATA": "/local"}, "win32") == Path("/local/collsynth")


def test_names_of_servers_differ_by_address() -> None:
    names = {default_name("127.0.0.1", port) for port in (1, 2)} | {default_name("::1", 1)}
    assert len(names) == 3
    assert str(os.getpid()) in default_name("127.0.0.1", 0)


def test_keys_are_made_listed_and_revoked(tmp_path: Path) -> None:
    store = ("--store", store_in(tmp_path))
    made = run("keys", "create", "red", "--name", "ci", "--rate", "5", *store)
    secret = made.stdout.strip()
    assert re.fullmatch(r"cs_[0-9a-f]{16}_[0-9a-f]{64}", secret)
    run("keys", "create", "blue", *store)
    listed = run("keys", "list", *store).stdout
    assert [line.split()[1] for line in listed.splitlines()] == ["team", "red", "blue"]
    head, first, _ = listed.splitlines()
    assert re.split("  +", head)[-4:] == ["expires", "last used", "scopes", "name"]
    assert first.index("never") == head.index("expires")
    assert secret not in listed
    key_id = secret.split("_")[1]
    assert run("keys", "revoke", key_id, *store).exit_code == 0
    assert f"{key_id}  red" in run("keys", "list", "--team", "red", *store).stdout
    assert "revoked" in run("keys", "list", "--team", "red", *store).stdout
    told(run("keys", "revoke", "nothing", *store), "keys list")
    told(run("keys", "create", "red", "--rate", "0", *store), "--rate", "above 0")
    told(run("keys", "create", "red", "--jobs-per-day", "-1", *store), "--jobs-per-day: -1 jobs")


def test_revoking_a_key_reports_running_jobs_or_ends_them(tmp_path: Path) -> None:
    words = ("--store", store_in(tmp_path))
    with Store(store_in(tmp_path)) as store:
        store.migrate()
        made, other = store.keys.create("red", "ci"), store.keys.create("red", "")
        for number, key in enumerate((made, made, made, other)):
            store.jobs.submit(NewJob("red", key.id, "top", "{}", str(number)))
        running = store.claims.claim("a server", 60)
        assert running is not None
        ended = store.jobs.cancel(store.jobs.listed("red", 4)[1].id)
        assert ended is not None
        said = run("keys", "revoke", made.id, *words).stdout
        assert said.startswith(f"revoked {made.id} of red (ci); last used never; sessions ended: 0")
        assert "jobs that continue: 2; 'collsynth keys revoke --cancel' ends them" in said
        said = run("keys", "revoke", made.id, "--cancel", *words).stdout
        assert "again" in said
        assert "jobs cancelled: 2" in said
        statuses = [store.jobs.one(job.id).status for job in store.jobs.listed("red", 4)]
        assert statuses == ["queued", "cancelled", "cancelled", "cancelling"]


def test_signing_somebody_out_reports_running_jobs_or_ends_them(tmp_path: Path) -> None:
    words = ("--store", store_in(tmp_path))
    with Store(store_in(tmp_path)) as store:
        store.migrate()
        ann = Person("ann@example.org", "red", "ask keep")
        for seconds in (60, 60, -1):
            store.keys.begin_session(ann, seconds)
        for number in range(2):
            asked = NewJob("red", None, "top", "{}", str(number), asked_by=ann.name)
            store.jobs.submit(asked)
        said = run("keys", "sign-out", ann.name, *words).stdout
        assert said == (
            "signed out ann@example.org; sessions ended: 2; jobs that continue: 2;"
            " 'collsynth keys sign-out --cancel' ends them\n"
        )
        ended = json.loads(run("keys", "sign-out", ann.name, "--cancel", "--json", *words).stdout)
        assert (ended["sessions"], ended["cancelled"], len(ended["jobs"])) == (0, True, 2)
        assert [job.status for job in store.jobs.listed("red", 4)] == ["cancelled"] * 2
    told(run("keys", "sign-out", ann.name, *words), "nobody is signed in as", "asked_by")
    for wrong in ([], [ann.name, "--all"], ["--all", "--cancel"]):
        told(run("keys", "sign-out", *wrong, *words), "--all alone")
    assert json.loads(run("keys", "sign-out", "--all", "--json", *words).stdout) == {"sessions": 0}


@pytest.mark.slow
def test_a_missing_extra_is_named_with_its_install_command(tmp_path: Path) -> None:
    for absent in ("fastapi", "uvicorn", "sqlalchemy", "prometheus_client"):
        code = f"import sys; sys.modules[{absent!r}] = None; from synth.cli.app import main; main()"
        words = ("serve", "--port", "0", "--store", store_in(tmp_path))
        said = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
        assert said.returncode == 2, said.stderr
        assert said.stderr.count("\n") == 1
        assert "pip install 'collsynth[server]'" in said.stderr


def test_the_command_line_loads_nothing_of_the_service() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from synth.cli.app import app;"
        "CliRunner().invoke(app, ['--help']);"
        "print([name for name in ('fastapi', 'sqlalchemy', 'uvicorn', 'numpy', 'synth.service')"
        " if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"
