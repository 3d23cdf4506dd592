"""One collective recommends no placement: its answer keeps one, and shows others apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from hierarchies import (
    Axis,
    InputError,
    System,
    count_placements,
    load,
    placements,
    row_major_placement,
)
from strategies import AXIS_NAMES, placed, systems
from synth.collective.ranking.advice import (
    MOST_FASTER_PLACEMENTS,
    find_left_over_axes,
    fix_placement,
    rank_with_advice,
)
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Request, Watcher
from synth.collective.semantics.programs import Language

H100 = load("dgx-h100:4")


def asked(*sizes: int, over: tuple[str, ...] = ("data",), payload_bytes: int = 2**24) -> Request:
    axes = tuple(Axis(name, size) for name, size in zip(AXIS_NAMES, sizes, strict=False))
    return Request(axes, over, payload_bytes, k=4, language=Language(3), segments=(1, 4))


def kept_by_nobody(system: System, request: Request) -> bool:
    """Whether there is a choice that is not the request's, and frameworks make none."""
    several = count_placements(system.hierarchy, request.axes) > 1
    framework = row_major_placement(system.hierarchy, request.axes)
    return several and bool(find_left_over_axes(request)) and framework is None


@given(systems(8), st.data())
@settings(max_examples=10, deadline=None)
def test_with_axes_left_over_only_the_placement_of_frameworks_is_ranked(
    system: System, data: st.DataObject
) -> None:
    axes = data.draw(placed(system.hierarchy)).axes
    over = tuple(data.draw(st.sets(st.sampled_from([axis.name for axis in axes]), min_size=1)))
    request = Request(axes, over, 2**20, 3, Language(2), segments=(1, 4), stripes=False)
    every = answers(system, request)
    if kept_by_nobody(system, request):
        with pytest.raises(InputError, match="last axis innermost"):
            rank_with_advice(system, request)
        return
    found = rank_with_advice(system, request)
    if not find_left_over_axes(request) or count_placements(system.hierarchy, axes) == 1:
        assert found == every
        return
    placement = row_major_placement(system.hierarchy, axes)
    assert placement is not None
    assert found.request.by_framework
    assert {one.candidate.reduction.placement for one in found.answers} == {placement}
    fixed = answers(system, replace(request, placement=placement.matrix))
    assert (found.answers, found.request.placement) == (fixed.answers, fixed.request.placement)


@given(systems(8), st.data())
@settings(max_examples=15, deadline=None)
def test_elsewhere_are_the_placements_that_would_be_faster_one_by_one(
    system: System, data: st.DataObject
) -> None:
    axes = data.draw(placed(system.hierarchy)).axes
    over, stripes = (axes[0].name,), data.draw(st.booleans())
    request = Request(axes, over, 2**20, 2, Language(2), segments=(1, 4), stripes=stripes)
    if kept_by_nobody(system, request):
        return
    found = rank_with_advice(system, request)
    if not found.request.by_framework:
        return
    first = found.answers[0].candidate.ticks
    best = {}
    for placement in placements(system.hierarchy, axes):
        [alone] = answers(system, replace(request, k=1, placement=placement.matrix)).answers
        if alone.candidate.ticks <= int(first / 1.02):
            best.setdefault(alone.candidate.reduction.parts, alone.candidate.ticks)
    ticks = [one.candidate.ticks for one in found.faster_elsewhere]
    assert max(ticks, default=0) < first
    assert stripes or ticks == sorted(best.values())[:MOST_FASTER_PLACEMENTS]
    ranks = [one.rank for one in (*found.answers, *found.faster_elsewhere)]
    assert ranks == list(range(1, len(ranks) + 1))


def test_a_placement_that_is_given_is_kept() -> None:
    for matrix in (((1, 8), (4, 1)), ((4, 2), (1, 4))):
        request = replace(asked(8, 4), placement=matrix)
        assert fix_placement(H100, request) is request
        assert rank_with_advice(H100, request) == answers(H100, request)


def test_the_placement_of_frameworks_comes_first_where_every_one_is_asked_for() -> None:
    request = replace(asked(8, 4), per_placement=True)
    found = [
        str(one.candidate.reduction.placement) for one in rank_with_advice(H100, request).answers
    ]
    assert list(dict.fromkeys(found)) == [
        "[[4, 2], [1, 4]]",
        "[[1, 8], [4, 1]]",
        "[[2, 4], [2, 2]]",
    ]
    assert len(found) == len(answers(H100, request).answers)


def test_axes_that_cut_a_level_in_the_middle_have_no_placement_to_keep() -> None:
    system = load("dgx-h100:6")
    with pytest.raises(InputError, match="cuts a level of 6 node x 8 gpu in the middle, and model"):
        rank_with_advice(system, asked(4, 12))
    given_one = replace(asked(4, 12), placement=((2, 2), (3, 4)))
    assert rank_with_advice(system, given_one).answers


def test_whoever_is_stopped_says_so() -> None:
    class Stopped(Watcher):
        def go_on(self) -> bool:
            return False

    found = rank_with_advice(H100, asked(8, 4), Stopped())
    assert not found.complete
    assert found.answers


def test_of_several_programs_side_by_side_too() -> None:
    """The search for splits is not bound by a price: what it finds may be the kept one again."""
    request = Request((Axis("data", 8), Axis("model", 4)), ("data",), k=1, language=Language(4))
    found = rank_with_advice(H100, request)
    others = [str(one.candidate.reduction.placement) for one in found.faster_elsewhere]
    assert others == ["[[1, 8], [4, 1]]", "[[2, 4], [2, 2]]"]


def test_in_python_too() -> None:
    on = {"axes": {"data": 8, "model": 4}, "reduce": "data", "k": 1, "max_steps": 1}
    found = synth.top("dgx-h100:4", segments=1, **on)
    assert str(found.answers[0].candidate.reduction.placement) == "[[4, 2], [1, 4]]"
    assert str(found.faster_elsewhere[0].candidate.reduction.placement) == "[[1, 8], [4, 1]]"
    inside = synth.top("dgx-h100:4", segments=1, placement=[[1, 8], [4, 1]], **on)
    assert str(inside.answers[0].candidate.reduction.placement) == "[[1, 8], [4, 1]]"
    assert not inside.faster_elsewhere
