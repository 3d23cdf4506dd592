"""What ARCHITECTURE says to touch for a new thing is enough: one of each is added to a copy.

Each addition writes the files and rows that "Where new things go" names, and no others. Then a
command in the copy uses it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from places import ROOT

PACKAGES = ("hierarchies", "grammar", "synth")

DEVICE = """
name = "Example 96 GB"
memory_GB = 96
memory_GB_per_s = 4000
multiprocessors = 100
tile = [128, 128]
launch_us = 3

[matrix_TFLOP_per_s]
bf16 = 900
f16 = 900
f32 = 60

[source]
memory_GB = "an example"
memory_GB_per_s = "an example"
multiprocessors = "an example"
tile = "an example"
launch_us = "an example"
matrix_TFLOP_per_s = "an example"
"""
MACHINE = """
name = "example"
title = "Nodes of four Example GPUs"
default_count = 2

[device]
name = "Example 96 GB"
memory_GB_per_s = 4000
source = "an example"

[[level]]
name = "node"
domain = "switch"
medium = "infiniband"
bandwidth_GB_per_s = 50
latency_us = 14
ports = 4
through = []
source = { bandwidth_GB_per_s = "an example", latency_us = "an example", ports = "an example" }

[[level]]
name = "gpu"
count = 4
domain = "switch"
medium = "nvlink"
bandwidth_GB_per_s = 400
latency_us = 3.4
source = { count = "an example", bandwidth_GB_per_s = "an example", latency_us = "an example" }
"""
IMPORTER = '''
"""Reads a made-up listing: a line a GPU, all joined by NVLinks through a switch."""

from __future__ import annotations

from hierarchies.errors import InputError
from hierarchies.importers.nodes.picture import NodeLinks, NodePicture

SOURCE = "example-smi"


def read(text: str) -> NodePicture:
    gpus = tuple(line for line in text.splitlines() if line)
    if not all(line.startswith("GPU") for line in gpus):
        raise InputError("no listing of example-smi", hint="a line a GPU")
    direct = {(a, b): 1 for b in range(len(gpus)) for a in range(b)}
    return NodePicture(SOURCE, gpus, NodeLinks(direct=direct))
'''
IMPORTER_ROW = """
KINDS: Mapping[str, FileKind] = {
    "example-smi": _node_kind(
        "what example-smi prints", example_smi.SOURCE, example_smi.read, example_smi.read
    ),
"""
SCHEDULE_ROW = """
    "gpipe-again": NamedSchedule(
        lambda ranks, microbatches, chunks: gpipe(ranks, microbatches), stages=1
    ),
"""
FRAMEWORK = '''
"""A made-up framework: one line with the recipe."""

from __future__ import annotations

from synth.step.frameworks.inputs import (
    ConfigurationInputs,
    FrameworkFiles,
    RecipeDifferences,
    RecipeInputs,
)


def decide_example(inputs: RecipeInputs) -> RecipeDifferences:
    return RecipeDifferences(inputs.recipe)


def example(inputs: ConfigurationInputs) -> FrameworkFiles:
    text = f"microbatches {inputs.recipe.microbatches}\\n"
    return FrameworkFiles({"example.conf": text}, inputs.recipe, ())
'''
FRAMEWORK_ROW = """
    "example": FrameworkWriter("Example 1.0", example, decide_example),
"""


class Copy:
    """A copy of the source, to which things are added."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns("__pycache__", "vendor")
        for package in PACKAGES:
            shutil.copytree(ROOT / package, folder / package, ignore=ignored)

    def write(self, path: str, text: str) -> None:
        """Add a file."""
        assert not (self.folder / path).exists()
        (self.folder / path).write_text(text.lstrip("\n"), encoding="utf-8")

    def insert(self, path: str, line: str, text: str) -> None:
        """Add lines behind a line that stands once in a file."""
        file = self.folder / path
        before = file.read_text(encoding="utf-8")
        assert before.count(f"{line}\n") == 1, f"{line} stands {before.count(line)} times in {path}"
        added = f"{line}\n{text.strip(chr(10))}\n"
        file.write_text(before.replace(f"{line}\n", added), encoding="utf-8")

    def ask(self, *words: str) -> str:
        """The standard output of a command that succeeds in the copy."""
        command = [sys.executable, "-c", "from synth.cli.app import main; main()", *words]
        ended = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=300
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("copy"))


@pytest.mark.slow
def test_a_machine_with_a_new_accelerator_is_two_files(copy: Copy) -> None:
    copy.write("hierarchies/catalogue/devices/example.toml", DEVICE)
    copy.write("hierarchies/catalogue/example.toml", MACHINE)
    assert "Nodes of four Example GPUs" in copy.ask("systems", "example")
    pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
    plan = "data=8; batch over data"
    assert "example" in copy.ask("simulate", "gpt2-tiny", "example", "--batch", "8", "--plan", plan)


@pytest.mark.slow
def test_a_kind_of_file_to_import_is_a_module_and_a_row(copy: Copy, tmp_path: Path) -> None:
    copy.write("hierarchies/importers/nodes/example_smi.py", IMPORTER)
    kinds = "hierarchies/importers/kinds.py"
    line = "from hierarchies.importers.nodes.node import draft_of"
    copy.insert(kinds, line, "from hierarchies.importers.nodes import example_smi")
    copy.insert(kinds, "KINDS: Mapping[str, FileKind] = {", IMPORTER_ROW.strip().split("\n", 1)[1])
    listing = tmp_path / "listing.txt"
    listing.write_text("GPU a\nGPU b\n", encoding="utf-8")
    assert "2 GPUs" in copy.ask("import", "example-smi", str(listing))


@pytest.mark.slow
def test_a_pipeline_schedule_is_a_row(copy: Copy) -> None:
    module = "synth/step/schedules/generators.py"
    line = "SCHEDULES: Mapping[str, NamedSchedule] = {"
    copy.insert(module, line, SCHEDULE_ROW)
    shown = copy.ask("order", "gpipe-again", "--stages", "2", "--microbatches", "4")
    assert "gpipe-again: 2 ranks, 4 microbatches" in shown
    pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
    plan = "data=4 pipe=2; batch over data; schedule gpipe-again, 4 microbatches"
    words = ("simulate", "gpt2-tiny", "dgx-h100:1", "--batch", "16", "--plan", plan)
    assert "gpipe-again" in copy.ask(*words)


@pytest.mark.slow
def test_a_framework_is_a_module_and_a_row(copy: Copy, tmp_path: Path) -> None:
    pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
    copy.write("synth/step/frameworks/example.py", FRAMEWORK)
    files = "synth/step/frameworks/files.py"
    line = "from synth.step.frameworks.deepspeed import decide_deepspeed, deepspeed"
    copy.insert(files, line, "from synth.step.frameworks.example import decide_example, example")
    copy.insert(files, "FRAMEWORKS: Mapping[str, FrameworkWriter] = {", FRAMEWORK_ROW)
    words = ("plan", "dgx-h100:1", "--model", "gpt2-tiny", "--batch", "64", "-o", str(tmp_path))
    assert "example" in copy.ask(*words)
    assert (tmp_path / "example" / "example.conf").read_text().startswith("microbatches ")
    plan = ("--plan", "data=8; batch over data", "-o", str(tmp_path / "other.conf"))
    copy.ask("train", "gpt2-tiny", "dgx-h100:1", "--batch", "64", "--runtime", "example", *plan)
    assert (tmp_path / "other.conf").read_text().startswith("microbatches ")


@pytest.mark.slow
def test_a_job_is_a_file(copy: Copy) -> None:
    jobs = "synth/collective/workload/jobs"
    text = (ROOT / jobs / "llama3-70b-fsdp.toml").read_text(encoding="utf-8")
    copy.write(f"{jobs}/example.toml", text.replace("llama3-70b-fsdp", "example"))
    shown = copy.ask("plan", "dgx-h100:4", "--job", "example", "-k", "1", "--max-steps", "1")
    assert "example" in shown
