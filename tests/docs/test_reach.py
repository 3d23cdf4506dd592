"""Nothing stands in the source that no path of the product reads.

Paths begin at the command line, the service, the client and the Python face. A module must be
imported on one of them, and a definition must be named somewhere in the source beside itself.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from places import ROOT

PACKAGES = ("hierarchies", "grammar", "synth")
ENTRIES = ("synth", "synth.verbs", "synth.cli", "synth.client", "synth.service.app")
LOADED_BY_NAME = ("synth.service.store.migrations",)
"""Alembic finds its revisions in a folder."""
CALLED_BY_LIBRARIES = {
    "connection_lost": "asyncio",
    "connection_made": "asyncio",
    "data_received": "asyncio",
    "field_title_should_be_set": "pydantic",
    "get_renderables": "rich",
    "get_route_handler": "FastAPI",
    "get_value": "string.Formatter",
    "handle_exit": "uvicorn",
    "pause_writing": "asyncio",
    "process_bind_param": "SQLAlchemy",
    "process_result_value": "SQLAlchemy",
}
FOR_CALLERS = {
    "delete_baseline": "a method of the client",
    "delete_system": "a method of the client",
    "put_baseline": "a method of the client",
    "put_system": "a method of the client",
    "load_job": "docs/jobs.md: the Python face reads job files",
    "held_with": "results/steps counts the memory of published runs by it",
}
"""Definitions that only callers of the Python functions use, and where they learn of them."""


def test_every_module_is_imported_on_a_path_of_the_product() -> None:
    found: set[str] = set()
    waiting = [name for name in _modules() if _is_under(name, ENTRIES[2:]) or name in ENTRIES]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [*_imports(name), *_parents(name)]
    idle = {name for name in _modules() if name not in found}
    assert {name for name in idle if not _is_under(name, LOADED_BY_NAME)} == set()


def test_every_definition_is_named_beside_itself() -> None:
    named = sum((_names(_tree(path)) for path in _modules().values()), Counter(_template_words()))
    idle = {
        node.name: path
        for path in _modules().values()
        for node in ast.walk(_tree(path))
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        and not node.name.startswith("__")
        and not _is_registered(node)
        and named[node.name] <= _names(node)[node.name]
    }
    assert {*idle} == {*CALLED_BY_LIBRARIES, *FOR_CALLERS}, idle


def _is_under(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _is_registered(node: ast.FunctionDef | ast.ClassDef) -> bool:
    """Whether a decorator takes it: a route, a rule of a table, a validator."""
    plain = {"property", "cached_property", "staticmethod", "classmethod", "cache", "dataclass"}
    heads = (each.func if isinstance(each, ast.Call) else each for each in node.decorator_list)
    return any(not (isinstance(head, ast.Name) and head.id in plain) for head in heads)


@cache
def _modules() -> dict[str, Path]:
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    dotted = {path: path.relative_to(ROOT).with_suffix("").parts for path in files}
    return {".".join(parts).removesuffix(".__init__"): path for path, parts in dotted.items()}


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _imports(name: str) -> Iterator[str]:
    """The modules that a module imports, also by a dotted name in a string, or one in it."""
    for node in ast.walk(_tree(_modules()[name])):
        match node:
            case ast.Import(names=names):
                dotted = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), names=names):
                dotted = [module, *(f"{module}.{alias.name}" for alias in names)]
            case ast.Constant(value=str(text)) if text.startswith(PACKAGES):
                dotted = [text, text.rpartition(".")[0]]
            case _:
                dotted = []
        yield from (each for each in dotted if each in _modules())


def _parents(name: str) -> Iterator[str]:
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


@cache
def _names(tree: ast.AST) -> Counter[str]:
    """How often each word is named in code, words of short texts included; imports are no use."""
    found: Counter[str] = Counter()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                found[name] += 1
            case ast.MatchClass(kwd_attrs=names):
                found.update(names)
            case ast.Constant(value=str(text)) if len(text) < 80:
                found.update(re.findall(r"[A-Za-z_]\w*", text))
    return found


def _template_words() -> Counter[str]:
    endings = (".jinja", ".html", ".js", ".lark")
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*")]
    texts = (path for path in files if path.name.endswith(endings) and "vendor" not in path.parts)
    return Counter(
        word for path in texts for word in re.findall(r"[A-Za-z_]\w*", path.read_text("utf-8"))
    )
