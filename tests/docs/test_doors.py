"""Every package has a door: a docstring that says what the room is for, with an example that runs.

A reader who opens a package reads its ``__init__`` first. What it shows must be so today; and it
must not cost those who only pass through: what an example needs it imports itself.
"""

from __future__ import annotations

import ast
import doctest
import io
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import grammar
import hierarchies
import synth
from each import each

NEEDS = {
    "synth.client": ("httpx", "client"),
    "synth.service.auth": ("sqlalchemy", "server"),
    "synth.service.http": ("fastapi", "server"),
    "synth.service.jobs": ("sqlalchemy", "server"),
    "synth.service.page": ("fastapi", "server"),
    "synth.service.store": ("sqlalchemy", "server"),
    "synth.step.trace": ("jax", "jax"),
    "synth.step.zoo": ("jax", "jax"),
}
"""What an example needs that not everybody has installed, and the extra that it comes with."""


def _packages() -> Iterator[str]:
    for top in (hierarchies, grammar, synth):
        yield top.__name__
        for module in walk_packages(top.__path__, f"{top.__name__}.", onerror=lambda name: None):
            if module.ispkg:
                yield module.name


PACKAGES = tuple(_packages())


def _source(package: str) -> Path:
    return Path(synth.__file__).parents[1].joinpath(*package.split("."), "__init__.py")


@each("package", PACKAGES)
def test_a_package_docstring_states_its_purpose_with_an_example(package: str) -> None:
    text = ast.get_docstring(ast.parse(_source(package).read_text(encoding="utf-8")))
    assert text, f"{package} has no docstring"
    first, empty, *rest = [*text.splitlines(), "", ""][:3]
    assert first.endswith("."), f"{package}: the first line is no sentence"
    assert not empty, f"{package}: nothing but one line, or no empty line behind it"
    assert rest
    assert doctest.DocTestParser().get_examples(text), f"{package} has no example"


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_door_shows_is_so(package: str) -> None:
    if package in NEEDS:
        module, extra = NEEDS[package]
        pytest.importorskip(module, reason=f"needs {module}, of the extra {extra!r}")
    found = doctest.DocTestFinder(recurse=False).find(import_module(package), package, globs={})
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    said = io.StringIO()
    for example in found:
        runner.run(example, out=said.write)
    assert not runner.failures, said.getvalue()
    assert runner.tries, f"{package}: no example ran"


@each("package", PACKAGES)
def test_a_door_loads_only_what_is_ours(package: str) -> None:
    """Else whoever passes through waits for numpy, z3 or torch; typer is what commands are of."""
    tree = ast.parse(_source(package).read_text(encoding="utf-8"))
    named = [
        name
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else _names(node))
    ]
    roots = {str(name).partition(".")[0] for name in named}
    assert roots - sys.stdlib_module_names <= {"hierarchies", "grammar", "synth", "typer"}


def _names(node: ast.Import) -> list[str]:
    return [alias.name for alias in node.names]


def test_extras_are_named_for_packages_that_there_are() -> None:
    assert set(NEEDS) <= set(PACKAGES)
