"""A prior for the fit: the similarities of ways, so that measured ways inform the others.

Rounds of a ring or a tree reduce or copy, and an all-reduce has equal numbers of both kinds. Chains
and trees from or to a root send in one direction, all other algorithms in both directions at once.
The additional cost of a kind of rounds is a *trait*, the same for every collective that has them:

    way = its algorithm + the sum of its traits + its own deviation

Each term has a spread about 0 before any row is seen (partial pooling: Gelman and Hill, Data
Analysis Using Regression, 2006). Numbers are per message and per byte on the wire. An all-reduce
has the messages and bytes of a reduce-scatter and an all-gather together, so its numbers are their
mean. If one direction is cheaper than both, the medium may be half-duplex. In back-to-back calls,
as in benchmarks, a chain overlaps several calls where a ring waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log1p

import numpy as np
import numpy.typing as npt

from grammar import Collective
from hierarchies import Crossing, Fit, System
from hierarchies.calibration import ANY
from synth.collective.algorithms.algorithms import RECIPES, Algorithm, innermost_network_level
from synth.collective.algorithms.protocols import Protocol
from synth.measure.calibration.measurements import SEND_RECEIVE
from synth.measure.calibration.typical import apply_typical

Floats = npt.NDArray[np.float64]
Key = tuple[str, str, str]

TRAITS = {
    Collective.ALL_REDUCE.value: {"both ways": 1.0, "reducing": 0.5, "copying": 0.5},
    Collective.REDUCE_SCATTER.value: {"both ways": 1.0, "reducing": 1.0},
    Collective.ALL_GATHER.value: {"both ways": 1.0, "copying": 1.0},
    Collective.REDUCE.value: {"one way": 1.0, "reducing": 1.0},
    Collective.BROADCAST.value: {"one way": 1.0, "copying": 1.0},
    Collective.ALL_TO_ALL.value: {"both ways": 1.0, "copying": 1.0},
    SEND_RECEIVE: {"both ways": 1.0, "copying": 1.0},
}
"""For each collective, the fraction of its rounds that has a trait."""
PARTS = ("hop", "share", "peer", "loss")
"""The fitted numbers of each level, in the order of their columns, which follow the launch's."""
PROTOCOL, ALGORITHM = (1.0, 1.0, 1.0, 1.0, 1.0), (0.5, 1.0, 0.3, 1.0, 1.0)
"""Expected deviations of launch, hop, inverse share, peer and loss, as fractions of the
description (for a peer, of the hop). PROTOCOL has those of a protocol from the
description, ALGORITHM those of an algorithm from its protocol."""
SPREADS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("one way", "both ways"), (0.5, 0.5, 0.3, 0.5, 0.5)),
    **dict.fromkeys(("reducing", "copying"), (0.2, 0.2, 0.2, 0.2, 0.2)),
}
"""Expected deviations of these five numbers by a trait, in the same fractions."""
OWN, ALONE = (0.3, 0.3, 0.1, 0.3, 0.5), (0.5, 0.5, 0.2, 0.5, 0.5)
"""Expected deviations of a way from its algorithm plus traits (OWN), or without traits (ALONE)."""


NOISE = ((0, 0.15), (1 << 16, 0.10), (1 << 24, 0.05))
"""Pairs of a size in bytes and the expected relative error of rows from that size on."""


def noise(size_bytes: int) -> float:
    """Returns the expected relative error of a row."""
    return max((least, error) for least, error in NOISE if least <= size_bytes)[1]


def part_of_column(column: int, levels: int) -> int:
    """Returns the kind of a column of unknowns: 0 for launch, else 1 + its index in ``PARTS``."""
    return 0 if column == 0 else 1 + (column - 1) // levels


def expected_prior(keys: Sequence[Key], what: int) -> tuple[Floats, Floats]:
    """Returns the prior of all ways by one protocol, before any row, as a matrix and a vector.

    The entries of matrix x numbers - vector are independent with spread 1. ``what`` selects the
    numbers (see ``part_of_column``). The keys must contain the algorithm and the protocol of each
    way.
    """
    place = {key: number for number, key in enumerate(keys)}
    rows, wanted = np.zeros((len(keys), len(keys))), np.zeros(len(keys))
    for key, number in place.items():
        rows[number, number] = 1.0
        if key[0] or key[1]:
            rows[number, place[_generalize_key(key)]] = -1.0
        if not key[0]:
            spread = (ALGORITHM if key[1] else PROTOCOL)[what]
            rows[number] /= spread
            wanted[number] = float(not key[1]) / spread
    ways = [key for key in keys if key[0]]
    if ways:
        places = [place[way] for way in ways]
        apart = np.linalg.cholesky(np.linalg.inv(_covariance(ways, ways, what))).T
        rows[places] = apart @ rows[places]
    return rows, wanted


def unmeasured_ways(
    keys: Sequence[Key], unknowns: Floats, lowest: Floats
) -> Iterator[tuple[Key, Floats]]:
    """Yields ways that no row can have taken, with expected numbers.

    At least one row used their algorithms. ``unknowns`` are the fitted numbers, one row for each
    key, ``lowest`` their lower bounds, equal for all ways by one protocol. The expectation is
    conditional on all ways by the same protocol.
    """
    for _, algorithm, protocol in [key for key in keys if key[1] and not key[0]]:
        siblings = [key for key in keys if key[2] == protocol]
        known = np.array([unknowns[keys.index(key)] for key in siblings])
        for collective, recipe_algorithm in RECIPES:
            key = collective.value, algorithm, protocol
            if recipe_algorithm.value == algorithm and key not in siblings:
                yield (
                    key,
                    np.maximum(
                        _conditional_mean(key, siblings, known),
                        lowest[keys.index(_generalize_key(key))],
                    ),
                )


def _conditional_mean(key: Key, others: Sequence[Key], known: Floats) -> Floats:
    """Returns a way's conditional expectation given the others, under a normal distribution."""
    levels = (known.shape[1] - 1) // len(PARTS)
    place = {other: number for number, other in enumerate(others)}
    ways = [other for other in others if other[0]]
    strayed = np.array([known[place[way]] - known[place[_generalize_key(way)]] for way in ways])
    found: Floats = known[place[_generalize_key(key)]].copy()
    if not ways:
        return found
    for column in range(len(found)):
        what = part_of_column(column, levels)
        weights = np.linalg.solve(_covariance(ways, ways, what), _covariance(ways, [key], what))
        found[column] += weights[:, 0] @ strayed[:, column]
    return found


def _generalize_key(key: Key) -> Key:
    """Returns the next more general key.

    It is an algorithm for any collective, or a protocol for any algorithm.
    """
    return ANY, key[1] if key[0] else ANY, key[2]


def _covariance(ways: Sequence[Key], others: Sequence[Key], what: int) -> Floats:
    """Returns covariances of ways' deviations from their algorithms, shape (ways, others)."""
    spreads = np.array([spread[what] for spread in SPREADS.values()])
    found = (_weights(ways) * spreads) @ (_weights(others) * spreads).T
    for row, way in enumerate(ways):
        own = (OWN if _has_traits(way) else ALONE)[what]
        found[row] += [own**2 * (way == other) for other in others]
    return np.asarray(found)


def _weights(ways: Sequence[Key]) -> Floats:
    return np.array(
        [[TRAITS[way[0]].get(trait, 0.0) * _has_traits(way) for trait in SPREADS] for way in ways]
    )


def _has_traits(way: Key) -> bool:
    """Whether a way has traits: in-network ways have none, because switches reduce and copy."""
    return way[1] != Algorithm.IN_NETWORK.value


LOSS, LOSS_ACROSS, LOSS_INSIDE = 0.03, 0.1, 0.01
"""The expected loss of bandwidth for each doubling of children: in the network, in the network for
all-to-all traffic that crosses every tier, and inside a node. Rings on B200 lost 2.9 and 3.6 % from
2 to 4 and to 8 nodes, rings on MI325X none (../shared/data/published).
"""
WIRE = 0.1
"""The share of a hop that remains if messages are concurrent; the cost of peers is the rest."""
LEAST = 1e-9
"""The least expected seconds of a message. Expectations serve as units, so none may be 0."""


def wider_keys(leaves: Sequence[Key], system: System) -> tuple[Key, ...]:
    """Returns protocols, then algorithms for any collective, then the ways themselves.

    The direct algorithm is always included: no other algorithm determines the cost of peers.
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
    """Returns the price of a way before any row of the system is seen, as a calibration's fit.

    Where media are stated, it is the price that such links reach elsewhere (``apply_typical``), so
    that rows without information about a link leave its price unchanged. Otherwise hops are the
    description's, by protocol, launches are those of NCCL's model, and levels have their whole
    bandwidth except the share of flags.
    """
    known = apply_typical(system).calibration
    if found := known and known.fit(*key):
        return found
    protocol = Protocol(key[2])
    levels = tuple(
        Crossing(protocol.latency_seconds(link) or link.latency_seconds, protocol.share)
        for link in system.links
    )
    return Fit(key[2], levels, protocol.launch_seconds, key[1], key[0])


def expected_numbers(system: System, key: Key) -> Floats:
    """Returns the launch and the numbers of ``PARTS`` before any measurement; none is 0.

    If the cost of peers is unknown, a peer is expected to cost as much as a message of a ring, by
    any protocol, because the sender serves peers one after another. The additional hop is then
    short.
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
    return np.array([expected.launch_seconds, *hops, *inverse, *peers, *losses])
