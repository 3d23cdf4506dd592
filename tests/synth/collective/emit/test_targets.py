"""Handing out: every target, from a program or from an answer, to the screen or to files."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from hierarchies import Axis, InputError, Reduction, System, load
from manual import DOCS, README
from strategies import source, systems
from synth.ask.answers.given import read_answer
from synth.ask.answers.parts import to_json
from synth.ask.answers.planning import PlanReply
from synth.ask.answers.ranked import RankingReply, SweepReply
from synth.cli import app as cli
from synth.collective.algorithms.algorithms import Choice
from synth.collective.emit.targets import TARGETS, emit, runnable_targets
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Request
from synth.collective.ranking.sizes import sweep
from synth.collective.run import BACKENDS
from synth.collective.semantics.programs import Language
from synth.collective.workload.files import load_job
from synth.collective.workload.planner import SearchSettings, plan_job

NESTED = "reduce-scatter node inside; all-reduce node parallel; all-gather node inside"
ROOTED = "reduce node inside; all-reduce node master; broadcast node inside"
WHERE = ("dgx-a100:2", "--axes", "data=8,model=2", "--reduce", "data", "--bytes", "1MiB")
SPREAD = ("--placement", "[[2, 4], [1, 2]]")


def run(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli.app, list(words), input=stdin)


def emitted(*words: str) -> dict[str, bytes]:
    result = run("emit", *words, "--json")
    assert result.exit_code == 0, result.stderr
    files = json.loads(result.stdout)["files"]
    return {
        file["name"]: file["text"].encode() if "text" in file else b64decode(file["base64"])
        for file in files
    }


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    result = run("top", *WHERE, "-k", "6", "--segments", "1", "--json")
    file = tmp_path_factory.mktemp("answers") / "answer.json"
    file.write_text(result.stdout)
    return file


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_writes_files_and_is_documented(target: str, tmp_path: Path) -> None:
    words = (NESTED, *WHERE, *SPREAD, "--target", target, "--channels", "16")
    files = emitted(*words)
    assert files
    assert all(files.values())
    result = run("emit", *words, "-o", str(tmp_path))
    assert result.exit_code == 0, result.stderr
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == files
    assert f"`{target}`" in (DOCS / "into-your-job.md").read_text(encoding="utf-8")


def test_the_help_names_every_target_and_backend() -> None:
    for command, names in (("emit", TARGETS), ("run", BACKENDS)):
        said = " ".join(run(command, "--help").stdout.replace("│", " ").split())
        assert f"One of: {', '.join(names)}." in said


def test_a_single_file_goes_to_the_screen_or_the_given_path(tmp_path: Path) -> None:
    words = (NESTED, *WHERE, *SPREAD, "--target", "torch")
    [text] = emitted(*words).values()
    shown = run("emit", *words)
    assert shown.stdout.encode() == text
    file = tmp_path / "fast.py"
    told, note = run("emit", *words, "-o", str(file)).stderr.splitlines()
    assert told == f"wrote 1 file to {file}"
    assert note.startswith("Keep the default rather than this")
    assert file.read_bytes() == text


def test_several_files_need_a_folder() -> None:
    result = run("emit", NESTED, *WHERE, *SPREAD, "--target", "chakra")
    assert result.exit_code == 2
    assert re.search(r"consists of 2\d files: .*; name a folder for them with -o", result.stderr)


def test_a_place_that_cannot_be_written_is_reported() -> None:
    words = (NESTED, *WHERE, *SPREAD, "--target", "torch", "-o", "/dev/null/all.py")
    result = run("emit", *words)
    assert result.exit_code == 2
    assert result.stderr == "collsynth: /dev/null/all.py: cannot write: Not a directory\n"


@pytest.mark.parametrize("rank", [1, 2, 6])
@pytest.mark.parametrize("target", ["torch", "json", "mscclpp"])
def test_an_answer_is_emitted_as_its_program_would_be(answer: Path, rank: int, target: str) -> None:
    ranking = json.loads(answer.read_text())
    chosen = ranking["answers"][rank - 1]
    by_answer = emitted("--from", str(answer), "--rank", str(rank), "--target", target)
    words = (chosen["program"], *WHERE, "--placement", str(chosen["placement"]))
    assert by_answer == emitted(*words, "--target", target)


def test_an_answer_may_come_on_standard_input(answer: Path) -> None:
    result = run("emit", "--from", "-", "--target", "json", stdin=answer.read_text())
    assert (
        json.loads(result.stdout)["program"]
        == json.loads(answer.read_text())["answers"][0]["program"]
    )


@pytest.mark.slow
@given(systems(most_devices=8), st.sampled_from(Choice), st.booleans())
def test_a_system_is_remembered_whole(system: System, choice: Choice, collapse: bool) -> None:
    """The answer alone is enough: names, links, ports and all come back out of the JSON."""
    request = Request(
        axes=(Axis("data", system.devices),), over=("data",), k=1, choice=choice, collapse=collapse
    )
    report = answers(system, request)
    back = read_answer(
        json.loads(json.dumps(to_json(RankingReply.of(report, explain=False)))), 1, None
    )
    assert back.reduction == report.answers[0].candidate.reduction
    assert back.algorithm is choice
    assert back.payload_bytes == request.payload_bytes
    assert back.system.hierarchy == system.hierarchy
    for link, given_link in zip(back.system.links, system.links, strict=True):
        assert (link.domain, link.ports, link.through) == (
            given_link.domain,
            given_link.ports,
            given_link.through,
        )
        assert link.bandwidth_bytes_per_second == pytest.approx(
            given_link.bandwidth_bytes_per_second, rel=1e-14
        )
        assert link.latency_seconds == pytest.approx(given_link.latency_seconds, rel=1e-14)


def test_kept_answers_of_a_range_match_their_advice() -> None:
    """TPUs change programs with size; each is handed out for a size, and says by which command."""
    request = Request(axes=(Axis("data", 8),), over=("data",))
    over = sweep(load("tpu-v5e-slice:4x2"), request, 2**10, 2**26)
    told = json.loads(json.dumps(to_json(SweepReply.of(over))))
    assert len(over.stretches) > 1
    for one in over.stretches:
        for size, end in ((one.from_bytes, one.first), (one.until_bytes, one.last)):
            back = read_answer(told, 1, None, size)
            assert back.program == str(end.candidate.program)
            assert back.payload_bytes == size
    for size in (None, 2**10 - 1, 2**26 + 1):
        with pytest.raises(InputError, match=r"of an answer for a range; choose one: 1 KiB"):
            read_answer(told, 1, None, size)
    asked = [one["first"]["advice"] for one in told["stretches"]]
    assert all("--bytes" in one["text"] for one in asked if one["by"] == "file")


def test_an_entry_of_a_plan_is_remembered_as_an_answer_is() -> None:
    plan = plan_job(
        load("dgx-h100:8"), load_job("gpt3-175b-3d"), SearchSettings(k=1, language=Language(3))
    )
    told = json.loads(json.dumps(to_json(PlanReply.of(plan))))
    assert len({one.entry.goal for one in plan.entries}) > 1
    for rank, one in enumerate(plan.entries, start=1):
        back = read_answer(told, rank, None)
        assert back.goal is one.entry.goal
        assert back.payload_bytes == one.entry.payload_bytes
        assert back.reduction == one.answer.candidate.reduction
        assert back.program == str(one.answer.candidate.program)
        assert back.segments == one.answer.candidate.segments
    with pytest.raises(InputError, match="no answer has rank 99"):
        read_answer(told, 99, None)


BAD = {
    "no-target": ((NESTED, *WHERE, *SPREAD, "--target", "tourch"), "did you mean torch"),
    "nothing": (("--target", "torch"), "nothing to hand out is given"),
    "no-rank": (("--from", "ANSWER", "--rank", "7", "--target", "torch"), "no answer has rank 7"),
    "both": ((NESTED, "--from", "ANSWER", "--target", "torch"), "a program and an answer"),
    "no-answer": (("--from", "nowhere.json", "--target", "torch"), "nowhere.json: cannot read"),
    "not-json": (("--from", str(README), "--target", "torch"), "is not JSON"),
    "placement": ((NESTED, *WHERE, "--target", "torch"), "choose one with --placement"),
    "axes": ((NESTED, WHERE[0], "--target", "torch"), "no axes are given"),
    "hosts": (
        (NESTED, *WHERE, *SPREAD, "--target", "rankfile", "--hosts", "a,b,c"),
        "there are 2 hosts",
    ),
    "host-level": (
        (NESTED, *WHERE, *SPREAD, "--target", "rankfile", "--host-level", "nod"),
        "did you mean node",
    ),
    "channels": ((NESTED, *WHERE, *SPREAD, "--target", "nccl-tuner"), "pass --channels N"),
    "order": (
        (NESTED, *WHERE, *SPREAD, "--target", "torch", "--rank-order", "random"),
        "'machine', 'axes', 'megatron', 'torchtitan' or 'deepspeed'",
    ),
    "collapse": (
        ("--from", "ANSWER", "--no-collapse", "--target", "torch"),
        "leave out --no-collapse",
    ),
    "rank-of-nothing": ((NESTED, *WHERE, *SPREAD, "--rank", "2", "--target", "torch"), "rank 2"),
    "rooted": (
        (ROOTED, *WHERE, *SPREAD, "--target", "chakra"),
        "step 1: chakra cannot express reduce",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_clear_error(name: str, answer: Path) -> None:
    words, said = BAD[name]
    result = run("emit", *(str(answer) if word == "ANSWER" else word for word in words))
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_segments_are_remembered_where_the_target_can_overlap(tmp_path: Path) -> None:
    words = ("dgx-h100:4", "--axes", "data=32", "--reduce", "data", "--segments", "auto")
    file = tmp_path / "answer.json"
    file.write_text(run("top", *words, "-k", "4", "--prices", "stated", "--json").stdout)
    answers = json.loads(file.read_text())["answers"]
    answer = next(one for one in answers if one["segments"] > 1 and len(one["stripes"]) == 1)
    chosen = ("--from", str(file), "--rank", str(answer["rank"]))
    for target, overlaps in (("torch", True), ("json", True), ("mscclpp", False), ("trace", True)):
        told = json.loads(run("emit", *chosen, "--target", target, "--json").stdout)
        assert told["segments"] == (answer["segments"] if overlaps else 1)
        wanted = answer["seconds"] if overlaps else answer["barrier_seconds"]
        assert told["seconds"] == pytest.approx(wanted, rel=1e-9)
    [text] = emitted(*chosen, "--target", "torch").values()
    assert f"SEGMENTS = {answer['segments']} ".encode() in text
    [whole] = emitted(*chosen, "--target", "torch", "--segments", "1").values()
    assert b"SEGMENTS" not in whole


def test_stripes_are_remembered(tmp_path: Path) -> None:
    """Their shares too, for another payload; a forged program of one of them is found."""
    file = tmp_path / "answer.json"
    words = ("dgx-h100:4", "--axes", "data=32", "--reduce", "data", "-k", "1")
    file.write_text(run("top", *words, "--prices", "stated", "--json").stdout)
    ranking = json.loads(file.read_text())
    [answer] = ranking["answers"]
    sizes = [stripe["bytes"] for stripe in answer["stripes"]]
    assert sum(sizes) == ranking["bytes"]
    assert sum(stripe["share"] for stripe in answer["stripes"]) == pytest.approx(1, abs=1e-12)
    told = json.loads(run("emit", "--from", str(file), "--target", "torch", "--json").stdout)
    assert told["seconds"] == pytest.approx(answer["seconds"], rel=1e-9)
    assert [stripe["bytes"] for stripe in told["stripes"]] == sizes
    assert told["files"][0]["text"].count("    Stripe(\n") == len(sizes)
    words = ("--from", str(file), "--target", "json", "--bytes", "1000003", "--segments", "2")
    [content] = emitted(*words).values()
    document = json.loads(content)
    assert sum(stripe["payload_bytes"] for stripe in document["stripes"]) == 1000003
    assert {stripe["segments"] for stripe in document["stripes"]} == {2}
    refused = run("emit", "--from", str(file), "--target", "chakra").stderr
    assert "has no stripes" in refused
    assert "--no-stripes" in refused
    assert emitted("--from", str(file), "--target", "rankfile")
    answer["stripes"][1]["program"] = "reduce-scatter root inside"
    file.write_text(json.dumps(ranking))
    forged = run("emit", "--from", str(file), "--target", "torch")
    assert (forged.exit_code, "the program is unsound" in forged.stderr) == (1, True)


def test_a_step_without_words_names_the_targets_that_have_them() -> None:
    result = run("emit", ROOTED, *WHERE, *SPREAD, "--target", "chakra")
    assert result.stderr.endswith("these can: torch, jax, jax-flat, mpi, mscclpp\n")


def test_a_wrong_program_is_not_emitted(answer: Path, tmp_path: Path) -> None:
    """Whoever changed the answer: it is derived and proved again."""
    ranking = json.loads(answer.read_text())
    ranking["answers"][0]["program"] = "reduce-scatter root inside"
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(ranking))
    result = run("emit", "--from", str(forged), "--target", "torch")
    assert result.exit_code == 1
    assert "the program is unsound" in result.stderr


def test_several_answers_of_one_rank_need_a_placement(tmp_path: Path) -> None:
    ranking = run("top", *WHERE, "-k", "1", "--per-placement", "--json").stdout
    file = tmp_path / "answer.json"
    file.write_text(ranking)
    result = run("emit", "--from", str(file), "--target", "json")
    assert "answers have rank 1; choose a placement" in result.stderr
    chosen = run("emit", "--from", str(file), "--target", "json", *SPREAD)
    assert json.loads(chosen.stdout)["placement"] == [[2, 4], [1, 2]]


@pytest.mark.parametrize(
    "damage", [{"system": 3}, {"answers": [{}]}, {"bytes": 0}, {"reduce": None}]
)
def test_a_damaged_answer_is_reported_by_its_key(damage: dict[str, Any], answer: Path) -> None:
    ranking = json.loads(answer.read_text()) | damage
    with pytest.raises(InputError, match=f"from.{next(iter(damage))}"):
        read_answer(ranking, 1, None)


def test_a_target_without_segments_refuses_schedules_that_have_them() -> None:
    given = source("all-reduce root inside", Reduction.plain(2, 2), segments=4)
    for target, row in TARGETS.items():
        if not (row.overlaps or row.places):
            with pytest.raises(InputError, match=r"has no segments, and the schedule has 4"):
                emit(target, given)
    assert runnable_targets(given) == ("torch", "jax", "jax-flat", "mpi")


def test_a_target_without_stripes_refuses_them_or_does_not_mind() -> None:
    """Those that only say which device gets which rank write the same for every program."""
    reduction = Reduction.plain(2, 2)
    alone = source("all-reduce root inside", reduction)
    given = replace(alone, beside=(alone,))
    assert given.payload_bytes == 2 * alone.payload_bytes
    for target, row in TARGETS.items():
        if row.overlaps:
            assert emit(target, given) != emit(target, alone)
        elif row.places:
            assert emit(target, given) == emit(target, alone)
        else:
            with pytest.raises(
                InputError, match=r"has no stripes, .* over 2; .* these have: torch"
            ):
                emit(target, given)
    assert runnable_targets(given) == ("torch", "jax", "jax-flat", "mpi")
