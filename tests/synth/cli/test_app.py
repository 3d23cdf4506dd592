"""What people see: golden texts, exit codes, errors, streams; and that every verb is documented."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from golden_commands import GOLDEN_COMMANDS, NESTED, P2
from hierarchies import Axis
from patience import PATIENCE_SECONDS
from places import ROOT, TESTS
from replying import body_of
from synth.ask.answers.ranked import BestSoFar
from synth.ask.table import VERBS
from synth.cli.app import app
from synth.cli.ask import ProgressWithBest
from synth.collective.ranking.request import ProvisionalResult
from synth.collective.verify.symbolic import Unknown
from synth.show.terminal.table import TABLES

GOLDEN = TESTS / "golden"
OURS = """
name = "ours"
[device]
name = "accelerator"
memory_GB_per_s = 1000
source = "measured by us"
[[level]]
name = "node"
count = 2
domain = "switch"
bandwidth_GB_per_s = 12.5
latency_us = 10
through = []
source = "measured by us"
[[level]]
name = "gpu"
count = 4
domain = "ring"
bandwidth_GB_per_s = 50
latency_us = 2
source = "measured by us"
"""


def run(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, list(words), input=stdin)


def answered(*words: str) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("name", GOLDEN_COMMANDS)
def test_golden_text(name: str, update_golden: bool) -> None:
    result = run(*GOLDEN_COMMANDS[name])
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    text = "\n".join([*lines, f"exit code {result.exit_code}", ""])
    golden = GOLDEN / f"{name}.txt"
    if update_golden:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", GOLDEN_COMMANDS)
def test_nothing_is_cut_off_on_a_screen_of_80_columns(name: str) -> None:
    words = GOLDEN_COMMANDS[name]
    if words[0] not in TABLES or words[0] in ("systems", "import"):  # addresses may be folded
        return
    body = body_of(name)
    told = r"\d+(?:\.\d+)?|\b(?:us|ms|s|KiB|MiB|GiB|proved|ring|tree|direct)\b"
    seen = []
    for width in (200, 80):
        screen = Console(width=width, file=io.StringIO(), highlight=False, markup=False)
        screen.print(TABLES[words[0]](body))
        seen.append(Counter(re.findall(told, screen.file.getvalue())))
    assert seen[0] == seen[1]


BAD = {
    "unknown system": (
        ["top", "dgx-h10", "--axes", "a=8", "--reduce", "a"],
        "did you mean dgx-h100",
    ),
    "axes that do not multiply": (
        ["top", "dgx-h100:4", "--axes", "data=3,model=4", "--reduce", "data"],
        "multiply to 12 devices, but the system 4 node x 8 gpu has 32",
    ),
    "unknown reduce axis": (
        ["top", "dgx-h100:4", "--axes", "data=32", "--reduce", "date"],
        "no axis 'date' to reduce over; did you mean data?",
    ),
    "nothing to reduce over": (
        ["top", "dgx-h100:4", "--axes", "data=32", "--reduce", ""],
        "name at least one",
    ),
    "axis twice": (
        ["place", "dgx-h100:4", "--axes", "data=8,data=4"],
        "--axes: axis 'data' is given twice",
    ),
    "axis without size": (["place", "dgx-h100", "--axes", "data"], "--axes: 'data' is not an axis"),
    "axis of size 0": (["place", "dgx-h100", "--axes", "data=0"], "axis 'data' has size 0"),
    "negative axis": (["place", "dgx-h100", "--axes", "data=-8"], "axis 'data' has size -8"),
    "bytes 0": (["time", NESTED, *P2, "--bytes", "0"], "bytes: the size '0' is 0 bytes"),
    "bytes nan": (["time", NESTED, *P2, "--bytes", "nan"], "bytes: the size 'nan' cannot be read"),
    "bytes beyond measure": (["top", *P2, "--bytes", "99999999999TiB"], "at most 1e+18"),
    "max steps 0": (["top", *P2, "--max-steps", "0"], "max-steps is 0; at least 1"),
    "k 0": (["top", *P2, "-k", "0"], "k is 0; ask for at least 1"),
    "budget 0": (["top", *P2, "--budget", "0"], "the budget is 0.0 s"),
    "unknown algorithm": (["top", *P2, "--algorithm", "rings"], "algorithm: 'rings'"),
    "placement of wrong shape": (["top", *P2, "--placement", "[[32]]"], "1 rows (axes) of 2"),
    "placement that does not multiply": (
        ["top", *P2, "--placement", "[[2, 8]]"],
        "row [2, 8] multiplies to 16; axis 'data' has size 32",
    ),
    "placement that is not JSON": (
        ["top", *P2, "--placement", "[[2, 16"],
        "--placement: '[[2, 16'",
    ),
    "placement left open": (
        ["lower", "all-reduce root inside", "p2-a100:2", "--axes", "a=8,b=4", "--reduce", "a"],
        "2 placements on 2 node x 16 gpu; choose one with --placement",
    ),
    "level that is not there": (
        ["check", "all-reduce pod inside", *P2],
        "no level 'pod'; this synthesis tree has: node, gpu",
    ),
    "slice with nothing inside": (["check", "all-reduce gpu inside", *P2], "nothing is inside"),
    "ancestor below": (
        ["check", "all-reduce node parallel(gpu)", *P2],
        "'gpu' is not an ancestor of slice 'node'",
    ),
    "text that is no program": (["check", "all-reduce node sideways", *P2], "line 1, column 17"),
    "tree of ones": (["check", "all-reduce root inside", "--tree", "2,1"], "'d1' has size 1"),
    "tree that is none": (["check", "all-reduce root inside", "--tree", "x"], "--tree: 'x'"),
    "tree and system": (["check", NESTED, *P2, "--tree", "2"], "either --tree 2,8 or a SYSTEM"),
    "neither tree nor system": (["check", NESTED], "either --tree 2,8 or a SYSTEM"),
    "too many digits": (["count", "--digits", "9"], "a synthesis tree of 9 digits; at most 8"),
    "negative digits": (["count", "--digits", "-1"], "digits: -1"),
    "no such file": (["systems", "nowhere.toml"], "nowhere.toml: cannot read the file"),
    "no children": (["systems", "dgx-h100:0"], "'dgx-h100:0' would be empty"),
    "a count that is no number": (["systems", "tpu-v5e-slice:4y4"], "'4y4' in"),
    "a name in capitals": (["systems", "DGX-H100:2"], "did you mean dgx-h100"),
    "a system beside a tree": (["check", NESTED, "dgx-h100", "--tree", "2,8"], "either --tree"),
    "a program's file that is not there": (["check", "steps.txt", *P2], "no file 'steps.txt'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_error(case: str) -> None:
    words, expected = BAD[case]
    result = run(*words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("collsynth: ")
    assert expected in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("words", [["top"], ["nonsense"], ["top", "--nonsense"], ["count"]])
def test_wrong_usage_exits_with_2(words: list[str]) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Usage" in result.stderr


def test_a_system_of_the_users_own(tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(OURS, encoding="utf-8")
    answer = answered("top", str(path), "--axes", "data=8", "--reduce", "data", "-k", "1")
    assert answer["system"]["name"] == "ours"
    assert answer["answers"][0]["proof"] == "proved"
    resized = answered("systems", f"{path}:3")
    assert resized["system"]["devices"] == 12


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            "bandwidth_GB_per_s = 12.5->bandwidth = 12.5",
            "unknown key 'bandwidth'; a unit is missing",
        ),
        ("latency_us = 10->", "no 'latency_us'"),
        ("bandwidth_GB_per_s = 12.5->bandwidth_Gb_per_s = 100", "divide gigabits by 8"),
        ("bandwidth_GB_per_s = 12.5->bandwidth_GB_per_s = 0", "bandwidth_GB_per_s = 0"),
        ("bandwidth_GB_per_s = 12.5->bandwidth_GB_per_s = -1", "bandwidth_GB_per_s = -1"),
        ("bandwidth_GB_per_s = 12.5->bandwidth_GB_per_s = nan", "bandwidth_GB_per_s = nan"),
        ("bandwidth_GB_per_s = 12.5->bandwidth_GB_per_s = inf", "bandwidth_GB_per_s = inf"),
        ("name = 'gpu'->name = 'node'", "level name 'node' is given 2 times"),
        ("name = 'gpu'->name = 'inside'", "is a word of the reduction language"),
        ("domain = 'ring'->domain = 'rung'", "no domain 'rung'; did you mean ring"),
        ("source = 'measured by us'->", "no 'source'"),
        ("count = 2->count = 0", "count = 0"),
        ("through = []->", "no 'through'"),
        ("through = []->through = ['disk']", "no level 'disk'"),
        ("[device]->[device", "not a TOML file"),
    ],
)
def test_a_description_with_a_mistake(tmp_path: Path, wrong: str, told: str) -> None:
    before, after = wrong.replace("'", '"').split("->")
    assert before in OURS
    path = tmp_path / "ours.toml"
    path.write_text(OURS.replace(before, after), encoding="utf-8")
    result = run("systems", str(path))
    assert result.exit_code == 2
    assert result.stderr.startswith(f"collsynth: {path}")
    assert told in result.stderr


def test_legal_oddities_are_answered() -> None:
    ones = answered("top", "dgx-h100:1", "--axes", "data=8,model=1", "--reduce", "model")
    assert [a["program"] for a in ones["answers"]] == [""]
    many = answered("top", "dgx-h100:1", "--axes", "data=8", "--reduce", "data", "-k", "99")
    assert len(many["answers"]) == 3
    assert many["complete"]


def test_a_program_from_a_file_and_from_standard_input(tmp_path: Path) -> None:
    path = tmp_path / "program.txt"
    path.write_text("# hierarchical\n" + NESTED.replace("; ", "\n"), encoding="utf-8")
    from_file = run("check", str(path), *P2)
    from_stdin = run("check", "-", *P2, stdin=NESTED)
    assert from_file.exit_code == from_stdin.exit_code == 0
    assert from_file.stdout == from_stdin.stdout


def test_no_is_exit_code_1_and_is_answered_on_standard_output() -> None:
    result = run(
        "check", "all-reduce d1 parallel(d0); all-reduce root inside", "--tree", "2,8", "--json"
    )
    answer = json.loads(result.stdout)
    assert result.exit_code == 1
    assert answer["proof"] == "refuted"
    assert answer["refused"]["step"] == answer["counterexample"]["step"] == 1
    assert answer["valid"] is False


@pytest.mark.parametrize("verb", ["time", "lower"])
def test_a_program_that_is_no_all_reduce_is_answered_with_no(verb: str) -> None:
    result = run(verb, "reduce root inside", *P2)
    assert result.exit_code == 1
    assert "program, at the end: the program is unsound" in result.stderr


def test_a_replay_confirms_a_counterexample() -> None:
    words = ["check", "all-reduce d0 inside; all-reduce d0 inside", "--tree", "2,8", "--replay"]
    result = run(*words, "--json")
    replay = json.loads(result.stdout)["replay"]
    assert result.exit_code == 1
    assert replay["equal"] is False
    assert "2 times" in replay["reason"]


def test_where_there_is_nothing_to_do_an_all_reduce_does_nothing() -> None:
    where = ("p2-a100:2", "--axes", "data=32,model=1", "--reduce", "model")
    placed = ("--placement", "[[2, 16], [1, 1]]")
    assert answered("check", "all-reduce root inside", *where, *placed)["valid"]
    assert answered("lower", "all-reduce root inside", *where, *placed)["steps"] == []
    assert answered("time", "all-reduce root inside", *where, *placed)["seconds"] == 0


def test_a_step_names_its_protocol() -> None:
    small = ("all-reduce root inside", "dgx-h100:1", "--axes", "data=8", "--reduce", "data")
    small = (*small, "--prices", "stated")
    assert [step["protocol"] for step in answered("time", *small, "--bytes", "64KiB")["steps"]] == [
        "ll"
    ]
    assert "ring, LL" in run("time", *small, "--bytes", "64KiB").stdout


NINES = "9" * 5000
BILLION = ("p2-a100:100000000", "--axes", "a=1600000000", "--reduce", "a")


@pytest.mark.parametrize(
    "words",
    [
        ["check", "all-reduce root inside", "--tree", NINES],
        ["place", "dgx-h100", "--axes", f"data={NINES}"],
        ["place", "p2-a100:1000000000000000003", "--axes", "data=16000000000000000048"],
        ["top", *P2, "--placement", f"[[{NINES}]]"],
        ["top", *P2, "--placement", "[" * 100_000],
        ["top", *P2, "--bytes", NINES],
        ["systems", f"dgx-h100:{NINES}"],
        ["lower", "all-reduce root inside", *BILLION],
        ["check", "all-reduce root inside", "--tree", "100000,100000", "--replay"],
        ["top", "tpu-v4-pod-slice:4096", "--axes", "data=65536", "--reduce", "data"],
    ],
    ids=lambda words: " ".join(words)[:30],
)
def test_numbers_beyond_all_measure_are_refused(words: list[str]) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert result.stderr.startswith("collsynth: ")


def test_text_that_is_not_utf_8_is_refused_and_a_byte_order_mark_is_not() -> None:
    words = ["check", "-", "--tree", "2"]
    assert CliRunner().invoke(app, words, input=b"\xff\xfe").exit_code == 2
    marked = b"\xef\xbb\xbfall-reduce root inside"
    assert CliRunner().invoke(app, words, input=marked).exit_code == 0


def test_a_budget_ends_in_an_answer_marked_partial() -> None:
    words = ["top", "superpod-h100-oversubscribed:4", "--axes", "a=8,b=8,c=8", "--reduce", "a,b,c"]
    result = run(*words, "--budget", "0.000001", "--json")
    answer = json.loads(result.stdout)
    assert result.exit_code == 4
    assert answer["complete"] is False
    assert "PARTIAL" in run(*words, "--budget", "0.000001").stdout


def test_each_best_so_far_and_the_answer_are_lines_of_json() -> None:
    words = ["plan", "dgx-h100:1", "--model", "llama3-tiny", "--batch", "16", "-k", "1"]
    lines = [*map(json.loads, run(*words, "--json-lines").stdout.splitlines())]
    *found, answer = lines
    assert [*answer] == ["answer"]
    assert answer["answer"] == json.loads(run(*words, "--json").stdout)
    assert len(found) > 1  # by formula, and by the search
    seconds = [line["after_seconds"] for line in found]
    assert seconds == sorted(seconds)
    for line in found:
        BestSoFar.model_validate(line["best"])
        assert line["best"]["answers"][0]["gap"] >= 0


@pytest.mark.parametrize("other", [["--json"], ["-o", "there"]])
def test_lines_of_json_are_not_mixed_with_another_output(other: list[str]) -> None:
    words = ["plan", "dgx-h100:1", "--model", "llama3-tiny", "--batch", "16", "--json-lines"]
    result = run(*words, *other)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"--json-lines beside {other[0]}" in result.stderr


def test_a_sweep_has_no_files_and_says_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("synth.ask.planning.sweep_plans")
    words = ["plan", "dgx-h100:1", "--model", "llama3-tiny", "--sweep", "batch=8,16"]
    result = run(*words, "-o", "there")
    assert result.exit_code == 2
    assert "-o: a sweep of plans has no files" in result.stderr


def test_the_line_of_the_best_so_far_is_rewritten() -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=60)
    with ProgressWithBest(console=screen) as progress:
        for seconds, program in ((2.0, "first"), (1.0, "second " * 20)):
            best = ProvisionalResult(1, (Axis("data", 8),), ((1, 8),), program, seconds, 0.25)
            progress.show_best(best)
    assert isinstance(screen.file, io.StringIO)
    shown = screen.file.getvalue()
    assert "best so far 2 s, at most 25% above the fastest possible" in shown
    assert "best so far 1 s" in shown.rpartition("2 s")[2]


def test_the_log_goes_to_standard_error() -> None:
    quiet, loud = _process("count", "--digits", "1"), _process("count", "--digits", "1", "-v")
    assert quiet.stderr == ""
    assert "answered in" in loud.stderr
    assert quiet.stdout == loud.stdout


def _process(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from synth.cli.app import main; main()", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | environment,
        check=False,
    )


def test_output_is_the_same_for_any_hash_seed() -> None:
    words = ("top", "dgx1-v100:2", "--axes", "a=4,b=2,c=2", "--reduce", "a,c", "--json")
    first, second = (_process(*words, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert first.stdout == second.stdout
    assert json.loads(first.stdout)["answers"]


def test_no_colour_reaches_a_pipe() -> None:
    assert "\x1b" not in _process("count", "--digits", "2", FORCE_COLOR="", NO_COLOR="1").stdout


SEARCHING = ("count", "--digits", "6", "--max-steps", "9")
PROVING = (
    *("top", "superpod-h100-oversubscribed", "--axes", "a=256"),
    *("--reduce", "a", "-k", "5000", "--exact"),
)


@pytest.mark.skipif(os.name == "nt", reason="interrupts are sent otherwise on Windows")
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(SEARCHING, id="search"),
        pytest.param(PROVING, id="proof", marks=pytest.mark.slow),
    ],
)
def test_an_interrupt_ends_with_130_and_no_traceback(words: tuple[str, ...]) -> None:
    code = "from synth.cli.app import main; print('ready', flush=True); main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        preexec_fn=_heed_interrupts,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(1 if words == SEARCHING else 3)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in errors


def test_an_interrupt_prints_the_partial_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(self: object, done: int, of: int) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("synth.cli.ask._Screen.placed", interrupt)
    result = run(
        "top", "dgx-h100:4", "--axes", "data=8,model=4", "--reduce", "data", "--per-placement"
    )
    assert result.exit_code == 130
    assert "PARTIAL" in result.stdout
    assert "1 of 3 placements" in result.stdout


def _heed_interrupts() -> None:
    """A test run in the background ignores interrupts, and would hand that down."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_the_version_is_the_packages_own() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    declared = re.search(r'^version = "(.+)"', text, re.MULTILINE)
    assert declared is not None
    assert run("--version").stdout == f"collsynth {declared[1]}\n"


def test_every_verb_is_a_command_with_help_and_is_documented() -> None:
    schema = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    for verb in VERBS:
        shown = run(verb, "--help")
        assert shown.exit_code == 0
        assert "--json" in shown.stdout
        assert f"\n## {verb}\n" in schema


def _keys(body: object) -> set[str]:
    if isinstance(body, dict):
        free = {"axes", "sources", "bytes_per_port", "counted"}
        free |= {"hop_us", "gap_us", "share", "peer_us", "wide", "loss"}
        inner = (_keys(value) for key, value in body.items() if key not in free)
        return set(body).union(*inner)
    if isinstance(body, list):
        return set().union(*(_keys(item) for item in body))
    return set()


@pytest.mark.parametrize("name", GOLDEN_COMMANDS)
def test_every_key_of_the_json_is_documented(name: str) -> None:
    body = body_of(name)
    schema = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    undocumented = {key for key in _keys(body) if f"`{key}`" not in schema}
    assert not undocumented - {"first", "ring", "tree"}
    assert body["schema_version"] == 1


@pytest.mark.parametrize(
    ("program", "code"),
    [("all-reduce root inside", 5), ("all-reduce d1 parallel(d0); all-reduce root inside", 1)],
)
def test_unknown_of_z3_is_neither_right_nor_wrong(
    program: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("synth.ask.programs.prove", lambda *_: Unknown("z3 gave up"))
    found = run("check", program, "--tree", "2,8")
    assert found.exit_code == code
    assert "REFUTED" not in found.stdout
