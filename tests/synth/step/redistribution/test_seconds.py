"""Redistributions priced on machines: every request answered, ties decided by seconds."""

from __future__ import annotations

from itertools import permutations

import pytest

from grammar.tensors.sharding import ReductionKind, Sharding, Type, replicated_sharding, shardings
from hierarchies import Axis, Hierarchy, InputError, Placement, System, load, placements
from strategies import switches
from synth.collective.price.steps import InstructionPrice
from synth.collective.ranking.oracle import ProgramPrices
from synth.collective.ranking.request import Answer
from synth.collective.semantics.programs import Language
from synth.collective.verify.symbolic import Proved
from synth.step.redistribution import MoveKind
from synth.step.redistribution.paths import CostPriority, find_paths
from synth.step.redistribution.seconds import NetworkPrices

MATRIX = Type("bf16", (4096, 6144))
AXES = (Axis("data", 4), Axis("model", 8))


def three_steps(system: System) -> ProgramPrices:
    """Prices of programs of three steps at most, in one segment."""
    return ProgramPrices(system, language=Language(3), segments=(1,), stripes=False)


def on_dgx() -> NetworkPrices:
    """Four nodes, ``model`` inside of them."""
    system = load("dgx-h100:4")
    placement = Placement(system.hierarchy, AXES, ((4, 1), (1, 8)))
    return NetworkPrices(three_steps(system), placement)


def test_every_request_is_answered_by_a_proved_program() -> None:
    machine = on_dgx()
    pair = Sharding((("data",), ("model",))), replicated_sharding(2)
    found = machine.redistribution(MATRIX, *pair)
    assert found.requests
    for one in found.requests:
        assert isinstance(one.answer, Answer)
        assert isinstance(one.answer.verdict, Proved)
    assert found.seconds == sum(one.seconds for one in found.requests) > 0


def test_the_fastest_of_the_least_bytes_and_of_the_fewest_requests_is_taken() -> None:
    machine = on_dgx()
    decided = 0
    for pair in list(permutations(shardings(2, ("data", "model"), [ReductionKind.SUM]), 2))[::29]:
        paths = [
            path
            for first in CostPriority
            for path in find_paths(MATRIX, *pair, machine.sizes, first=first)
        ]
        found = machine.redistribution(MATRIX, *pair)
        assert found.path in paths
        seconds = [machine.along(path, MATRIX).seconds for path in paths]
        assert found.seconds <= min(seconds) * (1 + 1e-9)
        decided += max(seconds) > found.seconds * 1.01
    assert decided > 0


def test_a_small_value_is_not_worth_more_requests() -> None:
    """A gradient's sum over nodes: large ones are shared out among the GPUs of a node first."""
    machine = on_dgx()
    pair = Sharding(((), ()), ((ReductionKind.SUM, "data"),)), replicated_sharding(2)
    small, large = Type("f32", (8, 32)), Type("f32", (8192, 32768))
    assert len(machine.redistribution(small, *pair).requests) == 1
    assert len(machine.redistribution(large, *pair).requests) > 1


def test_a_permute_is_priced_link_by_link() -> None:
    machine = on_dgx()
    pair = Sharding((("data", "model"), ())), Sharding((("model", "data"), ()))
    found = machine.redistribution(MATRIX, *pair)
    [one] = found.requests
    assert one.communication.move.how is MoveKind.PERMUTE
    assert isinstance(one.answer, InstructionPrice)
    assert one.answer.busiest == "node"


def test_local_moves_need_no_request() -> None:
    found = on_dgx().redistribution(
        MATRIX, replicated_sharding(2), Sharding((("data",), ("model",)))
    )
    assert (found.requests, found.seconds) == ((), 0)


def test_a_placement_on_another_machine_is_refused() -> None:
    system = switches(Hierarchy.of(node=2, gpu=2))
    other = Placement(Hierarchy.of(gpu=4), (Axis("data", 4),), ((4,),))
    with pytest.raises(InputError, match="the placement is on"):
        NetworkPrices(ProgramPrices(system), other)


def test_placements_share_answers_and_find_what_each_finds_alone() -> None:
    system, value = load("p2-a100:2"), Type("f32", (1024, 1024))
    shared = three_steps(system)
    for names in (("a", "b"), ("b", "a")):
        axes = tuple(Axis(name, size) for name, size in zip(names, (4, 8), strict=True))
        for placement in placements(system.hierarchy, axes):
            alone = three_steps(system)
            for source in (
                Sharding(((), ()), ((ReductionKind.SUM, "a"),)),
                Sharding((("b", "a"), ())),
            ):
                seconds = [
                    NetworkPrices(one, placement)
                    .redistribution(value, source, replicated_sharding(2))
                    .seconds
                    for one in (shared, alone)
                ]
                assert seconds[0] == seconds[1]
