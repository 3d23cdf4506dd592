"""A PostgreSQL cluster of one's own, thrown away afterwards; Debian's package ``postgresql``."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

_PROGRAMS = Path("/usr/lib/postgresql")
_NUMBERS = count(1)


class Cluster:
    """Databases behind one socket."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def new_database(self) -> str:
        """The URL of an empty database."""
        import psycopg

        name = f"test_{next(_NUMBERS)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def url(self, name: str) -> str:
        return f"postgresql://collsynth@/{name}?host={self.folder}"


@contextmanager
def cluster(
    *, durable: bool = False, password: str | None = None, within: Path | None = None
) -> Iterator[Cluster]:
    """A running cluster. Skips where the programs, or a user to run them as, are missing.

    ``durable``: it waits for the disk as it would in earnest; tests need no more than processes.
    ``password``: it listens on localhost, too, and whoever connects needs that. ``within``: the
    folder that its files are in.
    """
    pytest.importorskip("psycopg", reason="needs psycopg, of the extra 'postgres'")
    programs = programs_there()
    if programs is None:
        pytest.skip("needs Debian's package postgresql: no initdb and pg_ctl there")
    user = _user()
    folder = Path(tempfile.mkdtemp(prefix="collsynth-pg-", dir=within))
    try:
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)

        def run(program: str, *words: str) -> None:
            become = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid}
            more = {} if user is None else {"extra_groups": []}
            with (folder / "said").open("a") as said:
                subprocess.run(
                    [programs / program, "-D", folder / "data", *words],
                    check=True,
                    cwd=folder,
                    env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(folder)},
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    timeout=120,
                    **become,
                    **more,
                )

        secret = folder / "secret"
        secret.write_text(password or "")
        asks = (
            ("-A", "trust") if password is None else ("-A", "scram-sha-256", f"--pwfile={secret}")
        )
        run("initdb", "-U", "collsynth", *asks, "-E", "UTF8", "--no-sync")
        waits = "on" if durable else "off"
        where = "" if password is None else "localhost"
        options = f"-c fsync={waits} -k {folder} -c listen_addresses={where} -c max_connections=200"
        try:
            run("pg_ctl", "start", "-w", "-s", "-o", options)
            yield Cluster(folder)
        finally:
            run("pg_ctl", "stop", "-w", "-s", "-m", "immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def programs_there() -> Path | None:
    """The newest version's programs."""
    found = [one.parent for one in _PROGRAMS.glob("*/bin/initdb")]
    versions = {one: [int(n) for n in re.findall(r"\d+", one.parent.name)] for one in found}
    return max(found, key=lambda one: versions[one], default=None)


def _user() -> pwd.struct_passwd | None:
    """Whom to become where we are root, whom PostgreSQL refuses to run as."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("PostgreSQL does not run as root, and there is no user postgres or nobody")
