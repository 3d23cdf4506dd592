"""Judgements of prices by rows that the fit has not seen: four kinds, from near to far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hierarchies import System
from synth.measure.calibration.candidates import Predictor
from synth.measure.calibration.fit import FitResult, fit
from synth.measure.calibration.measurements import FEWEST_SIZES, Configuration, Measurement

LARGE, SMALL = 1 << 26, 1 << 20
"""Fitted to rows from the one size on, or up to the other, and judged by all that lie beyond."""


@dataclass(frozen=True)
class Judged:
    """A row that the fit had not seen, and what it said of it."""

    what: Configuration
    size_bytes: int
    seconds: float
    fitted: float
    low: float
    high: float

    @property
    def error(self) -> float:
        return self.fitted / self.seconds - 1

    @property
    def width(self) -> float:
        """By which factor the ends of its interval lie from the middle, on a logarithmic scale."""
        return float(np.sqrt(self.high / self.low))

    @property
    def covered(self) -> bool:
        return self.low <= self.seconds <= self.high


def fitted(machines: Sequence[System], measurements: Sequence[Measurement]) -> FitResult:
    """The description that explains the measurements best, fitted to them."""
    return min((fit(machine, measurements) for machine in machines), key=lambda each: each.loss)


def judged(found: FitResult, measurement: Measurement) -> Iterator[Judged]:
    predictor = Predictor(found.system, measurement)
    for sample in measurement.samples:
        said = predictor.at(sample.size_bytes)
        assert said.interval is not None, "the system is calibrated"
        yield Judged(
            measurement.configuration,
            sample.size_bytes,
            sample.seconds,
            said.seconds,
            said.interval.low_seconds,
            said.interval.high_seconds,
        )


def by_sizes(machines: Sequence[System], measurements: Sequence[Measurement]) -> list[Judged]:
    """Every other size fitted, those between judged; tables of too few sizes are left out."""
    whole = [m for m in measurements if len(m.samples) >= 6]
    if not whole:
        return []
    found = fitted(machines, [replace(m, samples=m.samples[::2]) for m in whole])
    return [row for m in whole for row in judged(found, replace(m, samples=m.samples[1::2]))]


def by_tables(machines: Sequence[System], measurements: Sequence[Measurement]) -> list[Judged]:
    """Each configuration judged by a fit to all others."""
    found = []
    for one in dict.fromkeys(m.configuration for m in measurements):
        others = [m for m in measurements if m.configuration != one]
        if others:
            seen = fitted(machines, others)
            found += [
                row for m in measurements if m.configuration == one for row in judged(seen, m)
            ]
    return found


def by_nodes(machines: Sequence[System], measurements: Sequence[Measurement]) -> list[Judged]:
    """Tables of more nodes by a fit to those of fewer, for each number of nodes but one alone."""
    found = []
    counts = sorted({m.members[0] for m in measurements})
    for most in [count for count in counts[:-1] if count > 1]:
        seen = fitted(machines, [m for m in measurements if m.members[0] <= most])
        found += [row for m in measurements if m.members[0] > most for row in judged(seen, m)]
    return found


def beyond_sizes(machines: Sequence[System], measurements: Sequence[Measurement]) -> list[Judged]:
    """Smaller rows by a fit to those from ``LARGE`` on, and larger ones by those to ``SMALL``."""
    found: list[Judged] = []
    for least, most in ((LARGE, 1 << 62), (0, SMALL)):
        inside = [_within(m, least, most) for m in measurements]
        known = [m for m in inside if len({s.size_bytes for s in m.samples}) >= FEWEST_SIZES]
        if known:
            seen, sources = fitted(machines, known), {m.source for m in known}
            for m in measurements:
                rest = tuple(s for s in m.samples if not least <= s.size_bytes <= most)
                if m.source in sources:
                    found += judged(seen, replace(m, samples=rest))
    return found


def _within(measurement: Measurement, least: int, most: int) -> Measurement:
    samples = tuple(s for s in measurement.samples if least <= s.size_bytes <= most)
    return replace(measurement, samples=samples)
