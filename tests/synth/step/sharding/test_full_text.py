"""Plans in full as text: there and back, changed by hand, and refused by line."""

from __future__ import annotations

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from hierarchies import InputError
from sharded_steps import judge, mlp, on_one_device, random_plan
from synth.step.sharding import apply, parse_plan, parse_recipe, plan_of, plan_text
from traced_steps import step

RECIPES = (
    ("gpt2-tiny", "data=2 tensor=2; batch over data; weights over tensor as Megatron; zero=2"),
    ("llama3-tiny", "tensor=2; weights over tensor as Megatron; tokens over tensor"),
    ("lstm-tiny", "data=2; batch over data; 2 microbatches; fewest requests; buckets of 1 MB"),
    ("llama3-tiny", "data=2; batch over data; buckets of 0.5 MB"),
    ("gpt2-tiny", "data=1 pipe=2; schedule 1f1b, 2 microbatches; remat layers"),
    ("gpt2-tiny", "data=1 pipe=2; schedule 1f1b, 2 microbatches; stages of 1, 1 layers"),
)


@pytest.mark.parametrize(("model", "text"), RECIPES)
def test_recipes_written_out_are_read_back(model: str, text: str) -> None:
    one = step(model)
    plan = plan_of(one, parse_recipe(text))
    assert parse_plan(plan_text(one, plan), one) == plan


@pytest.mark.parametrize("seed", range(4))
def test_random_plans_are_read_back(seed: int) -> None:
    plan = random_plan(mlp(), {"data": 2, "tensor": 2}, seed)
    assert parse_plan(plan_text(mlp(), plan), mlp()) == plan


def by_hand() -> list[str]:
    plan = plan_of(mlp(), parse_recipe("data=2 tensor=2; batch over data"))
    return plan_text(mlp(), plan).splitlines()


def test_a_plan_that_is_changed_by_hand_computes_what_one_device_does() -> None:
    lines = by_hand()
    at = next(at for at, line in enumerate(lines) if line.startswith("v0 "))
    assert lines[at] == "v0 data [0,R]->[0]"
    lines[at] += " tensor [R,1]->[1]"
    lines.insert(2, "in first/weight [-,tensor]")
    plan = parse_plan("\n".join(lines), mlp())
    judge(mlp(), apply(mlp(), plan), plan.parts, on_one_device(mlp()))


def test_omitted_inputs_are_replicated_and_comments_ignored() -> None:
    plan = parse_plan("plan mlp-tiny  # alone\naxes data=2\n\n", mlp())
    assert not list(apply(mlp(), plan).moved())


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("in nowhere [-]", "no input nowhere"),
        ("in features [data]", "2 dimensions"),
        ("in features [data", "line 3"),
        ("in features [other,-]", "no axis 'other'"),
        ("in features {sum:data}", "line 3"),
        ("in features [-,-]{mean:data}", "no kind 'mean'"),
        ("v0 data [0,0]->[0]", "has no such row"),
        ("v0 data", "line 3"),
        ("v0 {", "no body like this"),
        ("v999 data [0,R]->[0]", "no operation makes v999"),
        ("v0 data [0,R]->[0]\nv0 data [0,R]->[0]", "again v0"),
        ("}", "nothing to close"),
        ("v0 stage 0", "no stage for"),
        ("order 0F0 0B0", "an order of 1 microbatches"),
        ("microbatches 4\norder 0F0 0B0 0F1 0B1", "an order of 2 microbatches"),
        ("microbatches 2\norder 0F0 0F1 0I0 0I1 0W0 0W1", "0 stages for the"),
        ("microbatches 2\norder 0F0 0F1 0B0 0B1\norder 1F0 1F1 1B0 1B1", "2 ranks for pipe=1"),
        ("order 0F0", "0B0 is missing"),
        ("layers 1, 2", "without a schedule"),
        (
            "microbatches 2\nlayers 2\norder 0F0 0F1 0B0 0B1\norder 1F0 1F1 1B0 1B1",
            "layers of 1 stages, and there are 2",
        ),
        ("bucket v0 v1", "not redistributed"),
        ("buckets of 0 layers", "expected '"),
    ],
)
def test_lines_that_are_wrong_are_refused(line: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        apply(mlp(), parse_plan(f"plan mlp-tiny\naxes data=2\n{line}\n", mlp()))


def test_a_plan_of_another_model_is_refused() -> None:
    with pytest.raises(InputError, match="a plan of gpt2-tiny, not of mlp-tiny"):
        parse_plan("plan gpt2-tiny\naxes data=2\n", mlp())
    plan = plan_of(mlp(), parse_recipe("data=2; batch over data"))
    with pytest.raises(InputError, match="a plan for"):
        plan_text(step("gpt2-tiny"), plan)


def test_overrides_mix_with_recipes() -> None:
    text = "data=2 tensor=2; batch over data; weights first/weight[-1] over tensor"
    plan = plan_of(mlp(), parse_recipe(f"{text}; input mean/last/weight as [tensor,-]"))
    lies = dict(zip(mlp().labels, plan.cuts.inputs, strict=True))
    assert lies["first/weight"].dimensions == ((), ("tensor",))
    assert lies["mean/first/weight"].dimensions == ((), ("tensor",))
    assert lies["mean/last/weight"].dimensions == (("tensor",), ())
    assert lies["last/weight"].dimensions == ((), ())
    judge(mlp(), apply(mlp(), plan), plan.parts, on_one_device(mlp()))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("weights nowhere[0] over data", "nothing of mlp-tiny is sharded"),
        ("weights first/weight[5] over data", "nothing of mlp-tiny is sharded"),
        ("input nowhere as [data]", "no input 'nowhere'"),
        ("input features as [data]", "which has 2"),
        ("input features as [data,data]", "axis 'data' occurs 2 times"),
        ("input features as [other,-]", "no axis 'other'"),
        ("input features as [-,-", "not understood"),
        ("input features as [d-,-]", "not understood"),
    ],
)
def test_bad_overrides_are_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        plan_of(mlp(), parse_recipe(f"data=2; {text}"))


def test_a_plan_of_fewest_requests_sends_a_gradient_by_one_all_reduce() -> None:
    """Beside an axis of replicas fewer bytes are sent by more requests: these share the work."""
    kinds = []
    for more in ("", "; fewest requests"):
        plan = plan_of(mlp(), parse_recipe(f"data=4 tensor=2; batch over data{more}"))
        program = apply(mlp(), plan)
        sent = {tuple(m.how.value for m in r.path.requests(plan.sizes)) for r in program.moved()}
        kinds.append(sent - {()})
    assert kinds == [{("all-reduce", "all-gather")}, {("all-reduce",)}]
    judge(mlp(), program, plan.parts, on_one_device(mlp()))
