"""What stands in emitted files: names, lines, helpers, and what is refused."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from forking import jax_python
from grammar.tensors.operations import Graph, Operation, Step, Value
from grammar.tensors.parser import parse_step
from grammar.tensors.sharding import ReductionKind, Sharding, Type
from hierarchies import InputError
from synth.step.emit import LANGUAGES, output_names, write
from synth.step.emit.spelling import WIDTH, Identifiers, spell_statement, spell_unpacking
from synth.step.sharding import StepProgram, apply, parse_recipe, plan_of
from traced_steps import step

RUNTIMES = ("jax", "torch")
MEGATRON = "data=2 tensor=2; batch over data; weights over tensor as Megatron; zero=2"
PLANS = {
    "gpt2-tiny": MEGATRON,
    "mixtral-tiny": "data=2; batch over data; zero=3",
    "resnet-tiny": "data=2; batch over data; zero=1",
    "lstm-tiny": "data=2; batch over data",
}


def text_of(runtime: str, name: str, recipe: str, **how: object) -> str:
    one = step(name, **how)
    plan = plan_of(one, parse_recipe(recipe))
    return write(runtime, one, apply(one, plan), plan.sizes, recipe)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", PLANS)
def test_files_define_what_they_use_and_nothing_twice(runtime: str, name: str) -> None:
    text = text_of(runtime, name, PLANS[name])
    assert text == text_of(runtime, name, PLANS[name])
    tree = ast.parse(text)
    defined = [one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.ClassDef)]
    own = {one for one in defined if not re.fullmatch(r"loop_\d+", one)}
    assert len(defined) == len(set(defined))
    assert own <= LANGUAGES[runtime].reserved
    assert "None" not in re.findall(r"P\(([^)]*)\)", text.split("OUTPUTS")[0])
    functions = text[text.index("def mesh" if runtime == "jax" else "def coordinates") :]
    long = [line for line in functions.splitlines() if len(line) > WIDTH]
    assert len(long) < 3, long


@pytest.mark.slow
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", PLANS)
def test_a_linter_finds_no_name_undefined_or_unused(runtime: str, name: str) -> None:
    words = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F", "--ignore"]
    words += ["F841", "-"]
    text = text_of(runtime, name, PLANS[name])
    found = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_more_layers_are_not_more_lines(runtime: str) -> None:
    few, many = (
        text_of(runtime, "gpt2-tiny", MEGATRON, changes=(("layers", layers),)) for layers in (2, 8)
    )
    assert len(few.splitlines()) == len(many.splitlines())


COMPILED = """
import sys
import jax
import jax.numpy as jnp

names = {"__name__": "emitted"}
exec(compile(sys.stdin.read(), "step.py", "exec"), names)
kinds = [jax.ShapeDtypeStruct(one.shape, jnp.dtype(one.dtype)) for one in names["INPUTS"].values()]
made = jax.jit(names["sharded_step"](names["mesh"]())).lower(tuple(kinds))
print(made.compile().as_text().count(" dot("))
"""


def compiled_products(text: str) -> int:
    """How many matrix products XLA leaves of a step over two devices."""
    fake = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    words, more = [*jax_python(), "-c", COMPILED], os.environ | fake
    found = subprocess.run(words, input=text, capture_output=True, text=True, env=more, check=True)
    return int(found.stdout)


@pytest.mark.slow
def test_xla_does_not_merge_recomputed_operations() -> None:
    """Without a barrier it undoes remat of unrolled layers."""
    recipe, layers = "data=2; batch over data", (("layers", 1),)
    text = text_of("jax", "gpt2-tiny", recipe, changes=layers, unrolled=True, remat=True)
    plain = text_of("jax", "gpt2-tiny", recipe, changes=layers, unrolled=True)
    assert "optimization_barrier" not in plain
    products = text.count("lax.dot_general(")
    assert products > plain.count("lax.dot_general(")
    assert compiled_products(text) == products
    merged = re.sub(r"lax\.optimization_barrier\((\w+)\)", r"\1", text)
    assert compiled_products(merged) == plain.count("lax.dot_general(")


def test_every_redistribution_of_the_program_is_a_line() -> None:
    one = step("gpt2-tiny")
    plan = plan_of(one, parse_recipe(MEGATRON))
    program = apply(one, plan)
    text = write("torch", one, program, plan.sizes)
    moves = [move for moved in program.moved() for move in moved.path.moves]
    own = text[text.index("def loop_1") :]
    loss = "all-reduce (sum) over data"  # which is made whole in the end
    named = [line for move in {*map(str, moves), loss} for line in own.splitlines() if move in line]
    assert len(named) == len(moves) + 1


def test_outputs_are_called_as_what_they_are_next() -> None:
    assert output_names(step("mlp-tiny"))[-1] == "loss"
    total = parse_step(
        "step two\nin x: f32[2] batch\nv0: f32[] = reduce_sum(x) axes=(0)\nout v0\nout x\n"
    )
    assert output_names(total) == ["output/0", "output/1"]


# -- refused


def one_value(value: Value, sharding: Sharding) -> tuple[Step, StepProgram]:
    graph = Graph((value,), (), (value,))
    return Step("one", graph, ("batch",), (value.name,)), StepProgram((sharding,), (), (sharding,))


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_partial_inputs_and_keys_are_refused(runtime: str) -> None:
    partial = Sharding(((),), ((ReductionKind.SUM, "data"),))
    with pytest.raises(InputError, match=r"input x is partial: \[\?\]\{sum:data\}"):
        write(runtime, *one_value(Value("x", Type("f32", (4,))), partial), {"data": 2})
    with pytest.raises(InputError, match=r"is a key|has no key"):
        write(runtime, *one_value(Value("x", Type("key", ())), Sharding(())), {"data": 2})


def test_numbers_that_torch_has_not_are_refused_by_their_line() -> None:
    text = (
        "step bits\nin x: i32[4] batch\n"
        "v0: u64[4] = convert_element_type(x) new_dtype=u64 @m.py:3\nout v0\n"
    )
    bits = parse_step(text)
    plan = plan_of(bits, parse_recipe("data=2; batch over data"))
    with pytest.raises(InputError, match="PyTorch has no u64, and v0 is of it") as refused:
        write("torch", bits, apply(bits, plan), plan.sizes)
    assert refused.value.where == "m.py:3"
    assert "lax.convert_element_type(x, jnp.uint64)" in write(
        "jax", bits, apply(bits, plan), plan.sizes
    )


# -- spelling


def test_names_are_identifiers_and_each_another() -> None:
    names = Identifiers({"mesh"})
    wanted = ("layers/0/up", "layers_0_up", "mesh", "lambda", "list", "0", "a-b", "loop_1")
    found = [names.made(one) for one in wanted]
    assert found[:2] == ["layers_0_up", "layers_0_up_2"]
    assert found[2:5] == ["mesh_2", "lambda_2", "list_2"]
    assert len(set(found)) == len(found)
    assert all(one.isidentifier() for one in found)
    assert not any(re.fullmatch(r"loop_\d+", one) for one in found)


def test_long_statements_are_broken_at_commas() -> None:
    short = spell_statement("a = f(b)", "what it is")
    assert short == ["    a = f(b)  # what it is"]
    names = ", ".join(f"a_long_name_{at}" for at in range(9))
    lines = spell_statement(f"found = f({names}, g((1, 2), 3))")
    assert lines[0] == "    found = f("
    assert lines[-2:] == ["        g((1, 2), 3),", "    )"]
    assert max(map(len, lines)) <= WIDTH
    assert ast.dump(ast.parse("\n".join(line[4:] for line in lines))) == ast.dump(
        ast.parse(f"found = f({names}, g((1, 2), 3))")
    )
    assert spell_unpacking({"a": "f32[]", "b": "i32[2]"}, "c") == [
        "    (a, b) = c  # f32[], i32[2]"
    ]


def test_operations_are_written_for_parts() -> None:
    x, y = Value("x", Type("f32", (4, 6))), Value("y", Type("f32", (24,)))
    operation = Operation("reshape", (x,), (y,), (("new_sizes", (24,)),))
    one = Step("one", Graph((x,), (operation,), (y,)), ("batch",), ("x",))
    plan = plan_of(one, parse_recipe("data=2; batch over data"))
    assert "x.reshape((12,))  # f32[24@data]" in write("torch", one, apply(one, plan), plan.sizes)
