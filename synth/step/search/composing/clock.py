"""Times the passes of plans in the order of a schedule, or bounds them without a schedule.

Each stage has some layers. The first stage also has the operations before the layers, and the last
stage the operations after them, which take as long as several layers if the vocabulary is large.
Most stages are alike, so plans are described by *kinds* of stages and of ranks
(``lay_out_stages``). The lower bound needs no schedule: a rank waits for the stages before its own,
runs all its passes, and those stages finish after it. Four equal stages and eight microbatches
under 1F1B attain the bound:

>>> each = np.ones((1, 3))
>>> layout = lay_out_stages(4, 4, 1)
>>> plans = PassColumns([layout], each, each, 2 * each, 0 * each, np.zeros((1, 3)))
>>> plans.bounds(np.array([8]), whole=np.array([True])).tolist()
[22.0]

>>> layout = lay_out_stages(126, 16, 1, (7, *(8,) * 14, 7))
>>> layout.kinds
((7, True, False), (8, False, False), (7, False, True))
>>> layout.turns
((0, (0, 0, 0)), (14, (1, 13, 0)), (15, (1, 14, 0)))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache, reduce
from typing import Self

import numpy as np
from numpy.typing import NDArray

from synth.step.search.composing.inside import ModelPart

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

Structure = tuple[int, str, int, int]
"""Pipeline ranks, schedule, microbatches, chunks: these determine the passes and their order."""


StageKind = tuple[float, bool, bool]
"""A kind of stage: its number of layers, whether it is the first, and whether it is the last."""

KindValues = tuple[float, ...]
"""A value for each kind of stages or of ranks."""


@dataclass(frozen=True)
class StageLayout:
    """The kind of each of the ``stages``, and the stages of each rank."""

    stages: tuple[StageKind, ...]
    of_rank: tuple[tuple[int, ...], ...]

    @cached_property
    def kinds(self) -> tuple[StageKind, ...]:
        """The distinct kinds of stages."""
        return tuple(dict.fromkeys(self.stages))

    @cached_property
    def kind_of(self) -> tuple[int, ...]:
        """The index of each stage's kind."""
        return tuple(map(self.kinds.index, self.stages))

    @cached_property
    def _counted(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each rank, the number of its stages of each kind."""
        counts = (Counter(self.kind_of[stage] for stage in stages) for stages in self.of_rank)
        return tuple(tuple(sorted(count.items())) for count in counts)

    @cached_property
    def ranks(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The distinct kinds of ranks: pairs of a kind of stage and the number of such stages."""
        return tuple(dict.fromkeys(self._counted))

    @cached_property
    def rank_kind_of(self) -> tuple[int, ...]:
        """The index of each rank's kind."""
        return tuple(map(self.ranks.index, self._counted))

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """The first rank of each kind."""
        return tuple(map(self.rank_kind_of.index, range(len(self.ranks))))

    @cached_property
    def turns(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """The last rank of each run of ranks of one kind, with the number of stages of each kind
        that come before that rank's own.
        """
        kinds = self.rank_kind_of
        last = [rank for rank, kind in enumerate(kinds) if kinds[rank + 1 : rank + 2] != (kind,)]
        stage_kinds = range(len(self.kinds))
        return tuple((rank, tuple(map(self.kind_of[:rank].count, stage_kinds))) for rank in last)

    def of_stages(self, values: Mapping[ModelPart, float]) -> KindValues:
        """Returns the sum of the values of its parts for each kind of stage."""
        return tuple(
            first * values[ModelPart.FIRST]
            + layers * values[ModelPart.LAYER]
            + last * values[ModelPart.LAST]
            for layers, first, last in self.kinds
        )

    def of_ranks(self, stages: KindValues) -> KindValues:
        """Returns the sum of the values of its stages for each kind of rank."""
        return tuple(sum(times * stages[kind] for kind, times in counts) for counts in self.ranks)

    def of_last(self, stages: KindValues) -> KindValues:
        """Returns the value of each rank kind's first stage, whose backward pass is its last."""
        return tuple(stages[self.kind_of[rank]] for rank in self.firsts)


@lru_cache(4096)
def lay_out_stages(
    layers: int,
    ranks: int,
    chunks: int,
    stage_layers: tuple[int, ...] = (),
    *,
    folded: bool = False,
) -> StageLayout:
    """Assigns stages to ranks in turn, ``chunks`` to each, with ``stage_layers`` or equal layers.

    ``folded``: stages go down the ranks and back up, as in a V-shaped schedule.
    """
    count = ranks * chunks
    sizes: Sequence[float] = stage_layers or (layers / count,) * count
    stages = ((size, not stage, stage == count - 1) for stage, size in enumerate(sizes))
    if folded:
        return StageLayout(tuple(stages), tuple((rank, count - 1 - rank) for rank in range(ranks)))
    return StageLayout(
        tuple(stages), tuple(tuple(range(rank, count, ranks)) for rank in range(ranks))
    )


@dataclass(frozen=True)
class LayoutColumns:
    """The layouts of several plans as arrays: a row for each plan, padded to as many columns.

    ``kinds``: the share of each ``ModelPart`` in each kind of stage, of shape (plans, kinds,
    parts). ``counts``: how many stages of each kind each kind of rank has. ``firsts``: the kind of
    each rank kind's first stage. ``turns``: ranks of ``StageLayout.turns``, with their kinds in
    ``turn_kinds`` and the stages before them in ``before``; the last turn fills the row.
    """

    kinds: Floats
    counts: Floats
    firsts: Integers
    turns: Integers
    turn_kinds: Integers
    before: Floats

    @classmethod
    def of(cls, layouts: Sequence[StageLayout]) -> Self:
        """Returns the columns of a layout for each plan."""
        places: dict[int, int] = {}
        distinct: list[StageLayout] = []
        for layout in layouts:
            if places.setdefault(id(layout), len(distinct)) == len(distinct):
                distinct.append(layout)
        rows = [places[id(layout)] for layout in layouts]
        kinds = max(len(layout.kinds) for layout in distinct)
        ranks = max(len(layout.ranks) for layout in distinct)
        turns = max(len(layout.turns) for layout in distinct)
        empty = cls(
            np.zeros((len(distinct), kinds, len(ModelPart))),
            np.zeros((len(distinct), ranks, kinds)),
            np.zeros((len(distinct), ranks), np.int64),
            np.zeros((len(distinct), turns), np.int64),
            np.zeros((len(distinct), turns), np.int64),
            np.zeros((len(distinct), turns, kinds)),
        )
        for number, layout in enumerate(distinct):
            empty._fill(number, layout)
        return cls(*(getattr(empty, column.name)[rows] for column in fields(cls)))

    def _fill(self, row: int, layout: StageLayout) -> None:
        for kind, (layers, first, last) in enumerate(layout.kinds):
            self.kinds[row, kind] = first, layers, last
        for rank, counts in enumerate(layout.ranks):
            for kind, times in counts:
                self.counts[row, rank, kind] = times
        for rank, first_rank in enumerate(layout.firsts):
            self.firsts[row, rank] = layout.kind_of[first_rank]
        for turn in range(self.turns.shape[1]):
            rank, before = layout.turns[min(turn, len(layout.turns) - 1)]
            self.turns[row, turn] = rank
            self.turn_kinds[row, turn] = layout.rank_kind_of[rank]
            self.before[row, turn, : len(before)] = before

    def of_stages(self, values: Floats) -> Floats:
        """Returns the sum of the values of its parts, of shape (plans, parts), by kind of stage."""
        return _sum_in_order(self.kinds * values[:, None, :])

    def of_ranks(self, stages: Floats) -> Floats:
        """Returns the sum of the values of its stages for each kind of rank."""
        return _sum_in_order(self.counts * stages[:, None, :])

    def of_last(self, stages: Floats) -> Floats:
        """Returns the value of each rank kind's first stage, whose backward pass is its last."""
        return np.take_along_axis(stages, self.firsts, axis=1)


def _sum_in_order(terms: Floats) -> Floats:
    """Sums over the last axis, first to last: numpy's own sum may add in another order."""
    summed: Floats = reduce(np.add, np.moveaxis(terms, -1, 0))
    return summed


@dataclass(frozen=True)
class PassColumns:
    """Seconds of the passes and transfers of plans: row n of each array is of plan n.

    By kind of stage: the ``forward`` and the ``backward`` pass of one microbatch. By kind of rank:
    all passes of one microbatch (``busy``), and the work done ``once`` per step. ``handed``: the
    transfer of values from each rank to the next, padded with zeros.
    """

    layouts: Sequence[StageLayout]
    forward: Floats
    backward: Floats
    busy: Floats
    once: Floats
    handed: Floats

    def bounds(self, microbatches: Integers, *, whole: NDArray[np.bool_]) -> Floats:
        """Returns a lower bound of each plan in seconds, over all orders of the passes.

        Rank r begins when the first microbatch has passed through the stages before its own, and
        then runs all its passes. If backward passes are ``whole``, the last of these is the
        backward pass of stage r, and the backward passes of the stages before it follow. Of split
        passes the last may be a half for weights, for which no other rank waits.
        """
        columns = LayoutColumns.of(self.layouts)
        handed = np.cumsum(self.handed, axis=1)
        sent = np.concatenate([np.zeros((len(handed), 1)), handed], axis=1)
        sent = np.take_along_axis(sent, columns.turns, axis=1)
        ahead = sent + _sum_in_order(columns.before * self.forward[:, None, :])
        behind = sent + _sum_in_order(columns.before * self.backward[:, None, :])
        busy, once = (
            np.take_along_axis(values, columns.turn_kinds, axis=1)
            for values in (self.busy, self.once)
        )
        done = ahead + microbatches[:, None] * busy
        first = np.where(whole[:, None], done + behind + self.once[:, :1], 0.0)
        least: Floats = np.maximum(first, done + once).max(axis=1)
        return least

    def select(self, plans: Sequence[int]) -> PassColumns:
        """Returns the rows of some plans."""
        return PassColumns(
            [self.layouts[plan] for plan in plans],
            *(
                values[plans]
                for values in (self.forward, self.backward, self.busy, self.once, self.handed)
            ),
        )
