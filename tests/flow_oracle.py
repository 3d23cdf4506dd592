"""The least time of a request on an explicit machine, as a linear program over flows.

It knows nothing of cuts, levels and parts: only devices, switches that reduce, and the wires
between them. Whatever is sent to many is a flow to each of them, of which a wire carries the
largest, as if data could be coded; whatever is summed is the same backwards. So no schedule is
faster, and where every device takes part and nothing is coded in vain there is one as fast
(Edmonds: as many disjoint trees as the least cut). An all-reduce is a sum at any place, in shares,
and a broadcast from there. (Multi-commodity flows, as in TE-CCL and ForestColl.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from grammar import Goal
from hierarchies import System
from price_oracle import Group, Machine, Wire

Place = int | tuple[int, int]
"""A device, or a switch that reduces: its level and domain."""
Hop = tuple[Place, Place, tuple[Wire, ...]]


def hops(system: System) -> list[Hop]:
    """From place to place, over which wires."""
    machine = Machine(system)
    found = set()
    for source, target in machine.pairs():
        for _, way in machine.routes(source, target, detours=True):
            found.update(_hops_along(machine, source, target, way))
    return sorted(found, key=repr)


def _hops_along(machine: Machine, source: int, target: int, way: tuple[Wire, ...]) -> Iterator[Hop]:
    stops: list[tuple[Place, int]] = [(source, 0)]
    for number, (before, after) in enumerate(pairwise(way), 1):
        place = _between(machine, before, after)
        if place is not None:
            stops.append((place, number))
    stops.append((target, len(way)))
    for (here, begin), (there, end) in pairwise(stops):
        yield here, there, way[begin:end]


def _between(machine: Machine, before: Wire, after: Wire) -> Place | None:
    """The switch that two wires of a way meet in, if it reduces."""
    if before[1] != "up" and after[1] != "down":
        return None
    level, _, child, _ = before if before[1] == "up" else after
    assert isinstance(level, int)
    assert isinstance(child, int)
    reduces = machine.system.links[level].reduces
    return (level, child // machine.cards[level]) if reduces else None


@dataclass
class _Program:
    """Columns are unknowns, the last but not least the time; rows are what must hold."""

    upper: list[dict[int, float]] = field(default_factory=list)
    equal: list[tuple[dict[int, float], float]] = field(default_factory=list)
    columns: int = 1

    def unknowns(self, count: int) -> range:
        self.columns += count
        return range(self.columns - count, self.columns)

    def least_time(self) -> float:
        cost = np.zeros(self.columns)
        cost[0] = 1
        rows = [row for row, _ in self.equal]
        solved = linprog(
            cost,
            A_ub=self._matrix(self.upper),
            b_ub=np.zeros(len(self.upper)),
            A_eq=self._matrix(rows) if rows else None,
            b_eq=[value for _, value in self.equal] if rows else None,
            method="highs",
        )
        assert solved.status == 0, solved.message
        return float(solved.fun)

    def _matrix(self, rows: list[dict[int, float]]) -> csr_array:
        where = [(i, j, v) for i, row in enumerate(rows) for j, v in row.items()]
        i, j, v = zip(*where, strict=True) if where else ((), (), ())
        return csr_array((v, (i, j)), shape=(len(rows), self.columns))


def least_time(system: System, goal: Goal, groups: Iterable[Group]) -> float:
    """Seconds for one byte of buffer on every device of all groups."""
    edges = hops(system)
    program = _Program()
    used = [
        row for group in groups if len(group) > 1 for row in _carried(program, edges, goal, group)
    ]
    machine = Machine(system)
    fastest = max(link.bandwidth_bytes_per_second for link in system.links)
    for wire in {wire for *_, way in edges for wire in way}:
        row = {0: -machine.capacity(wire) / fastest}
        for columns in used:
            for (*_, way), column in zip(edges, columns, strict=True):
                if wire in way:
                    row[column] = row.get(column, 0.0) + way.count(wire)
        program.upper.append(row)
    return program.least_time() / fastest


def _carried(program: _Program, edges: list[Hop], goal: Goal, group: Group) -> Iterator[range]:
    """For each thing that is sent or summed, what every hop carries of it."""
    turned = [(there, here, way) for here, there, way in edges]
    if goal is Goal.ALL_TO_ALL:
        for source in group:
            yield _each(program, edges, source, group)
    elif goal is Goal.ALL_REDUCE:
        places = sorted({place for here, there, _ in edges for place in (here, there)}, key=repr)
        shares = program.unknowns(len(places))
        program.equal.append((dict.fromkeys(shares, 1.0), 1.0))
        for place, share in zip(places, shares, strict=True):
            yield _spread(program, turned, place, group, share)
            yield _spread(program, edges, place, group, share)
    else:
        roots = group if goal in (Goal.ALL_GATHER, Goal.REDUCE_SCATTER) else group[:1]
        sums = goal in (Goal.REDUCE, Goal.REDUCE_SCATTER)
        for root in roots:
            yield _spread(program, turned if sums else edges, root, group, 1 / len(roots))


def _each(program: _Program, edges: list[Hop], source: Place, group: Group) -> range:
    """What hops carry at least so that each target gets its own share, sums of flows to each.

    A flow from one source that ends in several places is a sum of flows to each of them (flows
    decompose into paths and circles), so that one unknown a hop is enough.
    """
    carried = program.unknowns(len(edges))
    for place in {place for here, there, _ in edges for place in (here, there)} - {source}:
        value = 1 / len(group) if place in group else 0.0
        program.equal.append((_surplus(edges, carried, place), value))
    return carried


def _surplus(edges: list[Hop], flow: range, place: Place) -> dict[int, float]:
    """What comes to a place less what leaves it."""
    return {
        column: 1.0 if there == place else -1.0
        for (here, there, _), column in zip(edges, flow, strict=True)
        if place in (here, there)
    }


def _spread(
    program: _Program, edges: list[Hop], root: Place, to: Iterable[Place], amount: float | int
) -> range:
    """What hops carry at least so that an amount (a number, or an unknown) flows to each target."""
    carried = program.unknowns(len(edges))
    places = {place for here, there, _ in edges for place in (here, there)}
    for target in to:
        if target == root:
            continue
        flow = program.unknowns(len(edges))
        program.upper += [{f: 1.0, c: -1.0} for f, c in zip(flow, carried, strict=True)]
        for place in places - {root}:
            row = _surplus(edges, flow, place)
            value = 0.0
            if place == target and isinstance(amount, int):
                row[amount] = -1.0
            elif place == target:
                value = amount
            program.equal.append((row, value))
    return carried
