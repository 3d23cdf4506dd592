"""The edition is of all the code that answers come from, and of no other: else an answer is kept
that is wrong by now, or none of those that are right still."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from places import ROOT
from synth.ask.identity import edition as edition_module
from synth.ask.identity.canonical import key_of
from synth.ask.identity.edition import edition, sources
from synth.ask.partition import carry_out
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS, Verb
from synth.collective.emit.targets import TARGETS
from synth.service.http.examples import EXAMPLES

ROOMS = ("hierarchies", "grammar", "synth")
FACES = {"rich", "typer", "fastapi", "starlette", "uvicorn", "sqlalchemy", "httpx", "distributed"}
"""What screens, servers and stores are made with."""

OURS = re.compile(rf"({'|'.join(ROOMS)})(\.\w+)+")
"""A dotted name of what is in a module."""


def module_file(name: str) -> Path | None:
    place = ROOT.joinpath(*name.split("."))
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.is_file() and name.split(".")[0] in ROOMS:
            return path
    return None


@cache
def imports(path: Path) -> set[str]:
    """What a file imports, anywhere in it, as Python itself reads it; or names as a text."""
    found: set[str] = set()
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            found |= {module, *(f"{module}.{name.name}" for name in node.names)}
        elif isinstance(node, ast.Constant) and OURS.fullmatch(str(node.value)):
            found.add(str(node.value).rpartition(".")[0])
    return found | {name.rpartition(".")[0] for name in found}


def reached(name: str) -> set[str]:
    """The files of a module and of all of ours that it imports."""
    waiting, found = [name], set[str]()
    while waiting:
        path = module_file(waiting.pop())
        if path is not None and str(path.relative_to(ROOT)) not in found:
            found.add(str(path.relative_to(ROOT)))
            waiting += imports(path)
            folder = path.relative_to(ROOT).parent
            waiting += [".".join(one.parts) for one in (folder, *folder.parents) if one.parts]
    return found


@pytest.fixture(scope="module")
def digested() -> set[str]:
    return set(sources(carry_out.__module__))


def test_the_edition_covers_all_code_that_the_verb_table_reaches(digested: set[str]) -> None:
    assert reached(Verb.__module__) <= digested
    assert {path for path in digested if path.endswith(".py")} == reached(carry_out.__module__)
    answering = {verb.answer.__module__ for verb in VERBS.values()}
    assert len(answering) > 4
    assert {module.replace(".", "/") + ".py" for module in answering} <= digested


def test_no_face_is_digested(digested: set[str]) -> None:
    faces = {
        str(path.relative_to(ROOT))
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if FACES & {name.partition(".")[0] for name in imports(path)}
    }
    assert len(faces) > 40
    assert not faces & digested


def test_ours_are_all_packages_that_are_shipped() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(told["tool"]["importlinter"]["root_packages"]) == set(edition_module._PACKAGES)


WATCHED = """
import json, sys
from pathlib import Path
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from contextlib import suppress
from hierarchies import InputError
from synth.collective.ranking.request import Watcher
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS
for verb, question in json.load(sys.stdin):
    with suppress(InputError):
        VERBS[verb].answer(parse_question(VERBS[verb].question, question), Watcher())
loaded = [m.__file__ for m in list(sys.modules.values()) if getattr(m, "__file__", None)]
print(json.dumps([*loaded, *opened]))
"""


def test_the_edition_covers_everything_loaded_while_answering(
    digested: set[str],
) -> None:
    """Seen from outside: whatever file of ours is opened, however it is named."""
    asked_of = [*EXAMPLES.items()]
    asked_of += [("emit", {**EXAMPLES["emit"], "target": target}) for target in TARGETS]
    done = subprocess.run(
        [sys.executable, "-c", WATCHED],
        input=json.dumps(asked_of),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "COLLSYNTH_CACHE": "none"},  # its own edition reads sources, too
        check=True,
    )
    seen = set()
    for name in json.loads(done.stdout.splitlines()[-1]):
        path = Path(name)
        if path.is_relative_to(ROOT) and path.suffix != ".pyc" and path.is_file():
            seen.add(str(path.relative_to(ROOT)))
    seen = {path for path in seen if path.split("/")[0] in ROOMS}
    kinds = {Path(path).suffix for path in seen}
    assert {".py", ".toml", ".jinja", ".lark"} <= kinds
    assert seen <= digested


def test_a_key_follows_what_answers_and_not_what_asks_and_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in ROOMS:
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("*.pyc"))
    monkeypatch.setattr(edition_module.resources, "files", lambda room: tmp_path / room)
    question = parse_question(VERBS["systems"].question, {})

    def key() -> str:
        edition.cache_clear()
        return key_of("systems", question)

    before = key()
    for face in ("service/new", "cli/app", "cli/commands/asking", "show/terminal/rankings", "new"):
        (tmp_path / "synth" / f"{face}.py").write_text("another")
        assert key() == before, face
    (tmp_path / "synth/service/store/more.toml").write_text("another")
    assert key() == before
    for changed in (
        "synth/collective/price/steps.py",
        "grammar/collectives/program.lark",
        "hierarchies/catalogue/new.toml",
        "synth/collective/workload/jobs/new.toml",
        "synth/collective/emit/templates/header.jinja",
        "hierarchies/importers/nodes/hwloc.py",
        "synth/ask/partition.py",
        "hierarchies/__init__.py",
    ):
        with (tmp_path / changed).open("a") as file:
            file.write("\n# another\n")
        assert key() != before, changed
        before = key()
    edition.cache_clear()
