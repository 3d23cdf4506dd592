"""How often a gain that prices tell is none: pairs of runs on one machine that prices had not seen.

Two tables of a family are runs on one machine; rows of one size are two ways to spend the same
bytes there. All-to-alls are left out: nothing else sends to every peer. Families count alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from results.typical.model import classes
from results.typical.rows import Floats, Machine, Rows
from synth.collective.price.resolution import FINEST

TIMES = (1.02, 1.1, 1.25, 1.5, 2.0, 3.0, np.inf)
"""How many times as long one of two is priced as the other: the ends of the classes."""
Pair = tuple[int, str, float, float]
"""A class of sizes, a family, and how many times as long one took: priced, and measured."""


def noise(known: list[Machine], rows: Rows, seconds: Floats, names: tuple[str, ...]) -> list[Any]:
    """By class of sizes and of the priced ratio: pairs, families, and the share that was wrong."""
    every, found = list(_pairs(known, rows, seconds)), []
    for size, name in enumerate(names):
        for least, most in pairwise(TIMES):
            here = [one for one in every if one[0] == size and least <= one[2] < most]
            families = dict.fromkeys(family for _, family, _, _ in here)
            wrong = [
                np.mean([took <= 1 + FINEST for _, which, _, took in here if which == family])
                for family in families
            ]
            if here:
                share = round(float(np.mean(wrong)), 3)
                found.append(
                    {
                        "sizes": name,
                        "from": least,
                        "pairs": len(here),
                        "families": len(families),
                        "wrong": share,
                    }
                )
    return found


def _pairs(known: list[Machine], rows: Rows, seconds: Floats) -> Iterator[Pair]:
    which = classes(rows.size)
    for number, machine in enumerate(known):
        sent = np.array([one.collective != "all-to-all" for one in machine.measurements])
        mine = np.flatnonzero(rows.family == number)
        mine = mine[sent[rows.table[mine] - 1000 * number]] if machine.judged else mine[:0]
        for size in np.unique(rows.size[mine]):
            for one, other in combinations(mine[rows.size[mine] == size], 2):
                if rows.table[one] != rows.table[other]:
                    priced = float(seconds[one] / seconds[other])
                    took = float(rows.seconds[one] / rows.seconds[other])
                    if priced < 1:
                        priced, took = 1 / priced, 1 / took
                    yield int(which[one]), machine.name, priced, took
