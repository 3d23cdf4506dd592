"""Prices of a calibrated system say where the truth may lie, and which answers are ties."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from places import ROOT
from synth.cli.app import app
from synth.collective.price.intervals import OF_A_SHEET
from synth.collective.price.resolution import OTHERS_LINKS

LOGS = sorted(str(path) for path in ROOT.glob("docs/logs/sophia-*.csv"))
WHERE = ("--axes", "data=16", "--reduce", "data")
ORDER = "all-reduce root inside"


def answered(*words: str) -> Any:
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("calibrated") / "my.toml"
    result = CliRunner().invoke(app, ["calibrate", "dgx-a100:2", *LOGS, "-o", str(place)])
    assert result.exit_code == 0, result.output
    return str(place)


@pytest.mark.parametrize("size", ["4KiB", "1MiB", "1GiB"])
def test_a_price_lies_in_its_interval_and_answers_are_ordered_by_intervals(
    calibrated: str, size: str
) -> None:
    answers = answered("top", calibrated, *WHERE, "--bytes", size)["answers"]
    assert [answer["tied"] for answer in answers] == [True] + [False] * (len(answers) - 1)
    for answer in answers:
        low, high = answer["interval_seconds"]
        assert 0 < low <= answer["seconds"] <= high
        low, high = answer["baseline_interval_seconds"]
        assert low <= answer["baseline_seconds"] <= high


def test_the_interval_of_one_step_is_that_of_its_residuals(calibrated: str) -> None:
    body = answered("time", ORDER, calibrated, *WHERE, "--bytes", "1GiB", "--segments", "1")
    [step] = body["steps"]
    table = answered("systems", calibrated)["system"]["calibration"]
    classes = sorted({one["from_bytes"] for one in table["residual"]})
    keys = [(step["collective"], step["algorithm"]), ("", step["algorithm"]), ("", "")]
    fitting = [
        one
        for collective, algorithm in keys
        for protocol in (step["protocol"], "")
        for one in table["residual"]
        if one["from_bytes"] == classes[-1]
        and one.get("collective", "") == collective
        and one.get("algorithm", "") == algorithm
        and one.get("protocol", "") == protocol
    ]
    low, high = body["interval_seconds"]
    assert low == pytest.approx(body["seconds"] * min(1, fitting[0]["low"]))
    assert high == pytest.approx(body["seconds"] * max(1, fitting[0]["high"]))


def test_without_measurements_there_is_no_interval_and_what_data_sheets_do_not_tell_ties() -> None:
    body = answered("top", "dgx-a100:2", *WHERE, "--bytes", "1GiB", "--prices", "stated")
    assert body["system"]["calibration"] is None
    assert {answer["interval_seconds"] for answer in body["answers"]} == {None}
    first, *others = body["answers"]
    tied = [answer["tied"] for answer in others]
    assert first["tied"]
    assert any(tied)
    assert not all(tied)
    for answer in others:
        if answer["seconds"] <= (1 + OTHERS_LINKS) * first["seconds"]:
            assert answer["tied"]
        if answer["tied"]:
            assert answer["seconds"] < OF_A_SHEET[1] * first["seconds"]


def test_tables_show_intervals_and_ties(calibrated: str) -> None:
    text = CliRunner().invoke(app, ["top", calibrated, *WHERE, "--bytes", "64MiB"]).stdout
    assert " us to " in text
    assert "near: number of other programs that tie with it" in text
    text = CliRunner().invoke(app, ["time", ORDER, calibrated, *WHERE]).stdout
    assert "(9 of 10 by measurements: " in text


def test_an_answer_remembers_what_its_system_was_calibrated_by(
    calibrated: str, tmp_path: Path
) -> None:
    ranking = answered("top", calibrated, *WHERE, "--bytes", "1MiB", "--no-stripes")
    place = tmp_path / "answer.json"
    place.write_text(json.dumps(ranking))
    run = answered("run", "--from", str(place), "--backend", "numpy")
    size = ranking["bytes"]
    assert size == 2**20
    assert run["predicted_seconds"] == pytest.approx(ranking["answers"][0]["seconds"], rel=1e-6)


def test_a_job_has_intervals_of_its_sum(calibrated: str, tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    entry = '[[collective]]\nname = "{}"\nrequest = "all-reduce"\nover = ["{}"]\nbytes = "{}"\n'
    gradients, activations = entry.format("g", "data", "64MiB"), entry.format("a", "model", "1MiB")
    job.write_text(
        'name = "two"\n[axes]\ndata = 8\nmodel = 2\n'
        f"{gradients}times = 2\n{activations}times = 10\n"
    )
    body = answered("plan", calibrated, "--job", str(job))
    best = body["ranking"][0]
    low, high = best["interval_seconds"]
    assert low <= best["exposed_seconds"] <= high
    sums = [
        sum(e["times"] * e["answer"]["interval_seconds"][end] for e in body["entries"])
        for end in (0, 1)
    ]
    # The interval of one program begins at its bound at the lowest.
    assert low <= sums[0] * (1 + 1e-6)
    assert high == pytest.approx(sums[1])
    assert best["tied"]
