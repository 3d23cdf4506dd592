"""What every device does, phase by phase: plain data for runtimes, and for the replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from grammar import Collective, Goal, Program
from hierarchies import Devices, Reduction


@dataclass(frozen=True)
class GroupList:
    """Groups one by one, where they are no grid: each has any members, its root first.

    ``shares`` are their buffers as shares of the largest; ``equal``: whether all members of a
    group get, or bring, equal pieces of it. A node of seven GPUs beside one of eight makes such.
    """

    groups: tuple[tuple[int, ...], ...]
    shares: tuple[float, ...]
    equal: bool = True


@dataclass(frozen=True, eq=False)
class Exchange:
    """One collective over groups of devices.

    ``among`` is a grid of shape (number of groups, members) or a list: device ids in member order,
    the first member being the root of a rooted collective. ``size_bytes`` is the larger of a
    member's buffers before and after, in the largest group. In a grid members keep, or bring,
    pieces of one length in their order; of a list ``pieces`` says, for each group and member, which
    of the group's whole buffer those are, by their places there: the schedule's pieces are counted.
    """

    collective: Collective
    among: Devices | GroupList
    size_bytes: int
    pieces: tuple[tuple[tuple[int, ...], ...], ...] | None = None

    @property
    def groups(self) -> Devices:
        """The groups of a grid: lists are not handed out over the axes of a mesh."""
        assert not isinstance(self.among, GroupList)
        return self.among

    @property
    def listed(self) -> list[list[int]]:
        """The groups one by one, whichever form they have."""
        among = self.among
        if isinstance(among, GroupList):
            return [list(group) for group in among.groups]
        return among.tolist()  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class Transpose:
    """A local transpose of the buffers of ``devices``.

    The buffer, seen as an array of ``shape`` and one more dimension for the rest, gets its
    dimensions in the order ``axes``; the rest stays last.
    """

    devices: Devices
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    size_bytes: int


Phase = Exchange | Transpose


@dataclass(frozen=True, eq=False)
class Schedule:
    """What every device does, phase by phase, to carry out a program for a reduction.

    The payload of ``payload_bytes`` is padded so that it can be cut into ``segments`` equal parts
    of ``pieces`` equal ones. Every segment goes through all phases, whose sizes are of one segment;
    phase j of a segment waits for phase j-1 of it and for phase j of the segment before.

    Where the ``goal`` is ``in_pieces`` there are as many pieces as members, of ``piece_bytes`` each
    and the last ones shorter if need be. Each of them is padded for itself, so that the caller's
    pieces are the same for every number of segments, and a segment is a part of every piece.
    """

    program: Program
    reduction: Reduction
    payload_bytes: int
    pieces: int
    phases: tuple[Phase, ...]
    segments: int = 1
    goal: Goal = Goal.ALL_REDUCE

    @property
    def piece_bytes(self) -> int:
        """How much of the payload, not padded, is one member's where the goal is in pieces."""
        return -(-self.payload_bytes // self.pieces)

    @property
    def devices(self) -> int:
        return self.reduction.placement.hierarchy.devices

    @property
    def padded_bytes(self) -> int:
        return padded(self.payload_bytes, self.pieces * self.segments)

    @property
    def segment_bytes(self) -> int:
        return self.padded_bytes // self.segments


def padded(length: int, pieces: int) -> int:
    """The least multiple of ``pieces`` that is not below ``length``."""
    return -(-length // pieces) * pieces


def ends(sizes: Sequence[int], elements: int) -> tuple[int, ...]:
    """Where slices of a payload end that are in the ratios of ``sizes``; the last at its end.

    For sizes 1 and 3 and 9 elements: after 2, and after all 9.
    """
    return tuple(elements * until // sum(sizes) for until in accumulate(sizes))
