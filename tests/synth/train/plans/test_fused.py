"""Fusion groups: kernels in one piece, no value changed, and nothing that waits for itself."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest

from grammar.tensors.operations import Graph, Operation, Step, Value
from grammar.tensors.sharding import Type
from hierarchies import InputError
from sharded_steps import judge, mlp, on_one_device
from synth.train.plans import Done, Fused, Plan, apply, parse_plan, parse_recipe, plan_of, plan_text
from synth.train.plans.plan import whole

DATA = "data=2; batch over data"


def random_step(rng: Random, count: int) -> Step:
    """Sums of any two that were there before."""
    kind = Type("f32", (4,))
    made = [Value("x", kind)]
    operations = []
    for at in range(count):
        out = Value(f"v{at}", kind)
        operations.append(Operation("add", (rng.choice(made), rng.choice(made)), (out,)))
        made.append(out)
    return Step("sums", Graph((made[0],), tuple(operations), (made[-1],)), ("batch",), ("x",))


def acyclic(step: Step, groups: list[set[str]]) -> bool:
    """By brute force: no group reaches itself through anything outside, other groups as one."""
    unit = {one.results[0].name: one.results[0].name for one in step.graph.operations}
    for number, group in enumerate(groups):
        unit |= dict.fromkeys(group, str(number))
    reached = {
        (unit[str(read)], unit[one.results[0].name])
        for one in step.graph.operations
        for read in one.operands
        if str(read) in unit and unit[str(read)] != unit[one.results[0].name]
    }
    while True:
        more = {(a, d) for (a, b), (c, d) in product(reached, reached) if b == c} - reached
        if not more:
            return all(a != b for a, b in reached)
        reached |= more


@pytest.mark.parametrize("seed", range(60))
def test_groups_are_refused_exactly_if_something_leaves_one_and_comes_back(seed: int) -> None:
    rng = Random(seed)
    step = random_step(rng, 8)
    names = [one.results[0].name for one in step.graph.operations]
    rng.shuffle(names)
    groups = [names[:3], names[3:5]]
    plan = Plan((("data", 1),), whole(step.graph))
    given = replace(plan, fused=tuple(Fused(tuple(group)) for group in groups))
    if not acyclic(step, [*map(set, groups)]):
        with pytest.raises(InputError, match=r"wait for themselves: .* -> "):
            apply(step, given)
        return
    found = apply(step, given)
    assert {*found.instructions} == {*apply(step, plan).instructions}
    assert sorted(map(len, found.fused)) == [2, 3]
    assert all(list(one) == list(range(one[0], one[-1] + 1)) for one in found.fused)
    there = {"x"}
    for one in found.instructions:
        assert {*map(str, one.operation.operands)} <= there  # type: ignore[union-attr]
        there |= {one.operation.results[0].name}  # type: ignore[union-attr]


def test_what_is_done_again_comes_after_what_it_reads() -> None:
    """Also where that is in the same group: x -> a -> b, and b again for c, which also reads a."""
    kind = Type("f32", (4,))
    x, a, b, c, d = (Value(name, kind) for name in "xabcd")
    operations = (
        Operation("neg", (x,), (a,)),
        Operation("exp", (a,), (b,)),
        Operation("add", (a, b), (c,)),
        Operation("neg", (b,), (d,)),
    )
    step = Step("again", Graph((x,), operations, (c, d)), ("batch",), ("x",))
    plan = Plan((("data", 1),), whole(step.graph), fused=(Fused(("a", "c"), ("b",)),))
    there = {"x"}
    for one in apply(step, plan).instructions:
        assert isinstance(one, Done)
        assert {*map(str, one.operation.operands)} <= there
        there |= {one.operation.results[0].name}
    assert "b_again0" in there


def test_what_two_do_again_is_each_as_it_was() -> None:
    """b does a again and is itself done again: there it reads a, and not the first one's own."""
    kind = Type("f32", (4,))
    x, a, b, c, d = (Value(name, kind) for name in "xabcd")
    made = ((x, a), (a, b), (b, c), (b, d))
    operations = tuple(Operation("neg", (read,), (out,)) for read, out in made)
    step = Step("again", Graph((x,), operations, (a, c, d)), ("batch",), ("x",))
    groups = (Fused(("b",), ("a",)), Fused(("d",), ("b",)))
    program = apply(step, Plan((("data", 1),), whole(step.graph), fused=groups))
    read = {
        one.operation.results[0].name: str(one.operation.operands[0])
        for one in program.instructions
        if isinstance(one, Done)
    }
    again = {"a_again0": "x", "b": "a_again0", "b_again1": "a", "d": "b_again1"}
    assert read == {"a": "x", "c": "b", **again}


def test_a_cycle_is_shown() -> None:
    kind = Type("f32", (4,))
    x, *v = (Value(name, kind) for name in ("x", "v3", "v9", "v5"))
    made = zip((x, v[0], v[1]), v, strict=True)
    operations = tuple(Operation("neg", (read,), (out,)) for read, out in made)
    step = Step("chain", Graph((x,), operations, (v[2],)), ("batch",), ("x",))
    plan = Plan((("data", 1),), whole(step.graph), fused=(Fused(("v3", "v5")),))
    with pytest.raises(InputError, match=r"\(v3 v5\) -> v9 -> \(v3 v5\)|v9 -> \(v3 v5\) -> v9"):
        apply(step, plan)


GROUPS = (Fused(("v2", "v3")), Fused(("v20", "v21")), Fused(("v36", "v37"), ("v28",)))


@pytest.mark.parametrize(
    "more",
    [
        pytest.param("", marks=pytest.mark.slow),
        "; buckets of 1 MB",
        pytest.param("; zero=2", marks=pytest.mark.slow),
        "; 2 microbatches",
    ],
)
def test_fused_steps_compute_what_one_device_does(more: str) -> None:
    """Devices carry the program out in the order that the groups give it."""
    step = mlp()
    plan = plan_of(step, parse_recipe(DATA + more))
    names = [one.results[0].name for one in step.graph.operations if one.body is None]
    pairs: list[Fused] = []
    for group in (Fused((a, b)) for a, b in zip(names[::2], names[1::2], strict=False)):
        try:
            apply(step, replace(plan, fused=(*pairs, group)))
        except InputError:
            continue
        pairs.append(group)
    assert len(pairs) > len(names) / 4
    judge(step, apply(step, replace(plan, fused=tuple(pairs))), plan.parts, on_one_device(step))


def test_what_is_done_again_is_read_inside_and_changes_no_value() -> None:
    step = mlp()
    plan = plan_of(step, parse_recipe(DATA))
    readers: dict[str, list[str]] = {}
    for one in step.graph.operations:
        for read in {*map(str, one.operands)}:
            readers.setdefault(read, []).append(one.results[0].name)
    tried = 0
    for one in step.graph.operations:
        name = one.results[0].name
        if one.body is not None or len(readers.get(name, [])) < 2 or tried == 3:
            continue
        try:
            found = apply(step, replace(plan, fused=(Fused((readers[name][1],), (name,)),)))
        except InputError:
            continue
        tried += 1
        assert len(found.instructions) == len(apply(step, plan).instructions) + 1
        known = on_one_device(step)
        known.values[f"{name}_again0"] = known.values[name]
        judge(step, found, plan.parts, known)
    assert tried == 3


def test_groups_are_printed_and_read_back() -> None:
    step = mlp()
    plan = replace(plan_of(step, parse_recipe(DATA)), fused=GROUPS)
    text = plan_text(step, plan)
    assert "\nfused v36 v37 again v28\n" in text
    assert parse_plan(text, step) == plan


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ((Fused(("nothing", "v3")),), "no operation makes nothing"),
        ((Fused(("v3",)), Fused(("v3",))), "v3 is fused twice"),
        ((Fused(("v15", "v3")),), "v15 cannot be fused"),
        ((Fused(("v3",), ("v3",)),), "done again in the same"),
        ((Fused(("v3",), ("v36",)),), "does not read it"),
    ],
)
def test_groups_that_cannot_be_are_refused(groups: tuple[Fused, ...], message: str) -> None:
    from bucketed_steps import step as traced

    one = traced()
    plan = plan_of(one, parse_recipe(DATA))
    with pytest.raises(InputError, match=message):
        apply(one, replace(plan, fused=groups))
