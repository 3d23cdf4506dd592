"""The best cut of a step: counts of what may be chosen, and against trying every plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import inf

import pytest

from grammar.tensors.operations import Graph, Operation, Step, Value
from grammar.tensors.parser import parse_step
from grammar.tensors.sharding import ReductionKind, Sharding, Type
from places import TESTS
from synth.search.space import BestFound, Infeasible, Optimal
from synth.step.rows import PlanSolution, Prices, choose, list_options, plain_prices, seconds_of
from synth.step.rows.options import list_shardings
from synth.step.sharding import Cuts, Plan, parse_recipe, plan_of

ONE, TWO = {"data": 2}, {"data": 2, "tensor": 2}
RATES = {"data": 3.0, "tensor": 7.0}


def product_of(left: Value, right: Value, name: str, batch: int = 0) -> Operation:
    shape = (*left.type.shape[:-1], right.type.shape[-1])
    first = tuple(range(batch))
    numbers = (((batch + 1,), (batch,)), (first, first))
    return Operation(
        "dot_general",
        (left, right),
        (Value(name, Type("f32", shape)),),
        (("dimension_numbers", numbers),),
    )


def matrix(name: str, *shape: int) -> Value:
    return Value(name, Type("f32", shape))


def two_products() -> Step:
    """``max(x w1, 0) w2``, all whose values have one reader."""
    return parse_step(
        """step two
in x: f32[8,3] batch
in w1: f32[3,8] parameter
in w2: f32[8,3] parameter
h: f32[8,8] = dot_general(x, w1) dimension_numbers=(((1),(0)),((),()))
r: f32[8,8] = max(h, 0.0:f32)
y: f32[8,3] = dot_general(r, w2) dimension_numbers=(((1),(0)),((),()))
out y
"""
    )


def looped() -> Step:
    """A loop that carries a value, has a constant, reads slices of one stack and makes another."""
    return parse_step(
        """step loop
in x: f32[4] batch
in w: f32[3,4] parameter
in c: f32[4] state
y: f32[4], s: f32[3,4] = scan(c, x, w) num_consts=1 num_carry=1 length=3 reverse=false {
  in c1: f32[4]
  in x1: f32[4]
  in w1: f32[4]
  h: f32[4] = mul(x1, w1)
  z: f32[4] = sub(c1, h)
  out z
  out h
}
out y
out s
"""
    )


def updated() -> Step:
    """What comes back as a parameter ends as that lies."""
    return parse_step(
        """step update
in x: f32[8,3] batch
in w: f32[8,3] parameter
g: f32[3,3] = dot_general(x, x) dimension_numbers=(((0),(0)),((),()))
u: f32[8,3] = dot_general(w, g) dimension_numbers=(((1),(0)),((),()))
v: f32[8,3] = sub(w, u)
out v -> w
"""
    )


def prices(sizes: Mapping[str, int]) -> Prices:
    return plain_prices(sizes, RATES, 50.0, 900.0)


def over(sizes: Mapping[str, int]) -> Plan:
    return Plan(tuple(sizes.items()), Cuts((), ()))


def plans(step: Step, sizes: Mapping[str, int]) -> Iterator[Plan]:
    """Every plan: how each input lies, and every legal row of each operation."""
    for cuts in _cuts(step.graph, sizes, frozenset()):
        yield Plan(tuple(sizes.items()), cuts)


def _cuts(graph: Graph, sizes: Mapping[str, int], carried: frozenset[int]) -> Iterator[Cuts]:
    inputs = [
        list_shardings(one.type, sizes, (ReductionKind.SUM,) if at in carried else ())
        for at, one in enumerate(graph.inputs)
    ]
    operations = [
        [one.rows for one in list_options(each, sizes)]
        if each.body is None
        else list(_cuts(each.body, sizes, frozenset((1,))))
        for each in graph.operations
    ]
    for chosen in product(product(*inputs), product(*operations)):
        yield Cuts(*chosen)


@pytest.mark.parametrize(("sizes", "plain", "all_"), [(ONE, 5, 7), (TWO, 25, 49)], ids=str)
def test_so_many_ways_to_do_a_product(sizes: dict[str, int], plain: int, all_: int) -> None:
    one = product_of(matrix("a", 8, 4, 4), matrix("b", 8, 4, 4), "c", batch=1)
    assert len(list_options(one, sizes, partial=False)) == plain
    assert len(list_options(one, sizes)) == all_
    assert (
        len({found.how.operands + found.how.results for found in list_options(one, sizes)}) == all_
    )


@pytest.mark.parametrize(("sizes", "count"), [(ONE, 48), (TWO, 2304)], ids=str)
def test_so_many_plans_of_two_products(sizes: dict[str, int], count: int) -> None:
    """Of sizes that all axes divide; inputs lie as they are read, no operand is a partial sum."""
    text = str(two_products()).replace("3]", "4]").replace("[3", "[4")
    operations = parse_step(text).graph.operations
    each = [len(list_options(one, sizes, partial=False)) for one in operations]
    assert each[0] * each[1] * each[2] == count


def test_so_many_ways_to_lie() -> None:
    value = Type("f32", (8, 4))
    assert len(list_shardings(value, ONE)) == 3
    assert len(list_shardings(value, TWO)) == 9
    assert len(list_shardings(value, TWO, (ReductionKind.SUM,))) == 16
    assert list_shardings(Type("f32", (2, 3)), TWO) == (
        Sharding(((), ())),
        Sharding((("tensor",), ())),
        Sharding((("data",), ())),
    )


@pytest.mark.parametrize("make", [two_products, looped], ids=lambda one: one.__name__)
def test_the_chosen_plan_is_the_best_of_all(make: object) -> None:
    """Where a value has one reader the search charges what a plan costs."""
    step = make()  # type: ignore[operator]
    found, rates = choose(step, over(ONE), prices(ONE)), prices(ONE)
    assert isinstance(found, PlanSolution)
    assert isinstance(found.found, Optimal)
    least = min(seconds_of(step, plan, rates).all for plan in plans(step, ONE))
    assert found.found.seconds == pytest.approx(least)
    assert seconds_of(step, found.plan, rates).all == pytest.approx(least)


def test_a_redistribution_that_two_read_is_charged_at_most_twice() -> None:
    step, rates = updated(), prices(ONE)
    found = choose(step, over(ONE), rates)
    assert isinstance(found, PlanSolution)
    every = [seconds_of(step, plan, rates) for plan in plans(step, ONE)]
    own = seconds_of(step, found.plan, rates)
    assert own.all <= found.found.seconds <= own.all + own.sending + 1e-12
    best = min(every, key=lambda one: one.all)
    assert best.all <= own.all <= best.all + best.sending + 1e-12


def test_over_two_axes_messages_find_what_elimination_does() -> None:
    for step in (two_products(), looped(), updated()):
        found = choose(step, over(TWO), prices(TWO))
        assert isinstance(found, PlanSolution)
        assert isinstance(found.found, Optimal)
        assert seconds_of(step, found.plan, prices(TWO)).all <= found.found.seconds * (1 + 1e-9)


def test_compute_alone_is_cut_and_sending_alone_is_not() -> None:
    free = plain_prices(ONE, {"data": inf}, 50.0)
    found = choose(two_products(), over(ONE), free)
    assert isinstance(found, PlanSolution)
    whole = seconds_of(two_products(), Plan((("data", 1),), found.plan.cuts), free).computing
    assert found.found.seconds == pytest.approx(whole / 2)
    dear = choose(two_products(), over(ONE), plain_prices(ONE, RATES, inf))
    assert isinstance(dear, PlanSolution)
    assert dear.found.seconds == 0.0


def test_a_kept_step_of_a_perceptron_is_chosen_better_than_by_recipes() -> None:
    step = parse_step((TESTS / "steps" / "mlp-tiny.step").read_text(encoding="utf-8"))
    rates = plain_prices(ONE, {"data": 1e6}, 1e9, 1e8)
    found = choose(step, over(ONE), rates)
    assert isinstance(found, PlanSolution)
    assert str(found).endswith(" ms, gap 0 %")
    for recipe in ("batch over data", "batch over data; zero=1", "batch over data; zero=3"):
        plan = plan_of(step, parse_recipe(f"data=2; {recipe}"))
        assert seconds_of(step, found.plan, rates).all < seconds_of(step, plan, rates).all


def test_one_round_is_an_answer_with_a_gap() -> None:
    step = parse_step((TESTS / "steps" / "mlp-tiny.step").read_text(encoding="utf-8"))
    rates = plain_prices(TWO, {"data": 1e6, "tensor": 4e6}, 1e9, 1e8)
    short = choose(step, over(TWO), rates, 1)
    full = choose(step, over(TWO), rates)
    assert isinstance(short, PlanSolution)
    assert isinstance(full, PlanSolution)
    assert isinstance(short.found, Optimal | BestFound)
    assert full.found.seconds <= short.found.seconds


def test_values_that_must_not_be_sent_are_not_chosen() -> None:
    def never(value: Type, source: Sharding, target: Sharding) -> float:
        return inf

    still = Prices(prices(ONE).computing, never, prices(ONE).handing)
    found = choose(two_products(), over(ONE), still)
    assert isinstance(found, PlanSolution)
    assert seconds_of(two_products(), found.plan, still).sending == 0.0
    assert not isinstance(found.found, Infeasible)
