"""What buffers are for: where only the batch is cut, no activation is ever redistributed."""

from __future__ import annotations

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from synth.step.sharding import apply, parse_recipe, plan_of, prepare_step
from synth.step.simulation import BufferKind, Overlap, write_device
from traced_steps import step


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("zero", ["", "; zero=1", "; zero=2", "; zero=3"])
@pytest.mark.parametrize("model", ["mlp-tiny", "gpt2-tiny", "llama3-tiny"])
def test_a_gradient_is_one_however_it_is_laid_out(model: str, zero: str, dtype: str) -> None:
    """Whether it is summed before or after its transpose is the plan's business.

    A product may be summed as it is made, and cut for ZeRO as it is transposed: what is summed is a
    gradient all the same. Scalars, as the norm of all gradients, do not count.
    """
    one = step(model, (("layers", 2),), dtype=dtype)
    plan = plan_of(one, parse_recipe(f"data=4; batch over data{zero}"))
    seconds = (lambda section: 1.0), (lambda *how: 1e-3)
    overlap = Overlap(sends=True, prefetch=1)
    found = write_device(prepare_step(one, plan), plan, apply(one, plan), *seconds, overlap)
    scalar = 4
    received = [b for b in found.buffers if b.kind is BufferKind.RECEIVED and b.size_bytes > scalar]
    assert not {buffer.name: buffer.size_bytes for buffer in received}
