"""The initial and the required final contents of a plan's buffers, as the judge defines them.

These definitions are independent of the code that writes plans, so that both do not share a
mistake. A value is a chunk and the contributing ranks as a bit set. The chunks of an all-gather are
those of its output, all others those of the input: in an all-to-all of three ranks, rank 2 ends
with chunk 2 of rank 0, of rank 1 and its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from synth.collective.emit.mscclpp.reading import require

Value = tuple[int, int]
"""A chunk, and the ranks that contributed to it."""

IN_PLACE = {"allreduce": True, "reducescatter": False, "allgather": False, "alltoall": False}
"""The collectives that are judged, by the executor's names, and whether they are in place."""


def initial_input(collective: str, members: Sequence[int], rank: int, chunks: int) -> list[Value]:
    """Returns the contents of a rank's input of ``chunks`` chunks when a plan is launched."""
    first = members.index(rank) * chunks if collective == "allgather" else 0
    return [(first + chunk, 1 << rank) for chunk in range(chunks)]


def expected_output(collective: str, members: Sequence[int], rank: int, chunks: int) -> list[Value]:
    """Returns the required final contents of its output; ``chunks`` are those of the input."""
    everyone = sum(1 << member for member in members)
    place, count = members.index(rank), len(members)
    if collective == "allreduce":
        return [(chunk, everyone) for chunk in range(chunks)]
    if collective == "allgather":
        return [
            value for rank in members for value in initial_input(collective, members, rank, chunks)
        ]
    require(chunks % count == 0, f"rank {rank}: {chunks} chunks for {count} members")
    size = chunks // count
    own = range(place * size, (place + 1) * size)
    if collective == "reducescatter":
        return [(chunk, everyone) for chunk in own]
    return [(chunk, 1 << member) for member in members for chunk in own]
