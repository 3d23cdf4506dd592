"""Devices compute only the parts that they read: of what is indexed, masked or filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from grammar.tensors.operations import Step, Value
from grammar.tensors.parser import parse_step, parse_type
from grammar.tensors.sharding import Sharding, Split, part_shape
from hierarchies import InputError
from random_functions import drawn_function
from sharded_steps import drawn_inputs, in_float64, judge, run_whole, small
from synth.step.factors import list_rows
from synth.step.sharding import (
    Cuts,
    LocalOperation,
    Plan,
    StepProgram,
    apply,
    parse_recipe,
    plan_of,
)
from synth.step.sharding.following import follow, following, trimming
from synth.step.sharding.following.known import Rules
from synth.step.zoo.models import cross_entropy
from traced_steps import function_step

pytestmark = pytest.mark.thorough
SIZES = {"tensor": 2}


def selected(x: Any, classes: Any) -> Any:
    return jnp.exp(x) * jax.nn.one_hot(classes, x.shape[-1])


def masked(x: Any, classes: Any) -> Any:
    del classes
    rows, columns = (lax.broadcasted_iota(jnp.int32, x.shape, at) for at in (0, 1))
    return jnp.where(rows >= columns, x, -1e30)


def counted(x: Any, classes: Any) -> Any:
    """A histogram, added to values of all classes."""
    return x + jnp.zeros(x.shape, x.dtype).at[:, classes[:3]].add(2.0)


def marked(x: Any, classes: Any) -> Any:
    """The same, written instead of added."""
    del classes
    places = jnp.arange(3)
    return x * jnp.ones(x.shape, x.dtype).at[:, places].set(2.0, unique_indices=True)


def biased(x: Any, classes: Any) -> Any:
    """The bias of each class is looked up in a table that is filled in on the way."""
    table = jnp.cumsum(jnp.ones((4, x.shape[1]), x.dtype), axis=0)
    return x + table[classes % 4]


def repeated(x: Any, classes: Any) -> Any:
    """The same mask in each turn of a loop."""
    return lax.scan(lambda held, _: (jnp.tanh(masked(held, classes)), None), x, None, length=3)[0]


@pytest.mark.parametrize("at", [0, 1])
def test_a_value_with_a_whole_reader_stays_whole(at: int) -> None:
    """Though parts that are put together again for the other would send no more bytes."""
    step = parse_step("""step s
in x: f32[8,4,6] batch
p: f32[4,6] = reduce_sum(x) axes=(0)
a: f32[4,6] = exp(p)
b: f32[4,6] = sin(p)
out a
out b
""")
    reduced, read, _ = step.graph.operations
    summing = next(row for row in list_rows(reduced) if row.operands == (Split(0),))
    cutting = next(row for row in list_rows(read) if row.operands == (Split(at),))
    inputs = (Sharding((("data",), (), ())),)
    cuts = Cuts(inputs, ((("data", summing),), (("tensor", cutting),), ()))
    assert trimming.trim_cuts(step, cuts, {"data": 2, "tensor": 2}) == cuts


INDEXED: dict[str, Callable[..., Any]] = {
    "take along an axis": jax.grad(cross_entropy),
    "one-hot": selected,
    "mask": masked,
    "scatter-add": counted,
    "scatter": marked,
    "look up in a table": biased,
    "mask in a loop": repeated,
}


def results(program: StepProgram) -> Iterator[tuple[Value, Sharding]]:
    """The results of all operations, those of bodies once, and their shardings."""
    for one in program.instructions:
        if isinstance(one, LocalOperation):
            yield from zip(one.operation.results, one.how.results, strict=True)
            if one.body is not None:
                yield from results(one.body)


@pytest.mark.parametrize("name", INDEXED)
def test_no_device_computes_more_than_its_part_of_the_classes(name: str) -> None:
    given = ("f32[8,16@tensor]", "i32[8]")
    one = in_float64(function_step(INDEXED[name], *given))
    cuts = follow(one, [parse_type(text)[1] for text in given], Rules(SIZES))
    program = apply(one, Plan((("tensor", 2),), cuts))
    judge(one, program, SIZES, run_whole(one.graph, drawn_inputs(one)))
    large = {
        value.name: prod(part_shape(value.type, sharding, SIZES))
        for value, sharding in results(program)
        if value.type.shape == (8, 16)
    }
    assert set(large.values()) == {8 * 16 // 2}


def returned(x: Any, classes: Any) -> Any:
    """The histogram is a result, too."""
    del classes
    counts = jnp.ones(x.shape, x.dtype).at[:, jnp.arange(3)].set(2.0, unique_indices=True)
    return x * counts, counts


def carried(x: Any, classes: Any) -> Any:
    """What a turn reads in parts is carried to the next one whole."""
    whole = jnp.cumsum(jnp.ones(x.shape, x.dtype), axis=1)

    def turn(held: Any, _: Any) -> Any:
        total, table = held
        table = table.at[:, classes[:3]].add(2.0)
        return (total + table * x, jnp.cumsum(table, axis=1)), None

    return lax.scan(turn, (x, whole), None, length=3)[0][0]


@pytest.mark.parametrize("function", [returned, carried])
def test_values_read_whole_elsewhere_are_gathered(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither results of the step nor what turns of a loop hand on is cut: nothing is sent."""
    given = ("f32[8,16@tensor]", "i32[8]")
    one = in_float64(function_step(function, *given))
    inputs = [parse_type(text)[1] for text in given]
    trimmed = apply(one, Plan((("tensor", 2),), follow(one, inputs, Rules(SIZES))))
    judge(one, trimmed, SIZES, run_whole(one.graph, drawn_inputs(one)))
    monkeypatch.setattr(following, "trim_cuts", lambda step, cuts, sizes: cuts)
    whole = apply(one, Plan((("tensor", 2),), follow(one, inputs, Rules(SIZES))))
    assert trimmed.outputs == whole.outputs
    assert sum(path.least(SIZES) for path in (one.path for one in trimmed.moved())) == 0


MEGATRON = "weights over tensor as Megatron; vocabulary over tensor"
LOGITS = (4, 16, 64)
"""Samples, tokens and words of these models; their wide layers, if equal in size, are cut, too."""
RECIPES = (
    ("gpt2", f"tensor=2; {MEGATRON}"),
    ("llama3", f"data=2 tensor=2; batch over data; {MEGATRON}; zero=1; 2 microbatches"),
    ("bert", f"data=2 tensor=2; batch over data; {MEGATRON}; zero=3"),
)


@pytest.mark.parametrize(("model", "text"), RECIPES)
def test_logits_are_cut_in_all_operations_of_the_loss(model: str, text: str) -> None:
    one = small(model)
    plan = plan_of(one, parse_recipe(text))
    parts = prod(plan.parts.values())
    assert all(
        prod(part_shape(value.type, sharding, plan.parts)) * parts == value.type.elements
        for value, sharding in results(apply(one, plan))
        if value.type.shape == LOGITS
    )


def cut_program(one: Step, inputs: Sequence[Sharding], sizes: Mapping[str, int]) -> StepProgram:
    return apply(one, Plan(tuple(sizes.items()), follow(one, inputs, Rules(sizes))))


def sent_bytes(program: StepProgram, sizes: Mapping[str, int]) -> float:
    paths = [(one.value.type, one.path) for one in program.moved()]
    return float(sum(path.least_bytes(kind, sizes) for kind, path in paths))


def computed(program: StepProgram, sizes: Mapping[str, int]) -> int:
    """The elements of all results on one device."""
    return sum(prod(part_shape(value.type, lies, sizes)) for value, lies in results(program))


@pytest.mark.parametrize(("model", "text"), RECIPES)
def test_trimming_sends_no_more_and_computes_less(
    model: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = small(model)
    plan = plan_of(one, parse_recipe(text))
    trimmed = apply(one, plan)
    monkeypatch.setattr(following, "trim_cuts", lambda step, cuts, sizes: cuts)
    untrimmed = parse_recipe(f"{text}; fewest requests")  # plans are cached by their recipe
    whole = apply(one, plan_of(one, untrimmed))
    assert sent_bytes(trimmed, plan.parts) <= sent_bytes(whole, plan.parts)
    assert computed(trimmed, plan.parts) < computed(whole, plan.parts)


def test_trimming_sends_no_more_in_functions_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs are cut by lot over two axes; functions have loops, calls and several results."""
    sizes = {"a": 2, "b": 2}
    cuts = ("4,6", "4@a,6", "4,6@a", "4@b,6@a", "4@(a,b),6", "4,6@b")
    real, less = following.trim_cuts, 0
    for seed in range(250):
        drawn = np.random.default_rng(seed).choice(cuts, 2)
        given = [f"f32[{cut}]" for cut in drawn]
        one = function_step(drawn_function(seed), *given)
        inputs = [parse_type(text)[1] for text in given]
        captured = [Sharding(((),) * len(value.type.shape)) for value in one.graph.inputs[2:]]
        labels = tuple(f"input{at}" for at in range(len(one.graph.inputs)))
        one = replace(one, roles=("batch",) * len(labels), labels=labels)

        all_inputs = [*inputs, *captured]
        monkeypatch.setattr(following, "trim_cuts", lambda step, cuts, sizes: cuts)
        try:
            whole = cut_program(one, all_inputs, sizes)
        except InputError:  # the carry of a loop, cut in four parts of six
            continue
        monkeypatch.setattr(following, "trim_cuts", real)
        trimmed = cut_program(one, all_inputs, sizes)
        assert trimmed.outputs == whole.outputs
        assert sent_bytes(trimmed, sizes) <= sent_bytes(whole, sizes), seed
        assert computed(trimmed, sizes) <= computed(whole, sizes), seed
        less += computed(trimmed, sizes) < computed(whole, sizes)
    assert less > 60
