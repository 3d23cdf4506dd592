"""Texts of steps that lack a parameter are refused, or cut and written as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar.tensors.parser import parse_step
from hierarchies import InputError
from synth.step.emit import write
from synth.step.models import ModelSettings, zoo_step
from synth.step.sharded_step import check_known
from synth.step.sharding import apply, parse_recipe, plan_of

MODELS = ("gpt2-tiny", "mixtral-tiny", "resnet-tiny", "lstm-tiny")
_OPERATION = re.compile(r"= ([\w-]+)\([^)]*\)(.*)$")
_PARAMETER = re.compile(r" (\w+)=(\(\S*\)|\S+)")


def lacking(text: str) -> Iterator[str]:
    """Each parameter of each primitive left out once, where it is said first."""
    lines = text.split("\n")
    left_out = set()
    for at, line in enumerate(lines):
        found = _OPERATION.search(line)
        for parameter in _PARAMETER.finditer(found[2]) if found else ():
            what = f"{found[1]} {parameter[1]}" if found else ""
            if what not in left_out:
                left_out.add(what)
                damaged = line.replace(parameter[0], "", 1)
                yield "\n".join((*lines[:at], damaged, *lines[at + 1 :]))


@pytest.mark.parametrize(
    "model", [MODELS[0], *(pytest.param(m, marks=pytest.mark.slow) for m in MODELS[1:])]
)
def test_a_step_that_lacks_a_parameter_is_refused_with_its_name(model: str) -> None:
    text = str(zoo_step(model, {}, ModelSettings(batch=8)))
    tried = refused = 0
    for damaged in lacking(text):
        tried += 1
        try:
            step = parse_step(damaged)
            check_known(step)
            plan = plan_of(step, parse_recipe("data=2; batch over data"))
            program = apply(step, plan)
            for runtime in ("jax", "torch"):
                write(runtime, step, program, plan.sizes)
        except InputError:
            refused += 1
    assert refused > tried / 2 > 5
