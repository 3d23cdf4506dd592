"""The README's transcripts are what the commands print, and its Python and TOML work."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import synth
from hierarchies import read
from synth.cli import app

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)


def blocks(language: str) -> list[str]:
    text = README.read_text(encoding="utf-8")
    return [body for kind, body in BLOCK.findall(text) if kind == language]


def printed(command: str) -> str:
    words = shlex.split(command)
    assert words[0] == "collsynth"
    lines = CliRunner().invoke(app, words[1:]).stdout.splitlines()
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


@pytest.mark.parametrize("block", blocks("console"), ids=lambda block: block.split("\n")[0][2:40])
def test_a_transcript_is_what_the_command_prints(block: str, update_golden: bool) -> None:
    first, _, shown = block.partition("\n")
    real = printed(first.removeprefix("$ "))
    if update_golden:
        text = README.read_text(encoding="utf-8")
        README.write_text(text.replace(block, f"{first}\n{real}"), encoding="utf-8")
        return
    assert shown == real


def test_the_python_example_finds_the_answer_of_the_transcript(
    capsys: pytest.CaptureFixture[str],
) -> None:
    [code] = blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    report = synth.top("dgx-h100:4", axes={"data": 8, "model": 4}, reduce=["data"])
    best = report.answers[0].candidate
    expected = f"{best.reduction.placement} {best.program} {best.seconds}\n"
    assert capsys.readouterr().out == expected


def test_the_toml_example_is_a_system() -> None:
    [text] = blocks("toml")
    system = read(text)
    assert system.hierarchy.names == ("rack", "node", "gpu")
    assert system.devices == 64


def test_the_make_targets_it_names_exist() -> None:
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", README.read_text(encoding="utf-8"), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
