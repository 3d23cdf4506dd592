"""What launchers are told, read back as they read it, is where the placement puts each rank."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import textwrap
from collections import Counter
from dataclasses import replace
from itertools import product
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hierarchies import (
    Axis,
    Hierarchy,
    InputError,
    Level,
    Placement,
    Reduction,
    load,
    placements,
)
from strategies import placed, source
from synth.collective.emit.launchers import (
    host_level,
    hosts,
    jax_devices,
    kubernetes,
    places,
    rankfile,
    slurm,
    torchrun,
)
from synth.collective.emit.mesh import RankOrder, mesh
from synth.collective.emit.source import EmitOptions, EmitSource

FASTEST_FIRST = ("tensor", "context", "data", "pipeline")
"""Megatron's axes by its default order, tp-cp-ep-dp-pp."""
Seats = dict[int, tuple[str, int]]


def emitted(placement: Placement, **options: Any) -> EmitSource:
    reduction = Reduction(placement, (placement.axes[0].name,))
    program = "all-reduce root inside" if reduction.tree.digits else ""
    return replace(source(program, reduction), options=EmitOptions(**options))


@st.composite
def sources(draw: st.DrawFn) -> EmitSource:
    placement = draw(placed())
    level = draw(st.sampled_from([None, *placement.hierarchy.names]))
    order = draw(st.sampled_from([RankOrder.MACHINE, RankOrder.AXES, RankOrder.MEGATRON]))
    if order is RankOrder.MEGATRON:
        assume(len(placement.axes) <= len(FASTEST_FIRST))
        names = draw(st.permutations(FASTEST_FIRST))
        axes = tuple(Axis(n, a.size) for n, a in zip(names, placement.axes, strict=False))
        placement = Placement(placement.hierarchy, axes, placement.matrix)
    given = emitted(placement, host_level=level, rank_order=order)
    if draw(st.booleans()):
        hosted = tuple(f"n-{number}.cluster" for number in range(len(hosts(given))))
        given = replace(given, options=replace(given.options, hosts=hosted[::-1]))
    return given


def wanted(given: EmitSource) -> Seats:
    """Rank, host and local device of every device, straight from the placement's definition."""
    placement = given.schedule.reduction.placement
    cards = placement.hierarchy.cardinalities
    split = host_level(given) + 1
    found = {}
    for digits in product(*map(range, cards)):
        coordinates = [0] * len(placement.axes)
        for level, digit in enumerate(digits):
            rest = digit
            for axis in reversed(range(len(placement.axes))):
                size = placement.matrix[axis][level]
                rest, part = divmod(rest, size)
                coordinates[axis] = coordinates[axis] * size + part
        axes = range(len(placement.axes))
        if given.options.rank_order is RankOrder.MEGATRON:
            axes = sorted(axes, key=lambda n: -FASTEST_FIRST.index(placement.axes[n].name))
        rank = number([coordinates[n] for n in axes], [placement.axes[n].size for n in axes])
        host = number(digits[:split], cards[:split])
        found[rank] = (hosts(given)[host], number(digits[split:], cards[split:]))
    return found


def number(digits: Any, sizes: Any) -> int:
    value = 0
    for digit, size in zip(digits, sizes, strict=True):
        value = value * size + digit
    return value


def text(files: Any, name: str) -> str:
    content = files[name]
    assert isinstance(content, str)
    return content


def by_script(files: Any, host_of_rank: list[str]) -> Seats:
    """Where ranks run, if a host's processes are counted by rank and on_device.sh is read."""
    script = text(files, "on_device.sh")
    hosts_line = re.search(r"^host_of_rank=\((.*)\)$", script, re.MULTILINE)
    block = re.search(r"^devices=\(\n(.*?)^\)$", script, re.MULTILINE | re.DOTALL)
    assert hosts_line is not None
    assert block is not None
    visible = [[int(d) for d in line.split(",")] for line in block[1].split()]
    found, seen = {}, Counter[str]()
    for rank, (name, host) in enumerate(zip(host_of_rank, hosts_line[1].split(), strict=True)):
        found[rank] = (name, visible[int(host)][seen[name]])
        seen[name] += 1
    return found


@given(sources())
def test_a_rankfile_reads_as_the_placement(given: EmitSource) -> None:
    files = rankfile(given)
    found: Seats = {}
    for line in text(files, "rankfile").splitlines():
        if not line.startswith("#"):
            match = re.fullmatch(r"rank (\d+)=([A-Za-z0-9_.-]+) slot=(\d+)", line)
            assert match is not None
            assert int(match[1]) not in found
            found[int(match[1])] = (match[2], int(match[3]))
    assert found == wanted(given)
    assert by_script(files, [found[rank][0] for rank in range(len(found))]) == found


@given(sources())
def test_a_slurm_hostfile_reads_as_the_placement(given: EmitSource) -> None:
    files = slurm(given)
    lines = text(files, "slurm_hostfile").splitlines()
    assert by_script(files, lines) == wanted(given)
    per_host = given.schedule.devices // len(hosts(given))
    assert Counter(lines) == dict.fromkeys(hosts(given), per_host)


@given(sources())
def test_the_torchrun_module_gives_each_process_its_rank(given: EmitSource) -> None:
    module: dict[str, Any] = {}
    exec(text(torchrun(given), "collsynth_ranks.py"), module)
    names, per_host = module["HOSTS"], given.schedule.devices // len(hosts(given))
    every = [(host, device) for host in range(len(names)) for device in range(per_host)]
    assert {module["rank"](*seat): (names[seat[0]], seat[1]) for seat in every} == wanted(given)


def test_the_torchrun_module_sets_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    given = emitted(crossed())
    for name, value in {"GROUP_RANK": "1", "LOCAL_RANK": "2", "RANK": "6"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("WORLD_SIZE", "8")
    module: dict[str, Any] = {}
    exec(text(torchrun(given), "collsynth_ranks.py"), module)
    module["apply"]()
    assert wanted(given)[int(module["os"].environ["RANK"])] == ("host1", 2)
    assert module["os"].environ["WORLD_SIZE"] == "8"


@given(sources())
def test_the_order_for_jax_is_the_device_of_every_rank(given: EmitSource) -> None:
    """Its mesh has the axes as they are given, whatever the order of ranks."""
    given = replace(given, options=replace(given.options, rank_order=RankOrder.AXES))
    plan = json.loads(text(jax_devices(given), "jax_devices.json"))
    per_host = given.schedule.devices // len(hosts(given))
    found = {
        rank: (plan["hosts"][device // per_host], device % per_host)
        for rank, device in enumerate(plan["order"])
    }
    assert found == wanted(given)
    assert prod(plan["shape"]) == len(plan["order"])
    axes = given.schedule.reduction.placement.axes
    assert dict(zip(plan["axes"], plan["shape"], strict=True)) == {a.name: a.size for a in axes}


@given(sources())
def test_a_config_map_gives_pods_their_ranks(given: EmitSource) -> None:
    manifest = text(kubernetes(given), "ranks.yaml")
    assert "\nkind: ConfigMap\n" in manifest
    plan = json.loads(textwrap.dedent(manifest.split("  ranks.json: |\n")[1]))
    found = {
        rank: (host, device)
        for host, ranks in zip(plan["hosts"], plan["ranks"], strict=True)
        for device, rank in enumerate(ranks)
    }
    assert found == wanted(given)


@given(sources())
def test_an_only_axis_leaves_ranks_as_the_machine_counts(given: EmitSource) -> None:
    hierarchy = given.schedule.reduction.placement.hierarchy
    alone = Placement(hierarchy, (Axis("all", hierarchy.devices),), (hierarchy.cardinalities,))
    machine = emitted(alone, host_level=given.options.host_level)
    assert json.loads(text(jax_devices(machine), "jax_devices.json"))["order"] == list(
        range(hierarchy.devices)
    )


def crossed() -> Placement:
    """A placement whose ranks do not even count the devices of one host in order."""
    hierarchy = Hierarchy.of(node=2, socket=2, gpu=2)
    axes = (Axis("data", 2), Axis("model", 4))
    return Placement(hierarchy, axes, ((1, 1, 2), (2, 2, 1)))


def test_devices_of_a_host_may_come_out_of_order() -> None:
    files = slurm(emitted(crossed(), hosts=("a", "b")))
    assert text(files, "slurm_hostfile").split() == list("aabbaabb")
    assert "devices=(\n  0,2,1,3\n  0,2,1,3\n)\n" in text(files, "on_device.sh")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_the_script_shows_a_process_its_device_first_come(tmp_path: Path) -> None:
    script = tmp_path / "on_device.sh"
    script.write_text(text(rankfile(emitted(crossed())), "on_device.sh"), encoding="utf-8")
    seen = subprocess.run(
        ["bash", str(script), "bash", "-c", 'echo "$1 $CUDA_VISIBLE_DEVICES"', "-", "two words"],
        env={"OMPI_COMM_WORLD_RANK": "5", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert seen.stdout == "two words 0,2,1,3\n"


@given(sources())
def test_every_file_states_its_purpose(given: EmitSource) -> None:
    placement = given.schedule.reduction.placement
    told = [f"{axis.name}={axis.size}" for axis in placement.axes]
    for write in (rankfile, slurm, torchrun, kubernetes):
        for name, content in write(given).items():
            if name != "slurm_hostfile":
                assert isinstance(content, str)
                head = content.split("\n\n")[0]
                assert str(placement) in head
                assert ", ".join(told) in head
    about = json.loads(text(jax_devices(given), "jax_devices.json"))["about"]
    assert about["placement"] == [list(row) for row in placement.matrix]


def test_hosts_are_the_units_of_the_level_called_node_or_host() -> None:
    axes = (Axis("data", 8),)
    plain = Placement(Hierarchy.of(rack=2, gpu=4), axes, ((2, 4),))
    assert (host_level(emitted(plain)), hosts(emitted(plain))) == (-1, ("host0",))
    assert places(emitted(plain)).tolist() == [[0, slot] for slot in range(8)]
    named = Placement(
        Hierarchy((Level("rack", 2), Level("host", 2), Level("gpu", 2))), axes, ((2, 2, 2),)
    )
    assert (host_level(emitted(named)), len(hosts(emitted(named)))) == (1, 4)
    assert places(emitted(named))[5].tolist() == [2, 1]
    assert hosts(emitted(plain, host_level="rack")) == ("host0", "host1")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"host_level": "nod"}, "host level: no level 'nod'; did you mean node?"),
        ({"hosts": ("a",)}, "hosts: 1 host names; there are 2 hosts"),
        ({"hosts": ("a", "a")}, "hosts: a host name is given twice; name each host once"),
        (
            {"hosts": ("a", "b[0-3]")},
            "hosts: host name 'b[0-3]'; letters, digits, '-', '.' and '_'",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as refused:
        rankfile(emitted(crossed(), **options))
    assert str(refused.value) == told


def test_chips_of_a_slice_are_ordered_by_coordinates() -> None:
    """Whatever ids they have: the mesh has each chip where the placement puts it."""
    system = load("tpu-v5e-slice:2x4")
    axes = (Axis("data", 4), Axis("model", 2))
    for placement in placements(system.hierarchy, axes):
        given = replace(emitted(placement), system=system)
        plan = json.loads(text(jax_devices(given), "jax_devices.json"))
        chips = [
            SimpleNamespace(coords=(x, y, 0), core_on_chip=0) for x in (1, 0) for y in range(4)
        ]
        [line] = [one for one in plan["use"] if one.startswith("devices = ")]
        words = {"jax": SimpleNamespace(devices=lambda chips=chips: chips)}
        devices = eval(line.removeprefix("devices = "), words)
        made = np.array(devices, dtype=object)[plan["order"]].reshape(plan["shape"])
        ids = np.array([[chip.coords[1] * 2 + chip.coords[0] for chip in row] for row in made])
        assert ids.reshape(-1).tolist() == mesh(placement, RankOrder.AXES).devices.tolist()
