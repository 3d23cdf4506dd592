"""Prices of collectives over groups that are no grids: lines, as for those that are.

A group may have any number of members in any unit; ``collectives.link_loads`` says what that puts
on each link. For groups that are grids this is what ``price.simulator`` says. Recursive halving is
not offered: it wants powers of two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from grammar import Collective
from hierarchies import Devices, Domain, InputError, System
from hierarchies.links import Floats, Wiring
from synth.collectives.algorithms import RECIPES, Algorithm, Choice
from synth.collectives.link_loads import Loads, carried_by_link
from synth.collectives.protocols import protocols
from synth.collectives.slowest_links import by_level
from synth.collectives.traffic import Shape
from synth.price.ways import Line, Way


def check_linked(system: System) -> None:
    """Refuse machines on which messages would pass through devices that are missing. InputError."""
    for level, link in zip(system.hierarchy.levels, system.links, strict=True):
        if link.domain in (Domain.RING, Domain.TORUS):
            raise InputError(
                f"level {level.name!r} is a {link.domain.value}: messages pass through its devices",
                hint="without some of them the ring is broken; describe what is left of it",
            )


def lines_of(
    collective: Collective,
    groups: Sequence[Devices],
    wiring: Wiring,
    choice: Choice = Choice.AUTO,
    *,
    equal: bool = True,
    sizes: Sequence[float] | None = None,
) -> tuple[Line, ...]:
    """What one collective over groups costs by each algorithm and protocol, all groups at once.

    As lines in the size of the largest buffer; ``sizes`` are those of the groups in shares of it.
    Where pieces are not ``equal``, a ring's edge is taken to carry a whole buffer, which it never
    exceeds. The groups' roots are their first members. Those of one member do nothing.
    """
    shares = np.array([1.0] * len(groups) if sizes is None else sizes)
    some = [i for i, group in enumerate(groups) if len(group) > 1]
    none = np.zeros(0, dtype=np.int64)
    counts = np.array([len(groups[i]) for i in some], dtype=np.int64)
    shape = Shape(
        wiring.system.hierarchy, counts, np.concatenate([none, *(groups[i] for i in some)])
    )
    found: list[Line] = []
    for algorithm in _offered(collective, shape, wiring.system, choice, equal):
        found += _lines(Loads(collective, algorithm, shape, wiring, equal), shares[some])
    return tuple(found)


def _offered(
    collective: Collective, shape: Shape, system: System, choice: Choice, equal: bool
) -> list[Algorithm]:
    links = [system.links[level] for level in shape.spans]
    has_tree = (collective, Algorithm.TREE) in RECIPES
    found = [Algorithm.RING]
    if has_tree:
        found.append(Algorithm.TREE)
    if (collective, Algorithm.DIRECT) in RECIPES and equal:
        found.append(Algorithm.DIRECT)
    reducing = [link.reduces for link in links]
    if links and equal and (any(reducing) if has_tree else all(reducing)):
        found.append(Algorithm.IN_NETWORK)
    if choice is Choice.AUTO:
        return found
    wanted = Algorithm(choice.value)
    return [wanted] if wanted in found else [Algorithm.RING]


def _lines(loads: Loads, shares: Floats) -> Iterator[Line]:
    """One a protocol; the group that waits longest decides how long is waited."""
    shape, wiring, system = loads.shape, loads.wiring, loads.wiring.system
    entries = [(whose, link, each * shares[whose]) for whose, link, each in loads.entries()]
    carried = carried_by_link(entries, wiring)
    touched = float((loads.touched() * shares).max(initial=0.0))
    recipe = RECIPES[loads.collective, loads.algorithm]
    ways = [
        Way(
            loads.collective.value,
            loads.algorithm,
            tuple(level for level, n in enumerate(waits) if n),
            by_level(wiring, carried),
            by_level(wiring, carried / wiring.bandwidths),
            (1,) * len(waits),
            waits,
            touched / system.memory_bytes_per_second,
            (),
            peers,
            recipe.spared,
            recipe.at_once,
            in_a_row,
        )
        for waits, peers, in_a_row in _waiting(loads)
    ]
    known = protocols(system.links[level] for level in shape.spans)
    fitted = system.calibration and system.calibration.protocols
    for protocol in known[:1] if loads.algorithm is Algorithm.IN_NETWORK else known:
        if not fitted or protocol.value in fitted:
            lines = [way.line(system, protocol) for way in ways]
            yield max(lines, key=lambda line: line.latency_seconds + line.gap_seconds)


def _waiting(loads: Loads) -> set[tuple[tuple[float, ...], tuple[float, ...], int]]:
    """How groups wait, each way once: messages that wait for each other, and that one sends, over
    each level; how many members are in a row in the innermost.
    """
    shape, groups = loads.shape, len(loads.shape.sizes)
    waits = np.array([loads.waits(level) for level in range(len(shape.levels))])
    peers = np.zeros_like(waits)
    in_a_row = np.ones(groups, dtype=np.int64)
    for level, at in enumerate(shape.levels):
        np.maximum.at(peers[level], shape.whose, at.inside[at.parent] - at.p)
        most = np.ones(groups, dtype=np.int64)
        np.maximum.at(most, at.owner, at.m)
        in_a_row = np.where(most > 1, most, in_a_row)
    rows = zip(waits.T.tolist(), peers.T.tolist(), in_a_row.tolist(), strict=True)
    return {(tuple(waited), tuple(sent), row) for waited, sent, row in rows}
