"""The machine as a mesh with an axis for each factor of the placement; groups named by axes.

A parallelism axis of size 8 on two levels as 2 x 4 becomes two mesh axes, ``node.data`` of size 2
and ``gpu.data`` of size 4. A rank is the mixed-radix number of its coordinates, and a group is
named by the axes that vary, as in JAX's meshes; schedules list devices instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod

import numpy as np

from hierarchies import Axis, Devices, Placement
from synth.collective.emit.frameworks import FRAMEWORKS

Dims = tuple[int, ...]


class RankOrder(Enum):
    """How the processes of a job are numbered.

    * machine: device by device, outermost level slowest: launchers' default;
    * axes: by the coordinates on the parallelism axes, first axis slowest: for frameworks that
      compute coordinates from ranks. The launcher needs a file (target rankfile);
    * megatron, torchtitan, deepspeed: likewise, the axes in the order of that framework.
    """

    MACHINE = "machine"
    AXES = "axes"
    MEGATRON = "megatron"
    TORCHTITAN = "torchtitan"
    DEEPSPEED = "deepspeed"

    def slowest_first(self, axes: Sequence[Axis]) -> tuple[int, ...]:
        """Returns the positions of the axes in the order in which ranks count them.

        Raises InputError for axes that a framework's order does not have.
        """
        if self in (RankOrder.MACHINE, RankOrder.AXES):
            return tuple(range(len(axes)))
        return FRAMEWORKS[self.value].positions(axes)


@dataclass(frozen=True)
class MeshAxis:
    """The part of a parallelism axis on one level, with a size above 1."""

    level: int
    axis: int
    name: str
    size: int


@dataclass(frozen=True)
class Mesh:
    """Mesh axes, slowest first in a rank's number; ``devices[rank]`` is the device."""

    axes: tuple[MeshAxis, ...]
    placement: Placement

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.axes)

    @property
    def devices(self) -> Devices:
        """The device of every rank, shape (ranks,)."""
        machine = sorted(self.axes, key=lambda a: (a.level, a.axis))
        ids = np.arange(prod(self.shape)).reshape([axis.size for axis in machine])
        return np.asarray(ids.transpose([machine.index(axis) for axis in self.axes])).reshape(-1)

    def named(self, dims: Dims) -> tuple[str, ...]:
        return tuple(self.axes[dim].name for dim in dims)

    def of_axis(self, axis: int) -> tuple[str, ...]:
        """Returns the mesh axes of a parallelism axis, outermost level first."""
        return tuple(a.name for a in sorted(self.axes, key=lambda a: a.level) if a.axis == axis)

    def ranks(self, devices: Devices) -> Devices:
        """Returns devices as ranks, in an array of the same shape."""
        return np.asarray(np.argsort(self.devices)[devices])


def mesh(placement: Placement, order: RankOrder = RankOrder.MACHINE) -> Mesh:
    """Returns the mesh of a placement, its ranks numbered in this order.

    Raises InputError for axes that a framework's order does not have.
    """
    found = [
        MeshAxis(level, axis, f"{name}.{placement.axes[axis].name}", row[level])
        for level, name in enumerate(placement.hierarchy.names)
        for axis, row in enumerate(placement.matrix)
        if row[level] > 1
    ]
    if order is not RankOrder.MACHINE:
        slowest = order.slowest_first(placement.axes)
        found.sort(key=lambda a: (slowest.index(a.axis), a.level))
    return Mesh(tuple(found), placement)


@dataclass(frozen=True)
class MeshGroups:
    """Groups that vary along ``over`` (slowest first), of devices whose ``at_zero`` are 0."""

    over: Dims
    at_zero: Dims = ()


def find_mesh_axes(groups: Devices, mesh: Mesh) -> MeshGroups | None:
    """Returns the mesh axes that name groups of shape (groups, members), or None."""
    coordinates = np.array(np.unravel_index(mesh.ranks(groups), mesh.shape)).reshape(
        len(mesh.shape), *groups.shape
    )
    varying = [dim for dim, at in enumerate(coordinates) if (at != at[:, :1]).any()]
    # In member order a slower axis stays at 0 for longer: that reveals the order of the axes.
    first = coordinates[:, 0, :]
    over = tuple(
        sorted(varying, key=lambda dim: int((first[dim] == 0).cumprod().sum()), reverse=True)
    )
    zero = tuple(dim for dim, at in enumerate(coordinates) if dim not in varying and not at.any())
    found = MeshGroups(over, zero)
    same = np.array_equal(_sort_groups(expand_groups(found, mesh)), _sort_groups(groups))
    return found if same else None


def expand_groups(groups: MeshGroups, mesh: Mesh) -> Devices:
    """Returns the devices of every group, shape (groups, members): inverts ``find_mesh_axes``."""
    index = tuple(
        slice(0, 1) if d in groups.at_zero else slice(None) for d in range(len(mesh.axes))
    )
    part = mesh.devices.reshape(mesh.shape)[index]
    fixed = [dim for dim in range(part.ndim) if dim not in groups.over]
    members = prod(mesh.shape[dim] for dim in groups.over)
    return np.asarray(part.transpose([*fixed, *groups.over]).reshape(-1, members))


def _sort_groups(groups: Devices) -> Devices:
    return np.asarray(groups[np.argsort(groups[:, 0])])
