"""NCCL's protocols: how a receiver detects arrived data; latency and share of bandwidth.

A description gives each link a latency for each protocol that it and its library support. Prices of
defaults and of programs may use any of them, so that neither has an advantage. Every call of a
collective also costs a launch, by NCCL's model 6.6 to 14 us: each step of a program is a call, and
so is each segment of each step.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from hierarchies import Link


class Protocol(Enum):
    """The protocols, by the names NCCL gives them.

    Simple: a flag after the data, at full bandwidth. LL: a flag of 4 bytes with every 4 of data.
    LL128: 8 bytes of flags in every 128. (NCCL's prims_ll.h and prims_ll128.h; Hu et al.,
    Demystifying NCCL, 2025.)
    """

    SIMPLE = "simple"
    LL = "ll"
    LL128 = "ll128"

    @property
    def share(self) -> float:
        """The share of carried bytes that is data."""
        return {Protocol.SIMPLE: 1.0, Protocol.LL: 1 / 2, Protocol.LL128: 120 / 128}[self]

    @property
    def launch_seconds(self) -> float:
        """Seconds that NCCL's model adds to each call (v2.28.7-1, src/graph/tuning.cc)."""
        return {Protocol.SIMPLE: 8.4e-6, Protocol.LL: 6.6e-6, Protocol.LL128: 14.0e-6}[self]

    def latency_seconds(self, link: Link) -> float | None:
        """Seconds of one message over a link; None where the link lacks the protocol."""
        match self:
            case Protocol.SIMPLE:
                return link.latency_seconds
            case Protocol.LL:
                return link.ll_latency_seconds
            case Protocol.LL128:
                return link.ll128_latency_seconds

    def seconds(self, link: Link) -> float:
        """``latency_seconds`` of a protocol that the link is known to have."""
        latency = self.latency_seconds(link)
        assert latency is not None
        return latency


def protocols(links: Iterable[Link]) -> tuple[Protocol, ...]:
    """The protocols that all these links support; Simple is always the first."""
    links = tuple(links)
    return tuple(p for p in Protocol if None not in map(p.latency_seconds, links))
