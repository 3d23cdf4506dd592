"""One device by its rank: where it is, which coordinates it has, and with which others it works."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from hierarchies import InputError, ranges
from synth.report.coordinates import coordinates, peers
from synth.report.details import Device, answer_at, over_at
from synth.report.topology import Path, digits_of, unit_name
from synth.tables.rows import Ranking
from synth.verbs.answers.degraded import UnevenAnswer, UnevenReply
from synth.verbs.answers.ranked import Answer

_MOST_RUNS = 16
Members = Callable[[Device], Sequence[int]]


@dataclass(frozen=True)
class Group:
    """Those with whom a device works over some axes: how many, and their numbers in few words."""

    over: Sequence[str]
    size: int
    members: str


@dataclass(frozen=True)
class Placed:
    """A device that was looked for: its number and digits, its unit as faults name it, its
    coordinate on each axis, and its group over each, and over all that the collective is over.
    """

    rank: int
    device: int
    path: Path
    unit: str
    coordinates: Mapping[str, int]
    groups: Sequence[Group]


def placed(ranking: Ranking, index: int, rank: str) -> Placed:
    """The device of a rank in a row of an answer; ranks count devices host by host, from 0.

    Those of a machine that lacks devices count what is left. Raises InputError for a text that is
    no rank of it, and where there is no such row.
    """
    counts = [level.count for level in ranking.system.levels]
    left = ranking.uneven.devices if isinstance(ranking, UnevenReply) else range(prod(counts))
    hint = f"ranks are whole numbers from 0 to {len(left) - 1}"
    if not (rank.isascii() and rank.isdecimal() and int(rank) < len(left)):
        raise InputError(f"there is no rank {rank!r}", where="rank", hint=hint)
    answer, device = answer_at(ranking, index), left[int(rank)]
    path = digits_of(device, counts)
    at = coordinates(path, answer.placement) if isinstance(answer, Answer) else (int(rank),)
    found = Device(device, unit_name(ranking.system.levels, path), at)
    groups = []
    for over in groupings(ranking, index):
        together = members(ranking, answer, list(answer.axes), over)(found)
        groups.append(Group(over, len(together), ranges(together, _MOST_RUNS)))
    held = dict(zip(answer.axes, at, strict=True))
    return Placed(int(rank), device, path, found.name, held, groups)


def groupings(ranking: Ranking, index: int) -> Sequence[Sequence[str]]:
    """Over what groups are told: each axis, and all that the collective is over."""
    asked = tuple(over_at(ranking, index))
    return list(dict.fromkeys([*((one,) for one in answer_at(ranking, index).axes), asked]))


def members(
    ranking: Ranking, answer: Answer | UnevenAnswer, axes: Sequence[str], over: Sequence[str]
) -> Members:
    """All that a device works with over some axes; on a machine that lacks devices all others."""
    if isinstance(ranking, UnevenReply):
        left = ranking.uneven.devices
        return lambda one: left
    assert isinstance(answer, Answer)
    along, matrix = [axes.index(one) for one in over], answer.placement
    return lambda one: peers(one.number, one.coordinates, matrix, along)
