"""Which coordinates each device has on the parallelism axes, from the JSON of an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Placed:
    """The axes in order, with their sizes, and what each of some devices has on them."""

    axes: tuple[tuple[str, int], ...]
    coordinates: Mapping[int, tuple[int, ...]]


def placed(body: Json, answer: Json, devices: Iterable[int]) -> Placed:
    """Where an answer puts the axes, for some devices; those that are not there have nothing.

    Inside a level the digit is split among the axes, the first slowest, and outer levels count
    more: the last device of an axis has the highest coordinate.
    """
    axes = tuple(answer["axes"].items())
    if "uneven" in body:
        order = {device: (rank,) for rank, device in enumerate(body["uneven"]["devices"])}
        return Placed(axes, {device: order[device] for device in devices if device in order})
    counts = [level["count"] for level in body["system"]["levels"]]
    found = {device: coordinates(device, counts, answer["placement"]) for device in devices}
    return Placed(axes, found)


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
