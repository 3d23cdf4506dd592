"""From measurements to a calibrated system: the fit, its errors, and undetermined numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import expm1, isfinite

import numpy as np
import numpy.typing as npt

from hierarchies import Calibration, Crossing, Fit, InputError, System, UndeterminedLevels
from hierarchies.calibration import FASTEST, MODEL
from synth.collective.algorithms.algorithms import Algorithm
from synth.measure.calibration.candidates import FitCandidate, candidates, choose_algorithm
from synth.measure.calibration.measurements import FEWEST_SIZES, Measurement
from synth.measure.calibration.prior import PARTS, Floats, Key, expected_fit, unmeasured_ways
from synth.measure.calibration.residuals import (
    FittedRow,
    find_outliers,
    measured_ranges,
    residuals,
    table_residuals,
)
from synth.measure.calibration.solver import Rows, Solution, cross_validated_seconds, solve
from synth.measure.calibration.typical import apply_typical

PREFERRED = (MODEL, FASTEST)
"""The assumed choices of a runtime. The one that explains the rows better is used, or the first."""


@dataclass(frozen=True)
class FitResult:
    """A system with its calibration, and the rows that it was fitted to.

    ``loss`` is the minimised quantity. Of two descriptions of one machine fitted to the same rows,
    the description with the lower loss explains them better.
    """

    system: System
    calibration: Calibration
    rows: tuple[FittedRow, ...]
    loss: float


def fit(system: System, measurements: Sequence[Measurement]) -> FitResult:
    """Fits latency and bandwidth per level, algorithm and protocol to measurements of one system.

    An existing calibration of the system is ignored, and so are rows of zero bytes. Raises
    InputError if there are no measurements, ranks do not fit the system, groups have one rank,
    there are fewer than ``FEWEST_SIZES`` sizes, a size or a measurement is repeated, or times are
    not positive, finite numbers.
    """
    bare = replace(system, calibration=None)
    checked = [_check_measurement(measurement) for measurement in measurements]
    _check_together(checked)
    tried = [
        (rows, solve(bare, rows))
        for rows in (_rows(bare, checked, runtime) for runtime in PREFERRED)
    ]
    best = min(range(len(tried)), key=lambda index: tried[index][1].loss)
    rows, first = tried[best]
    away = find_outliers(rows.sizes, rows.seconds, first.fitted, rows.table)
    solution = solve(bare, rows, ~away) if away.any() else first
    found = _fitted_rows(bare, rows, checked, solution, away)
    found = _cross_validate(bare, rows, solution, found)
    names = system.hierarchy.names
    versions = [measurement.nccl for measurement in checked if measurement.nccl]
    calibration = Calibration(
        tuple(_fits(bare, rows, solution)),
        residuals(found),
        tuple(dict.fromkeys(measurement.source for measurement in checked if measurement.source)),
        explain_undetermined(bare, rows, solution),
        tuple(_describe_dropped(found)),
        PREFERRED[best],
        measured_ranges(found),
        table_residuals(found),
        machines=known.residuals if (known := apply_typical(bare).calibration) else (),
        undetermined_levels=tuple(
            UndeterminedLevels(tuple(names[level] for level in levels), names[taken])
            for levels, taken in solution.undetermined_levels
        ),
        nccl=max(versions, key=versions.count, default=""),
        curves=solution.columns.curves(solution.logarithms),
    )
    return FitResult(replace(bare, calibration=calibration), calibration, found, first.loss)


def _check_measurement(measurement: Measurement) -> Measurement:
    """Returns the measurement without rows of zero bytes, with its sizes ascending."""
    where = measurement.source
    for sample in measurement.samples:
        if not isfinite(sample.seconds) or (sample.size_bytes > 0 and sample.seconds <= 0):
            raise InputError(
                f"{sample.seconds} s for {sample.size_bytes} bytes",
                where=where,
                hint="every time is a finite number above 0: measure with more iterations",
            )
        if sample.size_bytes < 0:
            raise InputError(f"{sample.size_bytes} bytes", where=where, hint="0 or more")
    samples = [sample for sample in measurement.samples if sample.size_bytes]
    counted = Counter((sample.size_bytes, sample.in_place) for sample in samples)
    twice = [size for (size, _), number in counted.items() if number > 1]
    if twice:
        raise InputError(
            f"{len(twice)} sizes stand twice, the first of {twice[0]} bytes",
            where=where,
            hint="give every run as a file of its own; repeated lines are no second run",
        )
    sizes = {sample.size_bytes for sample in samples}
    if len(sizes) < FEWEST_SIZES:
        raise InputError(
            f"{len(sizes)} sizes of {measurement.collective}",
            where=where,
            hint=f"at least {FEWEST_SIZES} tell latency from bandwidth: -b 8 -e 1G -f 2",
        )
    ordered = sorted(samples, key=lambda sample: (sample.size_bytes, sample.in_place))
    return replace(measurement, samples=tuple(ordered))


def _check_together(measurements: Sequence[Measurement]) -> None:
    if not measurements:
        raise InputError("nothing to fit", hint="give at least one measured table")
    seen: dict[object, str] = {}
    for measurement in measurements:
        what = replace(measurement, source="")
        if what in seen:
            raise InputError(
                f"the rows of {seen[what] or 'a table'} stand here again",
                where=measurement.source,
                hint="give each run once: twice would count twice",
            )
        seen[what] = measurement.source


def _rows(system: System, measurements: Sequence[Measurement], runtime: str) -> Rows:
    sizes: list[float] = []
    seconds: list[float] = []
    tables: list[int] = []
    numbers: list[int] = []
    ways: list[FitCandidate] = []
    for table, measurement in enumerate(measurements):
        known = candidates(system, measurement)
        for sample in measurement.samples:
            taken = choose_algorithm(system, measurement, runtime, sample.size_bytes)
            mine = [
                candidate for candidate in known if taken in (None, candidate.way.algorithm.value)
            ] or known
            numbers += [len(sizes)] * len(mine)
            ways += mine
            sizes.append(float(sample.size_bytes))
            seconds.append(sample.seconds)
            tables.append(table)
    return Rows(
        np.array(sizes), np.array(seconds), np.array(tables), np.array(numbers), tuple(ways)
    )


def _fits(system: System, rows: Rows, solution: Solution) -> Iterator[Fit]:
    """Yields the fitted numbers of each way, and the expected numbers of unmeasured ways.

    Numbers of levels that no row crosses keep their expected values.
    """
    levels = len(system.links)
    crossed = [any(candidate.waited[i] for candidate in rows.candidates) for i in range(levels)]
    gone = Counter(rows.candidates[pair].key for pair in solution.chosen)
    fitted = [*zip(solution.keys, solution.unknowns, strict=True)]
    for key, unknowns in [
        *fitted,
        *unmeasured_ways(solution.keys, solution.unknowns, solution.lowest),
    ]:
        numbers = unknowns.tolist()
        found = []
        for level, before in enumerate(expected_fit(system, key).levels):
            if not crossed[level]:
                found.append(before)
                continue
            hop, inverse, peer, loss = numbers[1 + level :: levels]
            if key[1] != Algorithm.DIRECT.value:
                peer = 0.0
            share, loss = (float(f"{number:.6g}") for number in (1 / inverse, -expm1(-loss)))
            found.append(Crossing(_round_seconds(hop), share, _round_seconds(peer), loss))
        yield Fit(key[2], tuple(found), _round_seconds(numbers[0]), key[1], key[0], gone[key])


def _round_seconds(seconds: float) -> float:
    """Rounds to tenths of nanoseconds: finer than any measured row, but short in a file."""
    return max(0.0, round(seconds * 1e6, 4)) * 1e-6


def _fitted_rows(
    system: System,
    rows: Rows,
    measurements: Sequence[Measurement],
    solution: Solution,
    away: npt.NDArray[np.bool_],
) -> tuple[FittedRow, ...]:
    forced = [_is_forced(system, measurement) for measurement in measurements]
    return tuple(
        FittedRow(
            measurements[table],
            int(size),
            float(seconds),
            float(fitted),
            way.key,
            bool(dropped),
            forced=forced[table],
        )
        for table, size, seconds, fitted, way, dropped in zip(
            rows.table,
            rows.sizes,
            rows.seconds,
            solution.fitted,
            [rows.candidates[pair] for pair in solution.chosen],
            away,
            strict=True,
        )
    )


def _is_forced(system: System, measurement: Measurement) -> bool:
    """Whether only one algorithm can have run: it was forced, or the runtime has no other."""
    return len({each.way.algorithm for each in candidates(system, measurement)}) == 1


def _cross_validate(
    system: System, rows: Rows, solution: Solution, found: Sequence[FittedRow]
) -> tuple[FittedRow, ...]:
    """Returns the rows, each with its seconds by fits without it (cross-validation)."""
    kept = np.array([not row.dropped for row in found])
    starts = np.searchsorted(rows.table, rows.table)
    # Every other size of each table: sizes left out lie between sizes that the fit has seen.
    odd = (np.arange(len(found)) - starts) % 2
    halves = cross_validated_seconds(system, rows, solution, kept, odd)
    names = [row.measurement.configuration for row in found]
    known = list(dict.fromkeys(names))
    tables = np.zeros(len(found))
    if len(known) > 1:
        groups = np.array([known.index(name) for name in names])
        tables = cross_validated_seconds(system, rows, solution, kept, groups)
    return tuple(
        replace(row, halves_seconds=half, tables_seconds=table)
        for row, half, table in zip(found, halves.tolist(), tables.tolist(), strict=True)
    )


def _describe_dropped(rows: Sequence[FittedRow]) -> Iterator[str]:
    for row in rows:
        if row.dropped:
            where = row.measurement.source or "a table"
            what = f"{row.measurement.collective} of {row.size_bytes} bytes"
            times = row.seconds / row.fitted_seconds
            fitted = f"{times:.2g} times the fitted {row.fitted_seconds:.3g} s"
            yield f"{where}: {what} took {row.seconds:.3g} s, {fitted}"


ALIKE = 0.02
"""Below this singular value (of columns scaled to length 1), rows determine only a sum of numbers.
For example, a hop may increase and a launch decrease with little change to any row.
"""


def explain_undetermined(system: System, rows: Rows, solution: Solution) -> tuple[str, ...]:
    """Returns sentences on the numbers that the rows cannot determine, the widest first.

    They cover levels that no row crosses, ways that no row used and, from the singular values of
    the last least squares, numbers known only as a sum: one can increase as another decreases.
    """
    return (
        *_find_unseen_levels(system, rows),
        *_find_unseen_ways(rows, solution),
        *_find_shared_numbers(system, rows, solution),
    )


def _find_unseen_levels(system: System, rows: Rows) -> Iterator[str]:
    for level, name in enumerate(system.hierarchy.names):
        if not any(candidate.waited[level] for candidate in rows.candidates):
            yield f"no row crosses level {name!r}: its numbers stay as they were"


def _find_unseen_ways(rows: Rows, solution: Solution) -> Iterator[str]:
    gone = {rows.candidates[pair].key for pair in solution.chosen}
    for key in solution.keys:
        if key[0] and key not in gone:
            yield f"no row went by {_way(key)}: priced like other ways by {key[2]}"
    for protocol in dict.fromkeys(key[2] for key in solution.keys):
        if protocol not in {key[2] for key in gone}:
            yield f"no row went by protocol {protocol}: its numbers follow those of the others"


def _find_shared_numbers(system: System, rows: Rows, solution: Solution) -> Iterator[str]:
    """Yields numbers known only as a sum, and numbers that never limited a row, by way."""
    ways_by_text: dict[str, list[str]] = {}
    for way, text in _describe_left_together(system, rows, solution):
        ways_by_text.setdefault(text, []).append(way)
    yield from (f"{' and '.join(ways)}: {text}" for text, ways in ways_by_text.items())


def _describe_left_together(
    system: System, rows: Rows, solution: Solution
) -> Iterator[tuple[str, str]]:
    """Yields a way, and the numbers of it that the rows do not determine."""
    names = _names(system)
    shape = len(rows.sizes), len(solution.keys), len(names)
    design = solution.design[:, : shape[1] * shape[2]].reshape(shape)
    for place, key in enumerate(solution.keys):
        if key[0]:
            columns = design[:, place, :]
            lengths = np.linalg.norm(columns, axis=0)
            seen = np.flatnonzero(lengths > 0)
            sums = {frozenset(each) for each in _directions(columns[:, seen] / lengths[seen])}
            for together in sorted(map(sorted, sums)):
                if not any(other < {*together} for other in sums):
                    numbers = " and ".join(names[seen[i]] for i in together)
                    yield _way(key), f"the rows tell only one sum of {numbers}"
            never = [
                names[i]
                for i in range(len(names))
                if not lengths[i] and _is_busy_share(rows, key, i)
            ]
            if len(seen) and never:
                yield _way(key), f"nothing was limited by {' or '.join(never)}"


def _directions(columns: Floats) -> Iterator[list[int]]:
    """Yields sets of columns that are nearly linearly dependent."""
    if not columns.size:
        return
    _, values, directions = np.linalg.svd(columns, full_matrices=True)
    padded = np.concatenate([values, np.zeros(columns.shape[1] - len(values))])
    for value, direction in zip(padded, directions, strict=True):
        together = np.flatnonzero(np.abs(direction) > 0.2).tolist()
        if value < ALIKE and len(together) > 1:
            yield together


def _is_busy_share(rows: Rows, key: Key, column: int) -> bool:
    """Whether a column is the bandwidth share of a level that the way sends bytes over."""
    candidate = next(candidate for candidate in rows.candidates if candidate.key == key)
    which, level = divmod(column - 1, len(candidate.waited))
    return column > 0 and PARTS[which] == "share" and candidate.way.busy_seconds[level] > 0


def _names(system: System) -> list[str]:
    levels = system.hierarchy.names
    parts = [f"{what} of level {name!r}" for what in PARTS for name in levels]
    return ["launch", *parts]


def _way(key: Key) -> str:
    collective, algorithm, protocol = key
    return f"{collective} by {algorithm}, {protocol}"
