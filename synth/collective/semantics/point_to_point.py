"""Transfers of whole buffers between devices, which no collective over groups describes.

A *permute* gives every device the buffer of one device: axes change places, and nothing is reduced,
cut or copied. A *send-receive* does so for some devices only: a pipeline stage sends its values to
the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from hierarchies import Axis, Devices, InputError, Placement
from hierarchies.errors import suggest_nearest

NOBODY = -1


class TransferKind(Enum):
    """The kinds of point-to-point requests."""

    PERMUTE = "permute"
    SEND_RECEIVE = "send-receive"


@dataclass(frozen=True, eq=False)
class PointToPoint:
    """Buffers of ``size_bytes`` that are sent from device to device, all at once.

    ``senders[device]`` is the device whose buffer ``device`` receives: itself where it keeps its
    own, ``NOBODY`` where it receives none. In a permute every device appears once; in a
    send-receive at most once.
    """

    what: TransferKind
    placement: Placement
    senders: Devices
    size_bytes: int

    def __post_init__(self) -> None:
        named = self.senders[self.senders != NOBODY]
        assert len(self.senders) == self.placement.hierarchy.devices
        assert len(np.unique(named)) == len(named), "a device sends once at most"
        assert self.what is not TransferKind.PERMUTE or len(named) == len(self.senders)

    @property
    def pairs(self) -> Devices:
        """Sender and receiver, shape (pairs, 2), by receiver; buffers that stay are left out."""
        receivers = np.arange(len(self.senders))
        moved = (self.senders != NOBODY) & (self.senders != receivers)
        return np.stack([self.senders[moved], receivers[moved]], axis=1)


def coordinates(placement: Placement) -> dict[str, Devices]:
    """Every device's coordinate on each axis, by name; shape (devices,) each.

    On an axis that spans two levels as 2 x 4, the outer part varies slowest.
    """
    parts = [
        (axis, row[level])
        for level in range(len(placement.hierarchy.levels))
        for axis, row in zip(placement.axes, placement.matrix, strict=True)
    ]
    devices = np.arange(placement.hierarchy.devices)
    digits = np.unravel_index(devices, [size for _, size in parts])
    values = {axis.name: np.zeros_like(devices) for axis in placement.axes}
    for (axis, size), digit in zip(parts, digits, strict=True):
        values[axis.name] = values[axis.name] * size + digit
    return values


def devices_at(placement: Placement, at: dict[str, Devices]) -> Devices:
    """The devices that have these coordinates: the inverse of ``coordinates``."""
    names = [axis.name for axis in placement.axes]
    shape = [axis.size for axis in placement.axes]
    own = coordinates(placement)
    place = np.ravel_multi_index([own[name] for name in names], shape)
    wanted = np.ravel_multi_index([at[name] for name in names], shape)
    # ``place`` is a permutation, and argsort inverts a permutation.
    return np.asarray(np.argsort(place)[wanted])


def stage_transfer(
    placement: Placement, axis: str, source: int, target: int, size_bytes: int
) -> PointToPoint:
    """A transfer from every device at one coordinate of an axis to its peer at another: stage to
    stage.

    Raises InputError for an axis or a coordinate that does not exist.
    """
    sizes = {named.name: named for named in placement.axes}
    if axis not in sizes:
        raise InputError(f"no axis {axis!r} to send along", hint=suggest_nearest(axis, sizes))
    for coordinate in (source, target):
        _check_axis(sizes[axis], coordinate)
    at = coordinates(placement)
    senders = devices_at(placement, at | {axis: np.full_like(at[axis], source)})
    senders[(at[axis] != target) | (source == target)] = NOBODY
    return PointToPoint(TransferKind.SEND_RECEIVE, placement, senders, size_bytes)


def _check_axis(axis: Axis, coordinate: int) -> None:
    if not 0 <= coordinate < axis.size:
        raise InputError(
            f"no coordinate {coordinate} on {axis.name}={axis.size}",
            hint=f"from 0 to {axis.size - 1}",
        )
