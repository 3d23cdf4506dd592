"""Names that came from elsewhere stay words: no emitted file gains code by them."""

from __future__ import annotations

import ast
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exhaustive import examples
from grammar.tensors.sharding import ReductionKind
from hierarchies import Axis, Hierarchy, InputError, Placement, Reduction, System
from strategies import source
from synth.collective.emit.mesh import RankOrder
from synth.collective.emit.source import EmitSource
from synth.collective.emit.targets import TARGETS

PYTHON = ("torch", "jax", "jax-flat", "mpi", "torchrun")
SHELL = ("rankfile", "slurm")
BASH = shutil.which("bash")
TRAPS = [
    *('"', "'", '"""', "'''", "`", "\\", "\n", "\r", "\f", "\x1c", "\x85", "\u2028", "\0", "\t"),
    *("{{", "}}", "{%", "%}", "{#", "#", "#!", "$(date)", "${x}", ";", ": ", "- ", "---", "|"),
    *("\\n", "\\N{", "\\u", "\ud800", "\u202e", "\ufeff", "import os", "print(1)", "exit 1", " "),
]
ATTACK = 'x"""\nimport os\nprint(1)\n"""'
hostile = st.one_of(
    st.text(max_size=30),
    st.lists(st.one_of(st.sampled_from(TRAPS), st.text(max_size=3)), max_size=8).map("".join),
)


@cache
def plain() -> EmitSource:
    placement = Placement(Hierarchy.of(node=2, gpu=2), (Axis("data", 4),), ((2, 2),))
    return source("all-reduce root inside", Reduction(placement, ("data",)))


def named(system: System, name: str, title: str = "") -> System | None:
    """The system under other names; None if they are refused."""
    try:
        return replace(system, name=name, title=title)
    except InputError:
        return None


def written(target: str, system: System) -> dict[str, str]:
    files = TARGETS[target].write(replace(plain(), system=system))
    return {name: content for name, content in files.items() if isinstance(content, str)}


def several() -> Iterator[EmitSource]:
    """Programs, cuts, sizes, placements and orders of ranks that differ in one thing each."""
    levels = Hierarchy.of(node=2, gpu=2)
    axes = (Axis("data", 2), Axis("model", 2))
    for text in ("all-reduce root inside", "reduce root inside; broadcast root inside"):
        for segments, size in ((1, 2**20), (1, 2**21), (2, 2**20)):
            yield source(text, Reduction(Placement(levels, axes, ((2, 1), (1, 2))), ("data",)),
                         size, segments)  # fmt: skip
    inside = source(text, Reduction(Placement(levels, axes, ((1, 2), (2, 1))), ("data",)))
    yield inside
    yield source(text, replace(inside.schedule.reduction, over=("model",)))
    yield replace(inside, options=replace(inside.options, rank_order=RankOrder.AXES))
    yield replace(inside, schedule=replace(inside.schedule, op=ReductionKind.MAX))


def test_files_that_do_something_else_have_another_name() -> None:
    """By one name the file of another row is taken for this one's, and run or pasted in its place.

    Two ways to write the same program for one runtime are two files.
    """
    for runtime in (("torch",), ("jax", "jax-flat"), ("mpi",), ("json",)):
        texts: dict[str, str] = {}
        for target in runtime:
            for one in several():
                if target == "json" and one.options.rank_order is not RankOrder.MACHINE:
                    continue  # devices, not ranks
                [(name, text)] = TARGETS[target].write(one).items()
                assert texts.setdefault(name, str(text)) == str(text)
                assert name.removesuffix(".py") in str(text) or target == "json"
        assert len(texts) == len(set(texts.values())) >= 9


def test_a_file_for_torch_has_its_launch_command() -> None:
    """A line that can be run as it stands: how many processes, on how many hosts."""
    for levels, each in ((Hierarchy.of(node=2, gpu=4), 4), (Hierarchy.of(gpu=8), 8)):
        matrix = (tuple(levels.cardinalities),)
        given = Reduction(Placement(levels, (Axis("data", 8),), matrix), ("data",))
        [(name, text)] = TARGETS["torch"].write(source("all-reduce root inside", given)).items()
        said = " ".join((ast.get_docstring(ast.parse(str(text))) or "").split())
        nodes = "--nnodes 2 " if each == 4 else ""
        meet = "--rdzv-backend c10d --rdzv-endpoint host0:29500 " if nodes else ""
        started = f"torchrun {nodes}--nproc-per-node {each} {meet}{name} --bytes 67108864 --check"
        assert said.endswith(started)
        assert "..." not in said


def code(text: str) -> str:
    """What a Python file does: its syntax tree without docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(
            node
        ):
            del node.body[0]
    return ast.dump(tree)


def orders(text: str) -> list[str]:
    """What a script or a YAML file says: its lines without comments, the first one kept."""
    first, *rest = text.split("\n")
    return [first * first.startswith("#!"), *(line for line in rest if not line.startswith("#"))]


@cache
def meant(target: str) -> dict[str, str]:
    return written(target, plain().system)


@given(hostile, hostile)
@example(ATTACK, "")
@example('ends with a quote"', "")
@example("ends with a backslash\\", "")
@example("it's {{ 7 * 7 }}", "two\nlines")
@examples(15, 100)
def test_a_name_is_refused_or_stays_a_word_in_python(name: str, title: str) -> None:
    system = named(plain().system, name, title)
    for target in PYTHON if system else ():
        assert system is not None
        for file, text in written(target, system).items():
            assert code(text) == code(meant(target)[file])


@given(hostile)
@example(ATTACK)
@example("a\nexit 1")
def test_a_name_is_refused_or_stays_a_comment_in_a_script(name: str) -> None:
    system = named(plain().system, name)
    for target in SHELL if system else ():
        assert system is not None
        for file, text in written(target, system).items():
            assert orders(text) == orders(meant(target)[file])


@pytest.mark.skipif(BASH is None, reason="no bash")
@pytest.mark.parametrize("name", ["$(date)", "a; exit 1", "{{ 7 }}", "#!", "<(", "&& (", "ü"])
@pytest.mark.parametrize("target", SHELL)
def test_bash_reads_the_scripts_of_any_name(target: str, name: str) -> None:
    script = written(target, replace(plain().system, name=name))["on_device.sh"]
    assert name in script
    done = subprocess.run(
        [str(BASH), "-n"], input=script, capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@given(hostile)
@example(ATTACK)
@example("a\napiVersion: v2")
def test_a_name_is_refused_or_stays_a_comment_in_yaml(name: str) -> None:
    system = named(plain().system, name)
    if system is None:
        return
    [text] = written("kubernetes", system).values()
    [before] = meant("kubernetes").values()
    header, _, body = text.partition("apiVersion: v1\n")
    if "apiVersion: v1" not in name:
        assert all(line.startswith("#") for line in header.splitlines())
    assert len(text.splitlines()) == len(before.splitlines())
    assert "metadata:\n" in body
