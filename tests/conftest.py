"""Options shared by all tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import pytest
import typer.testing
from hypothesis import Phase, settings

from browsing import CHROMIUM, chromium
from databases import Cluster, cluster
from durations import Noter, mark
from exhaustive import Recorder, Sample
from synth.cache.choice import NONE, VARIABLE

settings.register_profile("house", deadline=None, derandomize=True)
settings.register_profile(
    "hurry", parent=settings.get_profile("house"), phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("house")

# One thread for linear algebra: workers occupy the processors, and threads of BLAS spin while they
# wait, by which fits took three times the processor seconds. Numpy reads it when it is loaded;
# child processes inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Its runner makes all commands anew for each one that a test runs; a program does so once.
typer.testing._get_command = cache(typer.testing._get_command)  # type: ignore[attr-defined]

_CACHE = pytest.StashKey[str]()
"""The cache folder of the whole run, which the workers of xdist share."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite golden texts and README transcripts"
    )
    parser.addoption(
        "--record-exhaustive", action="store_true", help="note in exhaustive.toml what was right"
    )
    parser.addoption("--note-slow", action="store_true", help="note in slow.txt what took long")


def pytest_configure(config: pytest.Config) -> None:
    """Under xdist the reports of all workers arrive at the process that has started them.

    What is collected stays to the end: a collector that looks through it at its usual pace, and
    calls JAX each time, takes a fifth of the time that collecting does.
    """
    gc.set_threshold(50_000, 20, 100)
    if hasattr(config, "workerinput"):
        config.stash[_CACHE] = os.environ[VARIABLE]
        return
    config.stash[_CACHE] = os.environ[VARIABLE] = mkdtemp(prefix="collsynth-tests-")
    if config.getoption("--record-exhaustive"):
        config.pluginmanager.register(Recorder())
    if config.getoption("--note-slow"):
        config.pluginmanager.register(Noter())


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        rmtree(config.stash[_CACHE], ignore_errors=True)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Insides are kept from test to test, except by tests that change the code that makes them."""
    changes = "monkeypatch" in getattr(item, "fixturenames", ())
    os.environ[VARIABLE] = NONE if changes else item.config.stash[_CACHE]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is not quick is marked before it is chosen by its marks."""
    mark(items)


def pytest_collection_finish() -> None:
    """Thousands of tests and their modules stay to the end: not looked through again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def sample(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Sample:
    """Which cases a test is to take, of those it could; see exhaustive.py."""
    given: Sample = request.param
    return replace(given, note=record_property)


@pytest.fixture
def examples(request: pytest.FixtureRequest) -> None:
    """To how many examples Hypothesis puts a property; see exhaustive.py."""
    usual: settings = request.function._hypothesis_internal_use_settings
    chosen = settings(usual, max_examples=request.param)
    request.function._hypothesis_internal_use_settings = chosen


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """A PostgreSQL cluster for this session."""
    with cluster() as started:
        yield started


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One for the tests of a module."""
    pytest.importorskip("playwright", reason="needs playwright, to drive a browser")
    if not CHROMIUM.exists():
        pytest.skip(f"needs a browser at {CHROMIUM}")
    with chromium() as found:
        yield found


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store may be: an empty database of either kind."""
    pytest.importorskip("sqlalchemy", reason="needs sqlalchemy, of the extra 'server'")
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    found: Cluster = request.getfixturevalue("postgres")
    return found.new_database()
