"""Each primitive in each runtime's words gives what JAX's own primitive does, also in parts."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")

import jax
from jax import lax

from emitted_steps import called, emitted, loaded, one_part, step_of
from equations.cases import Case, cases
from equations.executed import execute
from equations.laid_out import laid
from equations.parts import execute_part
from grammar.tensors.operations import Operation, Step, Value
from grammar.tensors.sharding import ReductionKind, Sharding, Type
from hierarchies import InputError
from ranks_in_threads import parts_in_threads
from synth.primitives import PRIMITIVES, REPLICATED_ONLY
from synth.step.emit import LANGUAGES, ProgramSection, write, write_operations
from synth.step.emit.files import LONG_DTYPES
from synth.step.factors import Row, list_rows, part_of, shard_operation
from synth.step.redistribution import find_path
from synth.step.sharding import LocalOperation, RedistributedValue
from synth.step.trace.reading import read_jaxpr

CASES = cases()
RUNTIMES = ("jax", "torch")


def arrays(case: Case, given: list) -> list:
    """Of operands those that are inputs, each once."""
    pairs = zip(case.operation.operands, given, strict=True)
    return list({one: array for one, array in pairs if isinstance(one, Value)}.values())


def near(found: np.ndarray, wanted: np.ndarray) -> bool:
    wanted = np.asarray(wanted)
    if wanted.dtype == np.uint32 and found.dtype == np.int64:  # as PyTorch's files have them
        wanted = wanted.astype(np.int64)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    if wanted.dtype.kind not in "fV":
        return np.array_equal(found, wanted)
    one, other = found.astype(np.float64), wanted.astype(np.float64)
    return np.allclose(one, other, rtol=1e-4, atol=1e-5, equal_nan=True)


POSITIVE = np.array([[4, 1, 0.5], [1, 3, -1], [0.5, -1, 5]], np.float32)
MIXED = np.array([[0.5, 1, 2], [-3, 1, 0], [1, 4, -1]], np.float32)
WORDS = np.array([[0, 1, 255], [2**31 - 1, -1, 12]], np.int32)
IF_ASKED: dict[str, tuple[Any, Any]] = {
    "cholesky": (lambda x: lax.linalg.cholesky(x), POSITIVE),
    "triangular_solve": (
        lambda x: lax.linalg.triangular_solve(x, x + 1, left_side=True, transpose_a=True),
        POSITIVE,
    ),
    "lu": (lax.linalg.lu, MIXED),
    "qr": (lambda x: lax.linalg.qr(x, full_matrices=False), MIXED),
    "eigh": (lambda x: lax.linalg.eigh(x, symmetrize_input=False), POSITIVE),
    "svd": (lambda x: lax.linalg.svd(x, full_matrices=False), MIXED),
    "reduce_xor": (lambda x: lax.reduce_xor(x, (1,)), WORDS),
    "clz": (lax.clz, WORDS),
}


@pytest.mark.parametrize("name", sorted(REPLICATED_ONLY))
def test_explicitly_replicated_primitives_match_jax(name: str) -> None:
    function, given = IF_ASKED[name]
    closed = jax.make_jaxpr(function)(given)
    with pytest.raises(InputError, match=f"primitive '{name}' is not known"):
        read_jaxpr(closed, ["x"])
    graph, _ = read_jaxpr(closed, ["x"], [name])
    step = Step("asked", graph, ("batch",), ("x",))
    wanted = [np.asarray(one) for one in jax.tree.leaves(function(given))]
    for runtime in RUNTIMES:
        found = called(runtime, emitted(runtime, step), [given])
        assert all(near(*one) for one in zip(found, wanted, strict=True)), runtime


@cache
def writable(runtime: str) -> list[Case]:
    found = []
    for case in CASES:
        names = {one.type.dtype for one in case.operation.results}
        names |= {one.type.dtype for one in case.operation.operands if isinstance(one, Value)}
        has = case.operation.primitive in PRIMITIVES
        if has and "key" not in names and names <= set(LANGUAGES[runtime].spelling.dtypes):
            found.append(case)
    return found


def judged_whole(runtime: str, every: int) -> None:
    wrong = {}
    for case in writable(runtime)[::every]:
        given = case.drawn(np.random.default_rng(3))
        wanted = execute(case.operation.primitive, case.operation.parameter, given)
        names = emitted(runtime, step_of(case.operation))
        found = called(runtime, names, arrays(case, given))
        if not all(near(*one) for one in zip(found, wanted, strict=True)):
            wrong[case.name] = found
    assert not wrong


def test_whole_operations() -> None:
    assert all(len(writable(runtime)) > 85 for runtime in RUNTIMES)
    judged_whole("torch", 3)


DELICATE = (
    *("eq_to", "le_to", "lt_to", "population_count", "polygamma", "reduce_precision"),
    *("approx_top_k of the least", "scatter-mul clipped", "scatter-sub", "scatter-min"),
    *("reduce_and of integers", "reduce_or of integers", "tile", "unstack"),
)
"""Equations for which PyTorch has no function of its own, or one that is called otherwise."""


@pytest.mark.parametrize("name", DELICATE)
def test_delicate_operations_in_torch(name: str) -> None:
    [case] = [case for case in writable("torch") if case.name == name]
    given = case.drawn(np.random.default_rng(3))
    wanted = execute(case.operation.primitive, case.operation.parameter, given)
    found = called("torch", emitted("torch", step_of(case.operation)), arrays(case, given))
    assert all(near(*one) for one in zip(found, wanted, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_all_whole_operations(runtime: str) -> None:
    judged_whole(runtime, 1)


@pytest.mark.slow
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_parts_whose_number_enters(runtime: str) -> None:
    """Looked up, dropped, and counted: by each of two parts."""
    sizes, tried, wrong = {"data": 2}, 0, []
    for case in writable(runtime):
        operation = case.operation
        for row in list_rows(operation):
            if row.factor is None or row.factor.index is None:
                continue
            draws = np.random.default_rng(5)
            how = shard_operation(operation, {"data": row}, sizes)
            todo = part_of(operation, how, sizes)
            given = [
                laid(one, lie, sizes, draws)
                for one, lie in zip(case.drawn(draws), how.operands, strict=True)
            ]
            text = write(runtime, step_of(operation), one_part(operation, row, 2), sizes)
            names = loaded(text)
            for reduce in ("all_reduce", "lax"):  # what follows the operation is not looked at
                if reduce in names:
                    names[reduce] = _unreduced(names[reduce])
            for at in ((0,), (1,)):
                names["number"] = lambda axes, at=at: np.int32(at[0])
                mine = [one[at] for one in given]
                found = called(runtime, names, arrays(case, mine))
                wanted = execute_part(todo, mine, sizes, at)
                tried += 1
                if not all(near(*one) for one in zip(found, wanted, strict=True)):
                    wrong.append((case.name, str(row), at))
    assert tried >= 16
    assert not wrong


def _unreduced(named):
    """A runtime's collective that leaves its operand as it is."""
    if callable(named):
        return lambda x, *rest: x

    class Alone:
        def __getattr__(self, name):
            return (lambda x, *rest, **more: x) if name == "psum" else getattr(named, name)

    return Alone()


ENDS = (np.inf, -np.inf, np.nan, 3e38, -3e38, 2.0**31, -(2.0**31) - 1, 2.0**63, 300.7, -300.7)
FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = ("bool", "i8", "i16", "i32", "i64", "u8", "u32")


@pytest.mark.parametrize("after", INTEGERS)
@pytest.mark.parametrize("before", FLOATS)
def test_floats_become_the_whole_numbers_that_they_become_in_jax(before: str, after: str) -> None:
    """Also infinities, which stand around the blocks of a maximum or a minimum."""
    import jax
    import jax.numpy as jnp

    given = np.array([*ENDS, 2.9, -2.9, -0.5, 0.0, 254.5, 255.9])
    x, y = Value("x", Type(before, given.shape)), Value("y", Type(after, given.shape))
    convert = Operation("convert_element_type", (x,), (y,), (("new_dtype", after),))
    with jax.enable_x64(True), np.errstate(over="ignore"):
        array = given.astype(jnp.dtype(LONG_DTYPES[before]))
        wanted = np.asarray(jax.lax.convert_element_type(array, jnp.dtype(LONG_DTYPES[after])))
        [found] = called("torch", emitted("torch", step_of(convert)), [array])
    assert near(found, wanted), (found, wanted)


SIZES = {"a": 2}


@pytest.mark.parametrize("kind", [ReductionKind.MAX, ReductionKind.MIN], ids=str)
@pytest.mark.parametrize("after", [one for one in INTEGERS if one != "bool"])
@pytest.mark.parametrize("before", ["f16", "f32", "f64", "bool", "i32", "u8", "u32"])
def test_partial_maxima_go_through_a_cast(before: str, after: str, kind: ReductionKind) -> None:
    """What is written around a block stays out of the result, or there is no row."""
    x, y = Value("x", Type(before, (4,))), Value("y", Type(after, (4,)))
    convert = Operation("convert_element_type", (x,), (y,), (("new_dtype", after),))
    if Row((kind,), (kind,)) not in list_rows(convert):
        assert before != "bool"
        return
    cut, partial = Sharding((("a",),)), Sharding(((),), ((kind, "a"),))
    done = LocalOperation(convert, shard_operation(convert, {"a": Row((kind,), (kind,))}, SIZES))
    moved = [
        RedistributedValue(x, find_path(x.type, cut, partial, SIZES)),
        done,
        RedistributedValue(y, find_path(y.type, partial, Sharding(((),)), SIZES)),
    ]
    section = ProgramSection(None, tuple(moved), ((x, cut),), ((y, Sharding(((),))),))
    whole = np.array([1, 0, 1, 1] if before == "bool" else [3, 100, 7, 50])
    array = whole.astype({"u32": "int64"}.get(before, LONG_DTYPES[before]))
    [made] = parts_in_threads(write_operations("torch", section, SIZES), [np.split(array, 2)], 2)
    assert [part.tolist() for part in made] == [whole.tolist()] * 2


def test_maxima_do_not_go_into_floats_without_infinity() -> None:
    """There the infinity around a block is no number, which is above and below all others."""
    import jax.numpy as jnp

    around = jnp.array(-jnp.inf, jnp.float32).astype(jnp.float8_e4m3fn)
    assert jnp.isnan(jnp.maximum(around.astype(jnp.float32), 1.0))
    x, y = Value("x", Type("f32", (4,))), Value("y", Type("f8_e4m3fn", (4,)))
    convert = Operation("convert_element_type", (x,), (y,), (("new_dtype", "f8_e4m3fn"),))
    kinds = {lie for row in list_rows(convert) for lie in row.results}
    assert kinds.isdisjoint((ReductionKind.MAX, ReductionKind.MIN))
    for kind, runtime in product((ReductionKind.MAX, ReductionKind.MIN), RUNTIMES):
        text = LANGUAGES[runtime].spelling.neutral(kind, "f8_e4m3fn")
        narrow = np.float32(float(text)).astype(jnp.float8_e4m3fn)
        assert float(narrow) == (-448.0 if kind is ReductionKind.MAX else 448.0)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_primitive_without_words_is_refused_by_name_and_line(runtime: str) -> None:
    case = next(one for one in CASES if one.operation.primitive == "cumsum")
    strange = type(case.operation)(
        "hessenberg", case.operation.operands, case.operation.results, line="model.py:7"
    )
    from synth.step.factors import OperationSharding

    how = shard_operation(case.operation, {}, {"data": 2})
    program = one_part(case.operation, list_rows(case.operation)[0], 2)
    done = type(program.instructions[0])(strange, OperationSharding(how.operands, how.results, ()))
    strange_program = type(program)(program.inputs, (done,), program.outputs)
    with pytest.raises(InputError, match="'hessenberg'") as refused:
        write(runtime, step_of(strange), strange_program, {"data": 2})
    assert refused.value.where == "model.py:7"
