"""The places of a collective's chunks at the start, and their required places at the end.

An all-reduce is in place: every rank's value of chunk c has its home at index c of its input. Other
collectives leave the input unchanged, as callers of NCCL expect, and their results have their homes
in the output; for a reduce-scatter only the rank's own piece. Values without a home go to scratch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from grammar import Goal
from synth.collective.semantics.schedule import Schedule

INPUT, OUTPUT, SCRATCH = "i", "o", "s"
BUFFERS = (INPUT, OUTPUT, SCRATCH)
# Above every index, as offsets have 32 bits: a place is a buffer times SPAN, plus an index.
SPAN = 2**32

Numbers = npt.NDArray[np.int64]

NAMES: Mapping[Goal, str] = {
    Goal.ALL_REDUCE: "allreduce",
    Goal.REDUCE_SCATTER: "reducescatter",
    Goal.ALL_GATHER: "allgather",
    Goal.ALL_TO_ALL: "alltoall",
}
REFUSED: Mapping[Goal, str] = {
    Goal.REDUCE: "MSCCL++ has no such collective",
    Goal.BROADCAST: "MSCCL++ chooses a plan by its collective, whichever rank is the root",
}


def place_number(buffer: str, index: int = 0) -> int:
    """Returns a buffer's index as one number, so that adjacent places differ by 1."""
    return BUFFERS.index(buffer) * SPAN + index


@dataclass(frozen=True)
class Homes:
    """The buffers of a collective over ``members``, cut into chunks.

    A member's piece, or everything if there are no pieces, has ``own`` chunks; input and output
    have ``given`` and ``got`` pieces. Values are identified by labels: in an all-to-all one for
    each chunk and each member it comes from, otherwise one for each chunk.
    """

    goal: Goal
    members: int
    own: int
    given: int
    got: int

    @property
    def inplace(self) -> bool:
        return self.goal is Goal.ALL_REDUCE

    @property
    def inputs(self) -> int:
        """The chunks of the input."""
        return self.own * self.given

    @property
    def outputs(self) -> int:
        return self.own * self.got

    @property
    def message(self) -> int:
        """The chunks of the buffer that the executor counts as the size of a message."""
        return self.outputs if self.goal.gathers else self.inputs

    @property
    def labels(self) -> int:
        return self.inputs * self.members if self.goal.apart else self.message

    def first(self, rank: int, order: Numbers) -> Numbers:
        """Returns the labels of a rank's input, and below them their places.

        The input's pieces are in the order of ranks, a schedule's in that of members;
        ``order`` has the rank of each member.
        """
        chunks = np.arange(self.inputs)
        if self.given > 1:
            chunks = chunks.reshape(self.given, self.own)[order].reshape(-1)
        labels = chunks
        if self.goal.gathers:
            labels = rank * self.own + chunks
        elif self.goal.apart:
            labels = chunks * self.members + rank
        return np.stack([labels, place_number(INPUT) + chunks])

    def of(self, rank: int, labels: Numbers) -> Numbers:
        """Returns the homes of labels on a rank; -1 for labels without a home there."""
        if self.inplace:
            return place_number(INPUT) + labels
        if self.goal.gathers:
            return place_number(OUTPUT) + labels
        chunks, came = np.divmod(labels, self.members if self.goal.apart else 1)
        owner, within = np.divmod(chunks, self.own)
        return np.where(owner == rank, place_number(OUTPUT) + came * self.own + within, -1)


def homes(schedule: Schedule, chunks: int) -> Homes:
    """Returns the homes of a schedule's values, with its payload cut into ``chunks``."""
    goal = schedule.goal
    own = chunks // schedule.pieces if goal.in_pieces else chunks
    members = schedule.reduction.tree.devices
    return Homes(goal, members, own, schedule.given_pieces, schedule.result_pieces)
