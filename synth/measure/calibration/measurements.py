"""Measurements: one collective over a range of sizes, among equal groups of ranks."""

from __future__ import annotations

from dataclasses import dataclass

SEND_RECEIVE = "send-receive"
"""nccl-tests' sendrecv: every rank sends to the next one of a circle."""
FEWEST_SIZES = 3
"""Sizes of one collective among the same groups: two fit a line, and a third judges it."""


@dataclass(frozen=True)
class Sample:
    """One row: a size as the tests count it (the largest buffer of a rank), and its seconds."""

    size_bytes: int
    seconds: float
    in_place: bool = False


Configuration = tuple[str, tuple[int, ...], str | None, str | None, tuple[str, ...]]


@dataclass(frozen=True)
class Measurement:
    """One collective by one algorithm, timed among groups of ranks that run at once.

    ``collective`` is a name of ``grammar.Goal``, or ``send-receive``. ``members`` has, for each
    level of the system and outermost first, how many of its children contain ranks of one
    group: (2, 8) are 16 ranks on two nodes of eight, (2, 1) the groups of ranks with the same
    place in both nodes. ``busy`` is the same for all ranks that took part, so (2, 8) for these
    groups too. ``algorithm`` and ``protocol`` are what the runtime was forced to, None where it
    chose. ``without`` are algorithms that it could not choose, by NCCL's names. ``source``
    names the file or publication.
    """

    collective: str
    members: tuple[int, ...]
    busy: tuple[int, ...]
    samples: tuple[Sample, ...]
    algorithm: str | None = None
    protocol: str | None = None
    source: str = ""
    without: tuple[str, ...] = ()

    @property
    def configuration(self) -> Configuration:
        """What repeated runs of the same test have in common."""
        return self.collective, self.members, self.algorithm, self.protocol, self.without
