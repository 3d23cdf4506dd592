"""What is run: requests on systems, and for each of them its pairs of placement and program."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256

from grammar import parse
from hierarchies import Axis, Placement, Reduction, System, placements
from results.testbed.systems import built
from synth.collective.ranking.library import Library
from synth.collective.semantics.lowering import lower
from synth.collective.semantics.programs import Language
from synth.collective.semantics.rules import Derivation, derive
from synth.collective.semantics.schedule import Schedule

MOST_PAIRS = 72
"""Of more pairs than these so many are drawn."""
DRAWN_PAIRS = 40
SEED = 20110


@dataclass(frozen=True)
class Pair:
    """A placement and a program on it, ready to be run; all groups have the whole payload."""

    matrix: tuple[tuple[int, ...], ...]
    program: str
    reduction: Reduction
    derivation: Derivation
    schedule: Schedule

    @property
    def name(self) -> str:
        """What it is called in files."""
        return f"{[list(row) for row in self.matrix]} {self.program}"


@dataclass(frozen=True)
class Case:
    """A request on a system for a payload: an all-reduce over some of its axes.

    ``megabits`` are the rates of a port at each level, ``most_steps`` how long programs may be.
    """

    shape: tuple[int, ...]
    megabits: tuple[float, ...]
    axes: tuple[int, ...]
    over: tuple[int, ...]
    payload_bytes: int
    most_steps: int = 3

    @property
    def name(self) -> str:
        """What its file is called."""
        axes = "x".join(map(str, self.axes))
        over = "".join(map(str, self.over))
        return f"{self.system.name}-axes{axes}-over{over}-{self.payload_bytes // 1024}KiB"

    @cached_property
    def system(self) -> System:
        return built(self.shape, self.megabits)

    @cached_property
    def _axes(self) -> tuple[Axis, ...]:
        return tuple(Axis(f"axis{i}", size) for i, size in enumerate(self.axes))

    def all_pairs(self) -> Iterator[tuple[Placement, str]]:
        """Every placement with every valid program of at most ``most_steps`` steps, spelled."""
        library = _library(self.most_steps)
        for placement in placements(self.system.hierarchy, self._axes):
            tree = self.reduction(placement).tree
            spelled = library.spellings(tree)
            for labels in library.paths(len(tree.digits)):
                yield placement, "; ".join(spelled[label] for label in labels)

    def reduction(self, placement: Placement) -> Reduction:
        return Reduction(placement, tuple(self._axes[i].name for i in self.over))

    def pairs(self) -> list[Pair]:
        """The pairs that are run: all, or where they are far too many some, drawn by the name."""
        every = list(self.all_pairs())
        if len(every) > MOST_PAIRS:
            seed = int.from_bytes(sha256(f"{SEED} {self.name}".encode()).digest()[:8], "big")
            chosen = sorted(random.Random(seed).sample(range(len(every)), DRAWN_PAIRS))
            every = [every[i] for i in chosen]
        return [self.pair(placement, program) for placement, program in every]

    def pair(self, placement: Placement, program: str) -> Pair:
        reduction = self.reduction(placement)
        derivation = derive(parse(program), reduction.tree)
        assert isinstance(derivation, Derivation)
        schedule = lower(derivation, reduction, self.payload_bytes)
        return Pair(placement.matrix, program, reduction, derivation, schedule)


@cache
def _library(most_steps: int) -> Library:
    return Library(Language(most_steps))


def groups(reduction: Reduction) -> tuple[tuple[int, ...], ...]:
    """For every device the members of its reduction group."""
    found: dict[int, tuple[int, ...]] = {}
    for group in reduction.grid().tolist():
        found.update(dict.fromkeys(group, tuple(group)))
    return tuple(found[device] for device in sorted(found))


_KIB = 1024
_Row = tuple[tuple[int, ...], tuple[int, ...], int, tuple[int, ...]]
"""Axes, those reduced over, the longest programs' steps, and payloads in KiB."""
_TABLE: tuple[tuple[tuple[int, ...], tuple[float, ...], tuple[_Row, ...]], ...] = (
    (
        (2, 4),
        (50, 400),
        (
            ((8,), (0,), 4, (256,)),
            ((2, 4), (1,), 3, (512,)),
            ((4, 2), (0,), 3, (512,)),
            ((2, 4), (0, 1), 3, (256,)),
        ),
    ),
    (
        (2, 4),
        (100, 400),
        (
            ((8,), (0,), 4, (512,)),
            ((2, 4), (1,), 3, (1024, 2048)),
            ((4, 2), (0,), 3, (1024,)),
            ((2, 4), (0, 1), 3, (512,)),
        ),
    ),
    (
        (2, 4),
        (100, 200),
        (((8,), (0,), 4, (512,)), ((2, 4), (1,), 3, (1024,)), ((4, 2), (0,), 3, (512,))),
    ),
    (
        (4, 4),
        (50, 200),
        (
            ((16,), (0,), 4, (256,)),
            ((2, 8), (1,), 3, (256,)),
            ((8, 2), (0,), 3, (256,)),
            ((4, 4), (0,), 3, (512,)),
            ((4, 4), (1,), 3, (512,)),
        ),
    ),
    (
        (4, 4),
        (100, 200),
        (
            ((16,), (0,), 4, (512,)),
            ((2, 8), (1,), 3, (512,)),
            ((8, 2), (0,), 3, (512,)),
            ((4, 4), (0,), 3, (1024,)),
            ((4, 4), (1,), 3, (512,)),
            ((2, 8), (0, 1), 3, (512,)),
        ),
    ),
    (
        (2, 8),
        (50, 200),
        (
            ((2, 8), (1,), 3, (512,)),
            ((8, 2), (0,), 3, (256,)),
            ((4, 4), (0,), 3, (256,)),
            ((4, 4), (1,), 3, (256,)),
        ),
    ),
    (
        (2, 8),
        (100, 200),
        (
            ((16,), (0,), 4, (256,)),
            ((2, 8), (1,), 3, (1024,)),
            ((8, 2), (0,), 3, (512,)),
            ((4, 4), (0,), 3, (512,)),
            ((4, 4), (1,), 3, (512,)),
            ((2, 8), (0, 1), 3, (256, 1024)),
        ),
    ),
    (
        (2, 2, 4),
        (50, 100, 200),
        (
            ((16,), (0,), 3, (256,)),
            ((2, 8), (1,), 3, (256,)),
            ((8, 2), (0,), 3, (256,)),
            ((4, 4), (0,), 3, (256,)),
        ),
    ),
    (
        (2, 2, 4),
        (100, 100, 200),
        (
            ((16,), (0,), 3, (256,)),
            ((2, 8), (1,), 3, (512,)),
            ((8, 2), (0,), 3, (512,)),
            ((4, 4), (0,), 3, (512,)),
            ((4, 4), (1,), 3, (256,)),
            ((2, 8), (0, 1), 3, (512,)),
        ),
    ),
)


def cases() -> tuple[Case, ...]:
    """All of them, the systems in turn, so that a part of the campaign says something of all.

    The requests with most pairs come last.
    """
    found = [
        [
            Case(shape, megabits, axes, over, size * _KIB, most_steps)
            for axes, over, most_steps, sizes in rows
            for size in sizes
        ]
        for shape, megabits, rows in _TABLE
    ]
    most = max(map(len, found))
    return tuple(some[-1 - i] for i in range(most) for some in found if i < len(some))
