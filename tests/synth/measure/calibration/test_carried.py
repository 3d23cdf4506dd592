"""The share that links carried, of machines on which it is known: whatever ran, or not told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exhaustive import examples
from hierarchies import System, load
from machines import predict
from synth.measure.calibration.measurements import Measurement, Sample
from synth.measure.calibration.typical import apply_typical
from synth.measure.doctor import CarriedShare, carried_shares

SIZES = tuple(1 << power for power in range(20, 31, 2))
STATED = load("dgx-h100:2")
TOGETHER, INSIDE, BETWEEN = (2, 8), (1, 8), (2, 1)


def slowed(shares: Mapping[int, float]) -> System:
    """Such links as elsewhere, some of them at a part of their rate."""
    links = tuple(
        replace(link, bandwidth_bytes_per_second=link.bandwidth_bytes_per_second * shares[at])
        if at in shares
        else link
        for at, link in enumerate(STATED.links)
    )
    return replace(apply_typical(STATED), links=links)


def log(
    system: System, members: tuple[int, ...], ran: str | None = None, *, said: bool = True
) -> Measurement:
    """A log of an all-reduce by an algorithm, which it says itself or does not."""
    asked = tuple(Sample(size, 1.0) for size in SIZES)
    what = Measurement("all-reduce", members, (2, 8), asked, ran, source=f"of {members}")
    rows = zip(SIZES, predict(system, what), strict=True)
    found = replace(what, samples=tuple(Sample(size, row.seconds) for size, row in rows))
    return found if said else replace(found, algorithm=None)


def of(level: str, *logs: Measurement) -> CarriedShare:
    [found] = [one for one in carried_shares(STATED, logs) if one.level == level]
    return found


def test_a_network_at_six_tenths_is_reported_as_such_where_it_is_the_only_level() -> None:
    found = of("node", log(slowed({0: 0.6}), BETWEEN))
    assert found.told
    assert not found.least
    assert found.low == pytest.approx(0.6, abs=0.05)
    assert found.high == pytest.approx(0.6, abs=0.05)


@pytest.mark.parametrize("ran", ["ring", "nvls_tree"])
def test_the_algorithm_does_not_matter_if_the_log_states_it(ran: str) -> None:
    """At 0.6 of the network, switches inside limit trees over them nearly as much."""
    slow = slowed({0: 0.5})
    found = of("node", log(slow, TOGETHER, ran), log(slow, INSIDE, "ring"))
    assert found.told
    assert not found.least
    assert found.low == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("ran", ["ring", "nvls_tree"])
def test_where_the_runtime_chose_it_is_half_by_what_ran_and_not_told(ran: str) -> None:
    """At 0.6 a ring would need more than the network's stated rate: trees are told."""
    slow = slowed({0: 0.5})
    alone = of("node", log(slow, TOGETHER, ran, said=False))
    assert not alone.told
    assert alone.least
    assert alone.shares[ran] == pytest.approx(0.5, abs=0.05)
    inside = of("node", log(slow, TOGETHER, ran, said=False), log(slow, INSIDE, "ring"))
    assert not inside.told
    assert inside.shares[ran] == pytest.approx(0.5, abs=0.05)
    told = of("node", log(slow, TOGETHER, ran, said=False), log(slow, BETWEEN))
    assert told.told
    assert told.low == pytest.approx(0.5, abs=0.05)


@examples(10, 50)
@given(st.floats(0.1, 1.0), st.floats(0.1, 1.0), st.sampled_from(["ring", "tree", "nvls_tree"]))
def test_links_carry_at_least_their_described_bandwidth(node: float, gpu: float, ran: str) -> None:
    """And just that where no other level may have limited the rows."""
    there = slowed({0: node, 1: gpu})
    before = {one.level: one.high for one in carried_shares(STATED, BOTH)}
    logs = [log(there, TOGETHER, ran), log(there, INSIDE, "ring")]
    for one in carried_shares(STATED, logs):
        share = {"node": node, "gpu": gpu}[one.level] * before[one.level]
        assert one.told
        assert one.low <= share * 1.02
        assert one.least or one.low == pytest.approx(share, rel=0.1)
    found = {one.level: one for one in carried_shares(STATED, logs[:1])}
    assert all(one.least for one in found.values())


BOTH = [log(slowed({}), INSIDE, "ring"), log(slowed({}), BETWEEN, "ring")]


def test_the_order_of_rows_does_not_matter() -> None:
    """The ways that may have run are those of the largest size, wherever it is in the log."""
    large = log(slowed({0: 0.6}), TOGETHER, "ring", said=False)
    small = Sample(1 << 10, 40e-6)
    last, first = (*large.samples, small), (small, *large.samples)
    found = [carried_shares(STATED, [replace(large, samples=rows)]) for rows in (last, first)]
    assert found[0] == found[1]
