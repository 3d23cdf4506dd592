"""Files whose communication is beside compute: the same numbers, sent as soon as made."""

from __future__ import annotations

import re
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")

import torch

from emitted_steps import first_inputs, loaded
from grammar.tensors.operations import Step
from synth.step.emit import write
from synth.step.sharding import apply, parse_recipe, plan_of
from traced_steps import step

PLANS = (
    "data=2; batch over data",
    "data=2; batch over data; zero=1",
    "data=2; batch over data; zero=2",
    "data=2; batch over data; zero=3",
    "tensor=2; weights over tensor as Megatron",
)


class Late:
    """A collective of two ranks that hold the same, whose result is there once it is waited for."""

    def __init__(self, later: bool, do: Any) -> None:
        self.do = do
        if not later:
            self.wait()

    def wait(self) -> None:
        self.do()


def _distributed() -> SimpleNamespace:
    def all_reduce(x: Any, op: Any, group: Any, async_op: bool = False) -> Any:
        late = Late(async_op, lambda: x.mul_(2) if op == "sum" else None)
        return late if async_op else None

    def all_gather(pieces: Any, x: Any, group: Any, async_op: bool = False) -> Any:
        late = Late(async_op, lambda: [piece.copy_(x) for piece in pieces])
        return late if async_op else None

    def scatter(found: Any, given: Any, group: Any, async_op: bool = False) -> Any:
        late = Late(async_op, lambda: found.copy_(2 * given[: len(found)]))
        return late if async_op else None

    return SimpleNamespace(
        get_rank=lambda: 0,
        ReduceOp=SimpleNamespace(SUM="sum", MAX="max", MIN="min"),
        all_reduce=all_reduce,
        all_gather=all_gather,
        reduce_scatter_tensor=scatter,
    )


def traced(recipe: str) -> Step:
    if "tensor" in recipe:
        return step("gpt2-tiny", (("layers", 1),), unrolled=True)
    return step("mlp-tiny")


def texts(recipe: str) -> tuple[str, str]:
    one = traced(recipe)
    plan = plan_of(one, parse_recipe(recipe))
    program = apply(one, plan)
    plain, early = (
        write("torch", one, program, plan.sizes, overlap=overlap) for overlap in (False, True)
    )
    return plain, early


def made(text: str, one: Step) -> dict[str, np.ndarray]:
    names = loaded(text)
    names["dist"], names["GROUPS"] = _distributed(), defaultdict(object)
    given = first_inputs(one)
    values = {name: names["part_of"](name, given[name]) for name in names["INPUTS"]}
    with torch.no_grad():
        return {name: value.numpy() for name, value in names["step"](values).items()}


@pytest.mark.parametrize("recipe", PLANS)
def test_early_transfers_finish_before_they_are_read(recipe: str) -> None:
    """A result is only there once it is waited for: read before, it would be another number."""
    plain, early = texts(recipe)
    found = made(early, traced(recipe))
    for name, array in made(plain, traced(recipe)).items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.parametrize("recipe", PLANS)
def test_it_begins_behind_the_line_that_makes_it(recipe: str) -> None:
    plain, early = texts(recipe)
    assert "later=True" not in plain
    body = early[early.index("def device_step") : early.index("def drawn")]
    lines = body.split("\n")
    begun = [at for at, line in enumerate(lines) if "later=True)" in line]
    assert begun
    for at in begun:
        source = re.search(r"= \w+\((\w+)", lines[at])
        assert source is not None
        above = "\n".join(lines[max(0, at - 4) : at])
        assert re.search(rf"\b{source.group(1)}\b", above), lines[at]
        name = lines[at].split("=")[0].strip()
        assert sum(f"= {name}()" in line for line in lines) == 1


def test_it_is_as_the_runtime_does_anyway_in_jax() -> None:
    one = step("mlp-tiny")
    plan = plan_of(one, parse_recipe(PLANS[0]))
    program = apply(one, plan)
    assert write("jax", one, program, plan.sizes, overlap=True) == write(
        "jax", one, program, plan.sizes
    )


BUCKETS = ("data=2; batch over data", "data=2; batch over data; zero=2")


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("recipe", BUCKETS)
def test_a_bucket_is_one_request_in_the_file_and_changes_no_number(
    recipe: str, overlap: bool
) -> None:
    one = traced(recipe)
    texts_ = []
    for more in ("", "; buckets of 25 MB"):
        plan = plan_of(one, parse_recipe(recipe + more))
        texts_.append(write("torch", one, apply(one, plan), plan.sizes, overlap=overlap))
    alone, together = texts_
    assert together.count("flattened([") == 1
    calls = r"= (?:all_reduce|reduce_scatter)\("
    gradients = one.roles.count("parameter")
    assert len(re.findall(calls, alone)) - len(re.findall(calls, together)) == gradients - 1
    found = made(together, one)
    for name, array in made(alone, one).items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
