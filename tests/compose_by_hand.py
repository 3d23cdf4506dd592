"""Runs compose's services without an engine, in namespaces of network, mounts and processes.

There every name of a service is this machine's own address, and no port is taken: so commands,
variables and checks of health are those of the files, as they stand. ``python
tests/compose_by_hand.py FOLDER``, as root of such namespaces, ends with 0 where all went well.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from databases import cluster, programs_there
from image import COMPOSE, command, environment, health
from manual import DOCS, blocks
from patience import PATIENCE_SECONDS, until
from server_process import AT_ONCE, LONG, status_of
from working import TOP

SERVICES: Any = COMPOSE["services"]
SECRET = "of the store"
OUTSIDE = "collsynth.example.org"
NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")


class Compose:
    """The services that are up, by name."""

    def __init__(self, folder: Path, ending: ExitStack) -> None:
        self.folder = folder
        self.up: dict[str, list[subprocess.Popen[bytes]]] = {}
        self._ending = ending
        self._socket: dict[str, str] = {}

    def start(self, name: str) -> None:
        """Start a service as often as the file says, after all that it needs, and wait for it."""
        service = SERVICES[name]
        for needed in service.get("depends_on", ()):
            if needed not in self.up:
                self.start(needed)
        if name == "store":
            self._ending.enter_context(self._store())
            self.up[name] = []
        else:
            for _ in range(service.get("deploy", {}).get("replicas", 1)):
                self.one_more(name)
        check = self.check_of(name)
        until(lambda: check is None or self.run(name, *check).returncode == 0)

    def one_more(self, name: str) -> None:
        """Start one more of a service."""
        words = SERVICES[name].get("command") or command()
        with (self.folder / f"{name}.log").open("a") as log:
            process = subprocess.Popen(
                words, env=self.variables(name), cwd=self.folder, stdout=log, stderr=log
            )
        self._ending.callback(process.kill)
        self.up.setdefault(name, []).append(process)

    def run(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        """What ``docker compose run --rm`` does, and what a check of health does."""
        own = self.variables(name)
        return subprocess.run(words, env=own, cwd=self.folder, capture_output=True, text=True)

    def check_of(self, name: str) -> list[str] | None:
        """How it is seen that a service is there: as the file says, else as its image does."""
        found = SERVICES[name].get("healthcheck")
        if found is None:
            return health()
        if found.get("disable"):
            return None
        how, *words = found["test"]
        assert how == "CMD"
        return [str(word) for word in words]

    def variables(self, name: str) -> dict[str, str]:
        """Those of the image, and those of the file with the secret put in."""
        given = SERVICES[name].get("environment", {})
        own = {key: re.sub(r"\$\{STORE_PASSWORD:\?.*\}", SECRET, given[key]) for key in given}
        socket = self._socket if name == "store" else {}
        return {**environment(self.folder), **os.environ, **own, **socket, "PATH": path()}

    @contextmanager
    def _store(self) -> Iterator[None]:
        """What the image of PostgreSQL makes of its variables."""
        own = self.variables("store")
        assert own["POSTGRES_USER"] == "collsynth"  # whom a cluster of the tests belongs to
        with cluster(password=own["POSTGRES_PASSWORD"]) as made:
            self._socket = {"PGHOST": str(made.folder), "PGPASSWORD": SECRET}
            words = ("createdb", "--username", own["POSTGRES_USER"], own["POSTGRES_DB"])
            assert self.run("store", *words).returncode == 0
            yield


def path() -> str:
    """Where programs are: the tests' own, and PostgreSQL's."""
    found = programs_there()
    return f"{Path(sys.executable).parent}:{found}:/usr/sbin:/sbin:{os.environ['PATH']}"


def prepare(folder: Path) -> None:
    """Give the namespaces a network of this machine alone, and names for the services."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    hosts = folder / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {' '.join(SERVICES)} {OUTSIDE}\n")
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)


@contextmanager
def proxy(folder: Path) -> Iterator[dict[str, Any]]:
    """The manual's nginx in front, where there is one: how the server is reached through it."""
    if shutil.which("nginx", path=path()) is None:
        print("no nginx: nothing in front")
        yield {"base_url": "http://127.0.0.1:8000"}
        return
    key, certificate = folder / "collsynth.key", folder / "collsynth.pem"
    words = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={OUTSIDE}".split()
    more = [
        "-addext",
        f"subjectAltName=DNS:{OUTSIDE}",
        "-keyout",
        str(key),
        "-out",
        str(certificate),
    ]
    subprocess.run([*words, *more], check=True, capture_output=True)
    [server] = [one.text for one in blocks("text", DOCS / "deploy.md") if "listen 443" in one.text]
    here = server.replace("/etc/ssl", str(folder))
    (folder / "nginx.conf").write_text(
        f"pid {folder}/nginx.pid;\nevents {{}}\nhttp {{\naccess_log off;\n{here}}}\n"
    )
    words = ["nginx", "-c", str(folder / "nginx.conf"), "-e", str(folder / "nginx.log")]
    nginx = subprocess.Popen([*words, "-g", "daemon off;"], env={"PATH": path()})
    try:
        yield {"base_url": f"https://{OUTSIDE}", "verify": str(certificate)}
    finally:
        nginx.terminate()
        nginx.wait(PATIENCE_SECONDS)


def stopped(compose: Compose, name: str) -> int:
    """The exit code of a service that is stopped as compose does it."""
    [process] = compose.up.pop(name)
    process.send_signal(signal.SIGTERM)
    return process.wait(PATIENCE_SECONDS)


def slots(key: str) -> str:
    """How many workers the server sees, told to who has an operator's key."""
    text = httpx.get("http://127.0.0.1:8000/metrics", headers={"X-API-Key": key}).text
    [found] = re.findall(r"^collsynth_worker_slots (.*)$", text, re.MULTILINE)
    return str(found)


def try_out(compose: Compose, how: dict[str, Any]) -> None:
    """Go through what the manual says can be done with compose's services."""
    create = ("collsynth", "keys", "create")
    made = compose.run("server", *create, "my-team")
    assert made.returncode == 0, made.stderr
    operator = compose.run("server", *create, "operators", "--scope", "admin").stdout.strip()
    compose.start("worker")
    compose.start("server")
    own = {"X-API-Key": made.stdout.strip()}
    with httpx.Client(**how, headers=own, timeout=PATIENCE_SECONDS, trust_env=False) as client:
        until(lambda: answers(client))
        until(lambda: slots(operator) == "2.0")
        asked = client.post("/v1/top", json=TOP, headers={"Prefer": "wait=60"})
        assert asked.status_code == 200, asked.text
        assert client.get("/v1/jobs", headers={"X-API-Key": "wrong"}).status_code == 403
        compose.one_more("worker")  # --scale
        until(lambda: slots(operator) == "3.0")

        job = client.post("/v1/count", json=LONG, headers=AT_ONCE).json()
        status_of(client, job, "running")
        with client.stream("GET", f"{job['url']}/events") as events:
            lines = events.iter_lines()
            assert any(line == "event: progress" for line in lines)  # it comes when it happens
        assert stopped(compose, "server") == 0
        compose.start("server")
        until(lambda: answers(client))
        status_of(client, job, "running")
        assert client.post(f"{job['url']}/cancel").status_code == 200
        status_of(client, job, "cancelled")
        again = client.post("/v1/top", json=TOP)
        assert (again.headers["collsynth-cache"], again.content) == ("hit", asked.content)
        assert stopped(compose, "server") == 0


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


def main(folder: Path) -> None:
    prepare(folder)
    with ExitStack() as ending:
        compose = Compose(folder, ending)
        compose.start("store")
        compose.start("scheduler")
        try_out(compose, ending.enter_context(proxy(folder)))
    print("all went well")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
