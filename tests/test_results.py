"""The results on disk are what the scripts under ``results/`` compute."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import oracle
from hierarchies import Axis, load
from synth.algorithms import Choice
from synth.plan import answers
from synth.programs import Language, explore_states
from synth.request import Request

RESULTS = Path(__file__).parent.parent / "results"
ROOMS = ("record", "survey", "variants", "pages", "reproduce", "measures", "bench")


@pytest.fixture(scope="module")
def rooms() -> Iterator[SimpleNamespace]:
    """The scripts as modules; they find each other as when they are run."""
    sys.path.insert(0, str(RESULTS))
    try:
        yield SimpleNamespace(**{name: __import__(name) for name in ROOMS})
    finally:
        sys.path.remove(str(RESULTS))


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    text = (RESULTS / "data" / "claims.json").read_text(encoding="utf-8")
    told: dict[str, Any] = json.loads(text)
    return told


def test_the_page_is_what_the_data_gives(rooms: SimpleNamespace, data: dict[str, Any]) -> None:
    text = rooms.record.README.read_text(encoding="utf-8")
    assert rooms.reproduce.page(rooms.reproduce.claims(), data) == text
    assert rooms.bench.page(rooms.record.read("bench.json")["benchmarks"]) == text


def test_a_fresh_survey_of_one_system_gives_the_data(
    rooms: SimpleNamespace, data: dict[str, Any]
) -> None:
    told = rooms.reproduce.claims()["experiment"]
    assert data["experiment"] == told
    setting = rooms.reproduce.experiment({**told, "systems": ["p2-v100:2"]})
    fresh = rooms.reproduce.surveyed(setting, rooms.survey.survey(setting))["systems"]
    old = [part for part in data["systems"] if part["system"] == "p2-v100:2"]
    assert not list(rooms.reproduce.differences(old, fresh))


def test_the_claims_say_where_their_figures_are(
    rooms: SimpleNamespace, data: dict[str, Any]
) -> None:
    for claim in rooms.reproduce.claims()["claim"]:
        assert claim["published"]
        assert claim["source"]
        assert claim["why"]
        found: Any = data["together"]["ring"]
        for key in claim.get("figure", []):
            found = found[key]


def test_what_differs_is_told(rooms: SimpleNamespace) -> None:
    old = {"commit": "a", "x": [1.0, {"y": "one"}], "z": 3}
    same = {**old, "commit": "b", "x": [1.0001, {"y": "one"}]}
    assert not list(rooms.reproduce.differences(old, same))
    new = {"commit": "a", "x": [1.1, {"y": "two"}], "w": 3}
    told = [line.split(":")[0] for line in rooms.reproduce.differences(old, new)]
    assert told == ["w", "x[0]", "x[1].y", "z"]


@pytest.mark.parametrize("algorithm", ["ring", "tree"])
def test_the_survey_finds_what_the_planner_finds(rooms: SimpleNamespace, algorithm: str) -> None:
    """On every placement of two requests: the plain all-reduce, the best program and its time."""
    told = rooms.reproduce.claims()["experiment"]
    setting = rooms.reproduce.experiment(told)
    surveyor = rooms.survey.Surveyor("p2-a100:4", algorithm, setting)
    payload = 4 * 2**29 * 4
    for sizes, over in (((8, 8), ("axis0",)), ((4, 2, 8), ("axis0", "axis2"))):
        axes = tuple(Axis(f"axis{i}", size) for i, size in enumerate(sizes))
        request = Request(
            axes, over, payload, 1, choice=Choice(algorithm), per_placement=True, segments=(1,)
        )
        expected = [
            (
                str(answer.candidate.reduction.placement),
                str(answer.candidate.program),
                answer.candidate.ticks,
                round(answer.baseline_seconds * 10**12),
            )
            for answer in answers(load("p2-a100:4"), request).answers
        ]
        cases = [case for case in surveyor.cases() if case.request == (sizes, over)]
        found = [(c.placement, c.program, c.best_ticks, c.default_ticks) for c in cases]
        assert found == expected


def test_requests_are_all_factorisations_with_all_subsets(rooms: SimpleNamespace) -> None:
    assert list(rooms.survey.factorisations(8, 2)) == [(2, 4), (4, 2)]
    found = [
        (tuple(axis.size for axis in axes), len(over)) for axes, over in rooms.survey.requests(8, 3)
    ]
    assert len(found) == 1 * 1 + 2 * 3 + 1 * 7
    assert len(set(rooms.survey.requests(8, 3))) == len(found)


TWO_LEVELS = {"levels": ["node", "gpu"], "cardinalities": [2, 4], "axes": [4, 2]}


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_reduction_variant_has_the_programs_of_the_house(
    rooms: SimpleNamespace, depth: int
) -> None:
    example = {
        "levels": [f"level{i}" for i in range(depth + 1)],
        "cardinalities": [2] * depth + [3],
        "axes": [2**depth, 3],
        "matrix": [[2] * depth + [1], [1] * depth + [3]],
        "reduce": [0],
    }
    request = rooms.variants.request_of(example)
    for variant in ("reduction", "reduction-uncollapsed"):
        found = rooms.variants.search(request, variant, 4)
        assert found.by_length(4) == explore_states(depth, Language(4)).count()[1:]


def _by_hand(rooms: SimpleNamespace, request: Any, variant: str, most_steps: int) -> set[Any]:
    """Programs of a variant, walked by the slow oracle on real devices with the variant's goal."""
    sizes = (2,) * len(request.factors)
    choices = rooms.variants.alphabet(rooms.variants.VARIANTS[variant](request))
    words = [(s, oracle.Word(s.collective.value, s.groups.free, s.groups.zero)) for s in choices]
    devices = oracle.labels(sizes)
    goal = {
        device: dict.fromkeys(
            devices,
            frozenset(q for q in devices if all(q[i] == device[i] for i in request.replicating)),
        )
        for device in devices
    }

    def walked(state: oracle.State, done: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        if state == goal:
            yield done
        elif len(done) < most_steps:
            for said, word in words:
                if not oracle.broken(state, word, sizes):
                    yield from walked(oracle.after(state, word, sizes), (*done, said))

    return set(walked(oracle.start(sizes), ()))


@pytest.mark.parametrize("reduce", [[0], [1], [0, 1]])
@pytest.mark.parametrize("variant", ["system", "columns", "rows", "reduction"])
def test_a_variant_has_the_programs_that_the_oracle_finds(
    rooms: SimpleNamespace, variant: str, reduce: list[int]
) -> None:
    example = {**TWO_LEVELS, "matrix": [[2, 2], [1, 2]], "reduce": reduce}
    request = rooms.variants.request_of(example)
    found = rooms.variants.search(request, variant, 3).programs
    assert found == _by_hand(rooms, request, variant, 3)


def test_what_the_page_says_of_the_variants(data: dict[str, Any]) -> None:
    single = [e for e in data["variants"]["examples"] if len(e["reduce"]) == 1]
    assert single
    for told in [e["variants"] for e in single] + [s["variants"] for s in data["variants"]["sums"]]:
        most = told["reduction"]
        for variant in ("system", "columns", "rows"):
            assert told[variant]["programs"] <= most["programs"]
            assert told[variant]["beyond_symmetric"] == 0
            assert told[variant]["instructions"] >= most["instructions"]


def test_drawn_programs_are_valid_and_always_the_same(rooms: SimpleNamespace) -> None:
    graph = explore_states(2, Language())
    drawn = list(rooms.measures._drawn(graph, 50))
    assert drawn == list(rooms.measures._drawn(graph, 50))
    prices = [0] * len(graph.alphabet)
    valid = {
        tuple(graph.alphabet[label] for label in path.labels)
        for path in graph.cheapest(prices, prices)
    }
    assert len(valid) == 93
    assert set(drawn) <= valid


def test_every_benchmark_has_an_entry(rooms: SimpleNamespace) -> None:
    entries = rooms.record.read("bench.json")["benchmarks"]
    promised = [promise.name for bench in rooms.bench.BENCHES for promise in bench.promises]
    assert [entry["name"] for entry in entries] == promised
    for entry in entries:
        assert {"figure", "unit", "limit", "met"} <= {*entry}
        assert {"command", "commit", "date", "machine"} <= {*entry}


def test_the_pictures_can_be_drawn(rooms: SimpleNamespace, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra 'results' is not installed")
    plots = runpy.run_path(str(RESULTS / "plots.py"))
    told = rooms.reproduce.claims()["experiment"]
    cases = rooms.survey.survey(rooms.reproduce.experiment({**told, "most_axes": 2}))
    plots["draw"](cases, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"speedup.png", "placement.png"}
    assert all(path.stat().st_size > 10_000 for path in tmp_path.iterdir())
