"""The figures of doctor with an earlier log: the page, the aims, and some pairs judged again."""

from __future__ import annotations

import pytest

from results import record
from results.doctor import __main__ as results_doctor
from results.doctor.faults import FAULTS, damage
from results.doctor.pairs import repeated
from results.fidelity.tables import SHARED

DATA = record.read(results_doctor.DATA)


def test_the_page_is_what_the_data_gives() -> None:
    assert results_doctor.page(DATA).is_current


def test_the_aims_are_met() -> None:
    """As they were set in advance, for every kind of pairs and both models of a fault."""
    for name in ("tables of ../shared/data", "tests that others repeated"):
        healthy = DATA["healthy"][name]
        assert healthy["healthy"] >= 0.95 * healthy["runs"]
    for row in DATA["faults"]:
        assert row["found"] >= 0.95 * row["runs"] > 0
        inside = row["where"] != "one node" and row["fault"] == "the inside at half"
        right = row["open"] if inside else row["named"] + row["likely"]
        assert right >= 0.9 * row["runs"]
    for row in DATA["sessions"]:
        assert row["named"] >= 0.9 * row["runs"] > 0


@pytest.mark.skipif(not SHARED.is_dir(), reason="no ../shared/data beside this checkout")
def test_pairs_judged_again_are_as_the_data_says() -> None:
    """One pair of each family: healthy as it is, and slower with each fault that it feels."""
    pairs = {pair.family: pair for pair in repeated() if pair.known}
    assert len(pairs) >= 6
    for pair in pairs.values():
        assert results_doctor.compared(pair, pair.second).healthy
        for fault in FAULTS:
            if (worse := damage(pair, fault, "table")) is not None:
                assert not results_doctor.compared(pair, worse).healthy
