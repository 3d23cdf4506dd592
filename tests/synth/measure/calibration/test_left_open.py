"""What rows leave open: priced as before, known as well as before, and by no faster link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierarchies import Fit, System, load
from machines import predict, span
from synth.collective.algorithms.protocols import Protocol
from synth.measure.calibration.candidates import SizePrediction
from synth.measure.calibration.fit import fit
from synth.measure.calibration.measurements import Measurement, Sample
from synth.measure.calibration.typical import apply_typical

LOGGED = tuple(1 << power for power in range(20, 31))
"""The sizes of all_reduce_perf -b 1M -e 1G -f 2."""
OTHERS = [
    (collective, members)
    for collective in ("all-reduce", "all-gather", "reduce", "all-to-all")
    for members in ((1, 8), (4, 1), (4, 2))
]
SIZES = (1 << 12, 1 << 20, 1 << 26, 1 << 30)


def asked(collective: str, members: tuple[int, ...], sizes: Sequence[int] = SIZES) -> Measurement:
    """Groups of such members, the whole machine busy."""
    rows = tuple(Sample(size, 1.0) for size in sizes)
    return Measurement(collective, members, (4, 8), rows, source=f"{collective} of {members}")


def logged(
    system: System,
    times: float,
    collective: str = "all-reduce",
    algorithm: str | None = None,
    protocol: str | None = None,
) -> Measurement:
    """A log of all of a machine that takes so many times as long as it is priced."""
    what = replace(asked(collective, (4, 8), LOGGED), algorithm=algorithm, protocol=protocol)
    priced = zip(LOGGED, predict(system, what), strict=True)
    samples = tuple(Sample(size, times * row.seconds) for size, row in priced)
    return replace(what, samples=samples)


def farness(said: SizePrediction) -> tuple[float, float]:
    """By which ratios to a price its interval ends."""
    low, high = span(said)
    return low / said.seconds, high / said.seconds


def test_the_links_of_a_node_are_no_faster_for_a_slow_network() -> None:
    """A newcomer's log: two thirds of the bandwidth that 32 GPUs are expected to have."""
    stated = load("dgx-h100:4")
    slow = fit(stated, [logged(apply_typical(stated), 1.5)]).system
    inside = asked("all-reduce", (1, 8), [1 << 28])
    [before], [after] = predict(apply_typical(stated), inside), predict(slow, inside)
    assert before.seconds < after.seconds < 1.1 * before.seconds
    [busbw] = [1.75 * (1 << 28) / after.seconds / 1e9]
    assert busbw < 480, "that of NVLS in a node of H100, published"


def test_what_rows_leave_open_is_said_once() -> None:
    """No sum of numbers beside one that has all of these and more; ways that share one together."""
    stated = load("dgx-h100:4")
    said = fit(stated, [logged(apply_typical(stated), 1.5)]).calibration.undetermined
    before, among = ": the rows tell only one sum of ", " and "
    sums = [one.partition(before)[::2] for one in said if before in one]
    for ways, numbers in sums:
        for others, more in sums:
            if ways != others or numbers != more:
                shared = {*ways.split(among)} & {*others.split(among)}
                assert not shared or not {*numbers.split(among)} <= {*more.split(among)}
    assert len({one.partition(": ")[2] for one in said}) == len(said)


@pytest.mark.parametrize("name", ["dgx-h100:4", "aws-p4d:4", "mi300x:4"])
@given(times=st.floats(1.0, 4.0))
@settings(max_examples=2, deadline=None)
def test_slow_rows_make_no_price_faster_or_less_certain(name: str, times: float) -> None:
    stated = load(name)
    before = apply_typical(stated)
    after = fit(stated, [logged(before, times)]).system
    for collective, members in OTHERS:
        what = asked(collective, members)
        for was, now in zip(predict(before, what), predict(after, what), strict=True):
            for way, seconds in was.options.items():
                assert now.options[way] >= 0.97 * seconds, (what, way)
            (low, high), (least, most) = farness(was), farness(now)
            assert 0.99 * low <= least <= most <= 1.01 * high, what


@given(st.lists(st.floats(0.6, 4.0), min_size=2, max_size=2))
@settings(max_examples=4, deadline=None)
def test_no_link_carries_more_than_is_described_or_was_measured(times: list[float]) -> None:
    """Rows that contradict each other must not be made up for by ways that nobody saw."""
    stated = load("dgx-h100:4")
    kinds = zip(("reduce-scatter", "all-gather"), times, strict=True)
    seen = [logged(apply_typical(stated), each, kind, "ring", "simple") for kind, each in kinds]
    fits = fit(stated, seen).calibration.fits
    for level in range(2):

        def carried(one: Fit, level: int = level) -> float:
            return one.levels[level].share / Protocol(one.protocol).share

        most = max([1.0, *(carried(one) for one in fits if one.rows)])
        for one in fits:
            assert carried(one) <= most * (1 + 1e-5), (one.key, level)
