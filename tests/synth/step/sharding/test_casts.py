"""Casts and what is sent: parameters go as what is read of them, gradients as the plan says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar.tensors.operations import Step, Value
from grammar.tensors.parser import parse_step
from hierarchies import InputError
from sharded_steps import judge, on_one_device
from synth.step.redistribution import MoveKind
from synth.step.sharding import (
    LocalOperation,
    Plan,
    RedistributedValue,
    StepProgram,
    apply,
    parse_recipe,
    plan_of,
)
from synth.step.sharding.plan import TIME
from traced_steps import step

DATA = "data=2; batch over data"
MODELS = ["gpt2-tiny", "llama3-tiny", "mlp-tiny"]


def half(model: str, unrolled: bool = False) -> Step:
    """It computes in bf16, with parameters and moments in f32."""
    return step(model, dtype="bfloat16", unrolled=unrolled)


def made(one: Step, text: str) -> tuple[Plan, StepProgram]:
    plan = plan_of(one, parse_recipe(text))
    return plan, apply(one, plan)


def sent(plan: Plan, program: StepProgram) -> Counter[tuple[str, str]]:
    """By request and element type, those of bodies once."""
    return Counter(
        (move.how.value, one.value.type.dtype)
        for one in program.moved()
        for move in one.path.requests(plan.sizes)
    )


def matrices(one: Step) -> int:
    return one.roles.count("parameter")


@pytest.mark.parametrize("unrolled", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_zero_3_gathers_what_was_cast_as_often_as_it_gathers_parameters(
    model: str, unrolled: bool
) -> None:
    """FSDP2 casts its shard and gathers that: half the bytes of a parameter's."""
    plain = step(model, unrolled=unrolled)
    wide = sent(*made(plain, f"{DATA}; zero=3"))
    narrow = sent(*made(half(model, unrolled), f"{DATA}; zero=3"))
    assert narrow == {
        ("all-gather", "bf16"): wide["all-gather", "f32"],
        ("reduce-scatter", "f32"): wide["reduce-scatter", "f32"],
    }


@pytest.mark.parametrize("zero", [1, 2])
@pytest.mark.parametrize("model", MODELS)
def test_before_zero_3_the_master_copy_is_state_of_the_optimizer(model: str, zero: int) -> None:
    """It lies as moments do; of what is cast all is gathered once a step, outside of loops."""
    one = half(model)
    plan, program = made(one, f"{DATA}; zero={zero}")
    lies = dict(zip(one.labels, plan.cuts.inputs, strict=True))
    for label, role in zip(one.labels, one.roles, strict=True):
        if role == "parameter":
            assert lies[label] == lies[f"mean/{label}"]
            assert lies[label].splitting == ("data",)
    reduced = "all-reduce" if zero == 1 else "reduce-scatter"
    wanted = {("all-gather", "bf16"): matrices(one), (reduced, "f32"): matrices(one)}
    assert sent(plan, program) == wanted
    outside = [m for m in program.instructions if isinstance(m, RedistributedValue)]
    assert sent(plan, StepProgram((), tuple(outside), ())) == wanted


def test_a_parameter_that_is_read_as_it_is_stays_whole_without_zero_3() -> None:
    """Only what is cast has a copy; of others nothing is saved by the cut."""
    one = step("gpt2-tiny")
    plan, program = made(one, f"{DATA}; zero=1")
    both = zip(one.roles, plan.cuts.inputs, strict=True)
    assert not any(lies.axes for role, lies in both if role == "parameter")
    assert sent(plan, program)["all-gather", "f32"] == matrices(one)


def test_weights_that_are_held_stay_where_they_are() -> None:
    """What Megatron cuts is cast and read in parts; the master is cut by ZeRO beside that."""
    text = "data=2 tensor=2; batch over data; weights over tensor as Megatron; zero=1"
    one = half("llama3-tiny")
    plan, program = made(one, text)
    gathered = [
        move
        for moved in program.moved()
        for move in moved.path.requests(plan.sizes)
        if move.how.value == "all-gather"
    ]
    assert {axis for move in gathered for axis in move.axes} == {"data"}
    assert len(gathered) == matrices(one)


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("model", MODELS)
def test_gradients_are_sent_according_to_the_plan(model: str, zero: int) -> None:
    """In f32 unless it says bf16: then before they are cast, half the bytes."""
    one = half(model)
    text = f"{DATA}" + f"; zero={zero}" * bool(zero)
    kinds = ("all-reduce",) if zero < 2 else ("reduce-scatter",)
    for clause, dtype in (("", "f32"), ("; gradients in bf16", "bf16")):
        found = sent(*made(one, text + clause))
        reduced = {key: times for key, times in found.items() if key[0] != "all-gather"}
        assert reduced == {(kind, dtype): matrices(one) for kind in kinds}


def added_up(program: StepProgram) -> Iterator[Value]:
    """What is summed over microbatches, but for the loss, a number."""
    for one in program.moved():
        added = any(m.axes == (TIME,) and m.how is MoveKind.ALL_REDUCE for m in one.path.moves)
        if added and one.value.type.shape:
            yield one.value


def test_gradients_are_added_up_according_to_the_plan() -> None:
    """Over microbatches, too: in f32 each is cast before it is added, as Megatron does."""
    one = half("llama3-tiny")
    text = f"{DATA}; zero=2; 2 microbatches"
    for clause, dtype in (("", "f32"), ("; gradients in bf16", "bf16")):
        _, program = made(one, text + clause)
        found = list(added_up(program))
        assert len(found) == matrices(one)
        assert {value.type.dtype for value in found} == {dtype}


@pytest.mark.parametrize(("model", "kind"), [("gpt2-tiny", "bf16"), ("mlp-tiny", "f16")])
def test_gradients_in_what_none_is_made_in_are_refused(model: str, kind: str) -> None:
    one = step(model) if kind == "bf16" else half(model)
    with pytest.raises(InputError, match=f"no gradient of {model} is made in {kind} and cast"):
        plan_of(one, parse_recipe(f"{DATA}; gradients in {kind}"))


JUDGED = (
    ("llama3-tiny", f"{DATA}; zero=3"),
    ("llama3-tiny", f"{DATA}; zero=1; gradients in bf16"),
    ("gpt2-tiny", f"{DATA}; zero=2; gradients in bf16"),
    (
        "gpt2-tiny",
        "data=2 tensor=2; batch over data; weights over tensor as Megatron; zero=1",
    ),
    (
        "llama3-tiny",
        "data=2 tensor=2; batch over data; weights over tensor as Megatron; zero=3",
    ),
)


def widened(one: Step) -> Step:
    """The same operations in numbers whose rounding does not matter: all casts stay, to f64."""
    return parse_step(str(one).replace("bf16", "f64").replace("f32", "f64"))


def test_a_plan_in_bf16_computes_what_one_device_does() -> None:
    one = half("mlp-tiny")
    for clause in ("zero=3", "zero=1; gradients in bf16"):
        plan, _ = made(one, f"{DATA}; {clause}")
        wide = widened(one)
        judge(wide, apply(wide, plan), plan.sizes, on_one_device(wide))


@pytest.mark.slow
@pytest.mark.parametrize(("model", "text"), JUDGED)
def test_plans_in_bf16_compute_what_one_device_does(model: str, text: str) -> None:
    one = half(model)
    plan, _ = made(one, text)
    wide = widened(one)
    judge(wide, apply(wide, plan), plan.sizes, on_one_device(wide))


def test_casts_precede_gathers() -> None:
    """In the program, too, that files are written from: each bf16 copy is made in parts."""
    one = half("mlp-tiny")
    plan, program = made(one, f"{DATA}; zero=3")
    casts = [
        done
        for done in program.instructions
        if isinstance(done, LocalOperation)
        and done.operation.primitive == "convert_element_type"
        and str(done.operation.operands[0]) in one.labels[: matrices(one)]
    ]
    assert len(casts) == matrices(one)
    assert all(done.how.results[0].splitting == ("data",) for done in casts)
    assert plan.sizes == {"data": 2}
