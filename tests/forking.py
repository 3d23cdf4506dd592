"""Pythons that need not import JAX or PyTorch again, which takes seconds of a processor."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from places import TESTS

FLEET = TESTS / "fleet"


@cache
def python_with(flags: Sequence[str], modules: Sequence[str]) -> tuple[str, ...]:
    """The words that take the place of ``python FLAGS...``, with modules imported already.

    One server of ``fleet/fork_server.py`` is started for all tests of this process.
    """
    folder = tempfile.TemporaryDirectory()
    place = str(Path(folder.name) / "socket")
    server = subprocess.Popen(
        [sys.executable, *flags, str(FLEET / "fork_server.py"), place, *modules],
        env=os.environ | {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )

    def end() -> None:
        server.communicate()
        folder.cleanup()

    atexit.register(end)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return (sys.executable, "-I", "-S", str(FLEET / "fork_client.py"), place)


def jax_python() -> tuple[str, ...]:
    """As ``python -W error``, with JAX imported; its devices are made only when asked for."""
    return python_with(("-W", "error"), ("jax", "jax.numpy", "jax.sharding"))


def torch_python() -> tuple[str, ...]:
    """As ``python``, with what an emitted PyTorch file imports."""
    return python_with((), ("torch.distributed.fsdp", "torch.nn.parallel"))
