"""The work of every device, phase by phase: plain data for runtimes and for the replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from grammar import Collective, Goal, Program
from grammar.tensors.sharding import ReductionKind
from hierarchies import Devices, InputError, Reduction


@dataclass(frozen=True)
class GroupList:
    """Groups listed one by one because they form no grid: a node of 7 GPUs and another of 8.

    A group has any number of members, its root first. ``shares`` are the groups' buffers as shares
    of the largest; ``equal``: whether all members of a group receive, or contribute, equal pieces
    of it.
    """

    groups: tuple[tuple[int, ...], ...]
    shares: tuple[float, ...]
    equal: bool = True


@dataclass(frozen=True, eq=False)
class Exchange:
    """One collective over groups of devices, all groups at once.

    ``among`` is a grid of shape (number of groups, members) or a list: device ids in member order,
    the first member being the root of a rooted collective. ``size_bytes`` is the larger of a
    member's buffers before and after, in the largest group. In a grid members keep, or contribute,
    pieces of one length in their order. In a list lengths may differ: ``pieces`` has, for each
    group and member, the places of its pieces in the group's whole buffer, counted in the
    schedule's pieces from 0.
    """

    collective: Collective
    among: Devices | GroupList
    size_bytes: int
    pieces: tuple[tuple[tuple[int, ...], ...], ...] | None = None

    @property
    def groups(self) -> Devices:
        """The groups of a grid; lists cannot be mapped to the axes of a mesh."""
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

    Each buffer is an array of ``shape`` with one more dimension for the elements of a block. As in
    numpy's transpose, ``axes`` gives the new order of the dimensions; the blocks stay last.
    """

    devices: Devices
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    size_bytes: int


Phase = Exchange | Transpose


@dataclass(frozen=True, eq=False)
class Schedule:
    """The work of every device, phase by phase, to execute a program for a reduction.

    The payload of ``payload_bytes`` is padded so that it can be cut into ``segments`` equal parts,
    and each of these into ``pieces`` equal pieces. Every segment goes through all phases, whose
    sizes are those of one segment. Phase j of a segment waits for phase j-1 of the same segment and
    for phase j of the segment before.

    Where the ``goal`` is ``in_pieces``, as an all-gather's is, there is a piece for each member,
    and the last piece may be shorter. Each piece is padded by itself, and a segment is a part of
    every piece, so the caller's pieces do not depend on the segments.

    ``op`` is the reduction operation. The operation must not depend on the order of operands, and
    proofs show that no contribution counts twice, so a program for one operation serves all. Raises
    InputError for an operation other than the sum where nothing is reduced.
    """

    program: Program
    reduction: Reduction
    payload_bytes: int
    pieces: int
    phases: tuple[Phase, ...]
    segments: int = 1
    goal: Goal = Goal.ALL_REDUCE
    op: ReductionKind = ReductionKind.SUM

    def __post_init__(self) -> None:
        if self.op is not ReductionKind.SUM and not self.goal.reduces:
            able = ", ".join(goal.value for goal in Goal if goal.reduces)
            problem = f"{self.op.value}, and of {self.goal.value} nothing is reduced"
            raise InputError(problem, hint=f"these reduce: {able}")

    @property
    def given_pieces(self) -> int:
        """The number of the caller's pieces in a device's buffer at the start."""
        return self.pieces if self.goal.scatters else 1

    @property
    def result_pieces(self) -> int:
        """The number of the caller's pieces in a device's result."""
        return self.pieces if self.goal.gathers or self.goal.apart else 1

    @property
    def devices(self) -> int:
        return self.reduction.placement.hierarchy.devices

    @property
    def padded_bytes(self) -> int:
        return pad_length(self.payload_bytes, self.pieces * self.segments)

    @property
    def segment_bytes(self) -> int:
        return self.padded_bytes // self.segments


def pad_length(length: int, pieces: int) -> int:
    """The least multiple of ``pieces`` that is not below ``length``."""
    return -(-length // pieces) * pieces


def slice_ends(sizes: Sequence[int], elements: int) -> tuple[int, ...]:
    """Where each slice ends when a payload is cut in the ratios of ``sizes``.

    For sizes 1 and 3 and 9 elements: after 2, and after all 9.
    """
    return tuple(elements * total // sum(sizes) for total in accumulate(sizes))
