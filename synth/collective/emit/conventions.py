"""The settings that a placement needs in each framework: none, if its own rank order gives it.

Launchers count devices host by host, and frameworks compute coordinates from those ranks. So most
placements need no rank file: a framework produces them by default, or by one flag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hierarchies import Axis, Devices, Hierarchy, InputError, Placement
from synth.collective.emit.frameworks import FRAMEWORKS, FrameworkRankOrder
from synth.collective.emit.mesh import RankOrder, mesh

HOST_LEVELS = ("node", "host")
BY_COORDINATES = "sorted(jax.devices(), key=lambda d: (*d.coords[::-1], d.core_on_chip))"
"""A TPU's chips in the order of levels z, y, x: JAX's ids count them in another order."""
_LAUNCHERS = "start the job by 'emit --target slurm' (or torchrun, rankfile) --rank-order"


@dataclass(frozen=True)
class Convention:
    """The setting that a placement needs in one framework.

    ``default``: it needs nothing, and ``say`` describes the framework's order. Otherwise ``say`` is
    the line to change, or the reason why the framework cannot have these axes (``possible`` is then
    False).
    """

    framework: str
    default: bool
    say: str
    possible: bool = True


def conventions(placement: Placement, torus: bool = False) -> tuple[Convention, ...]:
    """Returns the settings of a placement in every framework; on a ``torus`` of TPUs in JAX alone.

    Devices are counted as the hierarchy counts them, host by host; a TPU's by coordinates.
    """
    if torus:
        return (_jax(placement, BY_COORDINATES),)
    found = [_convention_of(name, order, placement) for name, order in FRAMEWORKS.items()]
    return (*found, _device_mesh(placement), _jax(placement, "jax.devices()"))


def plain_order(placement: Placement) -> tuple[int, ...] | None:
    """Returns the order of axes, slowest first, in which ranks run device by device.

    Axes of size 1 are left out. None if there is no such order: some axis is on two levels, and
    another between them.
    """
    parts = [part.axis for part in mesh(placement).axes]
    first = tuple(dict.fromkeys(parts))
    return first if parts == sorted(parts, key=first.index) else None


def _convention_of(name: str, framework: FrameworkRankOrder, placement: Placement) -> Convention:
    """Returns the setting of a placement in a framework that computes coordinates from ranks."""
    try:
        slowest = framework.positions(placement.axes)
    except InputError as error:
        return Convention(framework.title, False, error.problem, possible=False)
    wanted = _select_axes_above_one(slowest, placement)
    own = ", ".join(framework.name(placement.axes[place]) for place in wanted)
    plain = plain_order(placement)
    if plain == wanted:
        return Convention(framework.title, True, f"counts {own}, the last one fastest")
    if plain_order(_reorder_rows(placement, slowest)) == tuple(
        place for place, axis in enumerate(slowest) if placement.axes[axis].size > 1
    ):
        axes = ",".join(f"{a.name}={a.size}" for a in map(placement.axes.__getitem__, slowest))
        say = f"the default, if asked with --axes {axes} (the order counts inside a level)"
        return Convention(framework.title, False, say)
    line = _order_setting(name, framework, placement, plain) or _distribution(placement, wanted)
    return Convention(framework.title, False, line or f"{_LAUNCHERS} {name}")


def _order_setting(
    name: str, framework: FrameworkRankOrder, placement: Placement, plain: tuple[int, ...] | None
) -> str:
    """Returns the framework's own setting for another order of axes; empty if it has none."""
    if plain is None:
        return ""
    names = [framework.name(placement.axes[place]) for place in plain]
    if name == "megatron":
        if names in (["dp", "pp"], ["dp", "pp", "tp"]):
            return "--use-tp-pp-dp-mapping"
        if "ep" not in names:
            return f'initialize_model_parallel(..., order="{"-".join(reversed(names))}")'
    if name == "deepspeed":
        sizes = [placement.axes[place].size for place in plain]
        return f"PipelineModule(..., topology=ProcessTopology(axes={names}, dims={sizes}))"
    return ""


def level_of_hosts(hierarchy: Hierarchy) -> int:
    """Returns the position of the level whose units are hosts; -1 if the machine is one host."""
    return next((hierarchy.index(name) for name in HOST_LEVELS if name in hierarchy.names), -1)


def hosts_of(hierarchy: Hierarchy) -> int:
    """Returns how many hosts a machine has."""
    return hierarchy.devices // hierarchy.devices_in_child(level_of_hosts(hierarchy))


IN_ORDER = "NCCL_LAUNCH_ORDER_IMPLICIT=1"
"""Needed by a program with several groups in flight at once: all ranks launch them in one order."""


def torchrun_command(hierarchy: Hierarchy, overlapped: bool = False) -> str:
    """Returns the torchrun command for a process per device, the same on every host.

    Hosts meet at the first, which is named as in launchers' files. ``overlapped``: whether
    collectives of several groups are in flight at once.
    """
    prefix = f"{IN_ORDER} " * overlapped
    hosts = hosts_of(hierarchy)
    per_host = hierarchy.devices // hosts
    if hosts == 1:
        return f"{prefix}torchrun --nproc-per-node {per_host}"
    meet = "--rdzv-backend c10d --rdzv-endpoint host0:29500"
    return f"{prefix}torchrun --nnodes {hosts} --nproc-per-node {per_host} {meet}"


def _distribution(placement: Placement, slowest: Sequence[int]) -> str:
    """Returns Slurm's option to deal ranks out to hosts in turn; empty if it does not fit."""
    ranks = ranked_devices(placement, slowest)
    hosts = hosts_of(placement.hierarchy)
    per_host = len(ranks) // hosts
    for plane in (size for size in range(1, per_host) if per_host % size == 0):
        dealt = np.arange(len(ranks)).reshape(hosts, per_host // plane, plane).transpose(1, 0, 2)
        if np.array_equal(ranks, dealt.reshape(-1)):
            how = "cyclic" if plane == 1 else f"plane={plane}"
            return f"srun --distribution={how} --ntasks-per-node={per_host}"
    return ""


def ranked_devices(placement: Placement, slowest: Sequence[int]) -> Devices:
    """Returns the device of every rank, if ranks count the axes in this order, last one fastest."""
    order = [*slowest, *(axis for axis in range(len(placement.axes)) if axis not in slowest)]
    parts = mesh(placement, RankOrder.AXES)
    grid = parts.devices.reshape([axis.size for axis in placement.axes])
    return np.asarray(grid.transpose(order)).reshape(-1)


def _device_mesh(placement: Placement) -> Convention:
    """Returns PyTorch's DeviceMesh line, which counts axes as the caller lists them."""
    axes, plain = placement.axes, plain_order(placement)
    listed = _axes_as_listed(axes, plain)
    if listed:
        shape, names = _shape(listed)
        line = f'init_device_mesh("cuda", {shape}, mesh_dim_names={names})'
        return Convention("PyTorch DeviceMesh", plain == _axes_in_input_order(placement), line)
    shape, names = _shape(axes)
    ranks = _fold_devices(f"torch.arange({placement.hierarchy.devices})", "permute", placement)
    line = f'DeviceMesh("cuda", {ranks}, mesh_dim_names={names})'
    return Convention("PyTorch DeviceMesh", False, line)


def _jax(placement: Placement, devices: str) -> Convention:
    """Returns JAX's line: ``create_device_mesh`` if it gives this order, else explicit devices."""
    axes, plain = placement.axes, plain_order(placement)
    listed = _axes_as_listed(axes, plain)
    counted = devices != BY_COORDINATES
    shape, names = _shape(listed or axes)
    if listed and counted:
        line = f"Mesh(mesh_utils.create_device_mesh({shape}), {names})"
        return Convention("JAX", plain == _axes_in_input_order(placement), line)
    if listed:
        line = f"Mesh(numpy.array({devices}).reshape{shape}, {names})"
    else:
        line = f"Mesh({_fold_devices(f'numpy.array({devices})', 'transpose', placement)}, {names})"
    return Convention("JAX", False, line)


def _fold_devices(devices: str, transpose: str, placement: Placement) -> str:
    """Returns code that reshapes devices in machine order to an array of the axes."""
    machine = mesh(placement).axes
    order = sorted(range(len(machine)), key=lambda i: (machine[i].axis, machine[i].level))
    inner = ", ".join(str(part.size) for part in machine)
    sizes = ", ".join(str(axis.size) for axis in placement.axes)
    turned = ", ".join(map(str, order))
    return f"{devices}.reshape({inner}).{transpose}({turned}).reshape({sizes})"


def _axes_as_listed(axes: Sequence[Axis], plain: tuple[int, ...] | None) -> list[Axis]:
    """Returns the axes in plain order, those of size 1 first; empty if there is no plain order."""
    if plain is None:
        return []
    ones = [axis for place, axis in enumerate(axes) if place not in plain]
    return [*ones, *(axes[place] for place in plain)]


def _axes_in_input_order(placement: Placement) -> tuple[int, ...]:
    return _select_axes_above_one(range(len(placement.axes)), placement)


def _select_axes_above_one(order: Sequence[int], placement: Placement) -> tuple[int, ...]:
    return tuple(place for place in order if placement.axes[place].size > 1)


def _reorder_rows(placement: Placement, order: Sequence[int]) -> Placement:
    """Returns the matrix with its rows in another order, which splits each level anew."""
    axes = tuple(placement.axes[place] for place in order)
    return Placement(placement.hierarchy, axes, tuple(placement.matrix[place] for place in order))


def _shape(axes: Sequence[Axis]) -> tuple[str, str]:
    """Returns the sizes and the names of axes, each as a Python tuple."""
    inside = ", ".join(str(axis.size) for axis in axes)
    names = ", ".join(f'"{axis.name}"' for axis in axes)
    comma = "," if len(axes) == 1 else ""
    return f"({inside}{comma})", f"({names}{comma})"
