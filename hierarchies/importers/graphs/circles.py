"""A torus in a graph: cables between devices that are circles or lines, one for each dimension.

A torus is the Cartesian product of its circles, a grid with open ends that of its lines. Its
dimensions are found as prime factors of the graph are (Feder; Imrich): two cables belong to one
dimension if they lie opposite each other in distances, or if they leave one device for two that
have no other device in common. A circle of four is a square of two circles of two, so those are
joined again where their bandwidths agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from hierarchies.errors import InputError
from hierarchies.graphs.graph import Edge
from hierarchies.importers.graphs.domains import GraphDomain
from hierarchies.links import circle_links

MOST_CABLES = 3_000
_Pair = tuple[int, int]


@dataclass(frozen=True)
class Grid:
    """Sizes of the dimensions, outermost first, their levels' names, each device's coordinates.

    ``wraps``: whether the ends of a dimension are joined; where they are not it is a line.
    """

    sizes: tuple[int, ...]
    wraps: tuple[bool, ...]
    labels: tuple[str, ...]
    places: Mapping[str, tuple[int, ...]]


def find_grid(domain: GraphDomain, like: Grid | None = None) -> Grid:
    """The dimensions of a torus of devices. Raises InputError for cables that make none.

    The outer dimension is the one whose cables join the farthest numbers. Several tori must have
    one order: ``like`` that of the first by its labels, else by what cables carry and how many.
    """
    devices = sorted(domain.devices, key=natural_sort_key)
    number = {frozenset({device}): place for place, device in enumerate(devices)}
    pairs: dict[_Pair, Edge] = {}
    for one, other, edge in domain.cables:
        if one.behind not in number or other.behind not in number:
            raise InputError(f"cables of {domain.name!r} are neither a ring nor a mesh of units")
        ends = sorted((number[one.behind], number[other.behind]))
        pairs[ends[0], ends[1]] = edge
    if len(pairs) > MOST_CABLES:
        raise InputError(f"{len(pairs)} cables between devices", hint=f"at most {MOST_CABLES}")
    classes = _group_by_label(pairs) or _factors(pairs, len(devices))
    found = sorted(classes, key=lambda one: -_stride(one))
    if like is not None:
        order = like.labels

        def place(one: Sequence[_Pair]) -> tuple[float, ...]:
            label = pairs[one[0]].level
            return order.index(label) if label in order else -1, _fastest_rate(one, pairs), len(one)

        found.sort(key=place)
    axes = [axis for axis in (_walk_circle(one, pairs, len(devices)) for one in found) if axis]
    if len(axes) < len(found):
        raise _irregular_error(domain, pairs, devices)
    places = list(zip(*(axis.places for axis in axes), strict=True))
    sizes = tuple(1 + max(column) for column in zip(*places, strict=True))
    if len(set(places)) < len(places) or int(np.prod(sizes)) != len(devices):
        raise _irregular_error(domain, pairs, devices)
    names = tuple(_name({pairs[pair].level for pair in one}) for one in found)
    wraps = tuple(axis.wraps for axis in axes)
    return Grid(sizes, wraps, names, dict(zip(devices, places, strict=True)))


def _name(labels: set[str]) -> str:
    return labels.pop() if len(labels) == 1 else ""


def natural_sort_key(name: str) -> tuple[object, ...]:
    """Sorts ``gpu10`` after ``gpu9``."""
    parts, word = [], ""
    for letter in name:
        if word and letter.isdigit() != word[-1].isdigit():
            parts.append(word)
            word = ""
        word += letter
    return tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in [*parts, word])


def _stride(pairs: Sequence[_Pair]) -> int:
    """The least difference of the numbers that cables join: the inner dimension has the least."""
    return min(high - low for low, high in pairs)


def _group_by_label(pairs: Mapping[_Pair, Edge]) -> list[list[_Pair]]:
    """Cables by the level that they are said to belong to; none where some are silent."""
    labels: dict[str, list[_Pair]] = {}
    for pair, edge in pairs.items():
        labels.setdefault(edge.level, []).append(pair)
    return list(labels.values()) if "" not in labels and len(labels) > 1 else []


def _factors(pairs: Mapping[_Pair, Edge], devices: int) -> list[list[_Pair]]:
    """Classes of cables that no product splits; squares of alike circles of two joined again."""
    edges = list(pairs)
    apart = _distances(edges, devices)
    part = list(range(len(edges)))
    beside = [set(np.flatnonzero(row == 1).tolist()) for row in apart]
    ends = np.array(edges)
    for index, (x, y) in enumerate(edges):
        across = apart[x, ends[:, 0]] + apart[y, ends[:, 1]]
        along = apart[x, ends[:, 1]] + apart[y, ends[:, 0]]
        for other in np.flatnonzero(across != along).tolist():
            _unite(part, index, other)
    places = {pair: index for index, pair in enumerate(edges)}
    for here in range(devices):
        for one, other in combinations(sorted(beside[here]), 2):
            if other not in beside[one] and beside[one] & beside[other] == {here}:
                first, second = sorted((here, one)), sorted((here, other))
                _unite(part, places[first[0], first[1]], places[second[0], second[1]])
    classes: dict[int, list[_Pair]] = {}
    for index, pair in enumerate(edges):
        classes.setdefault(_find_root(part, index), []).append(pair)
    return _squares(list(classes.values()), pairs, devices)


def _squares(
    classes: list[list[_Pair]], pairs: Mapping[_Pair, Edge], devices: int
) -> list[list[_Pair]]:
    """Two circles of two with the same bandwidths are one circle of four."""
    rest: list[list[_Pair]] = []
    twos: list[list[_Pair]] = []
    for one in classes:
        (twos if 2 * len(one) == devices else rest).append(one)
    twos.sort(key=_stride)
    while len(twos) > 1:
        one, other = twos.pop(0), twos.pop(0)
        alike = _fastest_rate(one, pairs) == _fastest_rate(other, pairs)
        rest += [[*one, *other]] if alike else [one]
        if not alike:
            twos.insert(0, other)
    return [*rest, *twos]


def _fastest_rate(one: Sequence[_Pair], pairs: Mapping[_Pair, Edge]) -> float:
    return max(pairs[pair].bandwidth_bytes_per_second or 0.0 for pair in one)


@dataclass(frozen=True)
class _Axis:
    """The coordinate of each device along one dimension, and whether its ends are joined."""

    places: tuple[int, ...]
    wraps: bool


def _walk_circle(one: Sequence[_Pair], pairs: Mapping[_Pair, Edge], devices: int) -> _Axis | None:
    """One dimension, walked from an end if it has one; None where it is no circle and no line."""
    part = list(range(devices))
    chosen = set(one)
    for pair in pairs:
        if pair not in chosen:
            _unite(part, *pair)
    places = sorted({_find_root(part, device) for device in range(devices)})
    near: dict[int, set[int]] = {place: set() for place in places}
    for low, high in one:
        a, b = _find_root(part, low), _find_root(part, high)
        near[a].add(b)
        near[b].add(a)
    size = len(places)
    ends = [place for place in places if len(near[place]) == 1]
    wraps = not ends or size == 2
    around = [(ends or places)[0]]
    while len(around) < size:
        onward = [place for place in sorted(near[around[-1]]) if place not in around]
        if not onward:
            return None
        around.append(onward[0])
    joined = circle_links(size, wraps)
    if size < 2 or sum(map(len, near.values())) != 2 * joined or len(ends) not in (0, 2):
        return None
    if len(one) != devices // size * joined:
        return None
    number = {place: index for index, place in enumerate(around)}
    return _Axis(tuple(number[_find_root(part, device)] for device in range(devices)), wraps)


def _distances(edges: Sequence[_Pair], devices: int) -> npt.NDArray[np.int64]:
    near: list[list[int]] = [[] for _ in range(devices)]
    for one, other in edges:
        near[one].append(other)
        near[other].append(one)
    found = np.full((devices, devices), devices, dtype=np.int64)
    for start in range(devices):
        found[start, start] = 0
        layer = [start]
        while layer:
            further = []
            for here in layer:
                for there in near[here]:
                    if found[start, there] == devices:
                        found[start, there] = found[start, here] + 1
                        further.append(there)
            layer = further
    return found


def _find_root(part: list[int], one: int) -> int:
    while part[one] != one:
        part[one] = one = part[part[one]]
    return one


def _unite(part: list[int], one: int, other: int) -> None:
    part[_find_root(part, one)] = _find_root(part, other)


def _irregular_error(
    domain: GraphDomain, pairs: Mapping[_Pair, Edge], devices: Sequence[str]
) -> InputError:
    """The error that names the first device whose cables are unlike those of another."""
    cables: dict[str, list[float]] = {device: [] for device in devices}
    for (one, other), edge in pairs.items():
        for end in (one, other):
            cables[devices[end]].append(edge.bandwidth_bytes_per_second or 0.0)
    usual = sorted(cables[devices[0]])
    for device, rates in cables.items():
        if sorted(rates) != usual:
            return InputError(
                f"cables between devices are neither a ring, a mesh nor a torus: {devices[0]!r} "
                f"has {len(usual)} of them, {device!r} {len(rates)}"
                + ("" if len(rates) != len(usual) else " of other bandwidths")
            )
    return InputError(
        f"cables between {len(devices)} devices, {len(usual)} of each, are neither a ring, a mesh "
        "nor a torus"
    )
