"""A device that is looked for by its rank: it is drawn, and what is said of it is so."""

from __future__ import annotations

import json
from math import prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierarchies import (
    Axis,
    Domain,
    InputError,
    LevelInFull,
    Placement,
    Reduction,
    format_ranges,
    load,
)
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS, judge
from synth.collective.ranking.request import Watcher
from synth.show.report.ranks import locate_rank
from synth.show.report.topology import digits_of, topology

LARGE = ("dgx-h100:128", "superpod-h100-oversubscribed:8", "tpu-v4-pod-slice:8x8x16", "mi300x:64")
ONE = {"system": "dgx-h100:128", "axes": {"data": 128, "model": 8}, "reduce": ["data"]}
UNEVEN = {"system": "dgx-h100:2", "axes": {"data": 15}, "reduce": ["data"]}
QUICK = {"k": 1, "max_steps": 1, "stripes": False}


def answer(question: dict[str, Any]) -> Any:
    body = (
        VERBS["top"].answer(parse_question(VERBS["top"].question, question | QUICK), Watcher()).body
    )
    return judge("top").validate_python(json.loads(json.dumps(body)))


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(LARGE), st.booleans(), st.data())
def test_a_searched_device_is_drawn_among_its_neighbours(
    name: str, narrow: bool, data: Any
) -> None:
    levels = LevelInFull.of_all(load(name))
    counts = [level.count for level in levels]
    device = data.draw(st.integers(0, prod(counts) - 1))
    found = topology(levels, narrow=narrow, around=digits_of(device, counts))
    usual = topology(levels, narrow=narrow)
    assert device in found.devices
    assert len(found.devices) == len(usual.devices)
    assert (found.size, found.left_out) == (usual.size, usual.left_out)
    assert len({json.dumps(node.get("position")) for node in found.nodes}) > len(found.devices)
    for edge in found.edges:
        if edge["data"]["target"].startswith("u"):
            one, other = (
                [*map(int, edge["data"][end][1:].split("."))] for end in ("source", "target")
            )
            [at] = [
                n for n, (here, there) in enumerate(zip(one, other, strict=True)) if here != there
            ]
            apart = abs(one[at] - other[at])
            level = levels[at]
            around = level.wraps and apart == level.count - 1
            assert apart == 1 or around or level.domain is Domain.MESH


@pytest.fixture(scope="module")
def one() -> Any:
    return answer(ONE)


@pytest.fixture(scope="module")
def uneven() -> Any:
    return answer(UNEVEN | {"without": ["node1/gpu3"]})


@pytest.mark.parametrize("rank", [0, 7, 700, 1023])
def test_a_rank_has_the_groups_of_the_reductions_over_its_axes(one: Any, rank: int) -> None:
    hierarchy = load("dgx-h100:128").hierarchy
    axes = [Axis(name, size) for name, size in one.answers[0].axes.items()]
    placement = Placement(hierarchy, axes, [*map(tuple, one.answers[0].placement)])
    found = locate_rank(one, 0, str(rank))
    assert (found.device, found.unit) == (rank, f"node{rank // 8}/gpu{rank % 8}")
    assert [tuple(group.over) for group in found.groups] == [("data",), ("model",)]
    for group in found.groups:
        grid = Reduction(placement, tuple(group.over)).grid().tolist()
        [mine] = [sorted(members) for members in grid if rank in members]
        assert (group.size, group.members) == (len(mine), format_ranges(mine, 16))
        [axis] = group.over
        assert found.coordinates[axis] == mine.index(rank)


def test_ranks_of_a_machine_that_lacks_devices_count_those_that_are_left(uneven: Any) -> None:
    left = uneven.uneven.devices
    for rank, device in enumerate(left):
        found = locate_rank(uneven, 0, str(rank))
        assert (found.rank, found.device) == (rank, device)
        assert found.unit == f"node{device // 8}/gpu{device % 8}"
        assert [*found.coordinates.values()] == [rank]
        assert [(group.size, group.members) for group in found.groups] == [
            (15, format_ranges(left))
        ]


@pytest.mark.parametrize("text", ["1024", "-1", "7.0", "x", "٣", "", "1e3", "9" * 9])
def test_unknown_ranks_are_refused_with_the_known_ones(one: Any, text: str) -> None:
    with pytest.raises(InputError, match="ranks are whole numbers from 0 to 1023"):
        locate_rank(one, 0, text)
