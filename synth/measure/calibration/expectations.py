"""What a fit expects of a machine before any row is seen: its ways, and their numbers.

Where media are stated they are what such links reach elsewhere (``apply_typical``), so that rows
which say nothing of a link leave its price as it was. Else hops are the description's, by protocol;
launches those of NCCL's model; a level has all of its bandwidth but what flags take. A level loses
a little with each doubling of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log1p

import numpy as np

from hierarchies import Crossing, Fit, System
from hierarchies.calibration import ANY
from synth.collective.algorithms.algorithms import Algorithm, innermost_network_level
from synth.collective.algorithms.protocols import Protocol
from synth.measure.calibration.prior import Floats, Key
from synth.measure.calibration.typical import apply_typical

LOSS, LOSS_ACROSS, LOSS_INSIDE = 0.03, 0.1, 0.01
"""The part of its bandwidth that each doubling of children is expected to lose: in the network, in
the network where all send to all and cross every tier of it, and inside a node. Rings on B200 lost
2.9 and 3.6 % from 2 to 4 and to 8 nodes, on MI325X none (../shared/data/published)."""
WIRE = 0.1
"""What is left of a hop where messages are sent at once: the rest is in what peers cost."""
LEAST = 1e-9
"""Seconds that a message is expected to take at least: expectations are units, and none is 0."""


def wider_keys(leaves: Sequence[Key], system: System) -> tuple[Key, ...]:
    """Protocols, then algorithms for any collective, then the ways themselves.

    Sending to all at once is always among them: what peers cost no other algorithm tells.
    """
    found: dict[Key, None] = {}
    for protocol in _known_protocols(system):
        found[ANY, ANY, protocol.value] = None
        found[ANY, Algorithm.DIRECT.value, protocol.value] = None
    for key in leaves:
        found[ANY, key[1], key[2]] = None
    for key in leaves:
        found[key] = None
    return tuple(sorted(found, key=lambda key: (bool(key[0]), bool(key[1]))))


def _known_protocols(system: System) -> list[Protocol]:
    """Protocols that at least one link supports."""
    return [
        protocol
        for protocol in Protocol
        if any(protocol.latency_seconds(link) is not None for link in system.links)
    ]


def expected_fit(system: System, key: Key) -> Fit:
    """What a way is priced by before any row of the system is seen, as the fit of a calibration."""
    known = apply_typical(system).calibration
    if found := known and known.fit(*key):
        return found
    protocol = Protocol(key[2])
    levels = tuple(
        Crossing(protocol.latency_seconds(link) or link.latency_seconds, 0.0, protocol.share)
        for link in system.links
    )
    return Fit(key[2], levels, protocol.launch_seconds, key[1], key[0])


def expected_numbers(system: System, key: Key) -> Floats:
    """The launch and those of ``PARTS`` before anything was measured; none is 0.

    Where nothing is known of peers, one is expected to cost what a message of a ring does, by
    whichever protocol: its sender works on one after the other. The hop that is waited for besides
    is then short.
    """
    expected, at_once = expected_fit(system, key), key[1] == Algorithm.DIRECT.value
    hops, inverse, peers = [], [], []
    for link, level in zip(system.links, expected.levels, strict=True):
        peer = level.peer_seconds
        hops.append(max(level.hop_seconds, LEAST) * (WIRE if at_once and not peer else 1.0))
        inverse.append(1 / level.share)
        peers.append(peer or max(link.latency_seconds, LEAST))
    between = innermost_network_level(system)
    outside = LOSS_ACROSS if at_once else LOSS
    lost = [outside if level <= between else LOSS_INSIDE for level in range(len(system.links))]
    losses = [-log1p(-each) for each in lost]
    return np.array([expected.launch_seconds, *hops, *hops, *inverse, *peers, *losses])
