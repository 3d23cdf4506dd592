"""The PyTorch file in use: DDP, FSDP2, meshes, groups on 512 ranks, and as text."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from forking import FLEET, torch_python
from grammar import Goal
from hierarchies import Axis, Hierarchy, Level, Placement, Reduction
from strategies import source, striped
from synth.collective.emit.targets import emit
from synth.collective.run import RunError
from synth.collective.run.backends import find_mpiexec
from synth.collective.run.processes import Command, supervise
from synth.collective.semantics.schedule import Exchange

NESTED = "reduce-scatter node inside; all-reduce node parallel(root); all-gather node inside"
ROOTED = "reduce node inside; all-reduce node master(root); broadcast node inside"
SHUFFLED = "reduce-scatter node inside; reduce-scatter node parallel(root); all-gather root inside"
NEEDS_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")


def beside_model(nodes: int, gpus: int) -> Reduction:
    """Data over nodes and half of the devices of each, model=2 over the other half."""
    hierarchy = Hierarchy((Level("node", nodes), Level("gpu", gpus)))
    axes = (Axis("data", nodes * gpus // 2), Axis("model", 2))
    return Reduction(Placement(hierarchy, axes, ((nodes, gpus // 2), (1, 2))), ("data",))


def written(
    folder: Path, program: str, reduction: Reduction, segments: int = 1, beside: str = ""
) -> Path:
    given = source(program, reduction, 16 * segments, segments)  # tiny segments
    if beside:
        given = replace(given, beside=(source(beside, reduction, 33, 3),))
    [text] = emit("torch", given).values()
    file = folder / "collsynth_torch.py"
    file.write_text(str(text))
    return file


@NEEDS_TORCH
@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "segments", "beside"),
    [(NESTED, 1, ""), (ROOTED, 1, ""), (SHUFFLED, 1, ""), (NESTED, 4, ""), (NESTED, 2, SHUFFLED)],
)
def test_training_with_the_program_is_training(
    program: str, segments: int, beside: str, tmp_path: Path
) -> None:
    written(tmp_path, program, beside_model(2, 4), segments, beside)
    words = (str(FLEET / "forked.py"), "8", str(FLEET / "torch_uses.py"), str(tmp_path))
    ranks = Command("the ranks", (*torch_python(), *words), {"OMP_NUM_THREADS": "1"})
    assert len(supervise([ranks], tmp_path, 300).split()) == 7


REQUESTS = {
    Goal.ALL_GATHER: "all-gather node parallel(root); all-gather node inside",
    Goal.REDUCE_SCATTER: "reduce-scatter node parallel(root); reduce-scatter node inside",
    Goal.ALL_TO_ALL: "all-to-all node inside; all-to-all node parallel(root)",
    Goal.REDUCE: "reduce node inside; reduce node master(root)",
    Goal.BROADCAST: "broadcast node master(root); broadcast node inside",
}


@NEEDS_TORCH
@pytest.mark.slow
@pytest.mark.parametrize("segments", [1, 3])
def test_every_request_is_used_as_torch_s_own(segments: int, tmp_path: Path) -> None:
    """FSDP2's parameters and gradients, tokens of experts, process groups."""
    for goal, program in REQUESTS.items():
        given = source(program, beside_model(2, 4), 16 * segments, segments, goal)
        [text] = emit("torch", given).values()
        (tmp_path / f"{goal.value.replace('-', '_')}.py").write_text(str(text))
    words = (str(FLEET / "forked.py"), "8", str(FLEET / "torch_requests.py"), str(tmp_path))
    ranks = Command("the ranks", (*torch_python(), *words), {"OMP_NUM_THREADS": "1"})
    assert supervise([ranks], tmp_path, 300).split() == ["done"]


@NEEDS_TORCH
@pytest.mark.parametrize("program", [NESTED, ROOTED])
def test_the_groups_of_512_ranks_are_the_schedule_s(program: str, tmp_path: Path) -> None:
    reduction = beside_model(64, 8)
    written(tmp_path, program, reduction)
    ranks = [0, 1, 2, 9, 77, 511]
    words = [*torch_python(), str(FLEET / "torch_fake.py"), str(tmp_path), *map(str, ranks)]
    seen = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    phases = source(program, reduction).schedule.phases
    for rank in ranks:
        wanted = [
            [phase.collective.value, group]
            for phase in phases
            if isinstance(phase, Exchange)
            for group in phase.groups.tolist()
            if rank in group
        ]
        assert seen[str(rank)] == wanted


@NEEDS_TORCH
@pytest.mark.slow
def test_the_file_checks_itself_under_torchrun(tmp_path: Path) -> None:
    scattered = "reduce-scatter root inside; all-gather root inside"
    file = written(tmp_path, scattered, beside_model(2, 2))
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4")
    words = (sys.executable, *launch, str(file), "--bytes", "4004", "--check", "--repeat", "1")
    said = supervise([Command("torchrun", words, {"OMP_NUM_THREADS": "1"})], tmp_path, 120)
    report = json.loads(said)
    assert (report["world"], report["bytes"], report["equal"]) == (4, 4004, True)


@NEEDS_TORCH
def test_a_job_of_another_size_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, NESTED, beside_model(2, 4))
    environment = {"RANK": "0", "WORLD_SIZE": "1"}
    words = [*torch_python(), str(file), "--init-method", (tmp_path / "store").as_uri()]
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert "this program is for 8 ranks; the job has 1" in ended.stderr


@pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs the extra mpi")
def test_an_mpi_job_of_another_size_is_refused(tmp_path: Path) -> None:
    [(name, text)] = emit("mpi", source(NESTED, beside_model(2, 4))).items()
    (tmp_path / name).write_text(str(text))
    words = (str(find_mpiexec()), "-n", "2", sys.executable, "-m", "mpi4py", name)
    with pytest.raises(RunError, match="this program is for 8 ranks; the job has 2"):
        supervise([Command("mpiexec", words)], tmp_path, 60)


@pytest.mark.parametrize("target", ["torch", "mpi"])
@pytest.mark.parametrize("program", [NESTED, ROOTED, SHUFFLED, "all-reduce root inside", ""])
@pytest.mark.parametrize("segments", [1, 8])
def test_emitted_files_pass_ruff(target: str, program: str, segments: int, tmp_path: Path) -> None:
    reduction = beside_model(2, 4) if program else beside_model(1, 2)
    [(name, text)] = emit(target, source(program, reduction, segments=segments)).items()
    (tmp_path / name).write_text(str(text))
    check_with_ruff(tmp_path / name)
    assert "import synth" not in str(text)


def check_with_ruff(file: Path) -> None:
    python = (sys.executable, "-m", "ruff")
    for words in (("check",), ("format", "--check", "--line-length=100")):
        command = [*python, *words, "--isolated", file.name]
        subprocess.run(command, check=True, cwd=file.parent, capture_output=True)


STRIPES = [
    [(NESTED, 700, 3), (SHUFFLED, 300, 1)],
    [(NESTED, 1000, 1), (ROOTED, 77, 1), ("all-reduce root inside", 300, 2)],
]


@pytest.mark.parametrize("target", ["torch", "mpi"])
@pytest.mark.parametrize("stripes", STRIPES)
def test_stripes_pass_ruff(
    target: str, stripes: list[tuple[str, int, int]], tmp_path: Path
) -> None:
    [(name, text)] = emit(target, striped(stripes, beside_model(2, 4))).items()
    (tmp_path / name).write_text(str(text))
    check_with_ruff(tmp_path / name)
    assert text.count("    Stripe(\n") == len(stripes)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["torch", "mpi"])
def test_emitted_files_pass_mypy(target: str, tmp_path: Path) -> None:
    if find_spec({"torch": "torch", "mpi": "mpi4py"}[target]) is None:
        pytest.skip(f"needs the extra {target}")
    for number, program in enumerate((NESTED, ROOTED, SHUFFLED)):
        for segments in (1, 8):
            [text] = emit(target, source(program, beside_model(2, 4), segments=segments)).values()
            (tmp_path / f"emitted{number}_{segments}.py").write_text(str(text))
    for goal, program in REQUESTS.items():
        for segments in (1, 3):
            given = source(program, beside_model(2, 4), 3 * segments, segments, goal)
            [text] = emit(target, given).values()
            (tmp_path / f"{goal.name}{segments}.py").write_text(str(text))
    for number, stripes in enumerate(STRIPES):
        [text] = emit(target, striped(stripes, beside_model(2, 4))).values()
        (tmp_path / f"striped{number}.py").write_text(str(text))
    words = [sys.executable, "-m", "mypy", "--strict", "."]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
