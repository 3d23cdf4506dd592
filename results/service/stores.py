"""Empty stores to measure with: a file, or a PostgreSQL cluster of our own; gone afterwards."""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[2] / "tests"
STORES = ("sqlite", "postgresql")


@contextmanager
def empty(kind: str) -> Iterator[tuple[str, Path]]:
    """The URL of an empty store, and a folder for what else there is."""
    with tempfile.TemporaryDirectory(prefix="collsynth-load-") as name:
        folder = Path(name)
        if kind == "sqlite":
            yield f"sqlite:///{folder / 'service.db'}", folder
            return
        sys.path.insert(0, str(_TESTS))
        with importlib.import_module("databases").cluster(durable=True) as cluster:
            yield cluster.new_database(), folder
