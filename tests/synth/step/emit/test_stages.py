"""Files of steps in stages and microbatches: any order gives what one device does."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from queue import Empty

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")

from emitted_steps import called, emitted, first_inputs
from grammar.tensors.operations import Step
from ranks_in_threads import in_threads
from synth.step.emit import LANGUAGES, output_names, write
from synth.step.emit.spelling import WIDTH
from synth.step.schedules import parse_schedule
from synth.step.sharding import apply, parse_recipe, plan_of, prepare_step
from synth.step.trials import SingleDeviceRun, split_stacks
from traced_steps import step

MODEL = ("mlp-tiny", (("layers", 6),))


@cache
def traced(name: str, layers: tuple[tuple[str, int], ...], unrolled: bool = False) -> Step:
    return step(name, layers, batch=4, unrolled=unrolled)


@cache
def alone(
    name: str, layers: tuple[tuple[str, int], ...], unrolled: bool = False
) -> SingleDeviceRun:
    """By the file of the plain step on one device."""
    one = traced(name, layers, unrolled)
    inputs = first_inputs(one)
    made = called("torch", emitted("torch", one), [inputs[v.name] for v in one.graph.inputs])
    values = {key: array[None] for key, array in zip(output_names(one), made, strict=True)}
    return SingleDeviceRun("one device", values, values)


def text_of(one: Step, recipe: str, order: str = "", runtime: str = "torch") -> str:
    plan = plan_of(one, parse_recipe(recipe))
    plan = replace(plan, order=parse_schedule(order)) if order else plan
    return write(runtime, prepare_step(one, plan), apply(one, plan), plan.sizes, schedule=plan)


def check(text: str, recipe: str, model=MODEL) -> None:
    one = traced(*model)
    plan = plan_of(one, parse_recipe(recipe))
    ready = prepare_step(one, plan)
    found = in_threads(text, split_stacks(ready, first_inputs(one)), plan.devices)
    wanted = alone(*model).of(ready).values
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array[0], rtol=1e-4, atol=1e-6, err_msg=name)


def slow(given: str) -> object:
    return pytest.param(given, marks=pytest.mark.slow)


RECIPES = (
    "data=1; 4 microbatches",
    "data=1 pipe=2; schedule 1f1b, 4 microbatches",
    "data=1 pipe=2; schedule interleaved-1f1b, 2 chunks, 4 microbatches",
    "data=1 pipe=2; schedule looped-bfs, 2 chunks, 2 microbatches; remat layers",
    "data=1 pipe=4; schedule gpipe, 2 microbatches",
)


@pytest.mark.parametrize("recipe", [*RECIPES[:3], *map(slow, RECIPES[3:])])
def test_ranks_give_what_one_device_does(recipe: str) -> None:
    check(text_of(traced(*MODEL), recipe), recipe)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [("gpt2-tiny", (("layers", 4),)), ("lstm-tiny", (("layers", 4),))]
)
def test_ranks_of_other_models_do_so_too(model) -> None:
    """Of GPT-2 first and last stage share the table of tokens."""
    check(text_of(traced(*model), RECIPES[1]), RECIPES[1], model)


ORDERS = (
    "0F1 0F0 0B0 0B1\n1F1 1F0 1B0 1B1",
    "0F0 0F1 0B1 0B0\n1F1 1B1 1F0 1B0",
    "0F0 0F1 1F0 1F1 1B1 0B1 1B0 0B0\n2F0 2F1 3F0 3F1 3B1 3B0 2B1 2B0",
    "0F0 3F0 0F1 3F1 3B0 3B1 0B0 0B1\n1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1",
)


@pytest.mark.parametrize("order", [*map(slow, ORDERS[:-1]), ORDERS[-1]])
def test_any_order_gives_it(order: str) -> None:
    """Also where ranks take microbatches in other orders, and stages lie next to each other."""
    chunks = "interleaved-1f1b, 2 chunks" if "3F" in order else "1f1b"
    recipe = f"data=1 pipe=2; schedule {chunks}, 2 microbatches"
    check(text_of(traced(*MODEL), recipe, order), recipe)


@pytest.mark.parametrize("order", ["", "0F0 0F1 0B0 0I1 0W1\n1F0 1I0 1F1 1B1 1W0"])
def test_backward_passes_in_halves_give_it(order: str) -> None:
    recipe = "data=1 pipe=2; schedule zero-bubble-h1, 2 microbatches"
    unrolled = (*MODEL, True)
    check(text_of(traced(*unrolled), recipe, order), recipe, unrolled)


MUTANTS = {
    "a transfer": (r'\n    Transfer\("v\w+", "\dB", [^\n]*', ""),
    "a sum": (r'(adds=\("v\d+"), "v\d+"', r"\1"),
    "a microbatch": (r" 1F3| 1B3", ""),
    "all sums but the first": (r"(self.held\[name\]) \+ x", r"\1"),
    "what is kept": (r'(keeps=\([^)]*), "v4"', r"\1"),
}


@pytest.mark.parametrize(("pattern", "rest"), MUTANTS.values(), ids=MUTANTS)
def test_omitted_fields_are_searched(pattern: str, rest: str, monkeypatch) -> None:
    monkeypatch.setattr("ranks_in_threads.PATIENCE_SECONDS", 1.0)
    damaged, count = re.subn(pattern, rest, text_of(traced(*MODEL), RECIPES[1]))
    assert count
    with pytest.raises((AssertionError, LookupError, Empty)):
        check(damaged, RECIPES[1])


@pytest.mark.parametrize("runtime", LANGUAGES)
@pytest.mark.parametrize("recipe", RECIPES[:2])
def test_lines_are_short_and_names_are_those_that_are_reserved(recipe: str, runtime: str) -> None:
    text = text_of(traced(*MODEL), recipe, runtime=runtime)
    assert max(map(len, text.splitlines())) <= WIDTH
    tree = ast.parse(text)
    defined = [one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.ClassDef)]
    own = {one for one in defined if not re.match(r"(loop|stage|every_stage)_", one)}
    assert len(defined) == len(set(defined))
    assert own <= LANGUAGES[runtime].reserved


@pytest.mark.slow
@pytest.mark.parametrize("runtime", LANGUAGES)
@pytest.mark.parametrize("recipe", RECIPES[:2])
def test_a_linter_finds_nothing(recipe: str, runtime: str) -> None:
    words = [sys.executable, "-m", "ruff", "check", "--isolated", "--preview", "--select", "F,E3"]
    text = text_of(traced(*MODEL), recipe, runtime=runtime)
    found = subprocess.run([*words, "-"], input=text, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout
