"""What missing and slower things cost, asked as people ask; who refuses what it cannot treat."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from exhaustive import examples
from grammar import Goal
from hierarchies import Axis, Domain, System, load, parse_fault
from hierarchies.links import Wiring
from strategies import smart_systems
from synth.cli.app import app
from synth.collective.degraded.comparison import compare_machines
from synth.collective.ranking.request import Request
from synth.collective.semantics.programs import Language

QUICK = ("--max-steps", "3", "--segments", "4", "--no-stripes")
ONE = ("dgx-h100:2", "--axes", "data=16", "--reduce", "data")


def run(*words: str, code: int = 0) -> Any:
    said = CliRunner().invoke(app, words)
    assert said.exit_code == code, said.output
    return said


def asked(*words: str) -> Any:
    return json.loads(run(*words, "--json").stdout)


def description(tmp_path: Path, exceptions: str) -> str:
    text = """
name = "mine"
[device]
name = "a device"
memory_GB_per_s = 2000
source = "x"
[[level]]
name = "node"
count = 2
domain = "switch"
bandwidth_GB_per_s = 50
latency_us = 14
ports = 4
through = []
source = "x"
[[level]]
name = "gpu"
count = 4
domain = "switch"
bandwidth_GB_per_s = 300
latency_us = 1
source = "x"
"""
    path = tmp_path / "mine.toml"
    path.write_text(text + exceptions, encoding="utf-8")
    return str(path)


GONE = '[[exception]]\nunit = "node1/gpu2"\nmissing = true\n'
SLOW = '[[exception]]\nunit = "node1"\nbandwidth_share = 0.5\nsource = "x"\n'


def test_a_share_of_one_changes_nothing() -> None:
    plain = asked("top", *ONE, *QUICK, "-k", "2")
    assert asked("top", *ONE, *QUICK, "-k", "2", "--slow", "node1=1.0") == plain


def test_what_a_slow_cable_costs() -> None:
    body = asked("cost", *ONE, *QUICK, "--slow", "node1=0.25")
    healthy, best = body["healthy"]["seconds"], body["best"]["seconds"]
    assert healthy < best <= body["same_program_seconds"]
    assert body["lost_seconds"] == pytest.approx(best - healthy)
    assert body["best"]["bound_seconds"] <= best
    assert body["followed"]["busiest"][0]["link"].startswith("node1/port")
    assert body["followed"]["healthy_seconds"] < body["followed"]["seconds"]
    top = asked("top", *ONE, *QUICK, "-k", "1", "--slow", "node1=0.25")
    assert top["answers"][0]["seconds"] == best


def test_with_axes_left_over_both_are_asked_on_the_placement_of_frameworks() -> None:
    """A fault is no reason to recommend another placement from one collective."""
    words = ("cost", "dgx-h100:4", "--axes", "data=8,model=4", "--reduce", "data")
    quick = ("--slow", "node3=0.5", "--no-stripes", "--max-steps", "3", "--segments", "1")
    said = " ".join(run(*words, *quick).stdout.split())
    where = said.index("placement: data on 2 of 8 gpus in each of the 4 nodes")
    assert "[[4, 2], [1, 4]] placed in frameworks' default order" in said[where:]
    body = asked(*words, *quick)
    assert (body["healthy"]["placement"], body["laid_out_by"]) == ([[4, 2], [1, 4]], "framework")
    assert body["best"]["placement"] == body["healthy"]["placement"]
    inside = asked(*words, *quick, "--placement", "[[1, 8], [4, 1]]")
    assert inside["best"]["placement"] == [[1, 8], [4, 1]]
    assert "laid_out_by" not in inside


def test_a_program_is_followed_on_either_machine_by_what_is_fastest_there() -> None:
    """The slow port makes a tree the fastest there; the healthy machine keeps its own way.

    By stated prices: flows take links at their described bandwidth, calibrated or not.
    """
    where = ("dgx-h100:4", "--axes", "data=32", "--reduce", "data", "--prices", "stated")
    followed = asked("cost", *where, *QUICK, "--slow", "node3/nic2=0.25")["followed"]
    segments = ("--segments", str(followed["segments"]))
    healthy = asked("time", followed["program"], *where, *segments)
    assert followed["healthy_seconds"] == pytest.approx(healthy["seconds"], rel=1e-6)
    slow = asked("time", followed["program"], *where, *segments, "--slow", "node3/nic2=0.25")
    assert healthy["seconds"] < followed["seconds"] <= slow["seconds"] * (1 + 1e-6)


def test_what_a_lost_gpu_and_a_lost_node_cost() -> None:
    lost = asked("cost", *ONE, *QUICK, "--without", "node1/gpu3")
    assert lost["best"]["axes"] == {"data": 15}
    assert [one["machine"] for one in lost["choices"]] == ["2 node x 7 gpu", "8 gpu"]
    node = asked("cost", *ONE, *QUICK, "--without", "node1")
    assert node["best"]["axes"] == {"data": 8}
    one = asked("top", "dgx-h100:1", "--axes", "data=8", "--reduce", "data", *QUICK, "-k", "1")
    assert node["best"]["seconds"] == one["answers"][0]["seconds"]


def test_an_uneven_answer_is_emitted_and_run(tmp_path: Path) -> None:
    words = ("dgx-h100:2", "--axes", "data=15", "--reduce", "data", "--without", "node1/gpu3")
    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps(asked("top", *words, *QUICK, "-k", "2")), encoding="utf-8")
    seen = asked("run", "--from", str(answer), "--rank", "2", "--check", "--bytes", "1000")
    assert seen["check"]["equal"]
    assert seen["devices"] == 15
    files = asked("emit", "--from", str(answer), "--target", "json")["files"]
    written = json.loads(files[0]["text"])
    assert written["devices"] == [device for device in range(16) if device != 11]
    for refused in (("emit", "--target", "torch"), ("run", "--backend", "gloo")):
        said = run(*refused, "--from", str(answer), code=2)
        assert "uneven" in said.stderr
    both = run("emit", "all-reduce root", "--from", str(answer), "--target", "json", code=2)
    assert "a program and an answer are given" in both.stderr


def test_an_answer_remembers_what_was_slow(tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    body = asked("top", *ONE, *QUICK, "-k", "1", "--slow", "node1=0.25")
    answer.write_text(json.dumps(body), encoding="utf-8")
    found = asked("emit", "--from", str(answer), "--target", "json")
    assert found["seconds"] == pytest.approx(body["answers"][0]["seconds"])


PLACED = ("--axes", "data=8", "--reduce", "data")
PROGRAM = "all-reduce root inside"


@pytest.mark.parametrize(
    "words",
    [
        ("place", "SYSTEM", "--axes", "data=8"),
        ("plan", "SYSTEM", "--job", "gpt-18b-3d"),
        ("check", PROGRAM, "SYSTEM", *PLACED),
        ("lower", PROGRAM, "SYSTEM", *PLACED),
        ("time", PROGRAM, "SYSTEM", *PLACED),
        ("emit", PROGRAM, "SYSTEM", *PLACED, "--target", "json"),
        ("emit", PROGRAM, "SYSTEM", *PLACED, "--target", "slurm"),
        ("run", PROGRAM, "SYSTEM", *PLACED),
        ("top", "SYSTEM", *PLACED),
        ("top", "SYSTEM", "--axes", "data=7", "--reduce", "data", "--request", "broadcast"),
        ("top", "SYSTEM", "--axes", "data=7", "--reduce", "data", "--bytes", "1KiB..1MiB"),
        ("top", "SYSTEM", "--axes", "data=7", "--reduce", "data", "--across"),
        ("top", "SYSTEM", "--axes", "data=7", "--reduce", "data", "--per-placement"),
    ],
)
def test_nobody_ignores_a_missing_device(tmp_path: Path, words: tuple[str, ...]) -> None:
    system = description(tmp_path, GONE)
    said = run(*(system if word == "SYSTEM" else word for word in words), code=2)
    assert "lack" in said.stderr or "are left" in said.stderr or "as in data=7" in said.stderr


@pytest.mark.parametrize("verb", ["top", "time", "emit", "systems"])
def test_a_slow_unit_of_a_description_is_reported_and_priced(tmp_path: Path, verb: str) -> None:
    slow = description(tmp_path, SLOW)
    words = {
        "top": ("top", slow, *PLACED, *QUICK, "-k", "1"),
        "time": ("time", PROGRAM, slow, *PLACED, "--algorithm", "ring", "--segments", "1"),
        "emit": ("emit", PROGRAM, slow, *PLACED, "--target", "json", "--algorithm", "ring"),
        "systems": ("systems", slow),
    }[verb]
    body = asked(*words)
    if verb != "emit":
        told = body if verb == "time" else body["system"]
        assert told["exceptions"][0]["unit"] == "node1"
        assert "node1" in run(*words).stdout
    description(tmp_path, "")
    plain = asked(*words)
    if verb != "systems":
        mine = body["answers"][0] if verb == "top" else body
        theirs = plain["answers"][0] if verb == "top" else plain
        assert mine["seconds"] > theirs["seconds"]


def test_chakra_notes_that_it_cannot_express_slow_links(tmp_path: Path) -> None:
    system = description(tmp_path, SLOW)
    said = run("emit", PROGRAM, system, *PLACED, "--target", "chakra", code=2)
    assert "links differ" in said.stderr


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--without", "node9"), "--without: no unit 'node9'"),
        (("--slow", "node0"), "'node0' is not slow"),
        (("--slow", "node0=0"), "--slow: node0 = 0"),
        (("--slow", "node0=1.5"), "at most 1"),
        (("--slow", "node0=nan"), "--slow"),
        (("--slow", "node0=0.5", "--slow", "node0=0.6"), "given twice"),
        ((), "nothing is missing or slower"),
    ],
)
def test_bad_flags_are_reported(flags: tuple[str, ...], told: str) -> None:
    assert told in run("cost", *ONE, *flags, code=2).stderr


def test_whole_units_missing_leave_an_even_machine_for_every_verb() -> None:
    assert asked("systems", "dgx-h100:4", "--without", "node2")["system"]["devices"] == 24
    assert load("dgx-h100:4").devices == 32


@st.composite
def slowed(draw: st.DrawFn) -> tuple[System, System, Request]:
    """A machine, the same with one link slower, and any request of all its devices."""
    whole = draw(smart_systems(8))
    wiring = Wiring(whole)
    cables = sorted(
        {
            wiring.cable(first)
            for level, link in enumerate(whole.links)
            for first in range(wiring.firsts[level], wiring.firsts[level + 1])
            if link.domain not in (Domain.BUS, Domain.TORUS)
        }
    )
    assume(cables)
    name, share = draw(st.sampled_from(cables)), draw(st.sampled_from([0.5, 0.9]))
    fault = replace(parse_fault(name, whole.hierarchy), share=share)
    language = Language(3, goal=draw(st.sampled_from(Goal)))
    axes = (Axis("data", whole.devices),)
    size = draw(st.sampled_from([10**4, 10**7, 10**9]))
    request = Request(axes, ("data",), size, 1, language, segments=(1, 2, 8))
    return whole, whole.with_faults([fault]), request


@given(slowed())
@examples(8, 60)
def test_a_slower_link_is_never_reported_as_faster(case: tuple[System, System, Request]) -> None:
    """For every request: what is found on one machine is tried on the other."""
    found = compare_machines(*case)
    assert found.seconds >= found.healthy.candidate.seconds
    assert found.same_seconds is not None
    assert found.same_seconds >= found.seconds
