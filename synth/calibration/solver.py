"""The least squares of a calibration: which way each row went, and what the ways cost.

Unknown for every way (collective, algorithm, protocol) are a launch and, for each level, a hop, a
gap and the inverse of a share. Given which way a row went and what it was limited by, its seconds
are linear in them. So both are found by turns: the ways as the fastest at the last numbers, the
numbers by non-negative least squares (scipy's) of relative errors, weighted anew each time by the
soft-L1 loss so that a row far off pulls no harder than one near by.

What rows leave open comes from a prior (``prior``), added as rows of their own: a way is like its
algorithm for other collectives whose rounds are of the same kinds, an algorithm like others by the
same protocol, and a protocol like the description and the launch in NCCL's model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from hierarchies import System
from hierarchies.calibration import ANY
from synth.calibration.candidates import Candidate
from synth.calibration.prior import Floats, Key, expected, part
from synth.collectives.protocols import Protocol

Integers = npt.NDArray[np.int64]

LAUNCH_SECONDS = {Protocol.SIMPLE: 8.4e-6, Protocol.LL: 6.6e-6, Protocol.LL128: 14.0e-6}
"""What NCCL's model adds once a call (v2.28.7-1, src/graph/tuning.cc)."""
LEAST_LATENCY = 0.1
"""No launch and no hop is fitted below this fraction of what was expected."""
MOST_SHARE = 2.0
"""No link is fitted to carry more than this many times its described bandwidth."""
NOISE = ((0, 0.15), (1 << 16, 0.10), (1 << 24, 0.05))
"""Relative errors expected of rows from a size on."""
_ROUNDS = 40


@dataclass(frozen=True)
class Rows:
    """Measured rows with the ways each may have gone, one after the other.

    ``row`` has the row's number for each candidate, ascending; ``table`` that of the measurement
    of each row, whose sizes ascend.
    """

    sizes: Floats
    seconds: Floats
    table: Integers
    row: Integers
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class Solution:
    """Unknowns by way, shape (ways, 1 + 3 levels): launch, hops, gaps, inverse shares.

    ``chosen`` is the candidate each row was taken to have gone by, ``fitted`` its seconds;
    ``design`` the rows of the last least squares, scaled to expected errors, over all unknowns in
    order; ``loss`` what was minimised; ``lowest`` what each unknown may be at least.
    """

    keys: tuple[Key, ...]
    unknowns: Floats
    chosen: Integers
    fitted: Floats
    design: Floats
    loss: float
    lowest: Floats

    def of(self, key: Key) -> Floats:
        return np.asarray(self.unknowns[self.keys.index(key)])


def solve(system: System, rows: Rows, keep: npt.NDArray[np.bool_] | None = None) -> Solution:
    """The best fit from a few starts. ``keep`` masks the rows to fit; all rows get their ways."""
    problem = _Problem(system, rows)
    kept = np.ones(len(rows.sizes), dtype=np.bool_) if keep is None else keep
    found = [problem.descend(start, kept) for start in problem.starts()]
    return min(found, key=lambda solution: solution.loss)


def unseen_seconds(
    system: System,
    rows: Rows,
    solution: Solution,
    keep: npt.NDArray[np.bool_],
    groups: Integers,
) -> Floats:
    """The seconds of each row by a fit without the row's group, started from ``solution``."""
    problem = _Problem(system, rows)
    found = solution.fitted.copy()
    for group in np.unique(groups):
        mine = groups == group
        if (keep & ~mine).any():
            found[mine] = problem.descend(solution.unknowns, keep & ~mine).fitted[mine]
    return found


class _Problem:
    """The arrays of one fit: a row for each candidate of each measured row."""

    def __init__(self, system: System, rows: Rows) -> None:
        self.system, self.rows = system, rows
        self.levels = len(system.links)
        self.keys = _keys([candidate.key for candidate in rows.candidates], system)
        self.place = np.array([self.keys.index(c.key) for c in rows.candidates])
        self.waited = np.array([c.waited for c in rows.candidates])
        self.paced = np.array([c.paced for c in rows.candidates])
        self.busy = np.array([c.way.busy_seconds for c in rows.candidates])
        self.memory = np.array([c.way.memory_seconds for c in rows.candidates])
        self.size, self.taken = rows.sizes[rows.row], rows.seconds[rows.row]
        self.first = np.searchsorted(rows.row, np.arange(len(rows.sizes)))
        self.scale = np.array([_described(system, Protocol(key[2])) for key in self.keys])
        self._correct()
        self.lowest = np.zeros_like(self.scale)
        self.lowest[:, : 1 + self.levels] = LEAST_LATENCY * self.scale[:, : 1 + self.levels]
        self.lowest[:, 1 + 2 * self.levels :] = 1 / MOST_SHARE
        self.noise = np.empty(len(rows.sizes))
        for size, noise in NOISE:
            self.noise[rows.sizes >= size] = noise
        self.prior, self.wanted = self._priors()

    def _correct(self) -> None:
        """Scale the description to the rows: one factor for all latencies, one for each bandwidth.

        Factors are medians over tables of measured / described seconds: of the smallest rows for
        latencies, of the largest for bandwidths.
        """
        described = self.scale.copy()
        seconds, _ = self.seconds(described)
        chosen = self.choose(seconds)
        quiet = seconds - self.size * (
            self.busy * described[self.place][:, 1 + 2 * self.levels :]
        ).max(axis=1)
        ratios: dict[int, list[float]] = {}
        latency = []
        for table in np.unique(self.rows.table):
            mine = np.flatnonzero(self.rows.table == table)
            small, large = mine[0], mine[-1]
            start, end = self.first[small], self.first[small] + (self.rows.row == small).sum()
            latency.append(self.rows.seconds[small] / quiet[start:end].min())
            pair = chosen[large]
            level = int(
                (self.busy[pair] * described[self.place[pair], 1 + 2 * self.levels :]).argmax()
            )
            ratios.setdefault(level, []).append(self.rows.seconds[large] / seconds[pair])
        factor = min(max(float(np.median(latency)), 0.2), 50.0)
        self.scale[:, : 1 + 2 * self.levels] *= factor
        for level in range(self.levels):
            off = float(np.median(ratios.get(level, [1.0])))
            self.scale[:, 1 + 2 * self.levels + level] *= min(max(off, 1 / MOST_SHARE), 100.0)

    def starts(self) -> list[Floats]:
        """The scaled description, and three variants with gaps or other launches and hops."""
        hops, gaps = slice(1, 1 + self.levels), slice(1 + self.levels, 1 + 2 * self.levels)
        found = []
        for waited, kept, launch in (
            (1.0, 0.0, 1.0),
            (0.2, 1.0, 1.0),
            (0.3, 0.0, 0.3),
            (2.0, 0.0, 2.0),
        ):
            start = self.scale.copy()
            start[:, gaps] = kept * start[:, hops]
            start[:, hops] *= waited
            start[:, 0] *= launch
            found.append(start)
        return found

    def seconds(self, unknowns: Floats) -> tuple[Floats, Integers]:
        """Seconds of each candidate; its limit: -1 for gaps, a level, ``levels`` for memory."""
        levels, mine = self.levels, unknowns[self.place]
        hops = (self.waited * mine[:, 1 : 1 + levels]).sum(axis=1)
        gaps = (self.paced * mine[:, 1 + levels : 1 + 2 * levels]).sum(axis=1)
        busy = self.size[:, None] * self.busy * mine[:, 1 + 2 * levels :]
        limits = np.column_stack([gaps, busy, self.size * self.memory])
        limit = limits.argmax(axis=1)
        return mine[:, 0] + hops + limits.max(axis=1), limit - 1

    def choose(self, seconds: Floats) -> Integers:
        """The fastest candidate of each row."""
        least = np.minimum.reduceat(seconds, self.first)
        fastest = np.flatnonzero(seconds <= least[self.rows.row])
        return np.asarray(fastest[np.searchsorted(self.rows.row[fastest], np.arange(len(least)))])

    def descend(self, start: Floats, kept: npt.NDArray[np.bool_]) -> Solution:
        """Improve ways and numbers by turns while the loss falls; a step that fails is halved."""
        best = self._solution(start, kept)
        step = 1.0
        for _ in range(_ROUNDS):
            aim = self._least(best, kept)
            while True:
                tried = self._solution(best.unknowns + step * (aim - best.unknowns), kept)
                if tried.loss < best.loss * (1 - 1e-6) or step < 1 / 16:
                    break
                step /= 2
            if tried.loss >= best.loss * (1 - 1e-6):
                break
            best, step = tried, min(1.0, 2 * step)
        return best

    def _solution(self, unknowns: Floats, kept: npt.NDArray[np.bool_]) -> Solution:
        seconds, limit = self.seconds(unknowns)
        chosen = self.choose(seconds)
        fitted = seconds[chosen]
        off = (fitted / self.rows.seconds - 1) / self.noise
        design = self._design(chosen, limit)
        strayed = self.prior @ (unknowns / self.scale).ravel() - self.wanted
        loss = float((2 * (np.sqrt(1 + off[kept] ** 2) - 1)).sum() + (strayed**2).sum())
        return Solution(self.keys, unknowns, chosen, fitted, design, loss, self.lowest)

    def _design(self, chosen: Integers, limit: Integers) -> Floats:
        """How each row's seconds grow with each unknown (in units of what is described)."""
        levels, width = self.levels, 1 + 3 * self.levels
        design = np.zeros((len(chosen), len(self.keys), width))
        number, place = np.arange(len(chosen)), self.place[chosen]
        design[number, place, 0] = 1.0
        design[number, place, 1 : 1 + levels] = self.waited[chosen]
        for row, (pair, what) in enumerate(
            zip(chosen.tolist(), limit[chosen].tolist(), strict=True)
        ):
            if what == -1:
                design[row, place[row], 1 + levels : 1 + 2 * levels] = self.paced[pair]
            elif what < levels:
                column = 1 + 2 * levels + what
                design[row, place[row], column] = self.size[pair] * self.busy[pair, what]
        design *= self.scale[None, :, :]
        return np.asarray(
            design.reshape(len(chosen), -1) / (self.rows.seconds * self.noise)[:, None]
        )

    def _least(self, now: Solution, kept: npt.NDArray[np.bool_]) -> Floats:
        """The numbers by least squares, with the ways and limits of a solution kept."""
        off = (now.fitted / self.rows.seconds - 1) / self.noise
        weight = (1 + off**2) ** -0.25 * kept
        known = (
            now.fitted
            - (now.design * (self.rows.seconds * self.noise)[:, None])
            @ (now.unknowns / self.scale).ravel()
        )
        aims = (self.rows.seconds - known) / (self.rows.seconds * self.noise)
        matrix = np.vstack([now.design * weight[:, None], self.prior])
        target = np.concatenate([aims * weight, self.wanted])
        lowest = (self.lowest / self.scale).ravel()
        found, _ = scipy.optimize.nnls(matrix, target - matrix @ lowest)
        return np.asarray((found + lowest).reshape(self.scale.shape) * self.scale)

    def _priors(self) -> tuple[Floats, Floats]:
        """The prior as rows, in units of what is described.

        It is made for all ways by one protocol together; its rows are independent, of spread 1.
        """
        width = 1 + 3 * self.levels
        rows, wanted = [], []
        for protocol in dict.fromkeys(key[2] for key in self.keys):
            places = [i for i, key in enumerate(self.keys) if key[2] == protocol]
            for column in range(width):
                apart, aim = expected([self.keys[i] for i in places], part(column, self.levels))
                found = np.zeros((len(places), len(self.keys), width))
                found[:, places, column] = apart
                rows.append(found.reshape(len(places), -1))
                wanted.append(aim)
        return np.concatenate(rows), np.concatenate(wanted)


def _keys(leaves: Sequence[Key], system: System) -> tuple[Key, ...]:
    """Protocols, then algorithms for any collective, then the ways themselves."""
    found: dict[Key, None] = {}
    for protocol in _known(system):
        found[ANY, ANY, protocol.value] = None
    for key in leaves:
        found[ANY, key[1], key[2]] = None
    for key in leaves:
        found[key] = None
    return tuple(sorted(found, key=lambda key: (bool(key[0]), bool(key[1]))))


def _known(system: System) -> list[Protocol]:
    """Protocols that at least one link supports."""
    return [
        protocol
        for protocol in Protocol
        if any(protocol.latency_seconds(link) is not None for link in system.links)
    ]


def _described(system: System, protocol: Protocol) -> Floats:
    """Launch, hops, gaps and inverse shares before anything was measured; none is 0."""
    hops = [
        max(protocol.latency_seconds(link) or link.latency_seconds, 1e-9) for link in system.links
    ]
    return np.array(
        [LAUNCH_SECONDS[protocol], *hops, *hops, *[1 / protocol.share] * len(system.links)]
    )
