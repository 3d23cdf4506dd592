"""Which coordinates each device has on the parallelism axes, from an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from synth.verbs.answers.degraded import Left, UnevenAnswer
from synth.verbs.answers.machine_parts import MachineInFull
from synth.verbs.answers.ranked import Answer


@dataclass(frozen=True)
class Placed:
    """The axes in order, with their sizes, and what each of some devices has on them."""

    axes: tuple[tuple[str, int], ...]
    coordinates: Mapping[int, tuple[int, ...]]


def placed(system: MachineInFull, answer: Answer, devices: Iterable[int]) -> Placed:
    """Where an answer puts the axes, for some devices.

    Inside a level the digit is split among the axes, the first slowest, and outer levels count
    more: the last device of an axis has the highest coordinate.
    """
    counts = [level.count for level in system.levels]
    found = {device: coordinates(device, counts, answer.placement) for device in devices}
    return Placed(tuple(answer.axes.items()), found)


def ranked(left: Left, answer: UnevenAnswer, devices: Iterable[int]) -> Placed:
    """The ranks on the one axis of what is left; devices that are not there have none."""
    order = {device: (rank,) for rank, device in enumerate(left.devices)}
    found = {device: order[device] for device in devices if device in order}
    return Placed(tuple(answer.axes.items()), found)


def coordinates(
    device: int, counts: Sequence[int], matrix: Sequence[Sequence[int]]
) -> tuple[int, ...]:
    """The coordinates of one device; ``matrix`` has a row for each axis."""
    found = [0] * len(matrix)
    for level, digit in enumerate(digits(device, counts)):
        rest = prod(row[level] for row in matrix)
        for axis, row in enumerate(matrix):
            rest //= row[level]
            part, digit = divmod(digit, rest)
            found[axis] = found[axis] * row[level] + part
    return tuple(found)


def digits(device: int, counts: Sequence[int]) -> tuple[int, ...]:
    """The digits of a device's number, outermost first."""
    found = []
    for count in reversed(counts):
        device, digit = divmod(device, count)
        found.append(digit)
    return tuple(reversed(found))
