"""The front end: what stays, what is replaced, what is dropped, what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.interpreters.partial_eval import dce_jaxpr

import traced_steps
from equations.executed import DTYPES
from grammar.tensors.operations import REPEATED, Graph, Operation, Step, Value
from grammar.tensors.parser import parse_type
from hierarchies import InputError
from sharded_steps import run_whole
from small_models import MODELS
from synth.primitives import PRIMITIVES, REPLICATED_ONLY
from synth.step.trace.pruning import prune
from synth.step.trace.reading import read_jaxpr
from synth.step.trace.tracing import trace_step
from synth.step.zoo.optimizers import OPTIMIZERS

KNOWN = {*PRIMITIVES, REPEATED} - REPLICATED_ONLY
F32 = jnp.float32


def shape(*sizes: int, dtype: Any = F32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, dtype)


def read(function: Callable[..., Any], *given: Any, unknown: tuple[str, ...] = ()) -> Graph:
    names = [f"x{at}" for at in range(len(jax.tree.leaves(given)))]
    return read_jaxpr(jax.make_jaxpr(function)(*given), names, unknown)[0]


def primitives(graph: Graph) -> list[str]:
    return [one.primitive for one in graph.everywhere()]


def equations(jaxpr: Jaxpr) -> Iterator[str]:
    """The leaves of a jaxpr by another walk: into whatever holds a jaxpr but scatter-add."""
    for one in jaxpr.eqns:
        inside = [v for v in one.params.values() if isinstance(v, (Jaxpr, ClosedJaxpr))]
        if not inside or one.primitive.name in ("scan", "scatter-add"):
            yield one.primitive.name
        for each in inside if one.primitive.name != "scatter-add" else []:
            yield from equations(each.jaxpr if isinstance(each, ClosedJaxpr) else each)


def well_formed(graph: Graph) -> None:
    """Every operand is there before it is read, and every name is another."""
    known = {value.name: value for value in graph.inputs}
    assert len(known) == len(graph.inputs)

    def read_before(operands: tuple[Any, ...]) -> None:
        for one in operands:
            assert not isinstance(one, Value) or known[one.name] == one

    for operation in graph.operations:
        read_before(operation.operands)
        if operation.body is not None:
            loop(operation, operation.body)
        for result in operation.results:
            assert result.name not in known
            known[result.name] = result
    read_before(graph.outputs)


def loop(one: Operation, body: Graph) -> None:
    """What goes into a body is what the loop is given; what it carries has one type."""
    well_formed(body)
    consts, carried = (int(str(one.parameter[key])) for key in ("num_consts", "num_carry"))
    kept = consts + carried
    given = [operand.type if isinstance(operand, Value) else None for operand in one.operands]
    inside = [value.type for value in body.inputs]
    assert all(a is None or a == b for a, b in zip(given[:kept], inside[:kept], strict=True))
    length = one.parameter["length"]
    for outer, inner in zip(given[kept:], inside[kept:], strict=True):
        assert outer is not None
        assert outer.shape == (length, *inner.shape)
    made = [result.type for result in one.results]
    assert made[:carried] == inside[consts:kept]
    assert len(body.outputs) == len(made)


@pytest.mark.parametrize("unrolled", [False, True])
@pytest.mark.parametrize("name", traced_steps.TINY)
def test_steps_are_well_formed_and_have_the_operations_that_jax_itself_would_keep(
    name: str, unrolled: bool
) -> None:
    step = traced_steps.step(name, unrolled=unrolled)
    well_formed(step.graph)
    model = traced_steps.model(name, unrolled=unrolled)
    adamw = OPTIMIZERS["adamw"]
    given = (model.parameters, adamw.moments(model.parameters), model.batch)
    closed = jax.make_jaxpr(adamw.step(model.loss))(*given)
    read_by_someone, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.out_avals), instantiate=True)
    ours = Counter(primitives(step.graph))
    assert ours == Counter(equations(read_by_someone))
    assert set(ours) <= KNOWN


def counts(step: Step) -> int:
    return len(primitives(step.graph))


def layers(count: int) -> tuple[tuple[str, int], ...]:
    return (("layers", count),)


@pytest.mark.parametrize("remat", [False, True])
def test_a_loop_over_layers_is_as_long_for_any_number_of_them(remat: bool) -> None:
    found = [traced_steps.step("gpt2-tiny", layers(n), remat=remat) for n in (2, 4, 8, 96)]
    assert len({counts(step) for step in found}) == 1


@pytest.mark.parametrize("remat", [False, True])
def test_unrolled_layers_repeat_the_same_signatures(remat: bool) -> None:
    how = {"remat": remat, "unrolled": True}
    found = [traced_steps.step("gpt2-tiny", layers(n), **how) for n in (2, 4, 8)]
    assert len({frozenset(traced_steps.signatures(step)) for step in found}) == 1
    two, four, eight = map(counts, found)
    assert two < four < eight
    assert eight - four == 2 * (four - two)


@pytest.mark.parametrize("unrolled", [False, True])
def test_recomputed_operations_are_not_merged(unrolled: bool) -> None:
    kept, again = (
        traced_steps.step("gpt2-tiny", remat=remat, unrolled=unrolled) for remat in (False, True)
    )
    assert counts(again) > counts(kept)
    # Of the scores of attention there is one more product in each layer.
    products = [primitives(step.graph).count("dot_general") for step in (kept, again)]
    assert products[1] > products[0]


def test_calls_are_replaced_by_what_they_call_and_scatter_add_is_none() -> None:
    def function(x: Any, at: Any) -> Any:
        return jax.checkpoint(jax.nn.relu)(x).at[at].add(jax.jit(jnp.tanh)(x[0]))

    found = primitives(read(function, shape(4, 3), shape(dtype=jnp.int32)))
    assert {"max", "tanh", "scatter-add"} <= set(found)
    assert set(found) <= KNOWN


def test_unread_values_are_dropped_from_loops() -> None:
    def function(x: Any) -> Any:
        def body(carried: tuple[Any, Any, Any], slice_: Any) -> Any:
            a, b, c = carried
            return (a + slice_, b * a, jnp.sin(c)), (jnp.exp(a), jnp.cos(c))

        (a, _, _), (made, _) = lax.scan(body, (x[0], x[0], x[0]), x)
        return a, made

    graph = prune(read(function, shape(5, 3)))
    well_formed(graph)
    found = primitives(graph)
    assert "exp" in found
    assert not {"sin", "cos", "mul"} & set(found)
    (scan,) = (one for one in graph.operations if one.primitive == "scan")
    assert scan.parameter["num_carry"] == 1
    assert len(scan.results) == 2


def test_what_a_living_result_needs_of_another_is_carried_on() -> None:
    def function(x: Any) -> Any:
        def body(carried: tuple[Any, Any], slice_: Any) -> Any:
            a, b = carried
            return (a + jnp.sin(b), b * slice_), None

        return lax.scan(body, (x[0], x[0]), x)[0][0]

    graph = prune(read(function, shape(5, 3)))
    well_formed(graph)
    assert {"sin", "mul"} <= set(primitives(graph))


def test_captured_arrays_are_inputs_also_inside_loops() -> None:
    mask = np.tril(np.ones((3, 3), np.float32))

    def function(x: Any) -> Any:
        return lax.scan(lambda c, s: (c @ mask + s, None), x[0], x)[0] @ mask

    step = trace_step("own", lambda p, m, b: (p, m, function(b).sum()), ({}, {}, shape(4, 3)))
    well_formed(step.graph)
    assert step.roles == ("batch", "state")
    assert step.labels == ("batch", "constant/0")
    assert step.graph.inputs[1].type.shape == (3, 3)
    assert step.constants == ((step.graph.inputs[1].name, mask.tobytes()),)


def test_large_captured_arrays_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grammar.tensors.constants.MOST_BYTES", 35)
    mask = np.ones((3, 3), np.float32)
    with pytest.raises(InputError, match="the model closes over an array of 36 bytes") as refused:
        trace_step("own", lambda p, m, b: (p, m, (b @ mask).sum()), ({}, {}, shape(4, 3)))
    assert refused.value.where == "own"


def test_keys_are_of_the_type_key() -> None:
    def function(key: Any, x: Any) -> Any:
        one, two = jax.random.split(key)
        return x * jax.random.bernoulli(one, 0.5, x.shape) + jax.random.normal(two, x.shape)

    key = jax.eval_shape(lambda: jax.random.key(0))
    graph = read(function, key, shape(3))
    assert graph.inputs[0].type.dtype == "key"
    assert {"random_split", "random_bits"} <= set(primitives(graph))


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: lax.while_loop(lambda v: v.sum() < 9, lambda v: v + 1, x), "while"),
        (lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), "cond"),
        (lambda x: jnp.linalg.cholesky(x), "cholesky"),
        (lambda x: jax.debug.print("{}", x) or x, "debug"),
        (lambda x: x[x > 0], "depend on values"),
        (lambda x: x + 1 if x.sum() > 0 else x, "depend on values"),
        (lambda x: x @ jnp.ones((7, 7)), "dot_general"),
        (lambda x: {}[1], "KeyError"),
        (jax.grad(lambda x: jnp.nextafter(x, x + 1).sum()), "nextafter"),
    ],
)
def test_what_cannot_be_a_step_is_refused_by_name_and_line(
    function: Callable[[Any], Any], said: str
) -> None:
    with pytest.raises(InputError) as refused:
        trace_step("own", lambda p, m, b: (p, m, function(b).sum()), ({}, {}, shape(3, 3)))
    assert said in str(refused.value)
    assert "test_reading.py:" in str(refused.value)


def test_an_unknown_primitive_is_kept_only_if_asked_and_never_with_a_program_inside() -> None:
    graph = read(jnp.linalg.cholesky, shape(3, 3), unknown=("cholesky",))
    assert "cholesky" in primitives(graph)
    with pytest.raises(InputError, match="cond"):
        read(lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), shape(3), unknown=("cond",))


def computed(function: Callable[..., Any], *given: Any) -> None:
    """Assert that the graph of a function of arrays computes what the function does."""
    graph = read(function, *given)
    whole = run_whole(graph, given)
    wanted = jax.tree.leaves(function(*given))
    for one, other in zip(graph.outputs, wanted, strict=True):
        assert np.allclose(whole.of(one), other, atol=1e-5)


X = np.arange(-6, 6, dtype=np.float32).reshape(3, 4) / 4


def test_a_reshape_in_an_order_of_dimensions_transposes_first() -> None:
    """As ``jnp.column_stack`` of one array does: it was read as a reshape alone."""
    computed(lambda x: lax.reshape(x, (2, 6), (1, 0)), X)
    assert primitives(read(jnp.column_stack, X)).count("transpose") == 2


def test_moves_of_nothing_are_not_operations() -> None:
    def function(x: Any, words: Any) -> Any:
        named = checkpoint_name(jax.device_put(x), "kept")
        key = jax.random.clone(jax.random.wrap_key_data(words))
        return named, jax.random.key_data(key)

    graph = read(function, X, np.zeros(2, np.uint32))
    assert primitives(graph) == ["random_wrap", "random_unwrap"]
    assert graph.outputs[0] == graph.inputs[0]


def test_a_barrier_is_one_operation_for_each_value() -> None:
    graph = read(lambda x, y: lax.optimization_barrier((x, y)), X, X)
    assert primitives(graph) == ["optimization_barrier"] * 2
    assert [one.operands for one in graph.operations] == [(one,) for one in graph.inputs]


def test_a_branch_that_is_decided_is_taken() -> None:
    computed(lambda x: lax.cond(True, jnp.sin, jnp.cos, x), X)
    computed(lambda x: lax.cond(False, jnp.sin, jnp.cos, x), X)
    computed(lambda x: jnp.diag(x[:, :3]), X)


def test_a_boolean_that_python_has_is_a_number_of_the_text() -> None:
    computed(lambda x: jnp.select([x > 0, x < -1], [x, 2 * x], 0.0), X)


def test_a_scatter_with_a_function_of_its_own_is_refused() -> None:
    with pytest.raises(InputError, match="a scatter with an update function") as refused:
        read(lambda x: x.at[1].apply(jnp.sin), shape(4, 3))
    assert "x.at[i].set(f(x[i]))" in str(refused.value)
    computed(lambda x: jnp.asarray(x).at[1].set(2.0), X)


def test_two_masks_of_one_shape_stay_two() -> None:
    one, other = np.tril(np.ones((3, 4), bool)), np.triu(np.ones((3, 4), bool))
    graph, captured = read_jaxpr(
        jax.make_jaxpr(lambda x: jnp.where(one, x, 0) + jnp.where(other, x, 1))(X), ["x"]
    )
    assert len(captured) == 2
    whole = run_whole(graph, [X, *map(np.asarray, captured)])
    assert np.allclose(whole.of(graph.outputs[0]), np.where(one, X, 0) + np.where(other, X, 1))


def test_a_carry_is_read_behind_its_loop() -> None:
    def function(x: Any) -> Any:
        (one, other), stack = lax.scan(
            lambda c, row: ((c[1] * 0.5, c[0] + row), c[0].sum()), (x[0], x[1]), x
        )
        return other - one, stack

    computed(function, X)
    computed(lambda x: function(x)[0], X)
    computed(lambda x: lax.scan(lambda c, row: ((c[1], c[0] + row), c), (x[0], x[1]), x)[0][1], X)


def test_small_models_of_many_kinds_can_be_read() -> None:
    found: set[str] = set()
    for model in MODELS.values():
        types = [parse_type(one)[0] for one in model.types]
        abstract = [shape(*one.shape, dtype=DTYPES[one.dtype]) for one in types]
        graph = read(lambda *given, model=model: jax.tree.leaves(model.function(*given)), *abstract)
        found.update(primitives(graph))
    assert found <= KNOWN
    assert found >= {"stack", "tile", "le_to", "lt_to", "scatter-max", "scatter-mul", "sinh"}
    assert found >= {"optimization_barrier", "lgamma", "population_count", "approx_top_k"}


def test_a_step_returns_what_the_next_one_takes() -> None:
    given = ({"w": shape(3)}, {}, shape(3))
    for wrong in (
        lambda p, m, b: p,
        lambda p, m, b: (p["w"], m, b.sum()),
        lambda p, m, b: ({"w": b.sum()}, m, b.sum()),
    ):
        with pytest.raises(InputError, match=r"own"):
            trace_step("own", wrong, given)


def test_roles_labels_and_updates_of_a_step() -> None:
    step = traced_steps.step("gpt2-tiny")
    by_role = Counter(step.roles)
    parameters = by_role["parameter"]
    assert by_role == {
        "parameter": parameters,
        "moment": 2 * parameters,
        "state": 1,
        "batch": 2,
    }
    assert step.updates == tuple((at, at) for at in range(3 * parameters + 1))
    for out, into in step.updates:
        value = step.graph.outputs[out]
        assert isinstance(value, Value)
        assert value.type == step.graph.inputs[into].type
    assert "layers/attention/query" in step.labels
