"""The trace is one that viewers read, and tells what the simulator said."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exhaustive import examples
from hierarchies import Axis, Hierarchy, InputError, Level, Placement, Reduction
from strategies import reductions, source, striped, valid_programs
from synth.collective.emit.source import EmitSource
from synth.collective.emit.timeline.trace import write
from synth.collective.semantics.schedule import Exchange

REQUIRED = {
    "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"},
    "C": {"name", "pid", "ts", "args"},
    "M": {"name", "pid", "args"},
}


@st.composite
def sources(draw: st.DrawFn) -> EmitSource:
    reduction = draw(reductions().filter(lambda made: len(made.tree.digits) <= 3))
    segments = draw(st.sampled_from([1, 1, 2, 5]))
    return source(draw(valid_programs(reduction.tree)), reduction, segments=segments)


@st.composite
def side_by_side(draw: st.DrawFn) -> EmitSource:
    reduction = draw(reductions().filter(lambda made: len(made.tree.digits) <= 3))
    some = st.tuples(valid_programs(reduction.tree), st.integers(1, 2**20), st.sampled_from([1, 3]))
    return striped(draw(st.lists(some, min_size=2, max_size=3)), reduction)


def traced(given: EmitSource) -> Any:
    return json.loads(write(given)["trace.json"])


def rows(trace: Any) -> dict[tuple[int, int], list[Any]]:
    """The slices of each track, in the order of the file."""
    found = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            found[event["pid"], event["tid"]].append(event)
    return found


def nested() -> EmitSource:
    hierarchy = Hierarchy((Level("node", 2), Level("gpu", 4)))
    placement = Placement(hierarchy, (Axis("data", 4), Axis("model", 2)), ((2, 2), (1, 2)))
    return source(
        "reduce-scatter node inside; all-reduce node parallel(root); all-gather node inside",
        Reduction(placement, ("data",)),
    )


@settings(max_examples=60)
@given(sources() | side_by_side())
def test_every_event_has_the_keys_of_its_type(given: EmitSource) -> None:
    trace = traced(given)
    assert set(trace) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert trace["displayTimeUnit"] == "ns"
    for event in trace["traceEvents"]:
        kind = event["ph"]
        thread = kind == "M" and event["name"].startswith("thread_")
        assert set(event) == REQUIRED[kind] | {"ph"} | ({"tid"} if thread else set())
        assert isinstance(event["args"], dict)
        if kind != "M":
            assert event["ts"] >= 0
        if kind == "C":
            assert all(isinstance(value, float) for value in event["args"].values())


@examples(10, 60)
@given(sources() | side_by_side())
def test_slices_of_one_track_follow_each_other(given: EmitSource) -> None:
    trace = traced(given)
    for row in rows(trace).values():
        assert all(event["dur"] > 0 for event in row)
        assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in pairwise(row))
    counters = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "C":
            counters[event["pid"]].append(event)
    assert len(counters) == len(given.system.hierarchy.levels)
    for found in counters.values():
        assert all(a["ts"] < b["ts"] for a, b in pairwise(found))
        assert found[-1]["args"] == {"bytes/s": 0.0}


@examples(10, 60)
@given(sources() | side_by_side())
def test_every_track_is_named_once_and_no_number_means_two_things(given: EmitSource) -> None:
    events = traced(given)["traceEvents"]
    processes = [e["pid"] for e in events if e["name"] == "process_name"]
    threads = [(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"]
    assert {e["pid"] for e in events} == set(processes)
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"} <= set(threads)
    numbers = [*processes, *(tid for _, tid in threads)]
    assert len(set(numbers)) == len(numbers)
    assert min(numbers) > 0


@settings(max_examples=60)
@given(sources())
def test_each_device_shows_the_phases_it_takes_part_in(given: EmitSource) -> None:
    trace = traced(given)
    segments = given.schedule.segments
    lanes = len(given.prices) if segments > 1 else 1
    for device in range(given.schedule.devices):
        taken = []
        for step, phase in enumerate(given.schedule.phases, 1):
            members = phase.groups if isinstance(phase, Exchange) else phase.devices
            if device in members:
                what = given.prices[step - 1].what
                taken += [(step, what, segment + 1) for segment in range(segments)]
        shown = [
            (e["args"]["step"], e["name"], e["args"]["segment"])
            for e in trace["traceEvents"]
            if e["ph"] == "X" and (e["tid"] - 1) // lanes == device and e["cat"] != "link"
        ]
        assert shown == taken


@settings(max_examples=60)
@given(sources())
def test_the_durations_add_up_to_the_simulators_seconds(given: EmitSource) -> None:
    trace = traced(given)
    steps = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X" and event["cat"] != "link":
            steps[event["args"]["step"]] = event["dur"]
    if given.schedule.segments == 1:
        assert sum(steps.values()) == pytest.approx(given.seconds * 1e6)
    ends = [e["ts"] + e["dur"] for e in trace["traceEvents"] if e["ph"] == "X"]
    assert max(ends, default=0.0) == pytest.approx(given.seconds * 1e6)
    assert trace["otherData"]["seconds"] == given.seconds


@settings(max_examples=60)
@given(sources())
def test_a_level_is_shown_busy_as_priced(given: EmitSource) -> None:
    for row in rows(traced(given)).values():
        for event in row:
            if event["cat"] == "link":
                price = given.prices[event["args"]["step"] - 1]
                assert event["args"]["bytes"] in dict(price.bytes_per_port).values()
                assert 0 < event["args"]["busy_share"] <= 1 + 1e-9
                busy = event["args"]["busy_share"] * event["dur"]
                assert busy == pytest.approx(event["args"]["busy_seconds"] * 1e6)


@settings(max_examples=60)
@given(side_by_side())
def test_stripes_are_shown_side_by_side(given: EmitSource) -> None:
    """Each device has a row for each step of each stripe; all end when the simulator says."""
    trace = traced(given)
    lanes = max(1, sum(len(stripe.prices) for stripe in given.stripes))
    for device in range(given.schedule.devices):
        taken = []
        for number, stripe in enumerate(given.stripes, 1):
            for step, phase in enumerate(stripe.schedule.phases, 1):
                if device in (phase.groups if isinstance(phase, Exchange) else phase.devices):
                    segments = range(1, stripe.schedule.segments + 1)
                    taken += [(number, step, segment) for segment in segments]
        shown = [
            (e["args"]["stripe"], e["args"]["step"], e["args"]["segment"])
            for e in trace["traceEvents"]
            if e["ph"] == "X" and (e["tid"] - 1) // lanes == device and e["cat"] != "link"
        ]
        assert shown == taken
    ends = [e["ts"] + e["dur"] for e in trace["traceEvents"] if e["ph"] == "X"]
    assert max(ends, default=0.0) == pytest.approx(given.seconds * 1e6)
    assert trace["otherData"]["payload_bytes"] == given.payload_bytes
    assert len(trace["otherData"]["stripes"]) == len(given.stripes)


def test_a_row_names_its_stripe() -> None:
    reduction = nested().schedule.reduction
    given = striped(
        [(nested().schedule.program, 2**20, 2), ("all-reduce root inside", 2**19, 1)], reduction
    )
    trace = traced(given)
    names = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"]
    assert "device 3 (data 1, model 1), step 2 of stripe 1" in names
    assert "busiest port, step 1 of stripe 2" in names


def test_hosts_devices_and_levels_have_their_names() -> None:
    events = traced(nested())["traceEvents"]
    named = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert named == ["level node", "level gpu", "host0", "host1"]
    threads = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
    assert threads[:4] == [
        "busiest port",
        "busiest port",
        "device 0 (data 0, model 0)",
        "device 1 (data 0, model 1)",
    ]
    assert len(threads) == 10


def test_a_slice_names_its_step() -> None:
    given = nested()
    first = next(e for e in traced(given)["traceEvents"] if e.get("cat") == "collective")
    price = given.prices[0]
    assert price.algorithm is not None
    assert first["args"] == {
        "step": 1,
        "bytes": 2**20,
        "algorithm": price.algorithm.value,
        "limited_by": price.limited_by,
        "latency_us": price.latency_seconds * 1e6,
        "members": 2,
        "group": [0, 2],
        "segment": 1,
    }


def test_long_groups_are_cut_and_too_many_devices_refused() -> None:
    long = source("all-reduce root inside", Reduction.plain(32))
    first = next(e for e in traced(long)["traceEvents"] if e["ph"] == "X")
    assert first["args"]["members"] == 32
    assert first["args"]["group"] == [*range(16), "..."]
    with pytest.raises(InputError, match="at most 4096"):
        write(source("all-reduce root inside", Reduction.plain(2, 4096)))


def test_segments_are_shown_side_by_side() -> None:
    """Each device has a row for each step, and the second segment begins before the first ends."""
    reduction = nested().schedule.reduction
    given = source(str(nested().schedule.program), reduction, segments=4)
    trace = traced(given)
    names = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"]
    assert "device 3 (data 1, model 1), step 2" in names
    device = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["tid"] in (1, 2, 3)]
    assert len(device) == 12
    ends = {e["args"]["segment"]: e["ts"] + e["dur"] for e in device if e["args"]["step"] == 3}
    begins = {e["args"]["segment"]: e["ts"] for e in device if e["args"]["step"] == 1}
    assert all(begins[segment + 1] < ends[segment] for segment in (1, 2, 3))
