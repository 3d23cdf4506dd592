"""The judge of calibrated prices: what it counts, and that the page says what the data has."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from machines import bare, calibrated, measured
from places import ROOT
from shared import shared

RESULTS = ROOT / "results"


@pytest.fixture(scope="module")
def rooms() -> Iterator[SimpleNamespace]:
    sys.path.insert(0, str(RESULTS))
    try:
        names = ("record", "fidelity_tables", "fidelity_page", "fidelity")
        yield SimpleNamespace(**{name: __import__(name) for name in names})
    finally:
        sys.path.remove(str(RESULTS))


def test_the_page_is_what_the_data_gives(rooms: SimpleNamespace) -> None:
    text = rooms.record.README.read_text(encoding="utf-8")
    assert rooms.fidelity.page(rooms.record.read("fidelity.json")) == text


def test_pairs_that_differ_clearly_are_counted(rooms: SimpleNamespace) -> None:
    first = {8: (1.0, 1.0), 16: (1.0, 1.0), 32: (1.0, 2.0), 64: (1.0, 1.0)}
    other = {8: (1.05, 0.5), 16: (1.2, 1.1), 32: (3.0, 1.0), 128: (9.0, 1.0)}
    assert rooms.fidelity.right([first, other]) == (2, 1)
    assert rooms.fidelity.right([first]) == (0, 0)


def test_no_row_is_judged_by_a_fit_that_has_seen_it(rooms: SimpleNamespace) -> None:
    """Tables that contradict each other are judged wrong, however often they are fitted."""
    seen = [
        measured(calibrated(), "all-gather", (8, 4)),
        measured(calibrated(), "all-gather", (2, 4)),
    ]
    rows = rooms.fidelity.by_tables([bare()], seen)
    assert len(rows) == sum(len(m.samples) for m in seen)
    assert all(abs(row.error) < 0.1 for row in rows if row.size_bytes >= 1 << 26)
    far = [seen[0], measured(calibrated(), "all-gather", (2, 4), noise=0.0)]
    slow = [type(s)(s.size_bytes, 10 * s.seconds) for s in far[1].samples]
    far[1] = type(far[1])("all-gather", (2, 4), (2, 4), tuple(slow))
    rows = [row for row in rooms.fidelity.by_tables([bare()], far) if row.what[1] == (2, 4)]
    assert all(row.error < -0.7 for row in rows if row.size_bytes >= 1 << 26)
    halves = rooms.fidelity.by_sizes([bare()], seen)
    between = [sample.size_bytes for one in seen for sample in one.samples[1::2]]
    assert [row.size_bytes for row in halves] == between


def test_the_noise_of_runs_is_told_by_class_of_sizes(rooms: SimpleNamespace) -> None:
    runs = [measured(calibrated(), "all-gather", (8, 4), noise=0.1, seed=seed) for seed in (1, 2)]
    floor = rooms.fidelity.noise(runs)
    assert all(0 <= apart < 0.25 for some in floor.values() for apart in some)
    assert sum(len(some) for some in floor.values()) == len(runs[0].samples)


def test_targets_are_those_of_the_issue_and_never_loosened(rooms: SimpleNamespace) -> None:
    page = rooms.fidelity_page
    assert (page.LARGE_MEDIAN, page.LARGE_P90, page.MIDDLE_MEDIAN, page.RIGHT) == (
        0.05,
        0.15,
        0.15,
        0.95,
    )
    assert rooms.fidelity.CLEAR == 1.1


def test_families_that_fall_short_say_why(rooms: SimpleNamespace) -> None:
    whys = {family["name"] for family in rooms.fidelity_tables.told()["family"] if "why" in family}
    data = rooms.record.read("fidelity.json")
    short = {
        family["name"]
        for family in data["families"]
        if not all(rooms.fidelity_page.meets(judged) for judged in family["judged"].values())
    }
    assert short <= whys


def test_every_table_belongs_to_one_family(rooms: SimpleNamespace) -> None:
    shared("measured")
    told = rooms.fidelity_tables.told()
    seen = [m.source for family in told["family"] for m in rooms.fidelity_tables.tables(family)]
    assert len(seen) == len(set(seen))
    assert {path.stem for path in shared("measured").glob("*.csv")} <= set(seen)


def test_a_family_judged_afresh_gives_the_data(rooms: SimpleNamespace) -> None:
    shared("measured")
    told = rooms.fidelity_tables.told()
    family = next(family for family in told["family"] if family["name"] == "snellius-h100")
    said, _ = rooms.fidelity.family(family, told["links"])
    data = rooms.record.read("fidelity.json")
    [kept] = [each for each in data["families"] if each["name"] == "snellius-h100"]
    for kind, classes in kept["judged"].items():
        for name, each in classes.items():
            again = said["judged"][kind][name]
            assert again["rows"] == each["rows"]
            assert again["median"] == pytest.approx(each["median"], rel=0.05, abs=2e-3)
