"""Times the passes of plans in the order of a schedule, all plans of one structure at once.

Four equal stages and eight microbatches under 1F1B take as long as their lower bound:

>>> from synth.step.search.composing.clock import lay_out_stages
>>> each = np.ones((1, 3))
>>> layout = lay_out_stages(4, 4, 1)
>>> plans = PassColumns([layout], each, each, 2 * each, 0 * each, np.zeros((1, 3)))
>>> PlanClock().seconds((4, "1f1b", 8, 1), plans).tolist()
[22.0]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Self

import numpy as np

from synth.step.schedules import SCHEDULES, Pass, PipelineSchedule, one_f_one_b
from synth.step.search.composing.clock import Floats, Integers, PassColumns, Structure

CLOCK_BATCH = 32
"""Number of plans with the same structure that are timed at once."""

_PASSES = tuple(Pass)
_BACKWARD_SHARES = {Pass.FORWARD: 0.0, Pass.BACKWARD: 1.0, Pass.INPUT: 0.5, Pass.WEIGHT: 0.5}
"""The share of a whole backward pass that each kind of pass takes."""


@dataclass(frozen=True)
class _ScheduleClock:
    """A schedule as arrays, for many plans that differ in seconds only.

    Actions are numbered by turns: in a turn, every rank runs its next action if what that needs was
    done in an earlier turn. ``turns`` has the number of the first action of each turn, and of all
    actions at the end. Of each action: its stage; its share of a forward and of a backward pass;
    ``previous``, the action before it on its rank; ``needed``, the action of another rank that it
    waits for, with the ``links`` of that transfer. Where there is none, -1. ``last``: the last
    action of each rank.
    """

    turns: Sequence[int]
    stages: Integers
    ahead: Floats
    back: Floats
    previous: Integers
    needed: Integers
    links: Integers
    last: Integers

    @classmethod
    def of(cls, order: PipelineSchedule) -> Self:
        """Returns the arrays of a schedule without circular waits."""
        lengths = np.array([*map(len, order.ranks)])
        ranks = np.repeat(np.arange(len(lengths)), lengths)
        stages, kinds, microbatches = np.array(
            [(stage, _PASSES.index(kind), m) for stage, kind, m in order.actions]
        ).T
        needed = _find_needed(stages, kinds, microbatches, ranks)
        firsts = np.cumsum(lengths) - lengths
        turns, sequence = _take_turns(needed, firsts, firsts + lengths)
        places = np.full(len(sequence) + 1, -1)
        places[sequence] = np.arange(len(sequence))
        previous = np.arange(len(sequence)) - 1
        previous[firsts] = -1
        source = np.where(needed >= 0, ranks[needed], -1)
        # Interleaved stages wrap from the last rank to the first: the link after all others.
        links = np.where(abs(source - ranks) == 1, np.minimum(source, ranks), len(lengths) - 1)
        links[needed < 0] = -1
        shares = np.array([_BACKWARD_SHARES[kind] for kind in _PASSES])
        return cls(
            turns,
            stages[sequence],
            (kinds == _PASSES.index(Pass.FORWARD)).astype(float)[sequence],
            shares[kinds][sequence],
            places[previous][sequence],
            places[needed][sequence],
            links[sequence],
            places[firsts + lengths - 1],
        )

    def ends(self, forward: Floats, backward: Floats, handed: Floats) -> Floats:
        """Returns when each rank ends its passes in each plan, of shape (plans, ranks).

        ``forward`` and ``backward`` are the seconds of each stage in each plan.
        """
        takes = (self.ahead * forward[:, self.stages] + self.back * backward[:, self.stages]).T
        slowest = handed.max(axis=1, keepdims=True, initial=0.0)
        # The last row of ``ends`` and of ``sent`` is 0, for actions that wait for none.
        sent = np.concatenate([handed, slowest, np.zeros_like(slowest)], axis=1).T
        ends, sent = np.zeros((len(takes) + 1, len(forward))), sent[self.links]
        for begin, end in pairwise(self.turns):
            arrives = ends.take(self.needed[begin:end], axis=0)
            arrives += sent[begin:end]
            np.maximum(arrives, ends.take(self.previous[begin:end], axis=0), out=arrives)
            np.add(arrives, takes[begin:end], out=ends[begin:end])
        return ends[self.last].T


def _find_needed(
    stages: Integers, kinds: Integers, microbatches: Integers, ranks: Integers
) -> Integers:
    """Returns the number of the action of another rank that each action waits for, or -1.

    A forward pass waits for that of the stage before; a backward pass, or its half for the input,
    for that of the stage after. What an action needs of its own rank is before it in any order.
    """
    backward = (kinds != _PASSES.index(Pass.FORWARD)).astype(int)
    waits = kinds != _PASSES.index(Pass.WEIGHT)
    # Stage -1 is the last row, which stays empty.
    numbers = np.full((stages.max() + 2, 2, microbatches.max() + 1), -1)
    numbers[stages[waits], backward[waits], microbatches[waits]] = np.flatnonzero(waits)
    needed = numbers[stages + np.where(backward, 1, -1), backward, microbatches]
    return np.where(waits & (needed >= 0) & (ranks[needed] != ranks), needed, -1)


def _take_turns(needed: Integers, firsts: Integers, ends: Integers) -> tuple[list[int], Integers]:
    """Returns the first place of each turn and the actions by turns; ranks run from ``firsts``."""
    done = np.zeros(len(needed) + 1, bool)
    done[-1] = True
    heads, turns, sequence = firsts.copy(), [0], []
    while len(waiting := np.flatnonzero(heads < ends)):
        ready = waiting[done[needed[heads[waiting]]]]
        sequence.append(heads[ready])
        turns.append(turns[-1] + len(ready))
        done[sequence[-1]] = True
        heads[ready] += 1
    return turns, np.concatenate(sequence)


class PlanClock:
    """Times plans. Caches when ranks end their passes, which plans share that differ in work done
    once per step, such as reductions of gradients that are not sharded.
    """

    def __init__(self) -> None:
        self._ends: defaultdict[Structure, dict[bytes, Floats]] = defaultdict(dict)

    def seconds(self, structure: Structure, plans: PassColumns) -> Floats:
        """Returns the seconds of a step of each of several plans with the same structure."""
        kinds, rank_kinds = (
            np.array([getattr(layout, name) for layout in plans.layouts])
            for name in ("kind_of", "rank_kind_of")
        )
        forward, backward = (
            np.take_along_axis(values, kinds, axis=1) for values in (plans.forward, plans.backward)
        )
        handed = plans.handed[:, : structure[0] - 1]
        keys = [row.tobytes() for row in np.concatenate([forward, backward, handed], axis=1)]
        known = self._ends[structure]
        fresh = {key: row for row, key in enumerate(keys) if key not in known}
        rows = [*fresh.values()]
        for start in range(0, len(rows), CLOCK_BATCH):
            some = rows[start : start + CLOCK_BATCH]
            ends = _clock(*structure).ends(forward[some], backward[some], handed[some])
            known.update(zip((keys[row] for row in some), ends, strict=True))
        last = np.array([known[key] for key in keys])
        once = np.take_along_axis(plans.once, rank_kinds, axis=1)
        steps: Floats = (last + once).max(axis=1)
        return steps


@lru_cache(4096)
def _clock(ranks: int, schedule: str, microbatches: int, chunks: int) -> _ScheduleClock:
    if schedule:
        order = SCHEDULES[schedule](ranks, microbatches, chunks)
    else:
        order = one_f_one_b(1, microbatches)
    return _ScheduleClock.of(order)
