"""The command ``import``: what it prints, what it writes, and that failure leaves no trace."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hierarchies import load
from hierarchies.importers import KINDS
from hierarchies.importers.models import MODELS
from places import TESTS
from synth.cli.app import app

DUMP = str(TESTS / "imports" / "switched.xml")
MATRIX = str(TESTS / "imports" / "switched.txt")


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["import", *words])


def test_the_flags_name_every_kind_and_every_gpu() -> None:
    said = " ".join(run("--help").stdout.replace("│", " ").split())
    for names in (KINDS, MODELS):
        assert f": {', '.join(names)}." in said


def test_files_match_the_json_and_the_table_is_still_printed(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    result = run("nccl-xml", DUMP, "--nodes", "2", "--suggested", "-o", str(path))
    assert result.exit_code == 0
    assert "found: 4 gpus, 4 nics, 1 virtual interfaces, 72 nvlinks" in result.stdout
    body = json.loads(run("nccl-xml", DUMP, "--nodes", "2", "--suggested", "--json").stdout)
    assert body["complete"]
    assert path.read_text(encoding="utf-8") == body["files"][0]["text"]
    assert load(str(path)).devices == 8
    assert load(f"{path}:5").devices == 20
    assert list(tmp_path.iterdir()) == [path]


def test_a_description_with_blanks_is_refused_in_one_line_that_names_them(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    assert run("nvidia-smi", MATRIX, "--gpu", "a100", "-o", str(path)).exit_code == 0
    result = CliRunner().invoke(app, ["systems", str(path)])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "level 'node': domain, bandwidth_GB_per_s, latency_us" in result.stderr
    assert "level 'gpu': latency_us" in result.stderr


FAILURES = {
    "no such file": ("nccl-xml", "nowhere.xml"),
    "no such kind": ("nccl", DUMP),
    "another kind": ("nvidia-smi", DUMP),
    "no such GPU": ("nccl-xml", DUMP, "--gpu", "h1000"),
    "no nodes": ("nccl-xml", DUMP, "--nodes", "0"),
    "two nodes": ("nccl-xml", DUMP, DUMP + "/../rings.xml"),
    "nothing inside": ("nccl-xml", DUMP, "--inside", "nowhere.toml"),
    "twice": ("nccl-xml", DUMP, "--inside", "dgx-h100"),
}


@pytest.mark.parametrize("words", FAILURES.values(), ids=FAILURES)
def test_a_failure_is_one_line_and_leaves_what_was_there(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "my.toml"
    for there in (None, "mine\n"):
        if there is not None:
            path.write_text(there)
        result = run(*words, "-o", str(path))
        assert result.exit_code == 2
        assert result.stderr.startswith("collsynth: ")
        assert "Traceback" not in result.stderr
        assert result.stdout == ""
        assert [file.read_text() for file in tmp_path.iterdir()] == ([there] if there else [])


def test_a_file_that_cannot_be_finished_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "my.toml"
    path.write_text("mine\n")

    def full(self: Path, content: bytes) -> int:
        with self.open("wb") as file:
            file.write(content[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    result = run("nccl-xml", DUMP, "-o", str(path))
    assert result.exit_code == 2
    assert "No space left on device" in result.stderr
    assert path.read_text() == "mine\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_to_a_file_stays_one_and_so_do_its_rights(tmp_path: Path) -> None:
    path, link = tmp_path / "my.toml", tmp_path / "link.toml"
    path.write_text("mine\n")
    path.chmod(0o640)
    link.symlink_to(path)
    assert run("nccl-xml", DUMP, "-o", str(link)).exit_code == 0
    assert link.is_symlink()
    assert "sm 90" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_network_is_imported_around_a_node_that_was(tmp_path: Path) -> None:
    node, network, both = (tmp_path / name for name in ("node.toml", "topology.conf", "both.toml"))
    run("nccl-xml", DUMP, "--suggested", "-o", str(node))
    network.write_text(
        "SwitchName=leaf1 Nodes=n[1-6]\nSwitchName=leaf2 Nodes=n[7-12]\n"
        "SwitchName=top Switches=leaf[1-2]\n"
    )
    words = ("slurm", str(network), "--inside", str(node), "--suggested", "-o", str(both))
    assert run(*words).exit_code == 0
    told = tomllib.loads(both.read_text(encoding="utf-8"))["level"]
    assert [level["count"] for level in told] == [2, 6, 4]
    inner = load(str(node)).links
    assert told[-1]["bandwidth_GB_per_s"] * 1e9 == inner[-1].bandwidth_bytes_per_second
    assert told[-2]["bandwidth_GB_per_s"] * 1e9 == inner[-2].bandwidth_bytes_per_second
