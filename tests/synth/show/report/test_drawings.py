"""What pages and reports are drawn with: colours, coordinates, machines, curves, placements."""

from __future__ import annotations

from math import isclose
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierarchies import LevelInFull, catalogue, load
from hierarchies.units import format_bytes, format_duration
from strategies import reductions
from synth.ask.answers.ranked import SweepReply
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS, judge
from synth.collective.emit.mesh import RankOrder, mesh
from synth.collective.ranking.request import DefaultComparison, Watcher
from synth.show.report.colours import DARK, LIGHT, contrast, paints
from synth.show.report.curves import draw_curves
from synth.show.report.details import DrawnDevice
from synth.show.report.layout import fold_counts
from synth.show.report.placement import draw_machine
from synth.show.report.rendering import Cells
from synth.show.report.topology import coordinates, peers, topology
from synth.show.terminal.rows import rows

SVG = "{http://www.w3.org/2000/svg}"


def answer(verb: str, question: dict[str, Any]) -> Any:
    """A verb's answer, read."""
    body = VERBS[verb].answer(parse_question(VERBS[verb].question, question), Watcher()).body
    return judge(verb).validate_python(body)


@given(st.integers(1, 300))
def test_paint_is_read_on_and_few_values_differ_in_hue(values: int) -> None:
    found = paints(values)
    assert len(found) == values
    assert all(contrast(one.fill, one.ink) >= 4.5 for one in found)
    if values <= 8:
        assert len({one.fill for one in found}) == values


def test_contrast_is_that_of_the_guidelines() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert contrast(DARK, DARK) == 1 < contrast(DARK, LIGHT)


@settings(deadline=None)
@given(reductions())
def test_coordinates_are_those_of_the_mesh(reduction: Any) -> None:
    placement = reduction.placement
    devices = np.arange(placement.hierarchy.devices)
    ranks = mesh(placement, RankOrder.AXES).ranks(devices)
    sizes = [axis.size for axis in placement.axes]
    known = np.stack(np.unravel_index(ranks, sizes), axis=1).tolist()
    digits = np.stack(np.unravel_index(devices, placement.hierarchy.cardinalities), axis=1)
    found = [list(coordinates(device, placement.matrix)) for device in digits.tolist()]
    assert found == known


@settings(deadline=None)
@given(reductions())
def test_peers_are_a_group_of_the_reduction(reduction: Any) -> None:
    placement = reduction.placement
    over = [number for number, axis in enumerate(placement.axes) if axis.name in reduction.over]
    for group in reduction.grid().tolist():
        for device in group:
            at = coordinates(placement.hierarchy.digits(device), placement.matrix)
            assert peers(device, at, placement.matrix, over) == sorted(group)


@pytest.mark.parametrize("name", catalogue())
def test_a_machine_is_drawn_with_each_device_once_and_nothing_in_the_same_place(name: str) -> None:
    drawn = topology(LevelInFull.of_all(load(name)))
    ids = [node["data"]["id"] for node in drawn.nodes]
    assert len(set(ids)) == len(ids)
    devices = [node for node in drawn.nodes if node["data"]["kind"] == "device"]
    assert [node["data"]["device"] for node in devices] == list(drawn.devices)
    assert 1 < len(devices) <= 128
    at = [
        (node["position"]["x"], node["position"]["y"]) for node in drawn.nodes if "position" in node
    ]
    for number, (x, y) in enumerate(at):
        assert all(abs(x - u) >= 46 or abs(y - v) >= 30 for u, v in at[:number])
    known = set(ids)
    assert all({e["data"]["source"], e["data"]["target"]} <= known for e in drawn.edges)
    assert all(node["data"].get("parent", ids[0]) in known for node in drawn.nodes)
    assert (len(devices) < load(name).devices) == bool(drawn.left_out)


def test_speeds_and_what_is_left_out_are_reported() -> None:
    drawn = topology(LevelInFull.of_all(load("dgx-h100:2048")))
    told = " ".join(node["data"]["name"] for node in drawn.nodes)
    assert "8 × 50 GB/s" in told
    assert "450 GB/s" in told
    assert drawn.left_out == "16 of 2048 nodes are drawn; the others are identical"


@given(st.lists(st.integers(1, 50), min_size=1, max_size=4), st.integers(1, 200))
def test_folding_keeps_to_its_limit_and_to_whole_inner_units(counts: list[int], most: int) -> None:
    shown = fold_counts(counts, most)
    assert np.prod(shown) <= max(1, most)
    assert all(1 <= some <= count for some, count in zip(shown, counts, strict=True))
    if counts[-1] <= most:
        assert shown[-1] == counts[-1]


@pytest.mark.parametrize("counts", [[8, 4, 4, 8], [64, 8, 8], [2, 2, 2, 16]])
def test_two_of_each_outer_level_are_drawn_where_there_is_room(counts: list[int]) -> None:
    assert all(some >= 2 for some in fold_counts(counts, 128))


def _torus_links(sizes: tuple[int, ...], dimension: int) -> set[frozenset[tuple[int, ...]]]:
    """Devices whose digits differ by one, around the circle, in that dimension alone."""
    found = set()
    for one in np.ndindex(*sizes):
        other = list(one)
        other[dimension] = (one[dimension] + 1) % sizes[dimension]
        found.add(frozenset((one, tuple(other))))
    return found


def test_a_torus_has_the_links_of_a_torus_and_a_slice_of_one_has_ends() -> None:
    drawn = topology(LevelInFull.of_all(load("tpu-v4-pod-slice:4x4x4")))
    links = {
        frozenset(
            tuple(int(digit) for digit in edge["data"][end][1:].split("."))
            for end in ("source", "target")
        )
        for edge in drawn.edges
    }
    slices = {frozenset(((one,), ((one + 1) % 4,))) for one in range(4)}
    assert links == _torus_links((4, 4, 4), 1) | _torus_links((4, 4, 4), 2) | slices
    assert sum(edge["classes"] == "wrap" for edge in drawn.edges) == 4 * 8 + 1
    at = {node["data"]["id"]: node.get("position") for node in drawn.nodes}
    for edge in drawn.edges:
        one, other = (at[edge["data"][end]] for end in ("source", "target"))
        if one and not edge["classes"]:
            assert abs(one["x"] - other["x"]) + abs(one["y"] - other["y"]) == 70
    opened = topology(LevelInFull.of_all(load("tpu-v5e-slice:4x4")))
    assert len(opened.edges) == 2 * 4 * 3
    assert not any(edge["classes"] for edge in opened.edges)


@pytest.mark.parametrize("name", ["superpod-h100-oversubscribed:8", "dgx-h100:64", "mi300x:2"])
def test_on_a_telephone_a_machine_is_narrow_and_on_a_screen_it_fits(name: str) -> None:
    levels = LevelInFull.of_all(load(name))
    narrow, wide = topology(levels, narrow=True), topology(levels)
    assert len(narrow.devices) <= 32
    assert narrow.size[0] <= 400
    assert min(1300 / wide.size[0], 900 / wide.size[1]) > 0.5


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(
    "name", ["dgx-h100:2", "p2-v100:3", "mi300x:2", "superpod-h100-oversubscribed:8"]
)
def test_inner_units_are_drawn_inside_outer_ones(name: str, narrow: bool) -> None:
    """A device lies in the boxes of the units that it is in, and in no other."""
    drawn = topology(LevelInFull.of_all(load(name)), narrow=narrow)
    parents = {node["data"]["id"]: node["data"].get("parent") for node in drawn.nodes}
    for node in drawn.nodes:
        if "position" not in node:
            continue
        x, y = node["position"]["x"], node["position"]["y"]
        assert 0 <= x <= drawn.size[0]
        assert 0 <= y <= drawn.size[1]
        above, parent = set(), node["data"].get("parent")
        while parent:
            above.add(parent)
            parent = parents[parent]
        assert above == {
            box.id
            for box in drawn.boxes
            if box.x < x < box.x + box.width and box.y < y < box.y + box.height
        }
    for box in drawn.boxes:
        assert box.x + box.width <= drawn.size[0] + 1e-9
        assert box.y + box.height <= drawn.size[1] + 1e-9


PLACED: dict[str, tuple[dict[str, int], list[str], list[list[int]]]] = {
    "inner": ({"data": 2, "model": 8}, ["model"], [[2, 1], [1, 8]]),
    "outer": ({"data": 2, "model": 8}, ["data"], [[2, 1], [1, 8]]),
    "split": ({"data": 4, "model": 4}, ["data"], [[2, 2], [1, 4]]),
    "two of three": ({"a": 2, "b": 2, "c": 4}, ["a", "c"], [[2, 1], [1, 2], [1, 4]]),
    "all": ({"data": 16}, ["data"], [[2, 8]]),
}


@pytest.mark.parametrize("case", PLACED)
def test_devices_of_one_colour_are_a_group_that_is_lowered(case: str) -> None:
    """The judge is the schedule of the plain collective: it knows no drawing."""
    axes, over, matrix = PLACED[case]
    lowered = answer(
        "lower",
        {
            "program": "all-reduce root inside",
            "system": "dgx-h100:2",
            "axes": axes,
            "reduce": over,
            "placement": matrix,
        },
    )
    drawn = topology(LevelInFull.of_all(load("dgx-h100:2")))
    there = [
        DrawnDevice(number, f"u{number}", coordinates(at, matrix))
        for number, at in drawn.devices.items()
    ]
    picture = ElementTree.fromstring(str(draw_machine(drawn, there, list(axes), over)))
    coloured: dict[str, set[int]] = {}
    for one in picture.iter(f"{SVG}g"):
        if one.get("class") == "device":
            [box] = one.findall(f"{SVG}rect")
            number, held = (text.text or "" for text in one.findall(f"{SVG}text"))
            coloured.setdefault(box.get("fill") or "", set()).add(int(number))
            assert held == ",".join(map(str, there[int(number)].coordinates))
    assert sorted(map(sorted, coloured.values())) == sorted(map(sorted, lowered.steps[0].groups))


def test_devices_that_are_missing_have_no_colour() -> None:
    drawn = topology(LevelInFull.of_all(load("dgx-h100:1")))
    there = [DrawnDevice(n, f"u{n}", () if n == 3 else (n,)) for n in drawn.devices]
    picture = ElementTree.fromstring(str(draw_machine(drawn, there, ["data"], ["data"])))
    devices = [one for one in picture.iter(f"{SVG}g") if one.get("class") == "device"]
    fills = [one.findall(f"{SVG}rect")[0].get("fill") for one in devices]
    assert fills[3] == "none"
    assert fills.count("none") == 1
    assert "missing" in "".join(devices[3].itertext())


@pytest.fixture(scope="module")
def over_sizes() -> SweepReply:
    found: SweepReply = answer(
        "top",
        {
            "system": "p2-a100:2",
            "axes": {"data": 32},
            "reduce": ["data"],
            "bytes": [2**10, 2**26],
            "max_steps": 3,
        },
    )
    return found


def test_the_table_shows_the_expectation_of_runs_worth_measuring() -> None:
    """As in the row of its stretch and in the picture; beside it the default's own bandwidth."""
    found = answer(
        "top",
        {
            "system": "dgx-h100:4",
            "axes": {"data": 16, "tensor": 2},
            "reduce": ["data"],
            "bytes": [2**24, 2**26],
            "max_steps": 2,
        },
    )
    told = draw_curves(found)
    open_ = [one.worth_measuring for one in found.sizes]
    assert open_ == sorted(open_, reverse=True)  # up to some size
    assert any(open_)
    sizes = sorted(found.sizes, key=lambda size: size.bytes)
    figures = [column(told.table, name) for name in ("speed-up", "default bus bandwidth")]
    for one, speedup, rate in zip(sizes, *figures, strict=True):
        expected = f"{one.baseline_seconds / one.seconds:.2f}x?"
        assert speedup == (expected if one.worth_measuring else "tie")
        assert rate == f"{2 * 15 / 16 * one.bytes / one.baseline_seconds / 1e9:.4g} GB/s"
        assert one.program == "all-reduce root inside"
    tree, keep = told.stretches
    assert (keep.program, keep.note) == ("", "keep the default")
    assert tree.program == "all-reduce root inside"
    assert tree.sizes.startswith("16 MiB to ")
    assert keep.sizes.endswith(" to 64 MiB")
    first = found.sizes[0]
    gain = first.baseline_seconds / first.seconds
    assert tree.note.startswith(f"by tree, LL128, {gain:.2f}x? to ")


def column(table: Cells, heading: str) -> list[str]:
    return [row[list(table.headings).index(heading)] for row in table.rows]


def points(picture: ElementTree.Element, name: str) -> list[tuple[float, float, str]]:
    """Where a line's points lie, and what each says."""
    return [
        (float(one.get("cx", "")), float(one.get("cy", "")), "".join(one.itertext()))
        for one in picture.iter(f"{SVG}circle")
        if one.get("class") == name
    ]


def test_curves_have_a_point_for_each_size_where_it_belongs(over_sizes: SweepReply) -> None:
    """Equal ratios are equal distances, for sizes and times; larger times lie higher."""
    found, sizes = draw_curves(over_sizes), sorted(over_sizes.sizes, key=lambda size: size.bytes)
    rates, gains, times = (ElementTree.fromstring(str(one)) for one in found.drawings)
    for name, field in (("best", "seconds"), ("default", "baseline_seconds")):
        drawn = points(times, name)
        assert len(drawn) == len(over_sizes.sizes)
        x = np.log([one.bytes for one in sizes])
        y = -np.log([getattr(one, field) for one in sizes])
        for place, value in (([p[0] for p in drawn], x), ([p[1] for p in drawn], y)):
            slope, start = np.polyfit(value, place, 1)
            assert slope > 0
            assert np.abs(slope * value + start - place).max() < 0.2
        for one, (_, _, said) in zip(sizes, drawn, strict=True):
            assert said.endswith(
                f"{format_bytes(one.bytes)}: {format_duration(getattr(one, field))}"
            )
    for one, (_, _, said) in zip(sizes, points(rates, "best"), strict=True):
        rate = 2 * 31 / 32 * one.bytes / one.seconds / 1e9  # as nccl-tests count an all-reduce
        shown = float(said.rpartition(": ")[2].removesuffix(" GB/s"))
        assert isclose(shown, rate, rel_tol=1e-5)
    for drawn, values in (
        (rates, [one.bytes / one.seconds for one in sizes]),
        (gains, [one.baseline_seconds / one.seconds for one in sizes]),
    ):
        height = [y for _, y, _ in points(drawn, "best")]
        marks = [one for one in drawn.iter(f"{SVG}line") if one.get("x1") != one.get("x2")]
        assert min(float(one.get("y1", "")) for one in marks) <= min(height)
        slope, start = np.polyfit(values, height, 1)
        assert slope < 0  # equal differences are equal distances
        assert np.abs(slope * np.array(values) + start - height).max() < 0.2


def test_a_speed_up_at_a_size_is_reported_as_in_a_row(over_sizes: SweepReply) -> None:
    """What is expected to be much slower, and not told, too: 0.73x? and not the same."""
    slower = {
        "against_default": DefaultComparison.SAME,
        "worth_measuring": False,
        "runtime_seconds": over_sizes.sizes[0].baseline_seconds / 0.73,
    }
    sizes = [over_sizes.sizes[0].model_copy(update=slower)]
    table = draw_curves(over_sizes.model_copy(update={"sizes": sizes})).table
    assert column(table, "speed-up") == ["0.73x?"]


def test_curves_text_and_rows_change_at_the_same_sizes(over_sizes: SweepReply) -> None:
    changes = [one.from_bytes for one in over_sizes.stretches[1:]]
    assert changes
    found = draw_curves(over_sizes)
    titles = [" to ".join(row.title) for row in rows(over_sizes)]
    assert [one.sizes for one in found.stretches] == titles
    for one in found.drawings:
        marks = [
            "".join(line.itertext())
            for line in ElementTree.fromstring(str(one)).iter(f"{SVG}line")
            if line.get("class") == "crossover"
        ]
        assert marks == [f"recommendation changes at {format_bytes(size)}" for size in changes]
        labels = [
            text.text
            for text in ElementTree.fromstring(str(one)).iter(f"{SVG}text")
            if text.get("class") == "crossover"
        ]
        sizes = [format_bytes(size) for size in changes]
        assert labels[:1] == sizes[:1]
        assert set(labels) <= set(sizes)


def test_curves_of_one_size_and_of_nothing_to_do_are_drawn_or_left_out(
    over_sizes: SweepReply,
) -> None:
    one = over_sizes.model_copy(update={"sizes": over_sizes.sizes[:1]})
    for drawn in draw_curves(one).drawings:
        picture = ElementTree.fromstring(str(drawn))
        assert len(points(picture, "best")) == 1
        assert "nan" not in str(drawn)
    none = [size.model_copy(update=dict.fromkeys(NO_TIME, 0.0)) for size in over_sizes.sizes]
    assert draw_curves(over_sizes.model_copy(update={"sizes": none})).drawings == []


NO_TIME = ("seconds", "baseline_seconds", "bound_seconds")
