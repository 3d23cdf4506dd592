"""A whole plan as one package: every entry of it is there, and they work side by side."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from forking import FLEET, torch_python
from hierarchies import Hierarchy
from hierarchies.files.writing import describe_system
from strategies import switches
from synth.ask.answers.given import read_plan_entries
from synth.cli.app import app
from synth.collective.emit.targets import TARGETS
from synth.collective.run.processes import Command, supervise

JOB = """
name = "experts"
[axes]
data = 4
expert = 2
[[collective]]
name = "parameters gathered"
request = "all-gather"
over = ["data"]
bytes = "64 MiB"
[[collective]]
name = "gradients scattered"
request = "reduce-scatter"
over = ["data"]
bytes = "64 MiB"
[[collective]]
name = "tokens to experts"
request = "all-to-all"
over = ["expert"]
bytes = "4 MiB"
[[collective]]
name = "norms"
request = "all-reduce"
over = ["data", "expert"]
bytes = "64 KiB"
"""
NAMES = ["parameters gathered", "gradients scattered", "tokens to experts", "norms"]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The answer for two nodes of four."""
    return planned_in(tmp_path_factory.mktemp("plan"))


def planned_in(folder: Path, *flags: str) -> Path:
    (folder / "two.toml").write_text(describe_system(switches(Hierarchy.of(node=2, gpu=4))))
    (folder / "job.toml").write_text(JOB)
    where = (str(folder / "two.toml"), "--job", str(folder / "job.toml"))
    told = run("plan", *where, *flags, "--max-steps", "3", "-k", "1", "--json")
    assert told.exit_code == 0, told.stderr
    (folder / "plan.json").write_text(told.stdout)
    return folder / "plan.json"


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_every_entry_is_emitted_by_its_name(plan: Path) -> None:
    told = json.loads(plan.read_text())
    assert list(read_plan_entries(told)) == NAMES
    for number, entry in enumerate(told["entries"], 1):
        words = ("emit", "--from", str(plan), "--target", "json", "--json")
        by_name = run(*words, "--entry", entry["name"])
        assert by_name.stdout == run(*words, "--rank", str(number)).stdout
        assert json.loads(by_name.stdout)["program"] == entry["answer"]["program"]
        ran = run("run", "--from", str(plan), "--entry", entry["name"], "--check", "--bytes", "4KB")
        assert (ran.exit_code, ran.stderr) == (0, "")
        assert f"equal to the plain {entry['request']}" in ran.stdout


@pytest.mark.parametrize("target", TARGETS)
def test_a_whole_plan_is_emitted_or_refused(target: str, plan: Path, tmp_path: Path) -> None:
    if target in ("mscclpp", "nccl"):
        plan = planned_in(tmp_path, "--no-stripes")
    words = ("emit", "--from", str(plan), "--entry", "all", "--target", target)
    result = run(*words, "-o", f"{tmp_path}/comm/", "--channels", "8")
    if target in ("svg", "chakra"):
        assert "several files for each entry" in result.stderr
        return
    if target in ("nccl-tuner", "nccl-plugin"):
        assert result.exit_code == 2
        assert "entry '" in result.stderr
        return
    assert result.exit_code == 0, result.stderr
    files = sorted(file.name for file in (tmp_path / "comm").iterdir())
    if not TARGETS[target].places:
        assert len([name for name in files if name != "__init__.py"]) == len(NAMES)
    python = (sys.executable, "-m", "ruff")
    for given in (("check",), ("format", "--check", "--line-length=100")):
        command = [*python, *given, "--isolated", "."]
        subprocess.run(command, check=True, cwd=tmp_path / "comm", capture_output=True)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")
def test_the_package_runs(plan: Path, tmp_path: Path) -> None:
    words = ("emit", "--from", str(plan), "--entry", "all", "--target", "torch")
    assert run(*words, "-o", str(tmp_path / "comm")).exit_code == 0
    job = (str(FLEET / "forked.py"), "8", str(FLEET / "torch_package.py"), str(tmp_path))
    ranks = Command("the ranks", (*torch_python(), *job), {"OMP_NUM_THREADS": "1"})
    assert supervise([ranks], tmp_path, 300).split() == ["done"]


def test_an_entry_that_is_not_there_is_reported(plan: Path) -> None:
    words = ("emit", "--target", "torch", "--from", str(plan))
    assert "did you mean norms?" in run(*words, "--entry", "norm").stderr
    assert "name one" in run("run", "--from", str(plan), "--entry", "all").stderr
    where = ("all-reduce root inside", "p2-a100:2", "--axes", "data=32", "--reduce", "data")
    refused = run("emit", *where, "--target", "torch", "--entry", "norms")
    assert "entry 'norms' of no answers" in refused.stderr
