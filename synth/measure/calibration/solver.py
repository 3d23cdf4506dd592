"""The least squares of a calibration: the way of each row, and the cost of the ways.

The unknowns of every way (collective, algorithm, protocol) are a launch and, for each level, a hop,
the inverse of a share, a cost for each peer, and the logarithm of the factor by which the inverse
share increases with each doubling of children. Ways have curves in common: logarithms of factors of
hops and peers by the size of a message (``curves``). Given its way and its limit, a row's seconds
are linear in the unknowns, nearly so in logarithms. Ways and numbers are therefore found
alternately.
The ways are the fastest at the last numbers. The numbers minimise relative errors by non-negative
least squares (scipy), reweighted each time by the soft-L1 loss to limit the influence of outliers.

Numbers that rows do not determine come from a prior (``prior``), added as rows: a way resembles its
algorithm for other collectives whose rounds are of the same kinds, an algorithm resembles others by
the same protocol, and a protocol the performance of such links elsewhere (``expectations``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from hierarchies import System
from synth.measure.calibration.candidates import FitCandidate
from synth.measure.calibration.curves import MOST, CurveColumns, soft_loss
from synth.measure.calibration.prior import (
    NOISE,
    PARTS,
    Floats,
    Key,
    expected_numbers,
    expected_prior,
    part_of_column,
    wider_keys,
)
from synth.measure.calibration.slow_level import LargestRow, find_slowness

Integers = npt.NDArray[np.int64]
Numbers = tuple[Floats, Floats]
"""The unknowns of ways, and the logarithms of the factors of messages."""

LEAST_LATENCY = 0.1
"""The lower bound of a fitted launch or hop, as a fraction of its expected value."""
MOST_SHARE = 2.0
"""The upper bound of a link's fitted bandwidth, as a multiple of its described bandwidth, where a
row is faster than links as described carry its bytes by any way. Elsewhere it is 1."""
_ROUNDS, _ENOUGH = 40, 1e-6
_UNSEEN_ROUNDS, _UNSEEN_ENOUGH = 10, 1e-4
"""Limits of fits for cross-validation, which start from the full fit and may be less exact."""


@dataclass(frozen=True)
class Rows:
    """Measured rows, and the candidates of all rows in sequence.

    ``row`` has the number of the row of each candidate, ascending. ``table`` has the number of the
    measurement of each row; the sizes of a measurement ascend.
    """

    sizes: Floats
    seconds: Floats
    table: Integers
    row: Integers
    candidates: tuple[FitCandidate, ...]


@dataclass(frozen=True)
class Solution:
    """Unknowns by way, shape (ways, 1 + 4 levels): launch, and for each level those of ``PARTS``.

    ``chosen`` is each row's assumed candidate, ``fitted`` its seconds; ``design`` the rows of
    the last least squares, scaled to expected errors, over all unknowns in order; ``loss`` the
    minimised quantity; ``lowest`` the unknowns' lower bounds. ``undetermined_levels`` has sets of
    levels, one of which is slow according to the rows, with the level assumed to be slow.
    ``logarithms``: the factors of messages, shape (curves, sizes), of ``columns``.
    """

    keys: tuple[Key, ...]
    unknowns: Floats
    chosen: Integers
    fitted: Floats
    design: Floats
    loss: float
    lowest: Floats
    columns: CurveColumns
    logarithms: Floats
    undetermined_levels: tuple[tuple[tuple[int, ...], int], ...] = ()


def solve(system: System, rows: Rows, keep: npt.NDArray[np.bool_] | None = None) -> Solution:
    """Returns the best fit of several starts. ``keep`` masks the rows to fit; all rows get ways."""
    problem = _Problem(system, rows)
    kept = np.ones(len(rows.sizes), dtype=np.bool_) if keep is None else keep
    found = [problem.descend(start, kept) for start in problem.starts()]
    return min(found, key=lambda solution: solution.loss)


def cross_validated_seconds(
    system: System,
    rows: Rows,
    solution: Solution,
    keep: npt.NDArray[np.bool_],
    groups: Integers,
) -> Floats:
    """Returns the seconds of each row by a fit without its group, starting from ``solution``."""
    problem = _Problem(system, rows)
    found = solution.fitted.copy()
    for group in np.unique(groups):
        mine = groups == group
        if (keep & ~mine).any():
            start = solution.unknowns, solution.logarithms
            seen = problem.descend(start, keep & ~mine, _UNSEEN_ROUNDS, _UNSEEN_ENOUGH)
            found[mine] = seen.fitted[mine]
    return found


class _Problem:
    """The arrays of one fit, with an entry for each candidate of each measured row."""

    def __init__(self, system: System, rows: Rows) -> None:
        self.system, self.rows = system, rows
        self.levels = len(system.links)
        self.keys = wider_keys([candidate.key for candidate in rows.candidates], system)
        self.place = np.array([self.keys.index(c.key) for c in rows.candidates])
        self.waited = np.array([c.waited for c in rows.candidates])
        self.peers = np.array([c.peers for c in rows.candidates])
        self.busy = np.array([c.way.busy_seconds for c in rows.candidates])
        self.doublings = np.array([c.doublings for c in rows.candidates])
        self.memory = np.array([c.way.memory_seconds for c in rows.candidates])
        self.size, self.taken = rows.sizes[rows.row], rows.seconds[rows.row]
        self.columns = CurveColumns.of(rows.candidates, self.size)
        self.curve_prior = self.columns.prior
        self.first = np.searchsorted(rows.row, np.arange(len(rows.sizes)))
        self.scale = np.array([expected_numbers(system, key) for key in self.keys])
        self.most = self._most_shares()
        self._correct()
        self.lowest = np.zeros_like(self.scale)
        self.lowest[:, : 1 + self.levels] = LEAST_LATENCY * self.scale[:, : 1 + self.levels]
        self.lowest[:, self._part("peer")] = LEAST_LATENCY * self.scale[:, self._part("peer")]
        self.lowest[:, self._part("share")] = 1 / self.most
        self.noise = np.empty(len(rows.sizes))
        for size, noise in NOISE:
            self.noise[rows.sizes >= size] = noise
        self.prior, self.wanted = self._priors()

    def _most_shares(self) -> Floats:
        """Returns the upper bound of each level's share: 1 where no row carries more, any way."""
        carried = np.minimum.reduceat(self.size[:, None] * self.busy, self.first)
        return np.where((carried > self.rows.seconds[:, None]).any(axis=0), MOST_SHARE, 1.0)

    def _correct(self) -> None:
        """Scales the description to the rows: one factor for all latencies, one for each bandwidth.

        Factors are medians over tables of measured / described seconds. Those of bandwidths are
        from the largest rows limited by bytes (``slow_level`` chooses the level), then those of
        latencies from the smallest rows that wait. Tables with only large sizes do not determine a
        latency, tables with only small sizes no bandwidth. The cost of a peer is unchanged, because
        it is work of the sender, which is similar over TCP and RDMA.
        """
        ends = [
            LargestRow(tuple(self._loads(self.scale)[pair].tolist()), self.taken[pair] - quiet)
            for pair, seconds, quiet in self._ends(-1)
            if quiet <= seconds / 2 and quiet < self.taken[pair]
        ]
        slow = find_slowness(self.system, ends)
        for level, found in slow.times.items():
            off = min(max(float(np.median(found)), 1 / self.most[level]), 100.0)
            self.scale[:, self._part("share")][:, level] *= off
        self.undetermined_levels = tuple(slow.undetermined_levels.items())
        waits = [
            (self.taken[pair] - seconds + quiet) / quiet
            for pair, seconds, quiet in self._ends(0)
            if quiet >= seconds / 2
        ]
        if waits:
            factor = min(max(float(np.median(waits)), 0.2), 50.0)
            self.scale[:, self._part("hop")] *= factor
            self.scale[:, 0] *= factor

    def _ends(self, which: int) -> Iterator[tuple[int, float, float]]:
        """Yields each table's smallest (0) or largest (-1) row: way, seconds, seconds of 0 bytes.

        Seconds are as scaled so far.
        """
        seconds, _ = self.seconds(self.scale, self.columns.start)
        chosen = self.choose(seconds)
        quiet = seconds - self._loads(self.scale).max(axis=1)
        for table in np.unique(self.rows.table):
            pair = int(chosen[np.flatnonzero(self.rows.table == table)[which]])
            yield pair, float(seconds[pair]), float(quiet[pair])

    def starts(self) -> list[Numbers]:
        """Returns the scaled description, and variants with other latencies."""
        found = []
        # Alternating steps end in a local minimum: the choice of ways makes the loss non-convex.
        for waited in (1.0, 0.3, 2.0):
            start = self.scale.copy()
            start[:, self._part("hop")] *= waited
            start[:, 0] *= waited
            found.append((start, self.columns.start))
        return found

    def seconds(self, unknowns: Floats, logarithms: Floats) -> tuple[Floats, Integers]:
        """Returns candidates' seconds and what limits them: a level, or ``levels`` for memory."""
        waits = (self._waits(unknowns) * self.columns.factors(logarithms)).sum(axis=1)
        limits = np.column_stack([self._loads(unknowns), self.size * self.memory])
        return unknowns[self.place, 0] + waits + limits.max(axis=1), limits.argmax(axis=1)

    def _waits(self, unknowns: Floats) -> Floats:
        """Returns candidates' seconds for messages of each level, at a factor of 1."""
        mine = unknowns[self.place]
        return np.asarray(
            self.waited * mine[:, self._part("hop")] + self.peers * mine[:, self._part("peer")]
        )

    def _part(self, name: str) -> slice:
        """Returns the columns of one of ``PARTS``."""
        first = 1 + PARTS.index(name) * self.levels
        return slice(first, first + self.levels)

    def _loads(self, unknowns: Floats) -> Floats:
        """Returns the seconds for which each candidate keeps each level busy."""
        mine = unknowns[self.place]
        grown = mine[:, self._part("share")] * np.exp(self.doublings * mine[:, self._part("loss")])
        return np.asarray(self.size[:, None] * self.busy * grown)

    def choose(self, seconds: Floats) -> Integers:
        """Returns the fastest candidate of each row."""
        least = np.minimum.reduceat(seconds, self.first)
        fastest = np.flatnonzero(seconds <= least[self.rows.row])
        return np.asarray(fastest[np.searchsorted(self.rows.row[fastest], np.arange(len(least)))])

    def descend(
        self,
        start: Numbers,
        kept: npt.NDArray[np.bool_],
        rounds: int = _ROUNDS,
        enough: float = _ENOUGH,
    ) -> Solution:
        """Improves ways and numbers alternately while the loss decreases; halves steps that fail.

        Ends after ``rounds``, or when a round reduces the loss by less than the part ``enough``.
        """
        best = self._solution(start, kept)
        step = 1.0
        for _ in range(rounds):
            aim = self._least(best, kept)
            while True:
                now = best.unknowns, best.logarithms
                between = [old + step * (new - old) for old, new in zip(now, aim, strict=True)]
                tried = self._solution((between[0], between[1]), kept)
                if tried.loss < best.loss * (1 - enough) or step < 1 / 16:
                    break
                step /= 2
            if tried.loss >= best.loss * (1 - enough):
                break
            best, step = tried, min(1.0, 2 * step)
        return best

    def _solution(self, numbers: Numbers, kept: npt.NDArray[np.bool_]) -> Solution:
        unknowns, logarithms = numbers
        seconds, limit = self.seconds(unknowns, logarithms)
        chosen = self.choose(seconds)
        fitted = seconds[chosen]
        off = (fitted / self.rows.seconds - 1) / self.noise
        design = self._design(numbers, chosen, limit)
        strayed = self.prior @ (unknowns / self.scale).ravel() - self.wanted
        bent, _ = soft_loss(self.curve_prior @ logarithms.ravel())
        loss = soft_loss(off[kept])[0] + float((strayed**2).sum()) + bent
        return Solution(
            self.keys,
            unknowns,
            chosen,
            fitted,
            design,
            loss,
            self.lowest,
            self.columns,
            logarithms,
            self.undetermined_levels,
        )

    def _design(self, numbers: Numbers, chosen: Integers, limit: Integers) -> Floats:
        """Returns the derivatives of each row's seconds by the unknowns, in described units.

        The columns of the curves follow those of the ways.
        """
        unknowns, logarithms = numbers
        factors = self.columns.factors(logarithms)[chosen]
        design = np.zeros((len(chosen), *self.scale.shape))
        number, place = np.arange(len(chosen)), self.place[chosen]
        design[number, place, 0] = 1.0
        design[number, place, self._part("hop")] = self.waited[chosen] * factors
        design[number, place, self._part("peer")] = self.peers[chosen] * factors
        share, loss = self._part("share").start, self._part("loss").start
        what = limit[chosen]
        crossing = np.flatnonzero(what < self.levels)
        pair, level, way = chosen[crossing], what[crossing], place[crossing]
        load = self._loads(unknowns)[pair, level]
        design[crossing, way, share + level] = load / unknowns[way, share + level]
        design[crossing, way, loss + level] = load * self.doublings[pair, level]
        design *= self.scale[None, :, :]
        curves = self.columns.design(chosen, self._waits(unknowns)[chosen] * factors)
        return np.asarray(
            np.hstack([design.reshape(len(chosen), -1), curves])
            / (self.rows.seconds * self.noise)[:, None]
        )

    def _least(self, now: Solution, kept: npt.NDArray[np.bool_]) -> Numbers:
        """Returns the numbers by least squares, for the ways and limits of a solution.

        Logarithms of factors have no bound, so what they explain is projected out of the rest,
        which is solved by non-negative least squares.
        """
        off = (now.fitted / self.rows.seconds - 1) / self.noise
        weight = soft_loss(off)[1] * kept
        logarithms = now.logarithms.ravel()
        known = np.concatenate([(now.unknowns / self.scale).ravel(), logarithms])
        aims = now.design @ known - off
        ways, curves = np.split(now.design, [len(known) - len(logarithms)], axis=1)
        informed = self._informed(ways[kept])
        expected = np.abs(self.prior[:, informed]).any(axis=1)
        trust = soft_loss(self.curve_prior @ logarithms)[1]
        matrix = np.vstack(
            [
                ways[:, informed] * weight[:, None],
                self.prior[expected][:, informed],
                np.zeros((len(trust), informed.sum())),
            ]
        )
        bent = np.vstack(
            [
                curves * weight[:, None],
                np.zeros((expected.sum(), len(logarithms))),
                self.curve_prior * trust[:, None],
            ]
        )
        target = np.concatenate([aims * weight, self.wanted[expected], np.zeros(len(trust))])
        lowest = (self.lowest / self.scale).ravel()[informed]
        aim = target - matrix @ lowest
        basis, triangle = np.linalg.qr(bent)
        above, _ = scipy.optimize.nnls(
            matrix - basis @ (basis.T @ matrix), aim - basis @ (basis.T @ aim)
        )
        found = np.ones(self.scale.size)
        found[informed] = above + lowest
        logarithms = np.linalg.solve(triangle, basis.T @ (aim - matrix @ above))
        return (
            np.asarray(found.reshape(self.scale.shape) * self.scale),
            np.clip(logarithms, -MOST, MOST).reshape(now.logarithms.shape),
        )

    def _informed(self, design: Floats) -> npt.NDArray[np.bool_]:
        """Returns which unknowns are informed by any row, at least through the same protocol.

        All others equal the prior's expectation. Omitting them changes no result and saves half of
        the time.
        """
        used = np.asarray(np.any(design.reshape(len(design), *self.scale.shape), axis=0))
        for protocol in dict.fromkeys(key[2] for key in self.keys):
            mine = [number for number, key in enumerate(self.keys) if key[2] == protocol]
            used[mine] = used[mine].any(axis=0)
        return np.asarray(used.ravel())

    def _priors(self) -> tuple[Floats, Floats]:
        """Returns the prior as rows, in described units.

        It is computed for all ways by one protocol together. Its rows are independent, with spread
        1.
        """
        width = self.scale.shape[1]
        rows, wanted = [], []
        for protocol in dict.fromkeys(key[2] for key in self.keys):
            places = [i for i, key in enumerate(self.keys) if key[2] == protocol]
            for column in range(width):
                apart, aim = expected_prior(
                    [self.keys[i] for i in places], part_of_column(column, self.levels)
                )
                found = np.zeros((len(places), len(self.keys), width))
                found[:, places, column] = apart
                rows.append(found.reshape(len(places), -1))
                wanted.append(aim)
        return np.concatenate(rows), np.concatenate(wanted)
