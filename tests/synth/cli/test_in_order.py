"""Flags that belong to the --reduce before them: their order is kept, mistakes are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from exhaustive import examples
from synth.ask.ranking import TopQuestion
from synth.cli.app import app
from synth.cli.collected import collect_items

MACHINE = ("dgx-h100:2", "--axes", "data=4,model=4")
QUICK = ("--max-steps", "2", "--no-stripes", "--segments", "1")
JOB = """
name = "step"
title = "2 collectives"
[axes]
data = 4
model = 4
[[collective]]
name = "all-reduce over data"
request = "all-reduce"
over = ["data"]
bytes = "1 GiB"
[[collective]]
name = "all-gather over model"
request = "all-gather"
over = ["model"]
bytes = "64 MiB"
times = 160
hidden = 0.5
"""


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_a_job_on_the_command_line_prints_what_its_file_does(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text(JOB, encoding="utf-8")
    typed = run(
        *("top", *MACHINE, *QUICK, "--reduce", "data", "--bytes", "1GiB", "--reduce", "model"),
        *("--request", "all-gather", "--times", "160", "--bytes", "64MiB", "--hidden", "0.5"),
        *("-k", "5", "--json"),
    )
    filed = run("plan", MACHINE[0], *QUICK, "--job", str(file), "--json")
    assert (typed.exit_code, typed.stderr) == (0, "")
    assert typed.stdout == filed.stdout


def test_one_collective_is_asked_for_in_any_order() -> None:
    """As it always was."""
    words = (*QUICK, "-k", "1", "--json")
    one = run("top", *MACHINE, "--reduce", "data", "--bytes", "1MiB", *words)
    other = run("top", "--bytes=1MiB", *words, "--reduce=data", *MACHINE)
    assert one.exit_code == 0
    assert one.stdout == other.stdout


ITEMS = st.lists(
    st.tuples(
        st.sampled_from(["data", "model", "data,model"]),
        st.permutations(["bytes", "times", "hidden", "request"]),
        st.integers(0, 3),
    ),
    min_size=2,
    max_size=4,
)
VALUES = {"bytes": "1MiB", "times": "3", "hidden": "0.5", "request": "broadcast"}


@given(ITEMS, st.booleans())
@examples(10, 100)
def test_each_flag_goes_to_the_collective_before_it(
    items: list[tuple[str, list[str], int]], joined: bool
) -> None:
    words, wanted = [*MACHINE], []
    for over, names, count in items:
        given_names = ["bytes", *[name for name in names if name != "bytes"][:count]]
        wanted.append({"reduce": over, **{name: VALUES[name] for name in given_names}})
        for name, value in wanted[-1].items():
            words += [f"--{name}={value}"] if joined else [f"--{name}", value]
    seen: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "synth.cli.commands.verbs.ask_and_exit", lambda verb, flags, **how: seen.append(flags)
        )
        result = run("top", *words)
    assert result.exit_code == 0, result.output
    rest, found = collect_items(TopQuestion, "collectives", seen[0])
    assert found == wanted
    assert not rest.keys() & VALUES.keys()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--times", "3", "--reduce", "data"], "--times precedes the first --reduce; it"),
        (
            ["--times", "3", "--reduce", "data", "--bytes", "1", "--reduce", "model"],
            "--times precedes the first --reduce",
        ),
        (
            ["--bytes", "3", "--reduce", "data", "--reduce", "model", "--bytes", "3"],
            "--bytes precedes the first --reduce",
        ),
        (["--reduce", "data", "--times", "3"], "--times relates a collective to others"),
        (["--reduce", "data", "--hidden", "1"], "--hidden relates a collective to others"),
        (["--reduce", "data", "--bytes", "1", "--bytes", "2"], "given twice for one --reduce"),
        (
            ["--reduce", "data", "--bytes", "1", "--bytes", "2", "--reduce", "model"],
            "--bytes is given twice for --reduce data; give it once",
        ),
        (["--reduce", "data", "--bytes", "1", "--reduce", "model"], "--reduce model has no --byte"),
        (
            ["--reduce", "data", "--bytes", "1", "--reduce", "model", "--bytes", "1KiB..1MiB"],
            "collectives.1.bytes: a range of sizes among several collectives",
        ),
        (
            [
                "--reduce",
                "data",
                "--bytes",
                "1",
                "--reduce",
                "model",
                "--bytes",
                "2",
                "--times",
                "x",
            ],
            "--times: 'x' is no number; write one, as in 160",
        ),
    ],
)
def test_misplaced_keys_are_refused(words: list[str], said: str) -> None:
    result = run("top", *MACHINE, *words)
    assert result.exit_code == 2
    assert result.stderr.startswith("collsynth: ")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_any_collective_the_flag_is_asked_for() -> None:
    result = run("top", *MACHINE, "--times", "3")
    assert result.exit_code == 2
    assert "Missing option '--reduce'" in result.stderr
