"""The verb for who runs DDP: parts add up, the file is there, mistakes are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hierarchies import InputError
from synth.ask.questions.question import parse_question
from synth.ask.table import judge
from synth.ask.training.bucketed import BucketsQuestion, BucketsReply, find_buckets
from synth.collective.ranking.request import Watcher
from synth.step.bucketing import FillPolicy

STEP = Path(__file__).parents[3] / "steps" / "mlp-tiny.step"


def answer(**more: Any) -> BucketsReply:
    given = {"model": {"name": "mlp.step", "text": STEP.read_text()}, "system": "dgx-h100:1"}
    body = find_buckets(parse_question(BucketsQuestion, given | more), Watcher()).body
    found: BucketsReply = judge("buckets").validate_python(body)
    return found


def test_every_way_has_all_gradients_and_none_is_below_the_least() -> None:
    found = answer()
    assert [one.filling for one in found.ways] == list(FillPolicy)
    for one in found.ways:
        assert sum(each.bytes for each in one.buckets) == found.bytes
        assert sum(each.tensors for each in one.buckets) == found.gradients
        whole = one.exposed_seconds + found.compute_seconds + found.update_seconds
        assert one.seconds == pytest.approx(whole)
        assert one.seconds == pytest.approx(found.least.seconds * (1 + one.gap))
        low, high = one.saved_seconds
        told = {"faster": low > 0, "slower": high < 0, "same": low <= 0 <= high}
        assert told[one.against_default]
    seconds = {one.filling: one.seconds for one in found.ways}
    assert seconds[FillPolicy.BEST] <= 1.001 * min(seconds.values())
    assert found.ways[0].against_default == "same"


def test_slow_links_make_a_step_longer_and_never_shorter() -> None:
    usual, slow = answer(), answer(slow={"node0/gpu0": 0.1})
    for one, other in zip(usual.ways, slow.ways, strict=True):
        assert one.seconds <= other.seconds
    assert usual.ways[0].seconds < slow.ways[0].seconds


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"system": "dgx-h100:3"}, "8 samples for 24 devices"),
        ({"without": ["node0/gpu0"]}, "gpu"),
        ({"device": "abacus"}, "abacus"),
        ({"batch": 16}, "this changes models of the zoo"),
    ],
)
def test_impossible_input_is_reported(more: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        answer(**more)
