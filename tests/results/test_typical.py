from __future__ import annotations

from dataclasses import replace
from itertools import repeat
from math import prod
from statistics import median

import numpy as np
import pytest

from hierarchies import Calibration, System
from hierarchies.calibration import MODEL
from results import record
from results.fidelity.tables import SHARED, gpus_of_thread
from results.typical import __main__ as results_typical
from results.typical.model import CLASSES, LAUNCH, MEDIA, NAMES, START, Model, kin, typical
from results.typical.rows import machines, rows
from synth.collective.price.resolution import OTHERS_LINKS, OTHERS_MESSAGES
from synth.measure.calibration.candidates import Predictor
from synth.measure.calibration.measurements import Measurement
from synth.measure.calibration.typical import apply_typical as priced
from synth.measure.calibration.typical import load_typical

AZURE = "azure-ndv4-a100-1x8-allreduce"


def test_the_page_matches_the_data() -> None:
    data = record.read(results_typical.DATA)
    assert results_typical.page(data).is_current


def test_the_numbers_that_price_are_those_of_the_data() -> None:
    data = record.read(results_typical.DATA)
    assert load_typical().model_dump(exclude={"spread"}) == data["numbers"]
    assert [(one.medium, one.from_bytes) for one in load_typical().spread] == [
        (medium, least) for medium in MEDIA for least in CLASSES
    ]


@pytest.mark.skipif(not SHARED.is_dir(), reason="no ../shared/data beside this checkout")
@pytest.mark.parametrize("name", ["sophia-dgxa100", "together-h100", "aws-p4d-a100", "rtx4090x8"])
def test_learned_seconds_match_prices(name: str) -> None:
    """The arrays that are fitted, and the lines of the simulator, before anything is learned."""
    [machine] = [one for one in machines() if one.name == name and one.judged]
    numbers = typical(START, "", {"": 1}, 1, {})
    known = numbers.model_copy(update={"spread": load_typical().spread})
    known_rows = rows([machine], MODEL)
    # A price is that of one process for each GPU.
    found = Model(replace(known_rows, launches=np.ones(len(known_rows.size)))).seconds(START)
    system = priced(machine.system, known)
    assert isinstance(system.calibration, Calibration)
    expected = [
        Predictor(system, measurement).at(sample.size_bytes).seconds
        for measurement in machine.measurements
        for sample in measurement.samples
    ]
    assert found.tolist() == pytest.approx(expected, rel=2e-3)


@pytest.mark.skipif(not SHARED.is_dir(), reason="no ../shared/data beside this checkout")
def test_one_thread_launches_on_its_gpus_in_turn() -> None:
    """Eight launches of one thread take longer than a small collective of any kind."""
    assert [gpus_of_thread(name) for name in (f"{AZURE}-1", "no-such-table-1")] == [8, 1]
    [machine] = [one for one in machines() if one.name == "azure-ndv4-a100"]
    found = rows([machine], MODEL)
    assert set(found.launches) == {8.0}
    unknowns = START.copy()
    unknowns[NAMES.index(LAUNCH)] = np.log(1e-3)
    seconds = Model(found).seconds(unknowns)
    assert seconds.min() == pytest.approx(8e-3)
    assert seconds.max() > 8e-3


@pytest.mark.skipif(not SHARED.is_dir(), reason="no ../shared/data beside this checkout")
def test_rows_of_a_default_log_may_have_gone_by_any_way() -> None:
    """Rows that took what LL takes are assigned to LL, whatever is chosen by default."""
    [machine] = [one for one in machines() if one.name == "a100-nvswitch" and one.judged]
    found = rows([machine], MODEL)
    model = Model(found)
    slow = np.array([protocol == "ll" for protocol in found.protocol])
    taken = np.minimum.reduceat(np.where(slow, model.every(START), np.inf), found.first)
    known = Model(replace(found, seconds=taken))
    assert known.seconds(START) != pytest.approx(taken)
    assert known.seconds(START, known.assign(START)) == pytest.approx(taken)


@pytest.mark.skipif(not SHARED.is_dir(), reason="no ../shared/data beside this checkout")
def test_the_slow_kind_is_that_of_machines_that_use_less_of_their_nics() -> None:
    """By busbw of the largest row alone, which no model has seen.

    None that uses 0.8 of its NICs is slow; of those that use less, prices may explain some.
    """
    found = load_typical().of("roce")
    assert found is not None
    every = [one for one in machines() if one.media[0] == "roce" and one.judged]
    used = [max(map(nic_share, repeat(one.system), one.measurements)) for one in every]
    assert len(used) == found.families
    assert 0 < len(found.slow) <= sum(share < 0.8 for share in used)
    assert found.share == pytest.approx(median(share for share in used if share >= 0.8), rel=0.1)
    assert max(found.slow) < 0.8


def nic_share(system: System, measurement: Measurement) -> float:
    """The share of a node's NICs that a ring would use; none where switches inside reduce too."""
    ranks = prod(measurement.members)
    last = measurement.samples[-1]
    rounds = 2 if measurement.collective == "all-reduce" else 1
    node = system.port_bytes_per_second(0) / system.block(0) * measurement.members[1]
    return rounds * (ranks - 1) / ranks * last.size_bytes / last.seconds / node


def test_media_that_stray_alike_lend_each_other_their_spread() -> None:
    assert kin("infiniband") == kin("roce") == kin("efa") != kin("tcp")
    assert kin("pcie") == kin("pcie switched") != kin("nvlink") == kin("xgmi")


def test_gains_are_claimed_only_where_six_of_seven_runs_bear_them_out() -> None:
    """Large messages wait for links, others mostly for messages."""
    told = record.read(results_typical.DATA)["noise"]
    assert {one["sizes"] for one in told} == {"small", "middle", "large"}
    for one in told:
        least = 1 + (OTHERS_LINKS if one["sizes"] == "large" else OTHERS_MESSAGES)
        assert one["wrong"] <= 1 / 7 or one["from"] < least, one
