"""Which level is taken to be slow: of machines whose shares are known, and of made-up rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import System, UndeterminedLevels, load
from machines import predict
from synth.measure.calibration.fit import fit
from synth.measure.calibration.measurements import Measurement, Sample
from synth.measure.calibration.slow_level import SHORT, LargestRow, find_slowness, typical_lag
from synth.measure.calibration.typical import apply_typical

LOGGED = tuple(1 << power for power in range(20, 31))
STATED = load("dgx-h100:2")
TOGETHER, INSIDE, BETWEEN = (2, 8), (1, 8), (2, 1)


def machine(slower: Mapping[int, float]) -> System:
    """Such links as elsewhere, but some levels with a part of their bandwidth only."""
    known = apply_typical(STATED)
    assert known.calibration
    fits = []
    for one in known.calibration.fits:
        levels = (
            replace(level, share=level.share * slower.get(which, 1.0))
            for which, level in enumerate(one.levels)
        )
        fits.append(replace(one, levels=tuple(levels)))
    return replace(known, calibration=replace(known.calibration, fits=tuple(fits)))


def log(system: System, members: tuple[int, ...]) -> Measurement:
    """What all_reduce_perf says of it, by whatever the runtime chooses."""
    asked = tuple(Sample(size, 1.0) for size in LOGGED)
    what = Measurement("all-reduce", members, (2, 8), asked, source=f"of {members}")
    rows = zip(LOGGED, predict(system, what), strict=True)
    return replace(what, samples=tuple(Sample(size, row.seconds) for size, row in rows))


def carried(system: System) -> list[float]:
    """The shares of the levels that rings reach, to those of the machine that nobody measured."""
    before = apply_typical(STATED).calibration
    after = system.calibration
    assert before
    assert after
    ends = (one.fit("all-reduce", "ring", "simple") for one in (after, before))
    new, old = (one.levels for one in ends if one)
    return [one.share / other.share for one, other in zip(new, old, strict=True)]


OPEN = (UndeterminedLevels(("node", "gpu"), "node"),)


@pytest.mark.parametrize("share", [0.2, 0.3])
def test_a_slow_network_is_the_assumed_cause_and_reported_as_undetermined(share: float) -> None:
    found = fit(STATED, [log(machine({0: share}), TOGETHER)])
    assert found.calibration.undetermined_levels == OPEN
    node, gpu = carried(found.system)
    assert node == pytest.approx(share, rel=0.15)
    assert gpu == pytest.approx(1.0, rel=0.05)


def test_slow_links_of_a_node_are_open_until_a_node_alone_is_measured() -> None:
    slow = machine({1: 0.5})
    both = fit(STATED, [log(slow, TOGETHER)])
    assert both.calibration.undetermined_levels == OPEN
    found = fit(STATED, [log(slow, TOGETHER), log(slow, INSIDE)])
    assert found.calibration.undetermined_levels == ()
    node, gpu = carried(found.system)
    assert gpu == pytest.approx(0.5, rel=0.1)
    assert node > 0.9


def test_a_log_of_one_node_identifies_a_slow_network() -> None:
    slow = machine({0: 0.4})
    found = fit(STATED, [log(slow, TOGETHER), log(slow, INSIDE)])
    assert found.calibration.undetermined_levels == ()
    assert carried(found.system) == pytest.approx([0.4, 1.0], rel=0.1)


def test_what_is_as_expected_leaves_nothing_open() -> None:
    assert not fit(STATED, [log(machine({}), TOGETHER)]).calibration.undetermined_levels


@given(st.tuples(*[st.floats(0.1, 1.0)] * 2), st.floats(0.05, 20.0))
def test_of_one_table_the_taken_level_explains_it(loads: tuple[float, ...], times: float) -> None:
    end = LargestRow(loads, times * max(loads))
    found = find_slowness(STATED, [end])
    [(level, [needed])] = found.times.items()
    assert needed * loads[level] == pytest.approx(end.seconds)
    assert bool(found.undetermined_levels) == (times * SHORT > 1)
    if times * SHORT <= 1:
        assert loads[level] == max(loads)
    elif level == 1:
        assert needed <= typical_lag(STATED, 1)


@given(st.floats(1.2, 20.0))
def test_what_one_level_alone_shows_clears_it_or_explains_the_rest(times: float) -> None:
    """Both ways round: the level that is known, and the other one."""
    for known in (0, 1):
        alone = tuple(float(level == known) for level in (0, 1))
        healthy = find_slowness(STATED, [LargestRow((1.0, 1.0), times), LargestRow(alone, 1.0)])
        assert healthy.times == {known: [1.0], 1 - known: [times]}
        slow = find_slowness(STATED, [LargestRow((1.0, 1.0), times), LargestRow(alone, times)])
        assert slow.times.keys() == {known}
        assert not healthy.undetermined_levels
        assert not slow.undetermined_levels
