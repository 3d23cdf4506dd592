"""The results on disk are what the scripts under ``results/`` compute."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import flow_oracle
import oracle
from grammar import Goal
from hierarchies import Axis, Domain, Hierarchy, Link, System, load
from results import record
from results.bench import __main__ as bench
from results.bench import measures
from results.bounds import __main__ as bounds
from results.bounds import figures, optimum, reached
from results.claims import __main__ as reproduce
from results.claims import survey, variants
from synth.collective.algorithms.algorithms import Choice
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Request
from synth.collective.semantics.programs import Language, explore_states


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return record.read(reproduce.DATA)


@pytest.mark.parametrize("question", [reproduce, bench, bounds])
def test_the_page_matches_the_data(question: Any) -> None:
    assert question.page(record.read(question.DATA)).is_current


def test_a_fresh_survey_of_one_system_gives_the_data(data: dict[str, Any]) -> None:
    told = reproduce.claims()["experiment"]
    assert data["experiment"] == told
    setting = reproduce.experiment({**told, "systems": ["p2-v100:2"]})
    fresh = reproduce.surveyed(setting, survey.survey(setting))["systems"]
    old = [part for part in data["systems"] if part["system"] == "p2-v100:2"]
    assert not list(record.differences(old, fresh))


def test_claims_name_the_place_of_their_figures(data: dict[str, Any]) -> None:
    for claim in reproduce.claims()["claim"]:
        assert claim["published"]
        assert claim["source"]
        assert claim["why"]
        found: Any = data["together"]["ring"]
        for key in claim.get("figure", []):
            found = found[key]


def test_differences_are_reported() -> None:
    old = {"commit": "a", "x": [1.0, {"y": "one"}], "z": 3}
    same = {**old, "commit": "b", "x": [1.0001, {"y": "one"}]}
    assert not list(record.differences(old, same))
    new = {"commit": "a", "x": [1.1, {"y": "two"}], "w": 3}
    told = [line.split(":")[0] for line in record.differences(old, new)]
    assert told == ["w", "x[0]", "x[1].y", "z"]


@pytest.mark.parametrize("algorithm", ["ring", "tree"])
def test_the_survey_finds_what_the_planner_finds(algorithm: str) -> None:
    """On every placement of two requests: the plain all-reduce, the best program and its time."""
    told = reproduce.claims()["experiment"]
    setting = reproduce.experiment(told)
    surveyor = survey.Surveyor("p2-a100:4", algorithm, setting)
    payload = 4 * 2**29 * 4
    for sizes, over in (((8, 8), ("axis0",)), ((4, 2, 8), ("axis0", "axis2"))):
        axes = tuple(Axis(f"axis{i}", size) for i, size in enumerate(sizes))
        request = Request(
            axes,
            over,
            payload,
            1,
            choice=Choice(algorithm),
            per_placement=True,
            segments=(1,),
            exact=True,
        )
        expected = [
            (
                str(answer.candidate.reduction.placement),
                str(answer.candidate.program),
                answer.candidate.ticks,
                round(answer.defaults.seconds[algorithm] * 10**12),
            )
            for answer in answers(load("p2-a100:4"), request).answers
        ]
        cases = [case for case in surveyor.cases() if case.request == (sizes, over)]
        found = [(c.placement, c.program, c.best_ticks, c.default_ticks) for c in cases]
        assert found == expected


def test_requests_are_all_factorisations_with_all_subsets() -> None:
    assert list(survey.factorisations(8, 2)) == [(2, 4), (4, 2)]
    found = [(tuple(axis.size for axis in axes), len(over)) for axes, over in survey.requests(8, 3)]
    assert len(found) == 1 * 1 + 2 * 3 + 1 * 7
    assert len(set(survey.requests(8, 3))) == len(found)


TWO_LEVELS = {"levels": ["node", "gpu"], "cardinalities": [2, 4], "axes": [4, 2]}


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_reduction_variant_has_the_programs_of_the_house(depth: int) -> None:
    example = {
        "levels": [f"level{i}" for i in range(depth + 1)],
        "cardinalities": [2] * depth + [3],
        "axes": [2**depth, 3],
        "matrix": [[2] * depth + [1], [1] * depth + [3]],
        "reduce": [0],
    }
    request = variants.request_of(example)
    for variant in ("reduction", "reduction-uncollapsed"):
        found = variants.search(request, variant, 4)
        assert found.by_length(4) == explore_states(depth, Language(4)).count()[1:]


def _by_hand(request: Any, variant: str, most_steps: int) -> set[Any]:
    """Programs of a variant, walked by the slow oracle on real devices with the variant's goal."""
    sizes = (2,) * len(request.factors)
    choices = variants.alphabet(variants.VARIANTS[variant](request))
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
def test_a_variant_has_the_programs_that_the_oracle_finds(variant: str, reduce: list[int]) -> None:
    example = {**TWO_LEVELS, "matrix": [[2, 2], [1, 2]], "reduce": reduce}
    request = variants.request_of(example)
    found = variants.search(request, variant, 3).programs
    assert found == _by_hand(request, variant, 3)


def test_the_page_matches_the_results_of_the_variants(data: dict[str, Any]) -> None:
    single = [e for e in data["variants"]["examples"] if len(e["reduce"]) == 1]
    assert single
    for told in [e["variants"] for e in single] + [s["variants"] for s in data["variants"]["sums"]]:
        most = told["reduction"]
        for variant in ("system", "columns", "rows"):
            assert told[variant]["programs"] <= most["programs"]
            assert told[variant]["beyond_symmetric"] == 0
            assert told[variant]["instructions"] >= most["instructions"]


def test_drawn_programs_are_valid_and_always_the_same() -> None:
    graph = explore_states(2, Language())
    drawn = list(measures._drawn(graph, 50))
    assert drawn == list(measures._drawn(graph, 50))
    prices = [0] * len(graph.alphabet)
    valid = {
        tuple(graph.alphabet[label] for label in path.labels)
        for path in graph.cheapest(prices, prices)
    }
    assert len(valid) == 93
    assert set(drawn) <= valid


def test_every_benchmark_has_an_entry() -> None:
    entries = record.read(bench.DATA)["benchmarks"]
    promised = [promise.name for one in bench.BENCHES for promise in one.promises]
    assert [entry["name"] for entry in entries] == promised
    for entry in entries:
        assert {"figure", "unit", "limit", "met"} <= {*entry}
        assert {"command", "commit", "date", "machine"} <= {*entry}


def test_a_plan_of_eight_collectives_is_exact() -> None:
    found = measures.plan("dgx-h100:4")
    assert found["devices"] == 32
    assert found["placements"] == 7
    assert measures._evenly(512, 4) == list(bounds.evenly(512, 4))


# How near to the bound.


@pytest.mark.parametrize(
    ("number", "parts", "sizes"),
    [(32, 3, (4, 4, 2)), (288, 3, (8, 6, 6)), (64, 3, (4, 4, 4)), (10, 3, (5, 2, 1))],
)
def test_axes_are_as_even_as_factors_allow(number: int, parts: int, sizes: tuple[int, ...]) -> None:
    assert bounds.evenly(number, parts) == sizes


def test_every_system_of_the_rule_is_there() -> None:
    told = record.read(bounds.DATA)
    assert list(told["systems"]) == list(bounds.switched())
    assert [case["system"] for case in told["cases"]] == [
        name for name in bounds.switched() for _ in range(7)
    ]
    listed = [(case["system"], case["request"]) for case in told["flows"]]
    goals = [goal.value for goal in optimum.GOALS]
    assert listed == [(name, goal) for name in bounds.meshed() for goal in goals]


def test_fresh_answers_for_some_systems_give_the_data() -> None:
    told = record.read(bounds.DATA)
    for name in ("dgx-h100:2", "p2-a100:2"):
        old = [case for case in told["cases"] if case["system"] == name]
        assert not list(record.differences(old, bounds.cases(name)))
    old = [case for case in told["flows"] if case["system"] == "mi300x:1"]
    assert not list(record.differences(old, bounds.flows("mi300x:1")))
    assert not list(record.differences(told["nominal"], bounds.nominal()))


def test_what_is_reached_of_bounds_is_of_the_rule_and_fresh() -> None:
    told = record.read(reached.DATA)
    requests = product(reached.systems(), reached.ASKED, Goal)
    assert [(case["system"], case["request"]) for case in told["cases"]] == [
        (name, goal.value) for name, _, goal in requests
    ]
    for case in told["cases"]:
        assert case["reached"] <= 1 + 1e-6
        assert case["load"] * case["busy"] == pytest.approx(case["reached"], rel=1e-4)
    old = [case for case in told["cases"] if case["system"] == "mi300x:1"]
    assert not list(record.differences(old, reached.cases("mi300x:1")))


def test_the_figures_of_the_bounds_are_of_the_cases() -> None:
    """Nothing is below a bound; the parts of a ratio make the ratio; first answers are first."""
    told = record.read(bounds.DATA)
    assert told["all"] == bounds.summed(told["cases"])
    for case in told["cases"]:
        assert case["ratio"] >= 1 - 1e-6
        assert min(case["reach"], case["load"], case["waits"]) >= 1 - 1e-5
        parts = case["reach"] * case["load"] * case["waits"]
        assert parts == pytest.approx(case["ratio"], rel=1e-4)
        far = case["ratio"] > figures.WORST
        assert bool(figures.reasons(case)) >= far
    for case in told["flows"]:
        assert case["ratio"] >= 1 - 1e-6
        assert case["bound_ratio"] >= case["ratio"] * (1 - 1e-5)
    assert not [case for case in told["cases"] if case["beaten_by"]]
    # XLA's rings in all dimensions at once are no program: the answer says to keep them.
    beaten = [case for case in told["flows"] if case["beaten_by"]]
    assert all(case["domain"] == "torus" and "xla" in case["beaten_by"] for case in beaten)


def on_one_machine(domain: Domain, sizes: tuple[int, ...]) -> System:
    """Levels of one kind, each faster than the one outside of it."""
    hierarchy = Hierarchy.of(**dict(zip("zyx", sizes, strict=False)))
    links = tuple(
        Link(domain, 1e9 * (1 + level), 0.0, hierarchy.devices_in_child(level))
        if domain is Domain.TORUS
        else Link(domain, 1e9, 0.0)
        for level in range(len(sizes))
    )
    return System("one", "", hierarchy, links, 1e18)


@pytest.mark.parametrize(
    ("domain", "sizes"),
    [
        *[(Domain.RING, (n,)) for n in (2, 3, 4, 5)],
        *[(Domain.MESH, (n,)) for n in (2, 3, 4)],
        *[(Domain.TORUS, sizes) for sizes in [(4,), (2, 2), (2, 3), (3, 2), (2, 2, 2)]],
    ],
)
def test_the_optimum_is_that_of_the_oracle(domain: Domain, sizes: tuple[int, ...]) -> None:
    """Every device, link and flow by itself, without symmetry.

    An all-to-all on a torus apart: the oracle lets messages turn corners for nothing.
    """
    system = on_one_machine(domain, sizes)
    assert optimum.applies(system)
    for goal in optimum.GOALS:
        if goal is not Goal.ALL_TO_ALL or len(sizes) == 1:
            least = flow_oracle.least_time(system, goal, [tuple(range(system.devices))])
            found = optimum.least_seconds(system, goal, 1.0)
            assert found == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("sizes", [(2, 2), (2, 3), (3, 2), (3, 3), (2, 3, 2)])
def test_an_all_to_all_on_a_torus_crosses_each_dimension(sizes: tuple[int, ...]) -> None:
    """Of two or three in a row everybody is next to everybody: 1/n buffers over each link."""
    system = on_one_machine(Domain.TORUS, sizes)
    found = optimum.least_seconds(system, Goal.ALL_TO_ALL, 1.0)
    bandwidths = [link.bandwidth_bytes_per_second for link in system.links]
    assert found == pytest.approx(max(1 / (n * b) for n, b in zip(sizes, bandwidths, strict=True)))


def test_the_pictures_can_be_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra 'results' is not installed")
    from results.claims.plots import draw

    told = reproduce.claims()["experiment"]
    cases = survey.survey(reproduce.experiment({**told, "most_axes": 2}))
    draw(cases, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"speedup.png", "placement.png"}
    assert all(path.stat().st_size > 10_000 for path in tmp_path.iterdir())
