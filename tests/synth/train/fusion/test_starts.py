"""Plans to begin with: the buckets that end first, and what is put off while a large sum goes."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from fused_steps import SUMS, Priced, partitions, small
from grammar.tensors.operations import Graph, Operation, Step, Value
from grammar.tensors.sharding import Type
from hierarchies import InputError
from synth.train.fusion.starts import levelled, postponed, soonest_together
from synth.train.planner.finalists import RUNTIME
from synth.train.plans import Plan, apply, prepared
from synth.train.simulation import Simulated, Sources, predicted

ALL = ("g0", "g1", "g2")


def products() -> Step:
    """Three gradients: of a bias, at once, then by products, of which the second is the larger."""
    x, h = (Value(name, Type("f32", (65536, 256))) for name in "xh")
    kinds = Type("f32", (256,)), Type("f32", (256, 256)), Type("f32", (256, 2048))
    y = Value("y", Type("f32", (65536, 2048)))
    p0, p1, p2 = (Value(f"p{at}", kind) for at, kind in enumerate(kinds))
    g0, g1, g2 = (Value(f"g{at}", kind) for at, kind in enumerate(kinds))
    u0, u1, u2 = (Value(f"u{at}", kind) for at, kind in enumerate(kinds))
    over = (("dimension_numbers", (((0,), (0,)), ((), ()))),)
    operations = (
        Operation("exp", (x,), (h,)),
        Operation("reduce_sum", (h,), (g0,), (("axes", (0,)),)),
        Operation("dot_general", (x, h), (g1,), over),
        Operation("dot_general", (h, y), (g2,), over),
        Operation("sub", (p0, g0), (u0,)),
        Operation("sub", (p1, g1), (u1,)),
        Operation("sub", (p2, g2), (u2,)),
    )
    graph = Graph((x, y, p0, p1, p2), operations, (u0, u1, u2))
    roles = ("batch", "batch", "parameter", "parameter", "parameter")
    return Step("products", graph, roles, ("x", "y", "p0", "p1", "p2"), ((0, 2), (1, 3), (2, 4)))


def together(one: Priced, plan: Plan, sums: tuple[str, ...]) -> Plan:
    told = Sources(lambda section: one.rooflines(section).seconds, one.sending, lambda *_: 0.0)
    run = predicted(prepared(one.step, plan), plan, apply(one.step, plan), told, RUNTIME).run
    assert isinstance(run, Simulated)

    def seconds(size: int) -> float:
        return one.launch + size / one.bytes_per_second

    return soonest_together(plan, sums, run, seconds)


@pytest.mark.parametrize(("launch", "rate"), [*product((1e-6, 1e-4, 1e-2), (1e9, 1e12))])
def test_no_buckets_end_before_the_soonest(launch: float, rate: float) -> None:
    """Of all that there are, kernels being as they are."""
    for step, sums in ((small(), SUMS), (products(), ALL)):
        one = Priced(step, launch, rate)
        plan = levelled(step, one.plan, one.rooflines)
        buckets = ([some for some in one_way if len(some) > 1] for one_way in partitions([*sums]))
        every = [one.seconds(replace(plan, buckets=tuple(some))) for some in buckets]
        assert one.seconds(together(one, plan, sums)) == pytest.approx(min(every), rel=1e-9)


@pytest.mark.parametrize(("rate", "gains"), [(3e9, True), (1e12, False)])
def test_what_takes_longer_than_its_sum_is_made_beside_a_larger_one(
    rate: float, gains: bool
) -> None:
    """The smaller product is first in the program; put off, the larger sum begins earlier."""
    one = Priced(products(), 1e-6, rate)
    plan = levelled(one.step, one.plan, one.rooflines)

    def seconds(size: int) -> float:
        return one.launch + size / rate

    later = postponed(one.step, plan, ALL, one.rooflines, seconds)
    assert any({"g1", "u0"} <= {*kernel.members} for kernel in later.fused)
    before, after = (one.seconds(together(one, some, ALL)) for some in (plan, later))
    assert one.least(ALL).seconds <= after * (1 + 1e-12)
    assert (after < before) is gains


def test_nothing_is_put_off_that_takes_less_than_its_sum() -> None:
    one = Priced(products(), 1.0)
    plan = levelled(one.step, one.plan, one.rooflines)
    with pytest.raises(InputError, match="no gradient can be made later"):
        postponed(one.step, plan, ALL, one.rooflines, lambda size: 1.0)
