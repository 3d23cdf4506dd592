"""Transcripts in README and docs are what the commands print, and their Python and TOML work."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import chdir
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import synth
from hierarchies import read
from manual import DOCS, PAGES, README, ROOT, Block, blocks
from places import TESTS
from synth.cli.app import app
from synth.collective.run.processes import Command, supervise


def printed(command: str) -> str:
    words = shlex.split(command)
    assert words[0] == "collsynth"
    lines = CliRunner().invoke(app, words[1:]).stdout.splitlines()
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def transcripts() -> list[Any]:
    """Every transcript; of a range of sizes, or of all plans of a step, with the slow tests."""
    ranged = re.compile(r".*(--bytes \S+\.\.|plan \S+ --model)")
    return [
        pytest.param(block, marks=pytest.mark.slow if ranged.match(block.text) else ())
        for block in blocks("console")
    ]


CUT = "...\n"
"""The last line of a transcript that shows only the beginning of what a command prints."""


@pytest.mark.parametrize("block", transcripts(), ids=str)
def test_a_transcript_is_what_the_command_prints(block: Block, update_golden: bool) -> None:
    first, _, shown = block.text.partition("\n")
    with chdir(ROOT):  # not by monkeypatch, whose tests keep no insides of plans
        real = printed(first.removeprefix("$ "))
    if shown.endswith(f"\n{CUT}"):
        lines = real.splitlines(keepends=True)[: shown.count("\n") - 1]
        real = "".join(lines).rstrip() + "\n" + CUT
    if update_golden:
        text = block.page.read_text(encoding="utf-8")
        block.page.write_text(text.replace(block.text, f"{first}\n{real}"), encoding="utf-8")
        return
    assert shown == real


def test_the_python_example_finds_the_answer_of_the_transcript(
    capsys: pytest.CaptureFixture[str],
) -> None:
    [code] = blocks("python", README)
    exec(compile(code.text, "README.md", "exec"), {})
    report = synth.top("dgx-h100:4", axes={"data": 8, "model": 4}, reduce=["data"], k=1)
    best = report.answers[0].candidate
    expected = f"{best.reduction.placement} {best.program} {best.seconds}\n"
    assert capsys.readouterr().out == expected


def test_the_toml_examples_are_systems() -> None:
    ours, slices = blocks("toml", DOCS / "describe.md")
    system = read(ours.text)
    assert system.hierarchy.names == ("rack", "node", "gpu")
    assert system.devices == 64
    assert slices.text == (DOCS / "machines" / "two-v6e.toml").read_text(encoding="utf-8")


def test_the_make_targets_it_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in PAGES:
        for target in re.findall(
            r"(?:^|`)make (\w+)", page.read_text(encoding="utf-8"), re.MULTILINE
        ):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.slow
def test_a_job_is_derived_and_planned(tmp_path: Path) -> None:
    [commands] = blocks("sh", DOCS / "whole-job.md")
    tools = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": tools}
    words = ["bash", "-euc", commands.text]
    said = subprocess.run(words, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert b"exposed communication" in said.stdout
    derived = (tmp_path / "job.toml").read_text(encoding="utf-8")
    assert derived == (DOCS / "jobs" / "a-13b.toml").read_text(encoding="utf-8")


PACKAGES = ("hierarchies", "grammar", "synth")


def rooms() -> list[Path]:
    """Every package of the source, outermost first."""
    found = [file.parent for name in PACKAGES for file in (ROOT / name).rglob("__init__.py")]
    return sorted(found)


def test_every_room_has_its_place_in_the_architecture() -> None:
    told = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(told.splitlines()) <= 150
    assert max(map(len, told.splitlines())) <= 100
    drawn = told.split("## The rooms")[1].split("## ")[0]
    for room in rooms():
        assert re.search(rf"(^|\s){room.name}/(\s|$)", drawn, re.MULTILINE), room


def test_the_order_of_rooms_in_the_architecture_is_the_one_that_is_held() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [layers] = [
        contract["layers"]
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract.get("containers") == ["synth"]
    ]
    told = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert f": {' > '.join(layers)} ```" in " ".join(told.split())


def test_no_room_is_crowded() -> None:
    for room in rooms():
        assert len([*room.glob("[a-z]*.py")]) <= 14, room


def put_into_a_job(folder: Path, name: str, without: str = "", number: int = 0) -> Path:
    """Commands of the page carried out in a folder, and one of its scripts written there."""
    page = DOCS / "into-your-job.md"
    commands = blocks("sh", page)[number]
    tools = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": tools}
    subprocess.run(["bash", "-euc", commands.text], cwd=folder, env=environment, check=True)
    [script] = [
        block.text for block in blocks("python", page) if block.text.startswith(f"# {name}")
    ]
    assert without in script
    (folder / name).write_text(script.replace(without, ""), encoding="utf-8")
    return folder / name


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")
def test_the_answer_pasted_into_ddp_trains_as_ddp_does(tmp_path: Path) -> None:
    losses = []
    for without in ("", "fast.install_ddp(model)\n", None):
        script = put_into_a_job(tmp_path, "train_ddp.py", without or "")
        if without is None:  # a broken program must be seen: it is what sums the gradients
            emitted = tmp_path / "collsynth_torch.py"
            text = emitted.read_text(encoding="utf-8")
            total = "            self._overlapped(rows, rows)\n"
            assert total in text
            emitted.write_text(text.replace(total, ""))
        words = (sys.executable, str(TESTS / "fleet" / "forked.py"), "16", str(script))
        command = Command("the ranks", words, {"OMP_NUM_THREADS": "1"})
        losses.append(float(supervise([command], tmp_path, 300)))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0] != pytest.approx(losses[2], rel=1e-3)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")
def test_a_plan_emitted_trains_as_fsdp2_does(tmp_path: Path) -> None:
    script = put_into_a_job(tmp_path, "train_fsdp2.py", number=1)
    text, losses = script.read_text(encoding="utf-8"), []
    hooks = [line for line in text.splitlines(keepends=True) if "install_fsdp2(model)" in line]
    assert len(hooks) == 2
    scatter = tmp_path / "comm" / "gradients_scattered.py"
    program = scatter.read_text(encoding="utf-8")
    copied = "output.copy_(total.reshape(-1)[: output.numel()].view_as(output))"
    assert copied in program
    for given in (text, text.replace(hooks[0], "").replace(hooks[1], ""), text):
        script.write_text(given, encoding="utf-8")
        words = (sys.executable, str(TESTS / "fleet" / "forked.py"), "4", str(script))
        command = Command("the ranks", words, {"OMP_NUM_THREADS": "1"})
        losses.append(float(supervise([command], tmp_path, 300).split()[-1]))
        if len(losses) == 2:  # a broken program must be seen: it is what sums the gradients
            scatter.write_text(program.replace(copied, "output.zero_()"), encoding="utf-8")
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0] != pytest.approx(losses[2], rel=1e-3)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("jax") is None, reason="needs the extra jax")
def test_the_answer_pasted_into_shard_map_trains(tmp_path: Path) -> None:
    script = put_into_a_job(tmp_path, "train_shard_map.py")
    with script.open("a", encoding="utf-8") as more:
        more.write("lowered = gradient.lower(weights, batch).as_text()\n")
        more.write("assert lowered.count('stablehlo.reduce_scatter') == 2, lowered\n")
        more.write("assert lowered.count('stablehlo.all_gather') == 2, lowered\n")
        more.write("assert lowered.count('stablehlo.all_reduce') == 0, lowered\n")
    fake = {"XLA_FLAGS": "--xla_force_host_platform_device_count=16", "JAX_PLATFORMS": "cpu"}
    said = supervise([Command("jax", (sys.executable, str(script)), fake)], tmp_path, 300)
    plain = (
        script.read_text(encoding="utf-8")
        .partition("lowered =")[0]
        .replace("fast.all_reduce(mine) / 16", 'jax.lax.pmean(mine, fast.AXES["data"])')
    )
    script.write_text(plain, encoding="utf-8")
    wanted = supervise([Command("jax", (sys.executable, str(script)), fake)], tmp_path, 300)
    assert float(said) == pytest.approx(float(wanted), rel=1e-5)


@pytest.mark.slow
def test_a_description_is_calibrated_and_planned_with(tmp_path: Path) -> None:
    commands = [block.text for block in blocks("sh", DOCS / "calibrate.md")]
    (tmp_path / "docs").symlink_to(DOCS)
    tools = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": tools}
    words = ["bash", "-euc", "\n".join(commands)]
    said = subprocess.run(words, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert b"proved" in said.stdout
    assert "mpirun" in (tmp_path / "tests.sh").read_text(encoding="utf-8")
    assert "[calibration]" in (tmp_path / "my.toml").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_step_beside_a_published_one_is_simulated_according_to_the_page(tmp_path: Path) -> None:
    page = DOCS / "simulate.md"
    [command] = [block.text for block in blocks("sh", page) if "llama3-70b" in block.text]
    tools = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": tools}
    words = ["bash", "-euc", command]
    found = subprocess.run(words, cwd=tmp_path, env=environment, check=True, capture_output=True)
    figures = r"^([\d.]+ s) a step, ([\d.]+) s to ([\d.]+) s .*?tokens/s, (\d+) each"
    told = re.search(figures, found.stdout.decode(), re.MULTILINE | re.DOTALL)
    assert told is not None, found.stdout.decode()
    seconds, least, most, rate = told.groups()
    row = f"| {seconds} ({least} to {most}) | {rate} "
    assert row in page.read_text(encoding="utf-8"), row


@pytest.mark.parametrize("block", blocks("python", DOCS / "python.md")[:2], ids=str)
def test_the_python_of_the_docs_works(block: Block, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block.text, str(block.page), "exec"), {})
    assert "[[4, 2], [1, 4]]" in capsys.readouterr().out


@pytest.mark.slow
def test_a_step_is_planned_simulated_and_divided_from_python(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
    code = blocks("python", DOCS / "python.md")[2]
    names: dict[str, Any] = {}
    exec(compile(code.text, str(code.page), "exec"), names)
    planned, clock, sharded = capsys.readouterr().out.splitlines()
    assert planned.startswith("data=8; batch over data")
    assert float(clock.split()[0]) == pytest.approx(names["best"].seconds)
    assert sharded == "step gpt2-small over data=8"
