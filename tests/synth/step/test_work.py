"""What a step computes, held to formulas, to XLA's own count, and to memory that remat saves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import traced_steps
from grammar.tensors.parser import parse_step
from hierarchies import InputError
from synth.compute.flops import flops_of
from synth.step.trace.pruning import prune
from synth.step.trace.reading import read_jaxpr
from synth.step.work import list_repetitions, peak_bytes, work_of
from synth.step.zoo.sizes import ZOO, Decoder, Gpt2

F32 = jnp.float32


def products(name: str, **how: Any) -> int:
    return sum(
        one.flops for one in work_of(traced_steps.step(name, **how)) if one.kind == "products"
    )


def gpt2_forward(sizes: Gpt2, batch: int) -> tuple[int, int]:
    """Of the layers, and of the last matrix: 2 per weight and token, and 4 T d for attention."""
    tokens = batch * sizes.sequence
    layer = 2 * 12 * sizes.width**2 + 4 * sizes.sequence * sizes.width
    return tokens * sizes.layers * layer, tokens * 2 * sizes.vocabulary * sizes.width


@pytest.mark.parametrize("unrolled", [False, True])
@pytest.mark.parametrize("name", ["gpt2-tiny", "gpt3-175b"])
def test_gpt2_has_six_operations_a_weight_and_token_and_attention(
    name: str, unrolled: bool
) -> None:
    sizes = ZOO[name]
    assert isinstance(sizes, Gpt2)
    if unrolled and sizes.layers > 2:
        return
    layers, last = gpt2_forward(sizes, 4)
    assert products(name, unrolled=unrolled) == 3 * (layers + last)
    again = products(name, unrolled=unrolled, remat=True)
    assert 3 * (layers + last) + 0.6 * layers < again <= 4 * layers + 3 * last


@pytest.mark.parametrize("name", ["llama3-tiny", "llama3-8b"])
def test_llama_has_six_operations_a_weight_and_token_and_attention(name: str) -> None:
    sizes = ZOO[name]
    assert isinstance(sizes, Decoder)
    tokens, width, head = 4 * sizes.sequence, sizes.width, sizes.width // sizes.heads
    weights = width * (2 * width + 2 * sizes.key_heads * head + 3 * sizes.hidden)
    layer = 2 * weights + 4 * sizes.sequence * width
    assert products(name) == 3 * tokens * (sizes.layers * layer + 2 * sizes.vocabulary * width)


@pytest.mark.parametrize("name", ["mixtral-tiny", "dropless-tiny"])
def test_experts_that_are_not_chosen_cost_nothing(name: str) -> None:
    few = products(name)
    more = products(name, changes=(("experts", 8),))
    sizes = ZOO[name]
    assert isinstance(sizes, Decoder)
    router = 3 * 2 * 4 * sizes.sequence * sizes.width * 4 * sizes.layers
    assert more - few == router


def shape(*sizes: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, F32)


def convolution(stride: int, edge: int, apart: int = 1, groups: int = 1) -> Callable[..., Any]:
    def made(x: Any, kernel: Any) -> Any:
        return lax.conv_general_dilated(
            x,
            kernel,
            (stride, stride),
            ((edge, edge), (edge, edge)),
            rhs_dilation=(apart, apart),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
        )

    return made


def gradient(function: Callable[..., Any], place: int) -> Callable[..., Any]:
    """What its transpose with respect to one operand computes, given the cotangent."""

    def made(x: Any, kernel: Any, out: Any) -> Any:
        return jax.vjp(function, x, kernel)[1](out)[place]

    return made


IMAGE, KERNEL = shape(2, 9, 9, 4), shape(3, 3, 4, 6)


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (jnp.matmul, (shape(5, 7), shape(7, 3))),
        (lambda x, y: jnp.einsum("bij,bkj->bik", x, y), (shape(4, 5, 7), shape(4, 3, 7))),
        (convolution(1, 0), (IMAGE, KERNEL)),
        (convolution(1, 1), (IMAGE, KERNEL)),
        (convolution(2, 1), (IMAGE, KERNEL)),
        (convolution(1, 2, apart=2), (IMAGE, KERNEL)),
        (convolution(1, 1, groups=2), (IMAGE, shape(3, 3, 2, 6))),
        (gradient(convolution(2, 1), 0), (IMAGE, KERNEL, shape(2, 5, 5, 6))),
        (gradient(convolution(2, 1), 1), (IMAGE, KERNEL, shape(2, 5, 5, 6))),
        (gradient(convolution(1, 1), 1), (IMAGE, KERNEL, shape(2, 9, 9, 6))),
    ],
)
def test_products_are_as_many_as_xla_counts(function: Any, given: tuple[Any, ...]) -> None:
    names = [f"x{at}" for at in range(len(given))]
    graph, _ = read_jaxpr(jax.make_jaxpr(function)(*given), names)
    ours = sum(map(flops_of, prune(graph).everywhere()))
    counted = jax.jit(function).lower(*given).cost_analysis()
    assert counted is not None
    assert ours == counted["flops"]


def test_remat_saves_memory_and_costs_work() -> None:
    for unrolled in (False, True):
        kept, again = (
            traced_steps.step("gpt2-tiny", (("layers", 8),), unrolled=unrolled, remat=remat)
            for remat in (False, True)
        )
        assert peak_bytes(again) < 0.5 * peak_bytes(kept)


def test_peak_of_a_chain_is_what_two_neighbours_take() -> None:
    text = "step a\nin x: f32[8] batch\n" + "".join(
        f"v{at}: f32[8] = neg({'x' if at == 0 else f'v{at - 1}'})\n" for at in range(9)
    )
    assert peak_bytes(parse_step(text + "out v8\n")) == 2 * 32
    assert peak_bytes(parse_step(text + "out v0\nout v8\n")) == 3 * 32
    assert peak_bytes(parse_step(text + "out v8 -> x\n")) == 2 * 32


def test_loops_are_counted_as_often_as_they_go_round() -> None:
    found = list_repetitions(traced_steps.step("lstm-tiny"))
    # Time inside layers, forwards and backwards: 8 steps of each of 2 layers.
    assert [one.count for one in found] == [2, 16, 2, 16]
    assert all(one.operations and one.line for one in found)


@pytest.mark.parametrize(
    "wrong",
    [
        "dot_general(x, x)",
        "dot_general(x, x) dimension_numbers=3",
        "dot_general(x, x) dimension_numbers=(((7),(0)),((),()))",
        "dot_general()",
        "conv_general_dilated(x, x) dimension_numbers={a=1}",
        "ragged_dot_general(x) ragged_dot_dimension_numbers=(1)",
    ],
)
def test_a_text_whose_operands_cannot_be_is_refused_with_its_line(wrong: str) -> None:
    text = f"step a\nin x: f32[8] batch\nv0: f32[8] = {wrong} @own.py:3\nout v0\n"
    with pytest.raises(InputError, match=r"own.py:3"):
        work_of(parse_step(text))
