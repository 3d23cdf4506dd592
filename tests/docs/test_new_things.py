"""ARCHITECTURE's table of where new things go, held to the places where the old ones stand."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

from grammar import Collective
from hierarchies.importers import KINDS
from places import ROOT
from replying import models_of
from synth.ask.table import VERBS
from synth.collective.emit.targets import TARGETS
from synth.collective.run import BACKENDS
from synth.primitives import PRIMITIVES

PACKAGES = ("hierarchies", "grammar", "synth")
TOLD = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split("## Where new things go")[1]
ENUMS = ("Collective", "Goal")
NAMES_OF_COLLECTIVES = """
`synth.collective.algorithms.nccl_versions`
`hierarchies.calibration` `synth.ask.answers.degraded` `synth.ask.outputs`
`synth.collective.degraded.cores` `synth.collective.degraded.programs`
`synth.collective.degraded.ranking`
`synth.collective.emit.document.writing` `synth.collective.price.defaults`
`synth.collective.price.phased_defaults` `synth.collective.run.arrays`
`synth.collective.workload.transformer` `synth.measure.calibration.candidates`
`synth.measure.calibration.experiments` `synth.measure.calibration.residuals`
`synth.service.jobs.names` `synth.show.terminal.programs` `synth.show.terminal.verdict`
`synth.step.bucketing.sums` `synth.step.frameworks.megatron` `synth.step.point_to_point`
`synth.step.redistribution.moves` `synth.step.redistribution.requests`
`synth.step.search.composing.composer` `synth.step.search.composing.sending`
`synth.step.search.first_plan`
"""
"""Modules that name some collectives and need not know of a new one.

They ask for these, or treat one of them apart and all others alike.
"""


def named(text: str) -> set[Path]:
    """The modules that a text names by their dotted names, alone or with what is in them."""
    return {_module(name) for name in re.findall(rf"`((?:{'|'.join(PACKAGES)})\.[\w.]+)`", text)}


def _module(name: str) -> Path:
    path = ROOT / name.replace(".", "/")
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    module, _, attribute = name.rpartition(".")
    assert module, f"{name} is not there"
    file = _module(module)
    assert attribute in _defined(file), f"{name} is not there"
    return file


def _defined(file: Path) -> set[str]:
    """What a module defines, and the rest of its package."""
    found = {path.stem for path in file.parent.iterdir()} if file.name == "__init__.py" else set()
    for node in _tree(file).body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Assign(targets=targets):
                found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def row(what: str) -> str:
    """An item of the list, with the lines that continue it."""
    [found] = [item for item in TOLD.split("\n* ") if item.startswith(f"**{what}**")]
    return found


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def modules() -> tuple[Path, ...]:
    return tuple(file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py")))


def _usual(tree: ast.Module) -> Iterator[ast.AST]:
    """What is taken where nothing is given: defaults of parameters and fields."""
    for node in ast.walk(tree):
        match node:
            case ast.arguments(defaults=defaults, kw_defaults=others):
                yield from (one for one in (*defaults, *others) if one)
            case ast.ClassDef(body=body):
                yield from (
                    one.value for one in body if isinstance(one, ast.AnnAssign) and one.value
                )


def _words(node: ast.AST) -> set[str]:
    """A constant that is a name, or several with commas between."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return set(node.value.split(", "))
    return set()


@cache
def _spelled(file: Path) -> frozenset[str]:
    """All constants of a module that are names."""
    return frozenset(word for node in ast.walk(_tree(file)) for word in _words(node))


def _told_apart(file: Path) -> bool:
    """Whether a module knows some collective by name, but as what is usually asked for."""
    words = {one.value for one in Collective} - {"reduce", "broadcast"}  # these mean other things
    words |= {word.replace("-", "_") for word in words}
    usual = {id(node) for start in _usual(_tree(file)) for node in ast.walk(start)}
    for node in ast.walk(_tree(file)):
        if id(node) in usual:
            continue
        match node:
            case ast.Attribute(value=ast.Name(id=enum), attr=member) if enum in ENUMS:
                if member in Collective.__members__:
                    return True
            case ast.Constant() if _words(node) & words:
                return True
    return False


def short(files: Collection[Path]) -> list[str]:
    return sorted(str(file.relative_to(ROOT)) for file in files)


def test_collectives_are_distinguished_according_to_the_table() -> None:
    """A module that names one has either to learn of a new one, or is said to have no need."""
    places, others = named(row("a collective")), named(NAMES_OF_COLLECTIVES)
    found = {file for file in modules() if _told_apart(file)}
    assert not places & others
    assert short(found) == short(places | others)


def lists(names: Collection[str]) -> set[Path]:
    """The modules that write most of some names out, one by one or in one line."""
    found = set()
    for file in modules():
        if 2 * len(_spelled(file) & set(names)) > len(names):
            found.add(file)
    return found


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("a verb", VERBS),
        ("a target of programs", TARGETS),
        ("a backend", BACKENDS),
        ("a kind of file to import", KINDS),
    ],
)
def test_names_are_listed_according_to_the_table(what: str, names: Collection[str]) -> None:
    assert short(lists(names)) == short({*named(row(what))})


def test_primitives_are_listed_according_to_the_table() -> None:
    """Other modules name a few of them, for what they look for in a step."""
    names: dict[Path, set[str]] = {}
    for file in modules():
        for node in ast.walk(_tree(file)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words = set(node.value.split())
                names.setdefault(file, set()).update(words if words <= PRIMITIVES.keys() else ())
    found = {file for file, words in names.items() if 6 * len(words) > len(PRIMITIVES)}
    assert short(found) == short(named(row("a primitive")))


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_in_one_family_everywhere(verb: str) -> None:
    family = VERBS[verb].question.__module__.rpartition(".")[2]
    assert VERBS[verb].answer.__module__.rpartition(".")[2] == family
    replies = {model.__module__.rpartition(".")[2] for model in models_of(verb)}
    assert family in replies or verb in (
        "top",
        "sweep",
        "cost",
    )  # several verbs share their answers


def test_all_names_in_the_table_exist() -> None:
    for folder in re.findall(r"`(\w+/[\w/.]*)`", TOLD):
        assert (ROOT / folder).exists(), folder
    named(TOLD)


def test_the_judge_of_the_table_sees_a_missing_and_a_moved_name() -> None:
    with pytest.raises(AssertionError, match="is not there"):
        named("`synth.collective.semantics.rules.LAWS`")
    with pytest.raises(AssertionError, match="is not there"):
        named("`synth.nothing`")
    assert short(named("`synth.collective.semantics.rules.RULES` and `grammar`")) == [
        "synth/collective/semantics/rules.py"
    ]
