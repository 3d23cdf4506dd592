"""Devices by rank: position, coordinates and groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from hierarchies import InputError, LevelInFull, format_ranges
from synth.ask.answers.degraded import UnevenAnswerPart, UnevenReply
from synth.ask.answers.ranked import PlacedAnswer
from synth.show.report.details import DrawnDevice, answer_at, axes_at
from synth.show.report.topology import Path, coordinates, digits_of, peers, unit_name
from synth.show.terminal.rows import Ranking

_MOST_RUNS = 16
Members = Callable[[DrawnDevice], Sequence[int]]
Matrix = Sequence[Sequence[int]]


@dataclass(frozen=True)
class RankGroup:
    """The group of a device over some axes: its size and its members as ranges."""

    over: Sequence[str]
    size: int
    members: str


@dataclass(frozen=True)
class LocatedDevice:
    """A device that was looked for: its number and digits, its unit as faults name it, its
    coordinate on each axis, and its group over each, and over all that the collective is over.
    """

    rank: int
    device: int
    path: Path
    unit: str
    coordinates: Mapping[str, int]
    groups: Sequence[RankGroup]


@dataclass(frozen=True)
class RankLookup:
    """A rank as it was typed, and its device, or the error."""

    rank: str
    placed: LocatedDevice | None = None
    refused: InputError | None = None

    @property
    def path(self) -> Path:
        """The digits of the device; empty without one."""
        return self.placed.path if self.placed else ()

    @property
    def device(self) -> int | None:
        """The number of the device; None without one."""
        return self.placed.device if self.placed else None


def look_up_rank(rank: str, find: Callable[[str], LocatedDevice]) -> RankLookup:
    """Look up a rank as it was typed; an empty one is not an error."""
    rank = rank.strip()
    if not rank:
        return RankLookup("")
    try:
        return RankLookup(rank, find(rank))
    except InputError as error:
        return RankLookup(rank, refused=error)


def locate_rank(ranking: Ranking, index: int, rank: str) -> LocatedDevice:
    """Return the device of a rank in a row of an answer; ranks count devices host by host, from 0.

    Those of a machine that lacks devices count what is left. Raises InputError for a text that is
    no rank of it, and where there is no such row.
    """
    answer, levels = answer_at(ranking, index), ranking.system.levels
    several = groupings(ranking, index)
    if isinstance(answer, PlacedAnswer):
        return locate_rank_on(levels, list(answer.axes), answer.placement, several, rank)
    assert isinstance(ranking, UnevenReply)
    left = ranking.uneven.devices
    number = _number(rank, len(left))
    path = digits_of(left[number], [level.count for level in levels])
    groups = [_group(over, left) for over in several]
    held = dict(zip(answer.axes, [number], strict=True))
    return LocatedDevice(number, left[number], path, unit_name(levels, path), held, groups)


def locate_rank_on(
    levels: Sequence[LevelInFull],
    axes: Sequence[str],
    matrix: Matrix,
    several: Sequence[Sequence[str]],
    rank: str,
) -> LocatedDevice:
    """Return the device of a rank on a whole machine; ``matrix``, the placement, has a row an axis.

    ``several``: over which axes groups are told. Raises InputError for a text that is no rank.
    """
    counts = [level.count for level in levels]
    device = _number(rank, prod(counts))
    path = digits_of(device, counts)
    at = coordinates(path, matrix)
    groups = [
        _group(over, peers(device, at, matrix, [axes.index(name) for name in over]))
        for over in several
    ]
    held = dict(zip(axes, at, strict=True))
    return LocatedDevice(device, device, path, unit_name(levels, path), held, groups)


def _number(rank: str, devices: int) -> int:
    if not (rank.isascii() and rank.isdecimal() and int(rank) < devices):
        hint = f"ranks are whole numbers from 0 to {devices - 1}"
        raise InputError(f"there is no rank {rank!r}", where="rank", hint=hint)
    return int(rank)


def _group(over: Sequence[str], devices: Sequence[int]) -> RankGroup:
    return RankGroup(over, len(devices), format_ranges(devices, _MOST_RUNS))


def groupings(ranking: Ranking, index: int) -> Sequence[Sequence[str]]:
    """Return the axes of the groups to show: each axis, and all axes of the collective."""
    asked = tuple(axes_at(ranking, index))
    return list(dict.fromkeys([*((axis,) for axis in answer_at(ranking, index).axes), asked]))


def members(
    ranking: Ranking,
    answer: PlacedAnswer | UnevenAnswerPart,
    axes: Sequence[str],
    over: Sequence[str],
) -> Members:
    """Return the members of each device's group; on a machine that lacks devices all devices."""
    if isinstance(ranking, UnevenReply):
        left = ranking.uneven.devices
        return lambda device: left
    assert isinstance(answer, PlacedAnswer)
    along, matrix = [axes.index(axis) for axis in over], answer.placement
    return lambda device: peers(device.number, device.coordinates, matrix, along)
