"""The backup lines of docs/deploy.md, while a server takes questions; and a server on the copy."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from threading import Event, Thread
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from manual import ROOT
from serving import Served, served
from synth.service.http.examples import EXAMPLES

HOME = "/var/lib/collsynth"


def line(start: str) -> str:
    """The line of the manual that begins so, without its remark."""
    text = (ROOT / "docs/deploy.md").read_text(encoding="utf-8")
    [found] = [one for one in text.splitlines() if one.startswith(start)]
    return found.partition("  #")[0]


def carry_out(command: str) -> None:
    said = subprocess.run(["bash", "-euc", command], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr


def copied(store_url: str, folder: Path) -> str:
    """Back up and restore as the manual says; the URL of the copy."""
    folder.mkdir()
    url = urlsplit(store_url)
    if url.scheme == "sqlite":
        backup = line("sqlite3 ").replace(HOME, str(Path(store_url[len("sqlite:///") :]).parent))
        carry_out(backup.replace("collsynth.db ", "store.db ").replace("/backup", str(folder)))
        (folder / "home").mkdir()
        for start in ("rm ", "install ", "chown "):
            carry_out(line(start).replace("/backup", str(folder)).replace(HOME, f"{folder}/home"))
        return f"sqlite:///{folder}/home/collsynth.db"
    name = url.path.removeprefix("/")
    to = f"export PGHOST={parse_qs(url.query)['host'][0]} PGUSER=collsynth; "
    for start, database in (("pg_dump ", name), ("createdb ", f"{name}_back")):
        command = re.sub(r"(?<=[ =])collsynth(?= |$)", database, line(start))
        carry_out(to + command.replace("/backup", str(folder)))
    return store_url.replace(f"/{name}?", f"/{name}_back?")


def test_a_store_that_is_copied_while_a_server_writes(store_url: str, tmp_path: Path) -> None:
    needed = "sqlite3" if store_url.startswith("sqlite") else "pg_restore"
    if shutil.which(needed) is None:
        pytest.skip(f"needs the program {needed}")
    over = Event()

    def ask(server: Served) -> None:
        for n in range(2, 400):
            if not over.is_set():
                question = {**EXAMPLES["place"], "system": f"dgx-h100:{n}", "axes": {"data": 8 * n}}
                server.ask.post("/v1/place", json=question)

    with served(tmp_path, store_url=store_url) as server:
        key = server.service.store.keys.create("ours", "ci")
        said = server.ask.post("/v1/place", json=EXAMPLES["place"], headers={"Prefer": "wait=60"})
        link = said.headers["content-location"]
        asking = Thread(target=ask, args=(server,))
        asking.start()
        try:
            copy = copied(store_url, tmp_path / "backup")
        finally:
            over.set()
            asking.join()
    with served(tmp_path, store_url=copy) as server:
        kept = server.service.store.keys.one(key.id)
        assert kept is not None
        assert kept.admits(key.secret)
        assert server.ask.get(link).json()["answer"] == said.json()
        again = server.ask.post("/v1/place", json=EXAMPLES["place"])
        assert again.headers["collsynth-cache"] == "hit"
        jobs = server.ask.get("/v1/jobs?limit=200").json()["jobs"]
        assert link in [job["answer"] for job in jobs]
        for job in jobs:
            assert job["answer"] is None or server.ask.get(job["answer"]).status_code == 200
        question = {**EXAMPLES["place"], "axes": {"data": 4, "model": 8}}
        assert server.ask.post("/v1/place", json=question).status_code in (200, 202)
