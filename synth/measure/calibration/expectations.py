"""The expectations of a fit before any row is seen: ways, and their numbers.

Where media are stated, they are what such links reach elsewhere (``apply_typical``), so that rows
without information on a link leave its price unchanged. Otherwise hops are the description's, by
protocol; launches those of NCCL's model; a level has all of its bandwidth but what flags take. A
level loses a little with each doubling of nodes.
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
"""The expected loss of bandwidth for each doubling of children: in the network, in the network if
all send to all and cross every tier of it, and inside a node. Rings on B200 lost 2.9 and 3.6 % from
2 to 4 and to 8 nodes, on MI325X none (../shared/data/published).
"""
WIRE = 0.1
"""The share of a hop that remains where messages are sent at once; peers cost the rest."""
LEAST = 1e-9
"""The least expected seconds of a message: expectations are units, so none may be 0."""


def wider_keys(leaves: Sequence[Key], system: System) -> tuple[Key, ...]:
    """Returns protocols, then algorithms for any collective, then the ways themselves.

    Sending to all at once is always included: no other algorithm determines the cost of peers.
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
    """Returns protocols that at least one link supports."""
    return [
        protocol
        for protocol in Protocol
        if any(protocol.latency_seconds(link) is not None for link in system.links)
    ]


def expected_fit(system: System, key: Key) -> Fit:
    """Returns the price of a way before any row of the system is seen, as a calibration's fit."""
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
    """Returns the launch and the numbers of ``PARTS`` before any measurement; none is 0.

    If nothing is known of peers, one is expected to cost as much as a message of a ring, by
    whichever protocol: its sender works on one after another. The additional hop is then short.
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
    losses = [-log1p(-share) for share in lost]
    return np.array([expected.launch_seconds, *hops, *hops, *inverse, *peers, *losses])
