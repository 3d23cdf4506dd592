"""One row makes a primitive known: it is traced, sharded, written for both runtimes and priced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive as JaxPrimitive

from emitted_steps import called, emitted
from grammar.tensors.operations import Graph, Step
from grammar.tensors.parser import parse_step
from grammar.tensors.sharding import ReductionKind, Sharding, Split
from hierarchies import InputError
from hierarchies.devices import device_named
from synth.compute import Section, estimate_operation, flops_of, section_estimate
from synth.primitives import PRIMITIVES, Primitive, WorkKind
from synth.primitives.arithmetic import arithmetic
from synth.primitives.rules.partials import MONOTONE_RULES
from synth.primitives.table import ROWS
from synth.step.emit import write
from synth.step.factors import list_all_rows, list_rows
from synth.step.sharding import Cuts, Plan, apply
from synth.step.trace.reading import read_jaxpr
from synth.step.work import work_of

DEVICE = device_named("H100 SXM5 80 GB")
ROW = arithmetic("softsign", "{0} / (1 + abs({0}))", "{0} / (1 + {0}.abs())", MONOTONE_RULES)


def softsign(x: Any) -> Any:
    made = JaxPrimitive("softsign")
    made.def_abstract_eval(lambda x: x)
    return made.bind(x)


@pytest.fixture
def row(monkeypatch: pytest.MonkeyPatch) -> Primitive:
    monkeypatch.setitem(PRIMITIVES, ROW.name, ROW)
    return ROW


def traced() -> Graph:
    vector = jax.ShapeDtypeStruct((8,), jnp.float32)
    return read_jaxpr(jax.make_jaxpr(softsign)(vector), ["x"])[0]


def test_an_unknown_primitive_is_refused() -> None:
    with pytest.raises(InputError, match="primitive 'softsign' is not known"):
        traced()
    step = parse_step("step s\nin x: f32[6] batch\nv0: f32[6] = softsign(x)\nout v0\n")
    with pytest.raises(InputError, match="no sharding rules for the primitive 'softsign'"):
        list_rows(step.graph.operations[0])


def test_a_row_alone_makes_an_elementwise_primitive_known(row: Primitive) -> None:
    graph = traced()
    [operation] = graph.operations
    rows = [(each.operands, each.results) for each in list_rows(operation)]
    assert rows == [
        ((lie,), (lie,)) for lie in (None, Split(0), ReductionKind.MAX, ReductionKind.MIN)
    ]
    assert len(list_all_rows(operation)) == len(rows) + 1  # flat
    step = Step("new", graph, ("batch",), ("x",))
    given = np.linspace(-2, 2, 8, dtype=np.float32)
    for runtime in ("jax", "torch"):
        [found] = called(runtime, emitted(runtime, step), [given])
        np.testing.assert_allclose(found, given / (1 + np.abs(given)), rtol=1e-6)
    assert flops_of(operation) == 8
    [work] = work_of(step)
    assert (work.primitive, work.kind, work.flops) == ("softsign", "elementwise", 8)
    seconds = estimate_operation(operation, DEVICE).seconds
    assert seconds == section_estimate(Section((operation,), frozenset({"v0"})), DEVICE).seconds > 0


@pytest.mark.parametrize("runtime", ["jax", "torch"])
def test_a_new_primitive_is_sharded_in_files(row: Primitive, runtime: str) -> None:
    graph = traced()
    step = Step("new", graph, ("batch",), ("x",))
    [cut] = [each for each in list_rows(graph.operations[0]) if each.factor is not None]
    plan = Plan((("data", 2),), Cuts((Sharding((("data",),)),), ((("data", cut),),)))
    assert "f32[8@data]" in write(runtime, step, apply(step, plan), plan.sizes)


def test_each_name_has_one_row() -> None:
    assert len({each.name for each in ROWS}) == len(ROWS) == len(PRIMITIVES)
    assert all(each.rule for each in ROWS if each.kind is not WorkKind.UNKNOWN)
