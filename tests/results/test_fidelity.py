"""The judge of calibrated prices: what it counts, and that the page says what the data has."""

from __future__ import annotations

import pytest

from machines import bare, calibrated, measured
from results import record
from results.fidelity import __main__ as fidelity
from results.fidelity import aims, judging, tables
from shared import shared


def test_the_page_matches_the_data() -> None:
    assert fidelity.page(record.read(fidelity.DATA)).is_current


def test_pairs_that_differ_clearly_are_counted() -> None:
    first = {8: (1.0, 1.0), 16: (1.0, 1.0), 32: (1.0, 2.0), 64: (1.0, 1.0)}
    other = {8: (1.05, 0.5), 16: (1.2, 1.1), 32: (3.0, 1.0), 128: (9.0, 1.0)}
    assert fidelity.right([first, other]) == (2, 1)
    assert fidelity.right([first]) == (0, 0)


def test_no_row_is_judged_by_a_fit_that_has_seen_it() -> None:
    """Tables that contradict each other are judged wrong, however often they are fitted."""
    seen = [
        measured(calibrated(), "all-gather", (8, 4)),
        measured(calibrated(), "all-gather", (2, 4)),
    ]
    rows = fidelity.by_tables([bare()], seen)
    assert len(rows) == sum(len(m.samples) for m in seen)
    assert all(abs(row.error) < 0.1 for row in rows if row.size_bytes >= 1 << 26)
    far = [seen[0], measured(calibrated(), "all-gather", (2, 4), noise=0.0)]
    slow = [type(s)(s.size_bytes, 10 * s.seconds) for s in far[1].samples]
    far[1] = type(far[1])("all-gather", (2, 4), (2, 4), tuple(slow))
    rows = [row for row in fidelity.by_tables([bare()], far) if row.what[1] == (2, 4)]
    assert all(row.error < -0.7 for row in rows if row.size_bytes >= 1 << 26)
    halves = fidelity.by_sizes([bare()], seen)
    between = [sample.size_bytes for one in seen for sample in one.samples[1::2]]
    assert [row.size_bytes for row in halves] == between


def test_extrapolation_is_judged_by_fits_to_smaller_cases() -> None:
    """More nodes by fewer, small rows by large ones and large by small: each row as often."""
    seen = [measured(calibrated(), "all-gather", (nodes, 4)) for nodes in (1, 2, 4, 8)]
    rows = judging.by_nodes([bare()], seen)
    assert {row.what[1][0] for row in rows} == {4, 8}
    assert len(rows) == 3 * len(seen[0].samples)
    assert max(abs(row.error) for row in rows if row.size_bytes >= 1 << 26) < 0.1
    some = seen[:2]
    beyond = judging.beyond_sizes([bare()], some)
    sizes = [sample.size_bytes for sample in seen[0].samples]
    below, above = ([s for s in sizes if s < 1 << 26], [s for s in sizes if s > 1 << 20])
    assert [row.size_bytes for row in beyond] == [*below, *below, *above, *above]


def test_the_noise_of_runs_is_reported_by_class_of_sizes() -> None:
    runs = [measured(calibrated(), "all-gather", (8, 4), noise=0.1, seed=seed) for seed in (1, 2)]
    floor = fidelity.noise(runs)
    assert all(0 <= apart < 0.25 for some in floor.values() for apart in some)
    assert sum(len(some) for some in floor.values()) == len(runs[0].samples)


def test_targets_are_those_of_the_issue_and_never_loosened() -> None:
    assert (aims.LARGE_MEDIAN, aims.LARGE_P90, aims.MIDDLE_MEDIAN, aims.RIGHT) == (
        0.05,
        0.15,
        0.15,
        0.95,
    )
    assert aims.CLASSES == {"large": (0.06, 0.25), "middle": (0.12, 0.5), "small": (0.14, 0.55)}
    assert aims.COVERED == (0.85, 0.95)
    assert fidelity.CLASSES == {"small": 0, "middle": 1 << 18, "large": 1 << 24}
    assert fidelity.CLEAR == 1.1


def test_families_that_fall_short_have_a_reason() -> None:
    whys = {family["name"] for family in tables.told()["family"] if "why" in family}
    data = record.read(fidelity.DATA)
    short = {
        family["name"]
        for family in data["families"]
        if not all(aims.meets(family["judged"][kind]) for kind in aims.PAIRED)
    }
    assert short <= whys


def test_every_table_belongs_to_one_family() -> None:
    shared("measured")
    told = tables.told()
    seen = [m.source for family in told["family"] for m in tables.tables(family)]
    assert len(seen) == len(set(seen))
    assert {path.stem for path in shared("measured").glob("*.csv")} <= set(seen)


def test_a_family_judged_afresh_gives_the_data() -> None:
    shared("measured")
    told = tables.told()
    family = next(family for family in told["family"] if family["name"] == "snellius-h100")
    said, _ = fidelity.family(family, told["links"])
    data = record.read(fidelity.DATA)
    [kept] = [each for each in data["families"] if each["name"] == "snellius-h100"]
    for kind, classes in kept["judged"].items():
        for name, each in classes.items():
            again = said["judged"][kind][name]
            assert again["rows"] == each["rows"]
            assert again["median"] == pytest.approx(each["median"], rel=0.05, abs=2e-3)
