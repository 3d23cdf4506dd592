"""The floor of sections: below every way to cut operations, and reached where one kernel does."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from grammar.tensors.operations import Operation, Value
from grammar.tensors.sharding import Type
from hierarchies.devices import device_named
from synth.compute import Section, section_estimate, section_floor

H100 = device_named("H100 SXM5 80 GB")
SQUARE = Type("bf16", (512, 512))
TOLD = (("dimension_numbers", (((1,), (0,)), ((), ()))),)


def drawn(rng: Random, count: int) -> list[Operation]:
    """Products, sums and other names of any that were there before."""
    values = [Value("x", SQUARE), Value("w", SQUARE)]
    operations = []
    for at in range(count):
        out = Value(f"v{at}", SQUARE)
        one = rng.choice(("dot_general", "add", "add", "tanh", "transpose"))
        several = [rng.choice(values) for _ in range(1 + (one in ("dot_general", "add")))]
        told = TOLD if one == "dot_general" else ()
        operations.append(Operation(one, tuple(several), (out,), told))
        values.append(out)
    return operations


def sections(rng: Random, operations: list[Operation], ends: set[str]) -> list[Section]:
    """Runs of them in their order, some with what an earlier one did done again inside."""
    cuts = sorted({0, len(operations), *rng.sample(range(len(operations)), 3)})
    makers = {one.results[0].name: one for one in operations}
    runs = []
    for first, last in pairwise(cuts):
        own = operations[first:last]
        inside = {one.results[0].name for one in own}
        read = {value.name for one in own for value in one.operands if isinstance(value, Value)}
        again = [makers[name] for name in sorted(read - inside) if name in makers]
        cheap = [one for one in again if one.primitive != "dot_general" and rng.random() < 0.5]
        runs.append([*sorted(cheap, key=operations.index), *own])
    found = []
    for at, own in enumerate(runs):
        made = {one.results[0].name for one in own}
        outside = {value.name for some in runs[at + 1 :] for one in some for value in one.operands}
        found.append(Section(tuple(own), frozenset(made & (ends | outside))))
    return found


@pytest.mark.parametrize("seed", range(100))
def test_no_sections_go_below(seed: int) -> None:
    rng = Random(seed)
    operations = drawn(rng, 10)
    ends = {operations[-1].results[0].name, operations[-2].results[0].name}
    floor = section_floor(Section(tuple(operations), frozenset(ends)), H100)
    assert floor > 0
    for _ in range(5):
        several = sections(rng, operations, ends)
        took = sum(section_estimate(one, H100).seconds for one in several)
        assert took >= floor * (1 - 1e-12)


def test_a_product_between_two_kernels_takes_just_that() -> None:
    x, a, w, b, c = (Value(name, SQUARE) for name in "xawbc")
    operations = (
        Operation("tanh", (x,), (a,)),
        Operation("dot_general", (a, w), (b,), TOLD),
        Operation("tanh", (b,), (c,)),
    )
    section = Section(operations, frozenset("c"))
    assert section_floor(section, H100) == pytest.approx(section_estimate(section, H100).seconds)
