"""The section about fusion says what was searched, and what is nowhere below the bound."""

from __future__ import annotations

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from results import pages, record
from results.fusion import __main__ as fusion

CASES = record.read(fusion.DATA)["cases"]


def test_the_section_about_fusion_is_made_from_its_data() -> None:
    data = record.read(fusion.DATA)
    assert fusion.page(data) == pages.README.read_text(encoding="utf-8")


def test_all_cases_are_there_as_they_are_now_asked_for() -> None:
    data = record.read(fusion.DATA)
    assert [(one["model"], one["changes"], one["machine"]) for one in CASES] == [*fusion.CASES]
    asked = [data[name] for name in ("states", "seed", "drawn")]
    assert asked == [fusion.STATES, fusion.SEED, fusion.DRAWN]


@pytest.mark.parametrize("one", CASES, ids=lambda one: f"{one['model']}-{one['machine']}")
def test_nothing_is_below_the_bound_nor_above_where_it_began(one: dict) -> None:  # type: ignore[type-arg]
    bound, found = max(one["bound"].values()), one["seconds"]
    assert min(found.values()) >= bound
    for name, state in one["states"].items():
        assert found[name] <= state["built_seconds"] <= found["usual"]
        assert one["bound"]["compute"] <= state["computing_seconds"] <= found[name]


def test_a_case_is_what_a_fresh_one_gives() -> None:
    """The smallest, before any search, and its bound.

    Kernels that no plan says compute some values again, so that they take a little less.
    """
    old = CASES[-1]
    one = fusion.case(old["model"], old["changes"], old["machine"])
    plain = fusion.replace(one.plan, buckets=one.buckets(fusion.USUAL_BYTES))
    usual = fusion.usual(one)
    assert one.seconds(usual) == pytest.approx(old["seconds"]["usual"], rel=1e-9)
    assert 0.99 * one.seconds(usual) < one.seconds(plain) <= one.seconds(usual)
    [every] = one.buckets(2**62)
    built = min(map(one.seconds, fusion.starts(one, every, usual)))
    assert built == pytest.approx(old["states"]["both"]["built_seconds"], rel=1e-9)
    bound = fusion.least(one.step, one.plan, every, one.rooflines, one.at_least(every))
    assert bound.seconds == pytest.approx(max(old["bound"].values()), rel=1e-9)
