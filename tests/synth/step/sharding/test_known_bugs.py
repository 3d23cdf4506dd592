"""What others computed silently wrong: each is computed right here, and their type is refused.

Bugs of PyTorch's DTensor and of XLA, from their trackers. A case is a function with the types of
its inputs: plans at random in which these lie so compute what one device does.
``claimed`` is how the operation was said to lie by which it went wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

import jax
import jax.numpy as jnp
from jax import lax

from grammar.tensors.operations import Literal, Step
from grammar.tensors.parser import parse_type
from grammar.tensors.sharding import Sharding
from hierarchies import InputError
from sharded_steps import drawn_inputs, in_float64, judge, random_plan, run_whole
from synth.step.factors import match_rows
from synth.step.sharding import StepProgram, apply
from traced_steps import function_step

TWO = {"x": 2}


@dataclass(frozen=True)
class Bug:
    """A function of inputs that lie so; what was claimed: a primitive, its operands, its result.

    Types are as the text spells them, of the operands without the numbers that are written out.
    """

    where: str
    function: Callable[..., Any]
    inputs: tuple[str, ...]
    claimed: tuple[str, tuple[str, ...], str] | None = None
    sizes: Mapping[str, int] = field(default_factory=lambda: TWO)

    def step(self) -> Step:
        """The function as a step, in float64."""
        return in_float64(function_step(self.function, *self.inputs))

    def program(self, step: Step, seed: int) -> StepProgram:
        """What devices do, by rows at random, if the inputs lie so."""
        lies = [parse_type(one)[1] for one in self.inputs]
        return apply(step, random_plan(step, self.sizes, seed, lies))


def square_of_sum(x: Any) -> Any:
    return jnp.sqrt((x.sum(0) ** 2).sum())


def cut(x: Any, w: Any) -> Any:
    numbers = ("NCHW", "OIHW", "NCHW")
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers)


def wide(x: Any, w: Any) -> Any:
    """And its gradient."""
    return jax.grad(lambda x, w: (cut(x, w) ** 2).sum(), argnums=(0, 1))(x, w)


def there_and_back(x: Any, w: Any) -> Any:
    """A linear layer that joins batch and sequence, and its gradient."""

    def loss(x: Any, w: Any) -> Any:
        flat = x.reshape(x.shape[0] * x.shape[1], x.shape[2]) @ w
        return (flat.reshape(*x.shape[:2], w.shape[1]) ** 2).sum()

    return jax.grad(loss, argnums=(0, 1))(x, w)


def weighted(logits: Any, targets: Any, weights: Any) -> Any:
    """The mean of losses that count by their class."""
    log = jax.nn.log_softmax(logits)
    lost = -jnp.take_along_axis(log, targets[:, None], axis=1)[:, 0]
    return (lost * weights[targets]).sum() / weights[targets].sum()


def dropped(x: Any, seed: Any) -> Any:
    """Half of the numbers, by a key."""
    bits = jax.random.bits(jax.random.wrap_key_data(seed), x.shape)
    return jnp.where(bits < jnp.uint32(2**31), x * 2, 0.0) + x


BUGS: Sequence[Bug] = (
    Bug(
        "pytorch#163193: partial plus a number",
        lambda x: x.sum() + 10.0,
        ("f32[10@x,1]",),
        ("add", ("f32[]{sum:x}",), "f32[]{sum:x}"),
    ),
    Bug(
        "pytorch#149768: a number added to a norm in gradient clipping",
        lambda x: 1.0 / (jnp.sqrt((x * x).sum()) + 1e-6),
        ("f32[8@x]",),
        ("add", ("f32[]{sum:x}",), "f32[]{sum:x}"),
    ),
    Bug(
        "pytorch#165962: the maximum of a partial sum",
        lambda x: x.sum(0).max(),
        ("f32[8@x,6]",),
        ("reduce_max", ("f32[6]{sum:x}",), "f32[]{max:x}"),
    ),
    Bug(
        "pytorch#159856: the norm of a partial sum",
        square_of_sum,
        ("f32[8@x,6]",),
        ("integer_pow", ("f32[6]{sum:x}",), "f32[6]{sum:x}"),
    ),
    Bug(
        "pytorch#147180: two multiples of one partial sum",
        lambda x: (x.sum(0) * -5.0, x.sum(0) * 2.0),
        ("f32[8@x,6]",),
        ("mul", ("f32[6]{sum:x}",), "f32[6]"),
    ),
    Bug(
        "pytorch#149764: a minor dimension that is cut is joined to its major one",
        lambda x: jnp.sin(x).reshape(32),
        ("f32[4,8@x]",),
        ("reshape", ("f32[4,8@x]",), "f32[32@x]"),
    ),
    Bug(
        "pytorch#179502: a view across a cut minor dimension",
        lambda x: x.reshape(16, 6),
        ("f32[12,8@x]",),
        ("reshape", ("f32[12,8@x]",), "f32[16@x,6]"),
        {"x": 4},
    ),
    Bug(
        "pytorch#179509: the same of three dimensions",
        lambda x: x.reshape(8, 8),
        ("f32[4,4@x,4]",),
        ("reshape", ("f32[4,4@x,4]",), "f32[8@x,8]"),
    ),
    Bug(
        "pytorch#186282: two axes on a dimension that is joined and divided again, its gradient",
        there_and_back,
        ("f32[2,8@(x,y),4]", "f32[4,6]"),
        ("reshape", ("f32[2,8@(x,y),4]",), "f32[16@(x,y),4]"),
        {"x": 2, "y": 2},
    ),
    Bug(
        "pytorch#166598: contracted dimensions cut by the same axes in another order",
        lambda x, w: x @ w,
        ("f32[4,12@(x,y)]", "f32[12@(y,x),6]"),
        ("dot_general", ("f32[4,12@(x,y)]", "f32[12@(y,x),6]"), "f32[4,6]{sum:(x,y)}"),
        {"x": 2, "y": 3},
    ),
    Bug(
        "pytorch#191926: a convolution over a cut width",
        cut,
        ("f32[2,3,8,8@x]", "f32[4,3,3,3]"),
        ("conv_general_dilated", ("f32[2,3,8,8@x]", "f32[4,3,3,3]"), "f32[2,4,8,8@x]"),
    ),
    Bug(
        "pytorch#191926: the gradients of one",
        wide,
        ("f32[2,3,8,8@x]", "f32[4,3,3,3]"),
    ),
    Bug(
        "pytorch#173936: the place of the maximum along a cut dimension",
        lambda x: jnp.argmax(x, axis=1),
        ("f32[4,8@x]",),
        ("argmax", ("f32[4,8@x]",), "i32[4]{max:x}"),
    ),
    Bug(
        "pytorch#168940: maxima with their places",
        lambda x: lax.top_k(x, 2),
        ("f32[4,8@x]",),
    ),
    Bug(
        "pytorch#172350: written at indices, what is written to and what is written both cut",
        lambda x, at, new: x.at[at].add(new),
        ("f32[8@x,4]", "i32[6]", "f32[6@x,4]"),
        ("scatter-add", ("f32[8@x,4]", "i32[6,1]", "f32[6@x,4]"), "f32[8@x,4]"),
    ),
    Bug(
        "jax#28111: added at indices to what is replicated",
        lambda x, at, new: x.at[at].add(new),
        ("f32[8,4]", "i32[6@x]", "f32[6@x,4]"),
        ("scatter-add", ("f32[8,4]", "i32[6@x,1]", "f32[6@x,4]"), "f32[8,4]{sum:x}"),
    ),
    Bug(
        "jax#28542: looked up in a table that is cut",
        lambda table, at: table[at],
        ("f32[8@x,4]", "i32[6]"),
        ("gather", ("f32[8@x,4]", "i32[6,1]"), "f32[6@x,4]"),
    ),
    Bug(
        "pytorch#185167: a weighted mean over a cut batch",
        weighted,
        ("f32[8@x,6]", "i32[8@x]", "f32[6]"),
        ("div", ("f32[]{sum:x}", "f32[]{sum:x}"), "f32[]{sum:x}"),
    ),
    Bug(
        "pytorch#190746: the gradient of a softmax over a cut vocabulary",
        jax.grad(lambda x: (jax.nn.log_softmax(x) ** 3).sum()),
        ("f32[4,8@x]",),
    ),
    Bug(
        "pytorch#168058: random numbers that depend on how they are cut",
        dropped,
        ("f32[8@x,6]", "u32[2]"),
        ("random_bits", ("key[]",), "u32[8@x,6]"),
    ),
    Bug(
        "autoparallel#517: a sum of which there are two readers is reduced once",
        lambda x: (jnp.exp(x.sum(0)), jnp.sqrt(jnp.abs(x.sum(0)))),
        ("f32[8@x,6]",),
        ("exp", ("f32[6]{sum:x}",), "f32[6]"),
    ),
    Bug(
        "openxla/xla#40034: from partial over two axes to cut over one of them",
        lambda x, y: jnp.sin(x.sum(0)) * y,
        ("f32[8@(x,y),6]", "f32[6@x]"),
        ("mul", ("f32[6]{sum:y}", "f32[6]"), "f32[6]"),
        {"x": 2, "y": 2},
    ),
    Bug(
        "a projection to query, key and value in one, then split",
        lambda x, w: lax.split(x @ w, (4, 4, 4), axis=1),
        ("f32[8,6]", "f32[6,12@x]"),
        ("split", ("f32[8,12@x]",), "f32[8,4@x]"),
    ),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.where)
def test_it_is_computed_right(bug: Bug) -> None:
    step = bug.step()
    whole = run_whole(step.graph, drawn_inputs(step))
    for seed in range(4):
        judge(step, bug.program(step, seed), bug.sizes, whole)


@pytest.mark.parametrize("bug", [one for one in BUGS if one.claimed], ids=lambda bug: bug.where)
def test_claimed_results_are_refused(bug: Bug) -> None:
    assert bug.claimed is not None
    name, before, after = bug.claimed
    operation = next(one for one in bug.step().graph.operations if one.primitive == name)
    given = iter(parse_type(one)[1] for one in before)
    operands = [
        Sharding(()) if isinstance(one, Literal) else next(given) for one in operation.operands
    ]
    result = parse_type(after)[1]
    with pytest.raises(InputError, match=f"{name} (cannot take|has .* in different orders)"):
        match_rows(operation, operands, [result] * len(operation.results), bug.sizes)


UNEVEN = (
    ("pytorch#162692: the mean of an uneven dimension", lambda x: x.mean(), "f32[9@x]"),
    ("pytorch#144109: an uneven dimension put together", jnp.sin, "f32[5@x,4]"),
    ("pytorch#161368: cut over two axes", jnp.sin, "f32[2@(x,y)]"),
)


@pytest.mark.parametrize(("where", "function", "given"), UNEVEN, ids=lambda one: str(one)[:14])
def test_uneven_parts_are_refused(where: str, function: Callable[..., Any], given: str) -> None:
    bug = Bug(where, function, (given,), sizes={"x": 2, "y": 4})
    with pytest.raises(InputError, match="elements"):
        bug.program(bug.step(), 0)
