"""What a placement asks of each framework: nothing, where its own order is this already; else the
line to change.

Launchers count devices host by host, and frameworks compute coordinates from those ranks. So most
placements need no rank file: they are what a framework does by itself, or by one flag.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hierarchies import Axis, Devices, Hierarchy, InputError, Placement
from synth.collective.emit.frameworks import FRAMEWORKS, FrameworkRankOrder
from synth.collective.emit.mesh import RankOrder, mesh

HOST_LEVELS = ("node", "host")
BY_COORDINATES = "sorted(jax.devices(), key=lambda d: (*d.coords[::-1], d.core_on_chip))"
"""A TPU's chips in the order of levels z, y, x: JAX's ids count them in some other order."""
ALREADY_DEFAULT = "already the default"
"""What is said of a framework whose own order it is."""
_LAUNCHERS = "start the job by 'emit --target slurm' (or torchrun, rankfile) --rank-order"


@dataclass(frozen=True)
class Convention:
    """What a placement asks of one framework.

    ``default``: it needs nothing, ``say`` then is how its order counts. Else ``say`` is the line to
    change, or why the framework cannot have these axes (``possible`` is then false).
    """

    framework: str
    default: bool
    say: str
    possible: bool = True


class ConventionText(Protocol):
    """What is said of a framework, here or in an answer that was read back."""

    @property
    def framework(self) -> str: ...

    @property
    def default(self) -> bool: ...

    @property
    def say(self) -> str: ...


def conventions(placement: Placement, torus: bool = False) -> tuple[Convention, ...]:
    """What a placement asks of every framework; on a ``torus`` of TPUs that is JAX alone.

    Devices are counted as the hierarchy counts them, host by host; a TPU's by coordinates.
    """
    if torus:
        return (_jax(placement, BY_COORDINATES),)
    found = [_convention_of(name, one, placement) for name, one in FRAMEWORKS.items()]
    return (*found, _device_mesh(placement), _jax(placement, "jax.devices()"))


def plain_order(placement: Placement) -> tuple[int, ...] | None:
    """The order of axes, slowest first, in which ranks that count them run device by device.

    Axes of size 1 are left out. None where no order does: some axis lies on two levels, and
    another between.
    """
    parts = [part.axis for part in mesh(placement).axes]
    first = tuple(dict.fromkeys(parts))
    return first if parts == sorted(parts, key=first.index) else None


def _convention_of(name: str, framework: FrameworkRankOrder, placement: Placement) -> Convention:
    """What a placement asks of a framework that computes coordinates from ranks."""
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
    """The framework's own way to count the axes in another order; empty if it has none."""
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
    """The position of the level whose units are hosts; -1 if the whole machine is one host."""
    return next((hierarchy.index(name) for name in HOST_LEVELS if name in hierarchy.names), -1)


def hosts_of(hierarchy: Hierarchy) -> int:
    """How many hosts a machine has."""
    return hierarchy.devices // hierarchy.devices_in_child(level_of_hosts(hierarchy))


IN_ORDER = "NCCL_LAUNCH_ORDER_IMPLICIT=1"
"""What a program with several groups under way at once needs: all ranks start them in one order."""


def torchrun_command(hierarchy: Hierarchy, overlapped: bool = False) -> str:
    """What starts a process for each device by torchrun, the same line on every host.

    Hosts meet at the first, which is called as launchers' files call it. ``overlapped``: whether
    collectives of several groups are under way at once.
    """
    before = f"{IN_ORDER} " * overlapped
    hosts = hosts_of(hierarchy)
    each = hierarchy.devices // hosts
    if hosts == 1:
        return f"{before}torchrun --nproc-per-node {each}"
    meet = "--rdzv-backend c10d --rdzv-endpoint host0:29500"
    return f"{before}torchrun --nnodes {hosts} --nproc-per-node {each} {meet}"


def _distribution(placement: Placement, slowest: Sequence[int]) -> str:
    """Slurm's way to deal ranks out to hosts in turn; empty if that is not this placement."""
    ranks = ranked_devices(placement, slowest)
    hosts = hosts_of(placement.hierarchy)
    each = len(ranks) // hosts
    for plane in (size for size in range(1, each) if each % size == 0):
        dealt = np.arange(len(ranks)).reshape(hosts, each // plane, plane).transpose(1, 0, 2)
        if np.array_equal(ranks, dealt.reshape(-1)):
            how = "cyclic" if plane == 1 else f"plane={plane}"
            return f"srun --distribution={how} --ntasks-per-node={each}"
    return ""


def ranked_devices(placement: Placement, slowest: Sequence[int]) -> Devices:
    """The device of every rank, where ranks count the axes in this order, the last one fastest."""
    order = [*slowest, *(axis for axis in range(len(placement.axes)) if axis not in slowest)]
    parts = mesh(placement, RankOrder.AXES)
    grid = parts.devices.reshape([axis.size for axis in placement.axes])
    return np.asarray(grid.transpose(order)).reshape(-1)


def _device_mesh(placement: Placement) -> Convention:
    """PyTorch's DeviceMesh, whose axes are counted as the caller lists them."""
    axes, plain = placement.axes, plain_order(placement)
    listed = _axes_as_listed(axes, plain)
    if listed:
        shape, names = _shape(listed)
        line = f'init_device_mesh("cuda", {shape}, mesh_dim_names={names})'
        return Convention("PyTorch DeviceMesh", plain == _axes_as_given(placement), line)
    shape, names = _shape(axes)
    ranks = _fold_devices(f"torch.arange({placement.hierarchy.devices})", "permute", placement)
    line = f'DeviceMesh("cuda", {ranks}, mesh_dim_names={names})'
    return Convention("PyTorch DeviceMesh", False, line)


def _jax(placement: Placement, devices: str) -> Convention:
    """JAX: a mesh of devices in an order; ``create_device_mesh`` only where it would be that."""
    axes, plain = placement.axes, plain_order(placement)
    listed = _axes_as_listed(axes, plain)
    counted = devices != BY_COORDINATES
    shape, names = _shape(listed or axes)
    if listed and counted:
        line = f"Mesh(mesh_utils.create_device_mesh({shape}), {names})"
        return Convention("JAX", plain == _axes_as_given(placement), line)
    if listed:
        line = f"Mesh(numpy.array({devices}).reshape{shape}, {names})"
    else:
        line = f"Mesh({_fold_devices(f'numpy.array({devices})', 'transpose', placement)}, {names})"
    return Convention("JAX", False, line)


def _fold_devices(devices: str, transpose: str, placement: Placement) -> str:
    """Devices in machine order as an array with an axis for each axis: reshaped and transposed."""
    machine = mesh(placement).axes
    order = sorted(range(len(machine)), key=lambda i: (machine[i].axis, machine[i].level))
    inner = ", ".join(str(part.size) for part in machine)
    sizes = ", ".join(str(axis.size) for axis in placement.axes)
    turned = ", ".join(map(str, order))
    return f"{devices}.reshape({inner}).{transpose}({turned}).reshape({sizes})"


def _axes_as_listed(axes: Sequence[Axis], plain: tuple[int, ...] | None) -> list[Axis]:
    """The axes in plain order, those of size 1 before all others; none if there is no such."""
    if plain is None:
        return []
    ones = [axis for place, axis in enumerate(axes) if place not in plain]
    return [*ones, *(axes[place] for place in plain)]


def _axes_as_given(placement: Placement) -> tuple[int, ...]:
    return _select_axes_above_one(range(len(placement.axes)), placement)


def _select_axes_above_one(order: Sequence[int], placement: Placement) -> tuple[int, ...]:
    return tuple(place for place in order if placement.axes[place].size > 1)


def _reorder_rows(placement: Placement, order: Sequence[int]) -> Placement:
    """The same matrix with its rows in another order: inside a level the axes split anew."""
    axes = tuple(placement.axes[place] for place in order)
    return Placement(placement.hierarchy, axes, tuple(placement.matrix[place] for place in order))


def _shape(axes: Sequence[Axis]) -> tuple[str, str]:
    """The sizes and the names of axes, each as a Python tuple."""
    inside = ", ".join(str(axis.size) for axis in axes)
    names = ", ".join(f'"{axis.name}"' for axis in axes)
    comma = "," if len(axes) == 1 else ""
    return f"({inside}{comma})", f"({names}{comma})"


def summarize_conventions(found: Iterable[ConventionText]) -> Iterator[tuple[str, str]]:
    """Conventions in few words: frameworks of which the same is said, and what."""
    found = list(found)
    if same := [one.framework for one in found if one.default]:
        yield ", ".join(same), ALREADY_DEFAULT
    lines: dict[str, list[str]] = {}
    for one in found:
        if not one.default:
            say = one.say.removesuffix(one.framework.lower())
            lines.setdefault(say, []).append(one.framework)
    for say, frameworks in lines.items():
        order = "|".join(frameworks).lower() if say.endswith("--rank-order ") else ""
        yield ", ".join(frameworks), say + order
