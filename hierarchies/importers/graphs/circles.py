"""Tori in a graph: cables between devices that form circles or lines, one for each dimension.

A torus is the Cartesian product of its circles, a grid with open ends that of its lines. Its
dimensions are found like prime factors of a graph (Feder; Imrich): two cables belong to one
dimension if they are opposite each other in distances, or if they lead from one device to two
devices without another common neighbour. A circle of four is a product of two circles of two, so
these are joined again if their bandwidths agree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
import scipy

from hierarchies.errors import InputError
from hierarchies.graphs.machine import Edge
from hierarchies.importers.disjoint import DisjointSets
from hierarchies.importers.graphs.domains import GraphDomain, common_label
from hierarchies.links import circle_links

MOST_CABLES = 3_000
_Pair = tuple[int, int]


@dataclass(frozen=True)
class Grid:
    """Sizes of the dimensions, outermost first, their levels' names, each device's coordinates.

    ``wraps``: whether the ends of a dimension are joined; if not, it is a line.
    """

    sizes: tuple[int, ...]
    wraps: tuple[bool, ...]
    labels: tuple[str, ...]
    places: Mapping[str, tuple[int, ...]]


def find_grid(domain: GraphDomain, like: Grid | None = None) -> Grid:
    """Return the dimensions of a torus of devices. Raises InputError for cables that form none.

    The outer dimension is the one whose cables join the most distant numbers. Several tori must
    have the same order: that of ``like``, the first torus, by labels, else by the bandwidth and
    number of cables.
    """
    devices = sorted(domain.devices, key=natural_sort_key)
    number = {frozenset({device}): place for place, device in enumerate(devices)}
    pairs: dict[_Pair, Edge] = {}
    for first, second, edge in domain.cables:
        if first.behind not in number or second.behind not in number:
            raise InputError(f"cables of {domain.name!r} are neither a ring nor a mesh of units")
        ends = sorted((number[first.behind], number[second.behind]))
        pairs[ends[0], ends[1]] = edge
    if len(pairs) > MOST_CABLES:
        raise InputError(f"{len(pairs)} cables between devices", hint=f"at most {MOST_CABLES}")
    classes = _group_by_label(pairs) or _factors(pairs, len(devices))
    classes.sort(key=lambda cables: -_stride(cables))
    if like is not None:
        order = like.labels

        def place(cables: Sequence[_Pair]) -> tuple[float, ...]:
            label = pairs[cables[0]].level
            position = order.index(label) if label in order else -1
            return position, _fastest_rate(cables, pairs), len(cables)

        classes.sort(key=place)
    walked = [_walk_circle(cables, pairs, len(devices)) for cables in classes]
    axes = [axis for axis in walked if axis]
    if len(axes) < len(classes):
        raise _irregular_error(pairs, devices)
    places = list(zip(*(axis.places for axis in axes), strict=True))
    sizes = tuple(1 + max(column) for column in zip(*places, strict=True))
    if len(set(places)) < len(places) or int(np.prod(sizes)) != len(devices):
        raise _irregular_error(pairs, devices)
    names = tuple(common_label(pairs[pair] for pair in cables) for cables in classes)
    wraps = tuple(axis.wraps for axis in axes)
    return Grid(sizes, wraps, names, dict(zip(devices, places, strict=True)))


def natural_sort_key(name: str) -> tuple[object, ...]:
    """Return a sort key that puts ``gpu10`` after ``gpu9``."""
    parts = filter(None, re.split("([0-9]+)", name))
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts)


def _stride(pairs: Sequence[_Pair]) -> int:
    """Return the least difference of joined numbers, which is smallest for the inner dimension."""
    return min(high - low for low, high in pairs)


def _group_by_label(pairs: Mapping[_Pair, Edge]) -> list[list[_Pair]]:
    """Return cables grouped by the level that they name; empty if some name none."""
    labels: dict[str, list[_Pair]] = {}
    for pair, edge in pairs.items():
        labels.setdefault(edge.level, []).append(pair)
    return list(labels.values()) if "" not in labels and len(labels) > 1 else []


def _factors(pairs: Mapping[_Pair, Edge], devices: int) -> list[list[_Pair]]:
    """Return classes of cables that no product divides, with equal circles of two rejoined."""
    edges = list(pairs)
    apart = _distances(edges, devices)
    sets = DisjointSets[int]()
    beside = [set(np.flatnonzero(row == 1).tolist()) for row in apart]
    ends = np.array(edges)
    for index, (x, y) in enumerate(edges):
        across = apart[x, ends[:, 0]] + apart[y, ends[:, 1]]
        along = apart[x, ends[:, 1]] + apart[y, ends[:, 0]]
        for other in np.flatnonzero(across != along).tolist():
            sets.join(index, other)
    places = {pair: index for index, pair in enumerate(edges)}
    for here in range(devices):
        for left, right in combinations(sorted(beside[here]), 2):
            if right not in beside[left] and beside[left] & beside[right] == {here}:
                first, second = sorted((here, left)), sorted((here, right))
                sets.join(places[first[0], first[1]], places[second[0], second[1]])
    classes: dict[int, list[_Pair]] = {}
    for index, pair in enumerate(edges):
        classes.setdefault(sets.find(index), []).append(pair)
    return _squares(list(classes.values()), pairs, devices)


def _squares(
    classes: list[list[_Pair]], pairs: Mapping[_Pair, Edge], devices: int
) -> list[list[_Pair]]:
    """Join two circles of two with the same bandwidths to one circle of four."""
    rest: list[list[_Pair]] = []
    twos: list[list[_Pair]] = []
    for cables in classes:
        (twos if 2 * len(cables) == devices else rest).append(cables)
    twos.sort(key=_stride)
    while len(twos) > 1:
        first, second = twos.pop(0), twos.pop(0)
        alike = _fastest_rate(first, pairs) == _fastest_rate(second, pairs)
        rest += [[*first, *second]] if alike else [first]
        if not alike:
            twos.insert(0, second)
    return [*rest, *twos]


def _fastest_rate(cables: Sequence[_Pair], pairs: Mapping[_Pair, Edge]) -> float:
    return max(pairs[pair].bandwidth_bytes_per_second or 0.0 for pair in cables)


@dataclass(frozen=True)
class _Axis:
    """The coordinate of each device along one dimension, and whether its ends are joined."""

    places: tuple[int, ...]
    wraps: bool


def _walk_circle(
    cables: Sequence[_Pair], pairs: Mapping[_Pair, Edge], devices: int
) -> _Axis | None:
    """Walk one dimension, from an end if it has one; None if it is neither a circle nor a line."""
    sets = DisjointSets[int]()
    chosen = set(cables)
    for pair in pairs:
        if pair not in chosen:
            sets.join(*pair)
    places = sorted({sets.find(device) for device in range(devices)})
    neighbours: dict[int, set[int]] = {place: set() for place in places}
    for low, high in cables:
        a, b = sets.find(low), sets.find(high)
        neighbours[a].add(b)
        neighbours[b].add(a)
    size = len(places)
    ends = [place for place in places if len(neighbours[place]) == 1]
    wraps = not ends or size == 2
    walk = [(ends or places)[0]]
    while len(walk) < size:
        following = [place for place in sorted(neighbours[walk[-1]]) if place not in walk]
        if not following:
            return None
        walk.append(following[0])
    joined = circle_links(size, wraps)
    if size < 2 or sum(map(len, neighbours.values())) != 2 * joined or len(ends) not in (0, 2):
        return None
    if len(cables) != devices // size * joined:
        return None
    number = {place: index for index, place in enumerate(walk)}
    return _Axis(tuple(number[sets.find(device)] for device in range(devices)), wraps)


def _distances(edges: Sequence[_Pair], devices: int) -> npt.NDArray[np.float64]:
    joined = np.zeros((devices, devices))
    joined[tuple(np.transpose(edges))] = 1
    paths = scipy.sparse.csgraph.shortest_path(joined, directed=False, unweighted=True)
    return np.asarray(paths)


def _irregular_error(pairs: Mapping[_Pair, Edge], devices: Sequence[str]) -> InputError:
    """Return the error that names the first device whose cables are unlike those of another."""
    cables: dict[str, list[float]] = {device: [] for device in devices}
    for (first, second), edge in pairs.items():
        for end in (first, second):
            cables[devices[end]].append(edge.bandwidth_bytes_per_second or 0.0)
    usual = sorted(cables[devices[0]])
    for device, rates in cables.items():
        if sorted(rates) != usual:
            return InputError(
                f"cables between devices form neither a ring, a mesh nor a torus: {devices[0]!r} "
                f"has {len(usual)} of them, {device!r} {len(rates)}"
                + ("" if len(rates) != len(usual) else " of other bandwidths")
            )
    return InputError(
        f"cables between {len(devices)} devices, {len(usual)} of each, form neither a "
        "ring, a mesh nor "
        "a torus"
    )
