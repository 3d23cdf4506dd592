"""The section about held kernels is made from its data; and XLA fuses nothing across a barrier."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from results import pages, record
from results.kernels import __main__ as kernels
from results.kernels.compiled import held, kernels_of_fusions
from results.kernels.measure import FLAG, drawn
from synth.train.emit import write
from synth.train.fusion import alone
from synth.train.models import Spelling, zoo_step
from synth.train.plans import apply, parse_recipe, plan_of, prepared

TEXT = """def device_step(values):
    v0 = lax.tanh(a)
    v0 = lax.optimization_barrier(v0)  # the end of a kernel
    v1 = v0 + a
"""
TABLES = """
FunctionNames
1 "<module>"
2 "device_step"

FileLocations
1 {file_name_id=1 function_name_id=1 line=9 end_line=9 column=2 end_column=23}
2 {file_name_id=1 function_name_id=2 line=2 end_line=2 column=8 end_column=19}
3 {file_name_id=1 function_name_id=2 line=4 end_line=4 column=8 end_column=19}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=1}
3 {file_location_id=3 parent_frame_id=1}


%both (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %tanh.0 = f32[8]{0} tanh(%p), metadata={op_name="tanh" stack_frame_id=2}
  ROOT %add.0 = f32[8]{0} add(%tanh.0, %p), metadata={op_name="add" stack_frame_id=3}
}

%one (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %broadcast.0 = f32[8]{0} broadcast(%c), dimensions={}, metadata={op_name="b" stack_frame_id=2}
  ROOT %add.1 = f32[8]{0} add(%broadcast.0, %p), metadata={op_name="add" stack_frame_id=3}
}

ENTRY %main (a: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
  %f = f32[8]{0} fusion(%a), kind=kLoop, calls=%both
  %b = f32[8]{0} opt-barrier(%f)
  ROOT %g = f32[8]{0} fusion(%b), kind=kLoop, calls=%one
}
"""


def test_fusions_are_told_by_the_lines_of_their_operations() -> None:
    assert kernels_of_fusions(TEXT, TABLES) == [{0, 1}, {1}]
    assert held(TABLES) == 1


def test_the_section_about_kernels_is_made_from_its_data() -> None:
    if kernels.DATA.exists():
        data = record.read(kernels.DATA)
        assert kernels.page(data) == pages.README.read_text(encoding="utf-8")


COMPILED = """
import sys
import jax
names = {"__name__": "step"}
text = sys.stdin.read()
exec(compile(text, "<step>", "exec", dont_inherit=True), names)
kinds = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in names["INPUTS"].values()]
made = jax.jit(names["sharded_step"](names["mesh"]())).lower(tuple(kinds))
print(made.compile().as_text())
"""


def test_kernels_change_no_value() -> None:
    """In process, where XLA takes the barriers out, as where it keeps them."""
    jax = pytest.importorskip("jax")
    held_apart, free = _step(), _step(apart=False)
    assert held_apart.count("optimization_barrier") > 50 > free.count("optimization_barrier")
    found = []
    for text in (held_apart, free):
        names: dict[str, Any] = {"__name__": "step"}
        exec(compile(text, "<step>", "exec", dont_inherit=True), names)
        given = tuple(drawn(one.shape, one.dtype) for one in names["INPUTS"].values())
        found.append(jax.jit(names["sharded_step"](names["mesh"]()))(given))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kept", [False, True])
def test_xla_for_cpus_fuses_across_barriers_unless_it_is_told_to_keep_them(kept: bool) -> None:
    pytest.importorskip("jax")
    text = _step()
    more = {"XLA_FLAGS": FLAG if kept else "", "JAX_PLATFORMS": "cpu"}
    words = [sys.executable, "-c", COMPILED]
    said = subprocess.run(
        words, input=text, capture_output=True, text=True, env=os.environ | more, check=True
    )
    across = [one for one in kernels_of_fusions(text, said.stdout) if len(one) > 1]
    assert bool(across) != kept
    assert bool(held(said.stdout)) == kept


def _step(*, apart: bool = True) -> str:
    """A perceptron whose operations are each a kernel, or as XLA likes."""
    step = zoo_step("mlp-tiny", {}, Spelling(batch=16, unrolled=True))
    plan = plan_of(step, parse_recipe("data=1; batch over data"))
    plan = alone(step, plan) if apart else plan
    ready = prepared(step, plan)
    return write("jax", ready, apply(step, plan), plan.sizes)
