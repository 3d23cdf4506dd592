"""Groups and buckets searched together: as good as all there are, of a graph that is small."""

from __future__ import annotations

from math import inf

import pytest

import bucketed_steps
from fused_steps import SUMS, Priced, best, small
from synth.search.space import BestFound, Budget, Optimal
from synth.train.fusion import jointly, sectioned
from synth.train.planner.finalists import RUNTIME
from synth.train.simulation import groups


@pytest.mark.parametrize("launch", [1e-6, 1e-4])
def test_the_best_is_that_of_all_there_are(launch: float) -> None:
    one = Priced(small(), launch)
    found = jointly(one.space(SUMS), Budget(3000), alpha=inf)
    assert isinstance(found, BestFound | Optimal)
    assert found.seconds == pytest.approx(best(launch), rel=1e-12)
    for only in ({"tensors": False}, {"operators": False}):
        other = jointly(one.space(SUMS, **only), Budget(300))
        assert isinstance(other, BestFound | Optimal)
        assert found.seconds <= other.seconds


def test_a_budget_leaves_the_best_so_far() -> None:
    one = Priced(small(), 1e-6).space(SUMS)
    found = jointly(one, Budget(1))
    assert isinstance(found, BestFound)
    assert found.state == one.start
    assert jointly(one, Budget(40, seed=3)) == jointly(one, Budget(40, seed=3))


def test_sections_said_as_groups_take_as_long_as_no_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But for what no group says that it computes again: without groups that is not stored."""
    one = Priced(bucketed_steps.step(), 5e-6, 1e11)
    said = sectioned(one.step, one.plan, RUNTIME)
    assert max(len(each.members) for each in said.fused) > 10
    assert one.seconds(one.plan) < one.seconds(said)
    monkeypatch.setattr(groups, "between_kernels", lambda *how: {})
    stored = Priced(bucketed_steps.step(), 5e-6, 1e11)
    assert stored.seconds(said) == pytest.approx(stored.seconds(stored.plan), rel=1e-12)
