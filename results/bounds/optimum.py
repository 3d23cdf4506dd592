"""The least time of a request on a mesh, a ring or a torus, as a linear program over flows.

Multi-commodity flows between neighbours, as in TE-CCL and ForestColl: what goes to several is a
flow to each of them, of which a link carries the largest; what is summed is the same backwards. One
group of all devices asks. As the machine looks alike from every device, there is a best schedule
that looks alike too: the flows from one device say all, a kind of link (all that lead as far, the
same way) carrying what all devices ask of it. It knows no levels, parts, algorithms and programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from grammar import Goal
from hierarchies import Domain, Link, System

Row = dict[int, float]
GOALS = (Goal.ALL_REDUCE, Goal.REDUCE_SCATTER, Goal.ALL_GATHER, Goal.ALL_TO_ALL)


def applies(system: System) -> bool:
    """Whether devices meet on one mesh or ring, or on torus levels alone."""
    domains = [link.domain for _, link in _crossed(system)]
    if not all(link.wraps for _, link in _crossed(system)):
        return False
    alone = len(domains) == 1 and domains[0] in (Domain.RING, Domain.MESH)
    return alone or (bool(domains) and set(domains) == {Domain.TORUS})


def least_seconds(system: System, goal: Goal, payload_bytes: float) -> float:
    """The seconds that flows reach and no schedule can beat, latency apart, where ``applies``.

    ``payload_bytes`` is the largest buffer of a device, as ``Goal`` says; ``goal`` one of
    ``GOALS``.
    """
    pieces = _Pieces(system)
    each = payload_bytes / system.devices * pieces.least_time(copied=goal is not Goal.ALL_TO_ALL)
    # A sum is a broadcast backwards, and the machine is the same backwards.
    return 2 * each if goal is Goal.ALL_REDUCE else each


def _crossed(system: System) -> list[tuple[int, Link]]:
    """The levels that have several children: how many, and their links."""
    levels = zip(system.hierarchy.cardinalities, system.links, strict=True)
    return [(children, link) for children, link in levels if children > 1]


def _steps(children: int, domain: Domain) -> Iterator[int]:
    """How far the links of a device lead, in the numbering of one level."""
    far = range(1, children) if domain is Domain.MESH else (1, children - 1)
    yield from dict.fromkeys(far)


class _Pieces:
    """One byte from the first device to each of the others: columns, rows and the least time.

    A hop is a device and a kind of link that leads away from it. Column 0 is the time for a byte on
    the fastest link, in units of which all times are.
    """

    def __init__(self, system: System) -> None:
        crossed = _crossed(system)
        sizes = [children for children, _ in crossed]
        self._fastest = max(link.bandwidth_bytes_per_second for _, link in crossed)
        self._shares: list[float] = []
        self._hops: list[tuple[int, int, int]] = []
        places = list(product(*map(range, sizes)))
        number = {place: n for n, place in enumerate(places)}
        self._targets = range(1, len(places))
        for level, (children, link) in enumerate(crossed):
            for far in _steps(children, link.domain):
                kind = len(self._shares)
                self._shares.append(link.bandwidth_bytes_per_second / self._fastest)
                for place in places:
                    digit = (place[level] + far) % children
                    there = (*place[:level], digit, *place[level + 1 :])
                    self._hops.append((number[place], number[there], kind))

    def least_time(self, *, copied: bool) -> float:
        """Seconds; a link carries the largest of the flows if data is copied, else their sum."""
        hops, targets = len(self._hops), len(self._targets)
        flows = {target: 1 + hops * (1 + i) for i, target in enumerate(self._targets)}
        upper = [*self._busy(), *self._carried(flows, copied)]
        cost = np.zeros(1 + hops * (1 + targets))
        cost[0] = 1
        equal, values = self._kept(flows)
        solved = linprog(
            cost,
            A_ub=_matrix(upper, len(cost)),
            b_ub=np.zeros(len(upper)),
            A_eq=_matrix(equal, len(cost)),
            b_eq=values,
            method="highs",
        )
        assert solved.status == 0, solved.message
        return float(solved.fun) / self._fastest

    def _busy(self) -> Iterator[Row]:
        """No kind of link carries more than it can: all devices ask, and each has one such link."""
        for kind, share in enumerate(self._shares):
            own = {1 + i: 1.0 for i, (*_, other) in enumerate(self._hops) if other == kind}
            yield {0: -share} | own

    def _carried(self, flows: dict[int, int], copied: bool) -> Iterator[Row]:
        for i in range(len(self._hops)):
            if copied:
                for first in flows.values():
                    yield {first + i: 1.0, 1 + i: -1.0}
            else:
                yield {first + i: 1.0 for first in flows.values()} | {1 + i: -1.0}

    def _kept(self, flows: dict[int, int]) -> tuple[list[Row], list[float]]:
        """What comes to a device goes on, but for one byte that stays at its target."""
        rows: list[Row] = []
        values: list[float] = []
        for target, first in flows.items():
            row: dict[int, Row] = {place: {} for place in self._targets}
            for i, (here, there, _) in enumerate(self._hops):
                for place, sign in ((here, -1.0), (there, 1.0)):
                    if place in row:
                        row[place][first + i] = sign
            rows += row.values()
            values += [float(place == target) for place in row]
        return rows, values


def _matrix(rows: list[Row], columns: int) -> csr_array:
    cells = [(i, j, value) for i, row in enumerate(rows) for j, value in row.items()]
    i, j, values = zip(*cells, strict=True)
    return csr_array((values, (i, j)), shape=(len(rows), columns))
