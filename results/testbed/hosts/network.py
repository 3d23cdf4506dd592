"""Builds the network of a system on this machine, and always takes it away again."""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hierarchies import InputError, System
from results.testbed.hosts.wiring import FABRIC, KERNEL, PREFIX, Wiring

_NAMES = Path("/run/netns")
_LOCK = Path("/run/collsynth-testbed.lock")
_NEW_NETWORK = 0x40000000
_SENT = re.compile(r"^qdisc htb 1: dev (\S+) .*?\n Sent (\d+) bytes .*?dropped (\d+),", re.M | re.S)


@dataclass(frozen=True)
class Counters:
    """Bytes sent into each end of a cable in the fabric, and packets dropped anywhere there."""

    sent_bytes: dict[str, int]
    dropped: int


def missing() -> str:
    """Why no network can be built here, or nothing."""
    if os.name != "posix" or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "needs root"
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            return f"needs {tool}, of iproute2"
    try:
        with _alone():
            return _lacking()
    except InputError as error:
        return f"needs this machine: {error}"


def _lacking() -> str:
    """What the kernel lacks, or nothing."""
    probe = f"{PREFIX}probe"
    try:
        _run(["ip", "netns", "add", probe])
    except InputError:
        return "needs network namespaces"
    try:
        shaped = ["qdisc", "add", "dev", "lo", "root", "handle", "1:", "htb"]
        _run(["tc", "-n", probe, *shaped])
    except InputError:
        return "needs a kernel with htb"
    finally:
        _run(["ip", "netns", "del", probe])
    return ""


@contextmanager
def network(system: System) -> Iterator[Wiring]:
    """The system's network, for as long as the block lasts. Raises InputError if it cannot be."""
    wiring = Wiring(system)
    with _alone():
        down()
        try:
            _build(wiring)
            yield wiring
        finally:
            down()


@contextmanager
def _alone() -> Iterator[None]:
    """One test network at a time. Raises InputError where there is another."""
    with _LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                "another test network is up", hint="there is one at a time on a machine"
            ) from None
        yield


def clear() -> int:
    """Take away what a crash has left; how many namespaces. Raises InputError if one is in use."""
    with _alone():
        return down()


def down() -> int:
    """Take away every namespace of ours, with all that is in it; how many there were."""
    names = sorted(path.name for path in _NAMES.glob(f"{PREFIX}*"))
    if names:
        _batch(["ip"], [f"netns del {name}" for name in names])
    return len(names)


def _build(wiring: Wiring) -> None:
    _batch(["ip"], wiring.namespaces())
    _batch(["ip", "-n", FABRIC], wiring.fabric())
    _batch(["tc", "-n", FABRIC], wiring.shaping())
    for device, name in enumerate(wiring.hosts):
        links, shapes = wiring.host(device)
        _batch(["ip", "-n", name], links)
        _batch(["tc", "-n", name], shapes)


def _batch(tool: Sequence[str], lines: Sequence[str]) -> None:
    _run([*tool, "-batch", "-"], "".join(f"{line}\n" for line in lines))


def _run(command: Sequence[str], text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(
            f"{' '.join(command)} said: {done.stderr.strip()[:300]}",
            where="test network",
            hint="every command must succeed, or rates are not what they should be",
        )
    return done.stdout


def enter(name: str) -> None:
    """Move this process into a host's namespace, and settle what its TCP does there."""
    library = ctypes.CDLL(None, use_errno=True)
    with (_NAMES / name).open("rb") as namespace:
        if library.setns(namespace.fileno(), _NEW_NETWORK):
            raise OSError(ctypes.get_errno(), f"cannot enter {name}")
    for key, value in KERNEL.items():
        path = Path("/proc/sys") / key
        if path.exists():
            path.write_text(value, encoding="ascii")


def counters() -> Counters:
    """What went through the fabric's ends of cables so far."""
    told = _run(["tc", "-n", FABRIC, "-s", "qdisc", "show"])
    found = _SENT.findall(told)
    dropped = sum(int(number) for number in re.findall(r"dropped (\d+),", told))
    return Counters({device: int(sent) for device, sent, _ in found}, dropped)
