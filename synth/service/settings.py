"""Settings of a server, from flags and COLLSYNTH_* variables."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path

from hierarchies import InputError
from synth.service.limits import Limits

FILE_NAME = "collsynth.db"


@dataclass(frozen=True)
class Settings:
    """One server of the service.

    ``name`` owns the server's claims. A server that starts requeues the jobs that a killed server
    of the same name was running, so no two running servers may share a name. ``keys``: requests
    need a key. ``wait_seconds``: default time that a request waits for its job. ``grace_seconds``:
    time that running jobs may continue after a signal to stop. ``keep_days``: days until ended jobs
    and answers are deleted (None: never); at least one, because jobs of a key are counted over a
    day. ``trusted_proxies`` to ``admins`` configure ``auth.proxy.Proxy``.
    """

    store_url: str
    name: str
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    executor: str | None = None
    keys: bool = False
    wait_seconds: float = 2.0
    grace_seconds: float = 10.0
    lease_seconds: float = 30.0
    answers_bytes: int = 128 * 2**20
    keep_days: int | None = 30
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    proxy_secret: str | None = field(default=None, repr=False)
    teams: Mapping[str, str] = field(default_factory=dict)
    admins: frozenset[str] = frozenset()
    limits: Limits = field(default_factory=Limits)

    @property
    def keep_seconds(self) -> float | None:
        """``keep_days`` in seconds."""
        return None if self.keep_days is None else self.keep_days * 86400.0


LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1"))


def parse_networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Parse addresses and networks separated by commas. Raises InputError for anything else."""
    try:
        return tuple(ip_network(network) for network in split_commas(text))
    except ValueError as error:
        hint = "as in 127.0.0.1 or 10.0.0.0/8, separated by commas"
        raise InputError(str(error), where="--trusted-proxy", hint=hint) from None


def teams_of_groups(text: str) -> dict[str, str]:
    """Parse ``GROUP=TEAM`` pairs separated by commas. Raises InputError for anything else."""
    teams = {}
    for assignment in split_commas(text):
        group, sign, team = (part.strip() for part in assignment.rpartition("="))
        if not (group and sign and team):
            hint = "as in ml-infra=infra,ml-research=research"
            raise InputError(
                f"{assignment[:80]!r} does not assign a group to a team", where="--teams", hint=hint
            )
        teams[group] = team
    return teams


def split_commas(text: str) -> list[str]:
    """Return the non-empty parts of a text between commas, stripped."""
    return [part.strip() for part in text.split(",") if part.strip()]


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback address or ``localhost``; other names are not resolved."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def default_name(host: str, port: int) -> str:
    """Return a server's default name: machine, host and port, or the process id if port is 0."""
    machine = socket.gethostname() or "server"
    return f"{machine}:{host}:{port}" if port else f"{machine}:pid{os.getpid()}"


def data_folder(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """Return the folder for a user's data of this program, by the convention of the platform."""
    home = Path(environment.get("HOME") or Path.home())
    if platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local") / "collsynth"
    if platform == "darwin":
        return home / "Library" / "Application Support" / "collsynth"
    given = environment.get("XDG_DATA_HOME", "")
    return (Path(given) if Path(given).is_absolute() else home / ".local" / "share") / "collsynth"


def store_url(given: str | None) -> str:
    """Return the given URL, or that of ``default_store`` in the user's data folder."""
    return given or default_store(data_folder())


def default_store(folder: Path) -> str:
    """Return the URL of the store in a folder, creating the folder with mode 0700.

    Raises InputError if the folder cannot be written.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError as error:
        raise _refuse_folder(folder, error.strerror or str(error)) from None
    if not writable:
        raise _refuse_folder(folder, "permission denied")
    return f"sqlite:///{folder / FILE_NAME}"


def _refuse_folder(folder: Path, why: str) -> InputError:
    hint = "name another database with --store, as in sqlite:////var/lib/collsynth/collsynth.db"
    return InputError(f"cannot keep data in {str(folder)!r}: {why}", where="--store", hint=hint)
