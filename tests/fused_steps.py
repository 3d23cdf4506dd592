"""Small steps for tests of fusion, and what they cost on plain links."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product

from grammar.tensors.operations import Graph, Operation, Step, Value
from grammar.tensors.sharding import Sharding, Type
from hierarchies import InputError
from hierarchies.devices import device_named
from synth.train.bucketing.clock import Least
from synth.train.fusion import Fusions, alone, least
from synth.train.planner.finalists import RUNTIME, rooflines_of
from synth.train.plans import Fused, Plan, apply, parse_recipe, plan_of, prepared
from synth.train.simulation.predicting import Sources, predicted
from synth.train.simulation.sources import Rooflines

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


@dataclass(frozen=True)
class Priced:
    """A step on two devices; each request takes ``launch`` seconds beside those of its bytes."""

    step: Step
    launch: float
    bytes_per_second: float = 1e9

    @cached_property
    def plan(self) -> Plan:
        return plan_of(self.step, parse_recipe("data=2; batch over data"))

    @cached_property
    def rooflines(self) -> Rooflines:
        return rooflines_of(self.step, self.plan, device_named("H100 SXM5 80 GB"))

    def sending(self, kind: Type, source: Sharding, target: Sharding) -> float:
        return self.launch + kind.bytes / self.bytes_per_second

    def seconds(self, plan: Plan) -> float:
        """Of a plan on the clock."""
        told = Sources(
            lambda section: self.rooflines(section).seconds, self.sending, lambda *_: 0.0
        )
        ready = prepared(self.step, plan)
        return predicted(ready, plan, apply(self.step, plan), told, RUNTIME).seconds

    def least(self, sums: tuple[str, ...]) -> Least:
        return least(self.step, self.plan, sums, self.rooflines, self.sending)

    def space(self, sums: tuple[str, ...], **only: bool) -> Fusions:
        bound = self.least(sums).seconds
        return Fusions(self.step, alone(self.step, self.plan), sums, self.seconds, bound, **only)


def partitions(names: list[str]) -> Iterator[list[tuple[str, ...]]]:
    """All ways to put names in groups."""
    if not names:
        yield []
        return
    for rest in partitions(names[1:]):
        yield [(names[0],), *rest]
        for at, one in enumerate(rest):
            yield [*rest[:at], (names[0], *one), *rest[at + 1 :]]


def everything(found: Priced) -> Iterator[float]:
    """Seconds of all plans of the small step: ``a`` done again or not by those that read it."""
    for groups in partitions([one.results[0].name for one in found.step.graph.operations]):
        reading = [one for one in groups if {"g1", "b"} & {*one} and "a" not in one]
        for doing in product((False, True), repeat=len(reading)):
            again = dict(zip(reading, doing, strict=True))
            fused = tuple(Fused(one, ("a",) if again.get(one) else ()) for one in groups)
            for buckets in ((), (SUMS,)):
                try:
                    yield found.seconds(replace(found.plan, fused=fused, buckets=buckets))
                except InputError:
                    continue


@cache
def best(launch: float, bytes_per_second: float = 1e9) -> float:
    """The least of these."""
    return min(everything(Priced(small(), launch, bytes_per_second)))
