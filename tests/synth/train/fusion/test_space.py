"""Groups and buckets searched together: as good as all there are, of a graph that is small."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

import pytest

import bucketed_steps
from grammar.tensors.operations import Graph, Operation, Step, Value
from grammar.tensors.sharding import Type
from hierarchies import InputError
from hierarchies.devices import device_named
from synth.search.space import BestFound, Budget, Optimal
from synth.train.fusion import Fusions, alone, jointly, sectioned
from synth.train.planner.finalists import RUNTIME, rooflines_of
from synth.train.plans import Fused, Plan, apply, parse_recipe, plan_of, prepared
from synth.train.simulation.predicting import Sources, predicted

SUMS = ("g1", "g2")


def small() -> Step:
    """Two gradients, of which one is made later, and the parameters less them."""
    big, row = Type("f32", (4096, 1024)), Type("f32", (1024,))
    x, a, b = (Value(name, big) for name in ("x", "a", "b"))
    p1, p2, g1, g2, u1, u2 = (Value(name, row) for name in ("p1", "p2", *SUMS, "u1", "u2"))
    operations = (
        Operation("neg", (x,), (a,)),
        Operation("reduce_sum", (a,), (g1,), (("axes", (0,)),)),
        Operation("exp", (a,), (b,)),
        Operation("reduce_sum", (b,), (g2,), (("axes", (0,)),)),
        Operation("sub", (p1, g1), (u1,)),
        Operation("sub", (p2, g2), (u2,)),
    )
    graph = Graph((x, p1, p2), operations, (u1, u2))
    roles, labels = ("batch", "parameter", "parameter"), ("x", "p1", "p2")
    return Step("small", graph, roles, labels, ((0, 1), (1, 2)))


STEP = small()
PLAN = plan_of(STEP, parse_recipe("data=2; batch over data"))


def space(launch: float, **only: bool) -> Fusions:
    """``launch``: seconds of each request, beside those of its bytes."""
    rooflines = rooflines_of(STEP, PLAN, device_named("H100 SXM5 80 GB"))
    sources = Sources(
        lambda section: rooflines(section).seconds,
        lambda kind, *_: launch + kind.bytes / 1e9,
        lambda *_: 0.0,
    )

    def seconds(plan: Plan) -> float:
        ready = prepared(STEP, plan)
        return predicted(ready, plan, apply(STEP, plan), sources, RUNTIME).seconds

    return Fusions(STEP, alone(STEP, PLAN), SUMS, seconds, **only)


def partitions(names: list[str]) -> Iterator[list[tuple[str, ...]]]:
    if not names:
        yield []
        return
    for rest in partitions(names[1:]):
        yield [(names[0],), *rest]
        for at, one in enumerate(rest):
            yield [*rest[:at], (names[0], *one), *rest[at + 1 :]]


def brute_force(found: Fusions) -> float:
    """Of all partitions, each group with ``a`` done again or not, and either bucket or none."""
    best = found.seconds(found.start)
    assert isinstance(best, float)
    for groups in partitions([one.results[0].name for one in STEP.graph.operations]):
        for doing in range(2 ** len(groups)):
            fused = tuple(
                Fused(one, ("a",) if doing >> at & 1 else ()) for at, one in enumerate(groups)
            )
            for buckets in ((), (SUMS,)):
                try:
                    price = found.seconds(replace(PLAN, fused=fused, buckets=buckets))
                except InputError:
                    continue
                assert isinstance(price, float)
                best = min(best, price)
    return best


@pytest.mark.parametrize("launch", [1e-6, 1e-4])
def test_the_best_is_that_of_all_there_are(launch: float) -> None:
    one = space(launch)
    found = jointly(one, Budget(6000), alpha=inf)
    assert isinstance(found, BestFound | Optimal)
    assert found.seconds == pytest.approx(brute_force(one), rel=1e-12)
    each = [
        jointly(space(launch, **only), Budget(3000))
        for only in ({"tensors": False}, {"operators": False})
    ]
    for other in each:
        assert isinstance(other, BestFound | Optimal)
        assert found.seconds <= other.seconds


def test_a_budget_leaves_the_best_so_far() -> None:
    one = space(1e-6)
    found = jointly(one, Budget(1))
    assert isinstance(found, BestFound)
    assert found.state == one.start
    assert jointly(one, Budget(40, seed=3)) == jointly(one, Budget(40, seed=3))


def test_sections_said_as_groups_take_as_long_as_no_groups() -> None:
    step = bucketed_steps.step()
    plan = plan_of(step, parse_recipe("data=2; batch over data"))
    rooflines = rooflines_of(step, plan, device_named("H100 SXM5 80 GB"))
    sources = Sources(
        lambda section: rooflines(section).seconds,
        lambda kind, *_: 5e-6 + kind.bytes / 1e11,
        lambda *_: 0.0,
    )

    def seconds(one: Plan) -> float:
        return predicted(prepared(step, one), one, apply(step, one), sources, RUNTIME).seconds

    said = sectioned(step, plan, RUNTIME)
    assert max(len(one.members) for one in said.fused) > 10
    assert seconds(said) == pytest.approx(seconds(plan), rel=1e-12)
