"""What frameworks do by themselves, against their own documentation; and the lines to change.

Each line is carried out by stand-ins written here from the documentation of what it calls, and
must put every coordinate on the device that the placement says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hierarchies import Axis, Hierarchy, InputError, Level, Placement, placements
from strategies import placed
from synth.collective.emit.conventions import (
    BY_COORDINATES,
    HOST_LEVELS,
    Convention,
    conventions,
    plain_order,
    ranked_devices,
)
from synth.collective.emit.frameworks import FRAMEWORKS, KINDS, kind_of
from synth.collective.emit.mesh import RankOrder, mesh
from synth.show.terminal.placements import summarize_conventions

NAMES = ("pipeline", "data", "expert", "context", "tensor")
MEGATRON = {"pipeline": "pp", "data": "dp", "expert": "ep", "context": "cp", "tensor": "tp"}
DEEPSPEED = {"pipeline": "pipe", "data": "data", "tensor": "model"}
Grid = dict[tuple[int, ...], int]
"""The device of each tuple of coordinates on the axes, in the order of the placement's axes."""


def machine(*sizes: int) -> Hierarchy:
    names = ("rack", "node", "gpu")[-len(sizes) :]
    return Hierarchy(tuple(Level(n, s) for n, s in zip(names, sizes, strict=True)))


@st.composite
def jobs(draw: st.DrawFn) -> Placement:
    """Placements on racks, nodes and GPUs of axes with names that frameworks know."""
    sizes = draw(st.sampled_from([(2, 4), (4, 2), (3, 4), (2, 2, 4), (2, 4, 4), (8,), (1, 8)]))
    found = draw(placed(machine(*sizes)))
    names = draw(st.permutations(NAMES))
    assume(len(found.axes) <= len(names))
    axes = tuple(Axis(n, a.size) for n, a in zip(names, found.axes, strict=False))
    return Placement(found.hierarchy, axes, found.matrix)


def grid(placement: Placement) -> Grid:
    """Where the definition of a placement puts the coordinates: level by level, in axis order."""
    found = {}
    for device in range(placement.hierarchy.devices):
        at = [0] * len(placement.axes)
        for level, digit in enumerate(placement.hierarchy.digits(device)):
            column = [row[level] for row in placement.matrix]
            for axis, part in enumerate(list(product(*map(range, column)))[digit]):
                at[axis] = at[axis] * column[axis] + part
        found[tuple(at)] = device
    return found


def by_rank(sizes: Mapping[str, int], fastest_first: Sequence[str]) -> list[dict[str, int]]:
    """The coordinates of every rank by Megatron's documentation: rank = sum of coordinate times
    stride, where the stride of a dimension is the product of the sizes before it in ``order``.
    """
    found = []
    for rank in range(prod(sizes.values())):
        stride, at = 1, {}
        for name in fastest_first:
            at[name] = rank // stride % sizes.get(name, 1)
            stride *= sizes.get(name, 1)
        found.append(at)
    return found


def counted(placement: Placement, names: Mapping[str, str], fastest_first: Sequence[str]) -> Grid:
    """What launchers and a framework do together: rank r is on device r, counted host by host."""
    sizes = {names[axis.name]: axis.size for axis in placement.axes if axis.size > 1}
    found = {}
    for rank, at in enumerate(by_rank(sizes, fastest_first)):
        place = tuple(at[names[a.name]] if a.size > 1 else 0 for a in placement.axes)
        found[place] = rank
    return found


def of(framework: str, placement: Placement) -> Convention:
    title = FRAMEWORKS[framework].title if framework in FRAMEWORKS else framework
    [found] = [one for one in conventions(placement) if one.framework == title]
    return found


def dealt(placement: Placement, how: str) -> list[int]:
    """The device of each rank when Slurm deals tasks to nodes, by its manual: cyclic is one to
    each in turn, plane=N is N to each in turn; on a node they take devices in order.
    """
    names = placement.hierarchy.names
    level = next(names.index(name) for name in HOST_LEVELS if name in names)
    each = placement.hierarchy.devices_in_child(level)
    hosts = placement.hierarchy.devices // each
    plane = 1 if how == "cyclic" else int(how.removeprefix("plane="))
    taken, found = [0] * hosts, []
    for rank in range(hosts * each):
        host = rank // plane % hosts
        found.append(host * each + taken[host])
        taken[host] += 1
    return found


# What the documentation of frameworks says of their ranks.


def groups(placement: Placement, order: RankOrder, axis: str) -> set[tuple[int, ...]]:
    """The ranks that differ in one axis alone."""
    number = [a.name for a in placement.axes].index(axis)
    device_of = mesh(placement, order).devices.tolist()
    rank_of = {device: rank for rank, device in enumerate(device_of)}
    found: dict[tuple[int, ...], list[int]] = {}
    for at, device in grid(placement).items():
        found.setdefault(at[:number] + at[number + 1 :], []).append(rank_of[device])
    return {tuple(sorted(group)) for group in found.values()}


def test_megatron_groups_are_those_of_its_documentation() -> None:
    """initialize_model_parallel's example: 16 GPUs, tensor 2, pipeline 4, so data 2."""
    axes = (Axis("tensor", 2), Axis("data", 2), Axis("pipeline", 4))
    for placement in placements(machine(2, 8), axes):
        order = RankOrder.MEGATRON
        assert groups(placement, order, "tensor") == {(2 * n, 2 * n + 1) for n in range(8)}
        assert groups(placement, order, "pipeline") == {
            (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)
        }  # fmt: skip
        assert (0, 2) in groups(placement, order, "data")
        assert (13, 15) in groups(placement, order, "data")


def test_torchtitan_groups_are_those_of_its_worked_example() -> None:
    axes = (Axis("tp", 2), Axis("fsdp", 2), Axis("cp", 2))
    placement = next(placements(machine(1, 8), axes))
    order = RankOrder.TORCHTITAN
    assert groups(placement, order, "fsdp") == {(0, 4), (1, 5), (2, 6), (3, 7)}
    assert groups(placement, order, "cp") == {(0, 2), (1, 3), (4, 6), (5, 7)}
    assert groups(placement, order, "tp") == {(0, 1), (2, 3), (4, 5), (6, 7)}
    experts = next(placements(machine(1, 8), (Axis("ep", 4), Axis("fsdp", 2))))
    assert groups(experts, order, "ep") == {(0, 1, 2, 3), (4, 5, 6, 7)}


def test_deepspeed_groups_are_those_of_its_documentation() -> None:
    axes = (Axis("model", 2), Axis("data", 2), Axis("pipe", 2))
    placement = next(placements(machine(2, 4), axes))
    assert groups(placement, RankOrder.DEEPSPEED, "pipe") == {(0, 4), (1, 5), (2, 6), (3, 7)}


# What is said of a placement is so.


@given(jobs())
def test_a_default_is_what_the_framework_does_by_itself(placement: Placement) -> None:
    wanted = grid(placement)
    for name, names, order in (
        ("megatron", MEGATRON, "tp-cp-ep-dp-pp"),
        ("torchtitan", MEGATRON, "tp-cp-ep-dp-pp"),
        ("deepspeed", DEEPSPEED, "model-data-pipe"),
    ):
        said = of(name, placement)
        if said.possible:
            assert said.default == (counted(placement, names, order.split("-")) == wanted)


@given(jobs())
def test_each_line_puts_coordinates_where_the_placement_does(placement: Placement) -> None:
    wanted, says = grid(placement), of("megatron", placement).say
    if order := re.search(r'order="([a-z-]+)"', says):
        assert counted(placement, MEGATRON, order[1].split("-")) == wanted
    if says == "--use-tp-pp-dp-mapping":
        assert counted(placement, MEGATRON, ["tp", "cp", "ep", "pp", "dp"]) == wanted
        assert not {"context", "expert"} & {a.name for a in placement.axes if a.size > 1}
    says = of("deepspeed", placement).say
    if "ProcessTopology" in says:
        names = re.findall(r"'(\w+)'", says)
        assert counted(placement, DEEPSPEED, names[::-1]) == wanted


@given(jobs())
def test_slurms_distributions_put_ranks_where_the_placement_does(placement: Placement) -> None:
    for name in FRAMEWORKS:
        if found := re.search(
            r"--distribution=(\S+) --ntasks-per-node=(\d+)", of(name, placement).say
        ):
            device = dealt(placement, found[1])
            assert device == mesh(placement, RankOrder(name)).devices.tolist()
            assert len(device) % int(found[2]) == 0


@given(jobs())
def test_axes_in_the_given_order_are_the_default(placement: Placement) -> None:
    for name in FRAMEWORKS:
        if found := re.search(r"--axes (\S+)", of(name, placement).say):
            named = [text.partition("=") for text in found[1].split(",")]
            axes = tuple(Axis(axis, int(size)) for axis, _, size in named)
            rows = dict(zip((a.name for a in placement.axes), placement.matrix, strict=True))
            asked = Placement(placement.hierarchy, axes, tuple(rows[a.name] for a in axes))
            assert of(name, asked).default


@given(jobs())
def test_settings_for_a_launcher_are_not_framework_defaults(placement: Placement) -> None:
    for name in FRAMEWORKS:
        said = of(name, placement)
        if "emit --target" in said.say:
            assert said.say.endswith(f"--rank-order {name}")
            found = mesh(placement, RankOrder(name)).devices
            assert not np.array_equal(found, np.arange(len(found)))


class Tensor:
    """As much of a torch tensor as the lines use."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def reshape(self, *shape: int) -> Tensor:
        return Tensor(self.array.reshape(shape))

    def permute(self, *order: int) -> Tensor:
        return Tensor(self.array.transpose(order))


def carried_out(line: str, devices: int, **more: Any) -> tuple[Any, tuple[str, ...]]:
    """The array of devices that a line makes, and the names of its axes."""
    words = {
        "torch": SimpleNamespace(arange=lambda n: Tensor(np.arange(n))),
        "DeviceMesh": lambda kind, ranks, mesh_dim_names: (ranks.array, mesh_dim_names),
        "init_device_mesh": lambda kind, shape, mesh_dim_names: (
            np.arange(prod(shape)).reshape(shape),
            mesh_dim_names,
        ),
        "numpy": np,
        "jax": SimpleNamespace(devices=lambda: list(range(devices))),
        "mesh_utils": SimpleNamespace(
            create_device_mesh=lambda shape: np.arange(prod(shape)).reshape(shape)
        ),
        "Mesh": lambda array, names: (array, names),
    }
    found: tuple[Any, tuple[str, ...]] = eval(line, {**words, **more})
    return found


@given(placed() | jobs())
def test_the_lines_for_meshes_are_the_placement(placement: Placement) -> None:
    wanted = grid(placement)
    for framework in ("PyTorch DeviceMesh", "JAX"):
        said = of(framework, placement)
        array, names = carried_out(said.say, placement.hierarchy.devices)
        order = [[a.name for a in placement.axes].index(name) for name in names]
        assert array.shape == tuple(placement.axes[axis].size for axis in order)
        for at, device in wanted.items():
            assert array[tuple(at[axis] for axis in order)] == device
        listed = [axis for axis in order if placement.axes[axis].size > 1]
        assert said.default == (listed == sorted(listed) and "arange" not in said.say
                                and "reshape" not in said.say)  # fmt: skip


@given(placed(Hierarchy((Level("z", 2), Level("y", 4), Level("x", 2)))), st.randoms())
def test_chips_of_a_tpu_are_ordered_by_coordinates_not_ids(
    placement: Placement, order: Any
) -> None:
    """Level z of the machine is the third coordinate, and so on: x runs fastest."""
    chips = [(x, y, z) for z in range(2) for y in range(4) for x in range(2)]
    device_of = {coords: number for number, coords in enumerate(chips)}
    order.shuffle(chips)
    devices = [SimpleNamespace(coords=at, core_on_chip=0) for at in chips]
    [said] = conventions(placement, torus=True)
    line = said.say.replace(BY_COORDINATES, f"[one for one in {BY_COORDINATES}]")
    jax = SimpleNamespace(devices=lambda: devices)
    array, names = carried_out(line, 16, jax=jax)
    places = [[a.name for a in placement.axes].index(name) for name in names]
    for at, device in grid(placement).items():
        chip = array[tuple(at[axis] for axis in places)]
        assert device_of[chip.coords] == device


def test_jax_lays_devices_out_as_they_come() -> None:
    """``create_device_mesh`` on devices without coordinates is a plain reshape."""
    pytest.importorskip("jax", reason="the extra 'jax' is not installed")
    from jax.experimental import mesh_utils

    devices = [
        SimpleNamespace(id=n, platform="gpu", device_kind="H100", process_index=n // 8)
        for n in range(32)
    ]
    made = mesh_utils.create_device_mesh((4, 2, 4), devices=devices)
    assert [device.id for device in made.reshape(-1)] == list(range(32))


# Names, and what cannot be said.


@pytest.mark.parametrize(
    "name", ["Data", "dp", "FSDP", "tensor-parallel", "tp", "pipeline_parallel"]
)
def test_a_name_states_the_content_its_axis_splits(name: str) -> None:
    assert kind_of(name) is not None
    assert kind_of("rows") is None
    assert len(set(KINDS)) == len(KINDS)


@pytest.mark.parametrize(
    ("framework", "axes", "problem"),
    [
        ("megatron", {"rows": 8}, "does not state its content"),
        ("megatron", {"data": 2, "fsdp": 4}, "one axis for data and fsdp"),
        ("megatron", {"expert": 2, "context": 4}, "not axes of one grid"),
        ("torchtitan", {"expert": 2, "tensor": 4}, "not axes of one grid"),
        ("deepspeed", {"context": 8}, "no axis for the sequence"),
    ],
)
def test_what_a_framework_has_no_order_for(
    framework: str, axes: dict[str, int], problem: str
) -> None:
    given = tuple(Axis(name, size) for name, size in axes.items())
    placement = next(placements(machine(1, 8), given))
    with pytest.raises(InputError, match=problem):
        mesh(placement, RankOrder(framework))
    said = of(framework, placement)
    assert not said.possible
    assert problem in said.say
    assert not said.default


def test_a_name_of_size_one_matters_to_nobody() -> None:
    placement = next(placements(machine(1, 8), (Axis("rows", 1), Axis("data", 8))))
    assert of("megatron", placement).default


@given(jobs())
def test_every_framework_is_described_once(placement: Placement) -> None:
    said = conventions(placement)
    told_of = [name for names, _ in summarize_conventions(said) for name in names.split(", ")]
    assert sorted(told_of) == sorted(one.framework for one in said)


@given(placed())
def test_plain_orders_count_device_by_device(placement: Placement) -> None:
    plain = plain_order(placement)
    if plain is not None:
        found = ranked_devices(placement, plain)
        assert found.tolist() == list(range(placement.hierarchy.devices))
