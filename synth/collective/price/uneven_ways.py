"""The ways of an algorithm among groups that form no grid: nodes of seven and of eight GPUs.

A grid has one ``AlgorithmWay``, as its groups are alike. In a list the loads of all groups add up
on the links, and each group waits for its own messages: there is one way for each distinct kind of
waiting. For groups that form a grid both computations agree.
"""

from __future__ import annotations

import numpy as np

from hierarchies import System
from synth.collective.algorithms.algorithms import RECIPES
from synth.collective.algorithms.directions import is_line
from synth.collective.algorithms.link_loads import Loads
from synth.collective.algorithms.slowest_links import loads_per_level
from synth.collective.price.ways import AlgorithmWay, has_two_directions, usable_protocols


def uneven_ways(loads: Loads) -> list[AlgorithmWay]:
    """Returns a way for each kind of waiting; each carries all loads. A message takes one hop."""
    shape, system = loads.shape, loads.wiring.system
    carried, busy, one_way_seconds = loads_per_level(loads)
    one_way = tuple(
        _two_seconds(system, level, one_way_seconds[level]) for level in range(len(system.links))
    )
    touched = float(loads.touched().max(initial=0.0))
    recipe = RECIPES[loads.collective, loads.algorithm]
    supported = usable_protocols(loads.algorithm, (system.links[level] for level in shape.spans))
    return [
        AlgorithmWay(
            loads.collective.value,
            loads.algorithm,
            tuple(level for level, n in enumerate(waits) if n),
            carried,
            busy,
            (1,) * len(waits),
            waits,
            touched / system.memory_bytes_per_second,
            supported,
            peers,
            shape.most,
            recipe.spared,
            recipe.at_once,
            in_a_row,
            one_way=one_way,
            message_share=1 / max(shape.sizes) if recipe.in_pieces else 1.0,
        )
        for waits, peers, in_a_row in _waiting_kinds(loads)
    ]


def _two_seconds(
    system: System, level: int, directions: tuple[float, float]
) -> tuple[float, float] | None:
    """Returns the seconds of a level's two resources, None where they are one.

    Both ends of a line count the same.
    """
    if is_line(system, level):
        return max(directions), max(directions)
    return directions if has_two_directions(system, level) else None


def _waiting_kinds(loads: Loads) -> set[tuple[tuple[float, ...], tuple[float, ...], int]]:
    """The distinct kinds of waiting among groups of more than one member.

    Each is the messages over each level that wait for each other, the messages over each level that
    one member sends, and the number of members in a row in the innermost level.
    """
    shape, groups = loads.shape, len(loads.shape.sizes)
    waits = np.array([loads.waits(level) for level in range(len(shape.levels))])
    peers = np.zeros_like(waits)
    in_a_row = np.ones(groups, dtype=np.int64)
    for level, placed in enumerate(shape.levels):
        np.maximum.at(peers[level], shape.whose, placed.inside[placed.parent] - placed.p)
        widest = np.ones(groups, dtype=np.int64)
        np.maximum.at(widest, placed.owner, placed.m)
        in_a_row = np.where(widest > 1, widest, in_a_row)
    rows = zip(waits.T.tolist(), peers.T.tolist(), in_a_row.tolist(), strict=True)
    return {(tuple(waited), tuple(sent), row) for waited, sent, row in rows if any(waited)}
