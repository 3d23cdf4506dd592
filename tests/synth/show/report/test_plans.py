"""What pages say of plans of a step: their figures, how they differ, and what cannot be said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from asked_plans import ASKED, body
from hierarchies import InputError
from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.training.planned import PlanOfFront, PlanOfStep, StepPlanReply
from synth.ask.table import judge
from synth.show.report.charts import Limit, StackedBar, draw_bars, draw_front
from synth.show.report.plans import PlansView, plans_view
from synth.show.report.plans.comparison import ListedPlan, clauses, compare_plans, layout_clauses
from synth.show.report.plans.words import describe_plan
from synth.show.terminal.training.collectives import hidden_share
from synth.show.terminal.training.planned import tie_lines
from synth.step.sharding import parse_recipe

FULL = {"model": "llama3-8b", "pin": "data=8 zero=3", "batch": 8, "sequence": 128, "k": 1}
"""Where not every plan fits."""


def read(**other: Any) -> StepPlanReply:
    found = judge("plan").validate_python(body(**other))
    assert isinstance(found, StepPlanReply)
    return found


def view(*seen: int, **other: Any) -> PlansView:
    return plans_view(read(**other), body(**other), seen)


@pytest.mark.parametrize(
    ("exposed_seconds", "share"),
    [(0.0, "100%"), (106e-6, "99.8%"), (1e-7, "over 99.9%"), (85.5e-3, "-58%"), (0.02, "63%")],
)
def test_what_has_something_exposed_is_not_hidden_whole(exposed_seconds: float, share: str) -> None:
    assert hidden_share(exposed_seconds, 54.2e-3) == share


def test_the_verdict_summarises_the_best_plan() -> None:
    best, found = read().plans[0], view(0)
    assert found.headline.startswith(
        f"The best plan takes {format_duration(best.seconds)} a step: "
    )
    assert any(line.startswith("2 data-parallel replicas (data)") for line in found.decisions)
    assert any(line.startswith("data on ") for line in found.decisions)
    assert [one.label for one in found.listed] == ["plan 1", "plan 2", "plan 3", "with zero=3"]
    free = read().device_bytes - best.memory.bytes
    assert found.headline.endswith(f" on the fullest device, {format_bytes(free)} free")


def test_the_title_names_the_step_and_the_pins() -> None:
    found = view(0)
    pins = ASKED["pin"]
    assert found.title == f"gpt2-tiny, 64 samples of 16 tokens, on dgx-h100:1 with {pins}"
    assert any(one.startswith(f"No plan with {pins} can take") for one in found.verdict)
    free = plans_view(read().model_copy(update={"pins": ""}), {**body(), "pins": ""}, [0])
    assert free.title == "gpt2-tiny, 64 samples of 16 tokens, on dgx-h100:1"
    assert any(one.startswith("No plan can take less than") for one in free.verdict)


def test_plans_of_the_same_axes_are_distinguished_by_what_they_differ_in() -> None:
    answer, table = read(), view(0).table
    assert table is not None
    assert {one.axes["data"] for one in answer.plans} == {2}
    said = [clauses(one.plan) for one in answer.plans]
    differ = [what for what in said[0] if len({one[what] for one in said}) > 1]
    assert differ
    assert [one for one in table.headings if one in said[0] and one != "axes"] == differ
    assert "placement" not in table.headings
    for what in differ:
        column = [row[table.headings.index(what)] for row in table.rows]
        assert column == [one[what] or "-" for one in said]


def test_the_plan_to_be_taken_is_named_by_what_it_has_before_others() -> None:
    """What all have alike is not said; with a tenth of the memory left that is not said either."""
    whole = read()

    def said(*plans: PlanOfStep, taken: int) -> str:
        [line] = tie_lines(whole.model_copy(update={"plans": plans, "advised": taken}))
        assert line.startswith("plan")
        return line.rpartition("take plan ")[2]

    def like(name: str, size: int = 9) -> PlanOfStep:
        memory = whole.plans[0].memory.model_copy(update={"bytes": size})
        more = {"tied": True, "plan": name, "memory": memory, "by_framework": True}
        return whole.plans[0].model_copy(update=more)

    plain, again = "data=8; batch over data; zero=1", "data=8; batch over data; remat layers"
    assert said(like(plain), like(plain, 4), taken=1) == "2: least memory (4 B)"
    assert said(like(again, 4), like(plain), taken=1) == "2: no recomputation"
    three = like(again, 4), like(plain), like(plain, 8)
    least = "3: no recomputation, least memory (8 B)"
    assert said(*three, taken=2) == least
    at_worst = like(plain).more.model_copy(update={"interval": [-0.1, 0.25]})
    safe, lean = like(plain), like(plain, 4).model_copy(update={"more": at_worst})
    assert said(safe, lean, taken=0) == "1: least risk"
    worse = lean.model_copy(update={"more": at_worst.model_copy(update={"interval": [-0.1, 0.5]})})
    assert said(lean, worse, taken=0).endswith("risk (at worst 250 ms slower than the first)")
    full = like(plain, whole.device_bytes), like(again)
    assert said(*full, taken=1) == "2: a tenth of the memory free"
    assert said(like(plain), like(plain), taken=0) == "1"
    snug = like(plain, round(0.85 * whole.device_bytes))
    assert said(snug, lean, taken=1) == "2: a fifth of the memory free"


def test_the_verdict_answers_why_not() -> None:
    other = read().why_not
    assert other is not None
    [said] = [
        line for line in view(0).verdict if line.startswith("Why not zero=3? The best such plan: ")
    ]
    assert f"{other.plan}: {format_duration(other.seconds)} a step, " in said
    assert not any("Why not" in line for line in view(0, **{**FULL, "explain": ""}).verdict)
    [said] = [
        line for line in view(0, **{**FULL, "explain": "zero=0"}).verdict if "Why not" in line
    ]
    assert said.startswith("Why not zero=0? No such plan fits: the least memory is ")


def test_plans_are_compared_with_the_first_of_those_that_are_looked_at() -> None:
    """Every figure and decision stands in one table, with its difference or as the same of all."""
    answer, found = read(), view(1, 0)
    assert found.detailed is not None
    assert [one.label for one in found.detailed.seen] == ["plan 2", "plan 1"]
    told = found.detailed.beside
    first, other = answer.plans[1], answer.plans[0]
    assert told.note.startswith(
        "Compared with plan 1, within the prediction's uncertainty: plan 2 "
    )
    assert told.note.count("tie") == (2 if first.tied else 0)  # and what a tie is
    assert told.figures.headings == ["figure", "plan 2", "plan 1", "difference"]
    figures = {row[0]: row[1:] for row in told.figures.rows}
    less = first.seconds - other.seconds
    assert figures["step time"] == [
        format_duration(first.seconds),
        format_duration(other.seconds),
        f"-{format_duration(less)} ({-less / first.seconds:+.0%})",
    ]
    rates = [f"{one.tokens_per_second:,.0f}" for one in (first, other)]
    assert figures["tokens per second"][:2] == rates
    assert figures["tokens per second"][2].startswith("+")
    same = {row[0]: row[1] for row in told.same.rows}
    parts: dict[str, Callable[[PlanOfStep], float]] = {
        "compute": lambda one: one.compute_seconds,
        "exposed communication": lambda one: one.exposed_seconds,
        "bubble": lambda one: one.idle_seconds,
        "peak memory": lambda one: one.memory.bytes,
    }
    for what, of in parts.items():
        assert (what in same) == (of(first) == of(other))
        assert (what in figures) != (what in same)
    layout = {row[0]: row[1:] for row in told.layout.rows}
    both = [layout_clauses(one) for one in (first, other)]
    assert "placement" in both[0]
    for what, said in both[0].items():
        here = [one[what] or "nothing" for one in both]
        assert layout.get(what, [same.get(what)] * 2) == here
        assert (what in layout) == (said != both[1][what])


def test_a_difference_has_its_sign_and_its_part() -> None:
    first = read().plans[0]
    other = first.model_copy(
        update={"seconds": first.seconds * 1.5, "idle_seconds": 0.0, "utilisation": 0.25}
    )
    whole = first.model_copy(update={"utilisation": 0.26})
    rows = {
        row[0]: row
        for row in compare_plans([ListedPlan("a", whole), ListedPlan("b", other)]).figures.rows
    }
    assert rows["step time"][3] == f"+{format_duration(first.seconds / 2)} (+50%)"
    assert rows["MFU"][1:] == ["26.0%", "25.0%", "-1.0 points"]
    for part, told in ((0.998, "-0.2%"), (1 - 1e-5, "below 0.1%")):
        near = first.model_copy(update={"seconds": part * first.seconds})
        by = {
            row[0]: row
            for row in compare_plans([ListedPlan("a", first), ListedPlan("b", near)]).figures.rows
        }
        assert by["step time"][3].endswith(f" ({told})")
    assert first.idle_seconds > 0
    assert rows["bubble"][3] == f"-{format_duration(first.idle_seconds)} (-100%)"
    back = {
        row[0]: row
        for row in compare_plans([ListedPlan("b", other), ListedPlan("a", whole)]).figures.rows
    }
    assert back["bubble"][3] == f"+{format_duration(first.idle_seconds)}"
    alone = compare_plans([ListedPlan("a", first)])
    assert not alone.same.rows
    assert [len(row) for row in alone.figures.rows] == [2] * len(alone.figures.rows)


def test_timelines_beside_each_other_are_on_one_scale() -> None:
    """A second is as wide in each: what ends last of the faster plan ends where its step does."""
    found = view(0, 1, 3).detailed
    assert found is not None
    longest = max(one.plan.seconds for one in found.seen)
    for one, (entry, drawn) in zip(found.seen, found.beside.timelines, strict=True):
        assert entry.startswith(one.label)
        whole = ElementTree.fromstring(str(drawn))
        assert float(whole.get("data-seconds", 0)) == longest
        [inner] = [part for part in whole.iter() if part.get("class") == "bars"]
        wide = float((inner.get("viewBox") or "").split()[2])
        bars = [part for part in inner.iter() if part.tag.endswith("rect") and part.get("y")]
        ends = [float(part.get("x", 0)) + float(part.get("width", 0)) for part in bars]
        last = max(end for end in ends if end < wide or one.plan.seconds == longest)
        assert last / wide == pytest.approx(one.plan.seconds / longest, abs=1e-3)


def test_all_is_drawn_of_what_is_looked_at() -> None:
    found = view(0, 2).detailed
    assert found is not None
    assert len(found.beside.timelines) == 2
    size = {name: size for name, size in found.plan.axes.items() if size > 1}
    assert len(found.pictures) == len(size)
    for drawn in (found.beside.spent, found.memory, *(one.drawing for one in found.pictures)):
        ElementTree.fromstring(str(drawn))
    memory = ElementTree.fromstring(str(found.memory))
    widths = [float(one.get("width", 0)) for one in memory.iter() if one.get("class") == "part"]
    kinds = [rank.memory.kinds for rank in found.plan.ranks]
    kinds.append(found.seen[1].plan.memory.kinds)
    assert sum(width > 0 for width in widths) <= sum(map(len, kinds))
    assert len(widths) == len(kinds) * len({kind.what for some in kinds for kind in some})


@pytest.mark.parametrize("number", [4, -1, 10**6])
def test_there_is_no_such_plan(number: int) -> None:
    with pytest.raises(InputError, match="no such plan"):
        view(number)


def test_without_fitting_plans_the_page_states_it_and_draws_nothing() -> None:
    found = view(0, model="llama3-8b", pin="data=8 zero=0", explain="")
    assert found.headline == "Nothing fits in memory"
    assert found.detailed is None
    assert found.front is None
    assert "NOTHING FITS" in " ".join(getattr(one, "text", "") for one in found.details)


def test_the_front_has_a_mark_for_each_plan() -> None:
    several = [
        PlanOfFront.model_construct(plan=f"<{n}>", seconds=2.0 + n, bytes=2**30 * (9 - n))
        for n in range(5)
    ]
    simulated = read().plans[:2]
    drawn = ElementTree.fromstring(str(draw_front(several, simulated, 2.0**34)))
    marks = [one for one in drawn.iter() if one.tag.endswith("circle") and one.get("class")]
    down = [(float(one.get("cx", 0)), float(one.get("cy", 0))) for one in marks]
    assert len(marks) == 5
    assert down == sorted(down, key=lambda at: (-at[0], -at[1]))
    [line] = [one for one in drawn.iter() if one.tag.endswith("polyline")]
    corners = [tuple(map(float, one.split(","))) for one in (line.get("points") or "").split()]
    assert corners[::2] == down
    for (here, _), corner, (_, less) in zip(down, corners[1::2], down[1:], strict=False):
        assert corner == (here, less)  # in less memory than here it takes as long as the next
    numbers = [one for one in drawn.iter() if one.get("class") == "simulated"]
    assert len(numbers) == 2
    alone = draw_front([], simulated[:1], 2.0)
    ElementTree.fromstring(str(alone))


def test_lengths_of_bars_are_proportional_to_their_values() -> None:
    several = [
        StackedBar("a", {"x": 3.0, "y": 1.0}),
        StackedBar("b", {"y": 2.0}),
        StackedBar("none", {}),
    ]
    drawn = ElementTree.fromstring(
        str(draw_bars("<all>", ["x", "y", "z"], several, str, Limit(8.0, "most")))
    )
    parts = [float(one.get("width", 0)) for one in drawn.iter() if one.get("class") == "part"]
    assert parts == pytest.approx([share * parts[1] for share in (3, 1, 0, 2, 0, 0)], abs=0.3)


def test_bars_leave_room_for_what_they_are_called() -> None:
    name = "superpod-h100-oversubscribed:1x4x8"
    for label, least in (("first", 150), (name, 7 * len(name))):
        drawn = ElementTree.fromstring(
            str(draw_bars("t", ["x"], [StackedBar(label, {"x": 1.0})], str))
        )
        [part] = [one for one in drawn.iter() if one.get("class") == "part"]
        [total] = [one for one in drawn.iter() if one.text == "1.0"]
        assert float(part.get("x", 0)) >= least
        ends = float(part.get("x", 0)) + float(part.get("width", 0))
        assert float(total.get("x", 0)) == pytest.approx(ends + 8, abs=0.2)


PLANS = (
    (
        "pipe=2 data=4 tensor=2; batch over data; tokens over tensor; weights over tensor as"
        " Megatron; zero=1; schedule interleaved-1f1b, 2 chunks, 8 microbatches; remat layers"
    ),
    "data=8; batch over data; zero=3",
    "seq=4 data=2; batch over data; tokens over seq; 2 microbatches",
)


@pytest.mark.parametrize("plan", PLANS)
def test_every_axis_of_a_plan_is_in_its_words(plan: str) -> None:
    said = list(describe_plan(plan, 64))
    for name, size in parse_recipe(plan).axes:
        assert any(f"({name})" in line or name == "pipe" for line in said)
        assert any(str(size) in line for line in said)
    assert clauses(plan)["axes"] == plan.partition(";")[0]
