"""What measured rows leave open: ways and levels without rows, numbers known only as a sum."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hierarchies import System
from synth.measure.calibration.prior import PARTS, Floats, Key
from synth.measure.calibration.solver import Rows, Solution

ALIKE = 0.02
"""Below this singular value (of columns scaled to length 1) rows determine only a sum of numbers: a
hop may grow and a launch shrink, and no row changes much.
"""


def explain_undetermined(system: System, rows: Rows, solution: Solution) -> tuple[str, ...]:
    """Returns sentences on the numbers that the rows cannot determine, the widest first.

    They are levels that no row crosses, ways that none took, and, from the singular values of
    the last least squares, numbers known only as a sum: one can grow as another shrinks.
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
    """Yields numbers known only as a sum, and those that never limited a row, by way."""
    ways_by_text: dict[str, list[str]] = {}
    for way, text in _describe_left_together(system, rows, solution):
        ways_by_text.setdefault(text, []).append(way)
    yield from (f"{' and '.join(ways)}: {text}" for text, ways in ways_by_text.items())


def _describe_left_together(
    system: System, rows: Rows, solution: Solution
) -> Iterator[tuple[str, str]]:
    """Yields a way, and what the rows do not determine of it."""
    names = _names(system)
    design = solution.design.reshape(len(rows.sizes), len(solution.keys), len(names))
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
