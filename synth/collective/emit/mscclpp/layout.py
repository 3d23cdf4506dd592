"""Divides the work of a GPU into threadblocks, and limits message sizes to the format's."""

from __future__ import annotations

from dataclasses import dataclass

from synth.collective.emit.mscclpp.blocks import Window
from synth.collective.emit.mscclpp.moves import GroupMessages
from synth.collective.emit.source import CannotExpressError, EmitSource
from synth.collective.semantics.schedule import pad_length

ALIGNMENT = 16
MOST_BYTES = 2**32 - 1
SPARE_SCRATCH_BYTES = 2**26
MOST_BLOCKS = 64
MOST_BLOCKS_OF_ALL = 2048
BYTES_PER_COPY = 2**18
MOST_COPIES = 8
MOST_RANK_COPIES = 32


@dataclass(frozen=True)
class BlockLayout:
    """The division of a GPU's work into threadblocks.

    The payload is cut into ``copies``, processed concurrently for speed; each copy's chunks are cut
    into ``lanes`` if one threadblock would exceed a limit of the format. All threadblocks of a GPU
    must run at once, or a threadblock could wait for a peer that never runs; so there are at most
    ``MOST_BLOCKS``, fewer than any such GPU has processors. ``MOST_BLOCKS_OF_ALL`` and
    ``MOST_RANK_COPIES`` limit the proof's time.
    """

    copies: int
    lanes: int


def numbers_of_lanes(source: EmitSource, chunks: int) -> list[int]:
    """Returns the possible numbers of lanes, fewest first."""
    most = min(chunks, MOST_BLOCKS, max(1, MOST_BLOCKS_OF_ALL // source.schedule.devices))
    return [lanes for lanes in range(1, most + 1) if chunks % lanes == 0]


def copies_of(source: EmitSource, lanes: int) -> int:
    """Returns how many copies are worthwhile: one threadblock moves a few tens of GB/s."""
    most = min(MOST_COPIES, MOST_BLOCKS // lanes, MOST_RANK_COPIES // source.schedule.devices)
    copies = 1
    while 2 * copies <= most and source.schedule.payload_bytes >= 2 * copies * BYTES_PER_COPY:
        copies *= 2
    return copies


def windows_of(found: GroupMessages, layout: BlockLayout) -> list[Window]:
    """Returns the windows of all threadblocks of a GPU, those of the first copy first."""
    size = found.homes.labels // layout.lanes
    own = found.homes.own
    return [
        Window(lane * size, (lane + 1) * size, copy, layout.copies, (own, own, max(found.scratch)))
        for copy in range(layout.copies)
        for lane in range(layout.lanes)
    ]


def message_sizes(source: EmitSource, found: GroupMessages, layout: BlockLayout) -> tuple[int, int]:
    """Returns the smallest and largest message. Raises CannotExpressError beyond 32-bit offsets."""
    chunks, scratch = found.homes.message * layout.copies, max(found.scratch) * layout.copies
    payload = pad_length(source.schedule.payload_bytes, chunks * ALIGNMENT)

    def largest(bytes_of_scratch: int) -> int:
        chunk = min(MOST_BYTES // chunks, bytes_of_scratch // max(1, scratch))
        return chunk // ALIGNMENT * ALIGNMENT * chunks

    if payload > largest(MOST_BYTES):
        need = f"{payload} bytes and {payload // chunks * scratch} of scratch"
        raise CannotExpressError(f"{need}: offsets have 32 bits", where="payload")
    spare = SPARE_SCRATCH_BYTES * found.homes.inputs // found.homes.message
    return ALIGNMENT * chunks, max(payload, largest(spare))
