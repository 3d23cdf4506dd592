"""The drawing of a run shows what the trace tells: the same bars, the same shares, in order."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exhaustive import examples
from goal_schedules import OTHERS, made
from grammar import Goal
from hierarchies import Axis, Hierarchy, Level, Placement, Reduction
from strategies import reductions, source, striped, valid_programs
from synth.collective.emit.source import EmitSource
from synth.collective.emit.targets import emit
from synth.collective.emit.timeline.chart import MOST_DEVICES, ChartRow, chart
from synth.collective.emit.timeline.svg import COLOURS, _row, ticks, write
from synth.collective.emit.timeline.trace import write as trace
from synth.collective.price.steps import InstructionPrice
from synth.collective.semantics.schedule import Transpose

SVG = "{http://www.w3.org/2000/svg}"
NESTED = "reduce-scatter node inside; all-reduce node parallel(root); all-gather node inside"
ROOTED = "reduce node inside; all-reduce node master(root); broadcast node inside"


@st.composite
def sources(draw: st.DrawFn) -> EmitSource:
    reduction = draw(reductions().filter(lambda made: len(made.tree.digits) <= 3))
    program = valid_programs(reduction.tree)
    if draw(st.booleans()):
        return source(draw(program), reduction, segments=draw(st.sampled_from([1, 2, 5])))
    some = st.tuples(program, st.integers(1, 2**20), st.sampled_from([1, 3]))
    return striped(draw(st.lists(some, min_size=2, max_size=3)), reduction)


def on(nodes: int, gpus: int, program: str = NESTED, segments: int = 1) -> EmitSource:
    hierarchy = Hierarchy((Level("node", nodes), Level("gpu", gpus)))
    placement = Placement(hierarchy, (Axis("data", nodes * gpus),), ((nodes, gpus),))
    return source(program, Reduction(placement, ("data",)), segments=segments)


@examples(15, 100)
@given(sources())
def test_bars_of_a_phase_follow_each_other_and_end_with_the_run(given: EmitSource) -> None:
    drawn = chart(given)
    assert drawn.seconds == pytest.approx(given.seconds)
    for row in drawn.rows:
        phases = defaultdict(list)
        for bar in row.bars:
            assert 0 <= bar.begin_seconds <= bar.end_seconds <= drawn.seconds
            assert 0 <= bar.lane < drawn.lanes
            phases[bar.lane].append(bar)
        for bars in phases.values():
            inside = sorted(bars, key=lambda bar: bar.begin_seconds)
            for before, after in pairwise(inside):
                assert before.end_seconds <= after.begin_seconds + 1e-15
        assert row.busy_seconds <= drawn.seconds * (1 + 1e-9)


@examples(15, 100)
@given(sources())
def test_every_device_has_a_row_or_one_that_does_the_same(given: EmitSource) -> None:
    drawn = chart(given)
    devices = [row for row in drawn.rows if row.kind == "device"]
    assert sum(row.alike for row in devices) == given.schedule.devices
    if given.schedule.devices > MOST_DEVICES:
        return
    joins = defaultdict(set)
    for number, stripe in enumerate(given.stripes):
        for step, phase in enumerate(stripe.schedule.phases):
            members = phase.devices if isinstance(phase, Transpose) else phase.groups
            for device in np.asarray(members).reshape(-1).tolist():
                joins[device].add((number + 1, step + 1))
    for row in devices:
        device = int(row.name.split()[1])
        assert {(bar.stripe, bar.step) for bar in row.bars} == joins[device]


@settings(deadline=None, max_examples=20)
@given(sources())
def test_links_are_as_busy_as_in_the_trace(given: EmitSource) -> None:
    """The trace counts bytes by the links' bandwidths; here what the price says is summed."""
    busy: dict[str, float] = defaultdict(float)
    events = json.loads(trace(given)["trace.json"])["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    for event in events:
        if event["ph"] == "X" and event["cat"] == "link":
            busy[names[event["pid"]].removeprefix("level ")] += event["args"]["busy_seconds"]
    for row in chart(given).rows:
        if row.kind == "link":
            assert row.busy_seconds == pytest.approx(busy[row.name], abs=1e-15)


@settings(deadline=None, max_examples=20)
@given(sources())
def test_the_drawing_is_xml_of_what_it_shows(given: EmitSource) -> None:
    drawing = ElementTree.fromstring(str(write(given)["timeline.svg"]))
    drawn = chart(given)
    rows = [g for g in drawing.iter(f"{SVG}g") if "row" in g.get("class", "").split()]
    bars = [len(g.findall(f"{SVG}rect[@class='ground']")) for g in rows]
    assert bars == [1] * len(drawn.rows)
    assert [len(g.findall(f"{SVG}rect")) - 1 for g in rows] == [len(r.bars) for r in drawn.rows]
    for g in rows:
        bars_of = [(one.get("data-name"), _ends(one)) for one in g.findall(f"{SVG}rect")]
        names = g.findall(f"{SVG}text[@class='name']")
        assert not names or "device" in g.get("class", "").split()
        for name in names:
            begin, text = float(name.get("x", "")), str(name.text)
            wide = 6 * len(text)
            assert any(
                called and called.startswith(text.removesuffix("…"))
                for called, (left, right) in bars_of
                if left < begin and begin + wide < right
            )
    for node in drawing.iter(f"{SVG}rect"):
        assert float(node.get("x", "")) + float(node.get("width", "")) <= 1000
    assert "style" not in {name for node in drawing.iter() for name in node.attrib}


def _ends(rect: ElementTree.Element) -> tuple[float, float]:
    x = float(rect.get("x", ""))
    return x, x + float(rect.get("width", ""))


def test_a_long_label_fits_beside_the_bars() -> None:
    name = "device 0 (data 0, tensor 0, pipeline 0)"
    for alike, pressed in ((1, False), (32, True)):
        drawn = "".join(_row(ChartRow("device", name, alike, 0.0, ()), 0, 16, 16, 1.0))
        [label] = ElementTree.fromstring(drawn).findall("text[@class='label']")
        room = float(label.get("x", ""))
        assert (label.get("textLength") is not None) == pressed
        assert float(label.get("textLength", 0)) < room


def test_a_small_machine_shows_each_device_once_and_a_large_one_a_class_of_them() -> None:
    small = [row for row in chart(on(2, 4)).rows if row.kind == "device"]
    assert [row.name for row in small] == [f"device {n} (data {n})" for n in range(8)]
    large = chart(on(64, 8, ROOTED))
    told = [(row.name, row.alike) for row in large.rows if row.kind == "device"]
    assert told == [("device 0 (data 0)", 64), ("device 1 (data 1)", 448)]
    assert large.notes == ("one device stands for all that take part in the same steps",)


def test_many_segments_share_bars() -> None:
    drawn = chart(on(4, 8, segments=2048))
    told = "segments that follow each other share a bar"
    assert told in drawn.notes
    assert sum(len(row.bars) for row in drawn.rows) <= 5000
    assert told in json.loads(str(write(on(4, 8, segments=2048))["timeline.json"]))["notes"]


@pytest.mark.parametrize("goal", OTHERS)
def test_a_run_is_shown_for_every_request(goal: Goal) -> None:
    given = made(goal)
    prices = tuple(
        InstructionPrice(goal.value, None, 16, 2e-6, 1e-6, "d1", (), (("d1", 1e-6),))
        for _ in given.schedule.phases
    )
    given = replace(given, prices=prices)
    assert set(emit("svg", given)) == {"timeline.svg", "timeline.json"}
    assert set(emit("trace", given)) == {"trace.json"}


@given(st.floats(1e-9, 1e4))
def test_ticks_are_few_round_and_inside(seconds: float) -> None:
    found = ticks(seconds)
    assert found[0] == 0
    assert 3 <= len(found) <= 11
    assert found[-1] <= seconds * (1 + 1e-6)
    steps = [after - before for before, after in pairwise(found)]
    assert steps == pytest.approx([steps[0]] * len(steps))


def test_nothing_to_do_is_drawn_too() -> None:
    reduction = Reduction.plain(1, 1)
    drawn = str(write(source("", reduction))["timeline.svg"])
    assert "0 s in all" in drawn
    assert ticks(0.0) == [0.0]


def test_every_collective_has_a_colour_of_its_own() -> None:
    assert {goal.value for goal in Goal} <= set(COLOURS)
    assert len(set(COLOURS.values())) == len(COLOURS)
