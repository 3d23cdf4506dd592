"""The slow oracle of ``synth.step.search.composing``: one plan at a time, without arrays.

``PassSeconds`` bounds a plan kind by kind, and times it by the clock of schedules, which knows each
action and each transfer. ``compose_alone`` composes it from the parts that the columns read too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

import numpy as np

from synth.events.longest_path import time_tasks
from synth.step.schedules import (
    HALVES,
    SCHEDULES,
    Action,
    Pass,
    TransferProtocol,
    build_transfer_graph,
    one_f_one_b,
)
from synth.step.search.composing.clock import KindValues, PassColumns, StageLayout, Structure
from synth.step.search.composing.composer import ROUNDING, Composition
from synth.step.search.composing.inside import ModelPart
from synth.step.search.composing.rows import SplitRows
from synth.step.search.composing.staged import StagedRecipe
from synth.step.search.links import PlacedRecipe

_SHARES = {Pass.FORWARD: 0.0, Pass.BACKWARD: 1.0, Pass.INPUT: 0.5, Pass.WEIGHT: 0.5}


@dataclass(frozen=True)
class PassSeconds:
    """A row of ``PassColumns``, without padding."""

    layout: StageLayout
    forward: KindValues
    backward: KindValues
    busy: KindValues
    once: KindValues
    handed: Sequence[float]

    def bound(self, microbatches: int, *, whole: bool) -> float:
        """Returns a lower bound over all orders of the passes, as ``PassColumns`` does."""
        sent, least = [0.0, *accumulate(self.handed)], 0.0
        for rank, before in self.layout.turns:
            kind = self.layout.rank_kind_of[rank]
            ahead = sent[rank] + sum(map(mul, before, self.forward))
            behind = sent[rank] + sum(map(mul, before, self.backward))
            done = ahead + microbatches * self.busy[kind]
            least = max(least, done + self.once[kind])
            if whole:
                least = max(least, done + behind + self.once[0])
        return least

    def seconds(self, structure: Structure) -> float:
        """Returns the seconds of a step, action by action."""
        ranks, schedule, microbatches, chunks = structure
        if schedule:
            order = SCHEDULES[schedule](ranks, microbatches, chunks)
        else:
            order = one_f_one_b(1, microbatches)
        graph, kind_of = build_transfer_graph(order, TransferProtocol.EAGER), self.layout.kind_of

        def action_seconds(action: Action) -> float:
            kind, share = kind_of[action.stage], _SHARES[action.kind]
            return (action.kind is Pass.FORWARD) * self.forward[kind] + share * self.backward[kind]

        def sent_seconds(source: Action, target: Action) -> float:
            ends = [order.rank_of[action.stage] for action in (source, target)]
            neighbours = abs(ends[0] - ends[1]) == 1
            return self.handed[min(ends)] if neighbours else max(self.handed)

        seconds = [*map(action_seconds, order.actions)]
        seconds += [sent_seconds(*pair) for pair in graph.transfers]
        _, ends = time_tasks(graph.tasks, seconds)
        kinds = self.layout.rank_kind_of
        return max(
            ends[queue[-1]] + self.once[kind]
            for queue, kind in zip(graph.queues, kinds, strict=True)
        )

    @property
    def columns(self) -> PassColumns:
        """The columns of this plan alone."""
        values = self.forward, self.backward, self.busy, self.once, self.handed
        return PassColumns([self.layout], *(np.array([each], float) for each in values))


def bound_alone(
    composed: Composition, candidate: PlacedRecipe, buckets: Sequence[int] = ()
) -> float:
    """Returns the lower bound of a plan, as ``Composition.bounds`` does."""
    recipe = candidate.recipe
    passes = compose_alone(composed, candidate, buckets)
    return (1 - ROUNDING) * passes.bound(recipe.microbatches, whole=recipe.schedule not in HALVES)


def time_alone(composed: Composition, candidate: PlacedRecipe) -> float:
    """Returns the seconds of a plan, as ``Composition.seconds`` does."""
    return compose_alone(composed, candidate).seconds(candidate.structure)


def compose_alone(
    composed: Composition, candidate: PlacedRecipe, buckets: Sequence[int] = ()
) -> PassSeconds:
    """Returns the seconds of stages and ranks; with ``buckets``, lower bounds over sizes."""
    plan, rows = composed.composer.staged(candidate.recipe), SplitRows.of(candidate)
    zero, layout, over = candidate.recipe.zero, plan.layout, rows.sums
    inside = composed.working(plan, rows.inside)
    forward, backward = (layout.of_stages(_by_part(seconds)) for seconds in inside)
    gather = _by_part(composed.gathers(plan, over))
    reduce = _by_part(composed.sums(plan, (candidate.recipe.bucket_bytes, *buckets), over))
    pieces = plan.pieces if buckets else plan.sum_pieces
    once = _once_seconds(plan, gather, layout.of_last(forward))
    sent, ends = _alike(plan, reduce), _ends(plan, reduce)
    if zero >= 2:
        gathers = _alike(plan, gather if zero == 3 else _NOTHING)
        forward = _map_kinds(lambda own, sent: _overlap(own, sent, plan.pieces), forward, gathers)
        backward = _map_kinds(
            lambda own, inward, sums, ends: _overlap(own, inward + sums, pieces) + ends,
            backward,
            gathers,
            sent,
            ends,
        )
    else:
        # Only the last backward pass of a rank, that of its first stage, overlaps reductions.
        compute, last = layout.of_last(backward), layout.of_last(sent)
        both = _map_kinds(lambda own, sent: _overlap(own, sent, pieces), compute, last)
        once = _map_kinds(
            lambda own, both, alone, sums, last, ends: own + both - alone + sums - last + ends,
            once,
            both,
            compute,
            layout.of_ranks(sent),
            last,
            layout.of_ranks(ends),
        )
    busy = _map_kinds(lambda *each: sum(each), layout.of_ranks(forward), layout.of_ranks(backward))
    handed = composed.handed(plan, rows.pipe)
    return PassSeconds(layout, forward, backward, busy, once, handed)


_NOTHING = dict.fromkeys(ModelPart, 0.0)


def _by_part(values: Sequence[float]) -> dict[ModelPart, float]:
    return dict(zip(ModelPart, values, strict=True))


def _alike(plan: StagedRecipe, values: Mapping[ModelPart, float]) -> KindValues:
    """Returns, for each kind of stage, the values of the parts that overlap."""
    kept = {part: value * (part in plan.overlapping) for part, value in values.items()}
    return plan.layout.of_stages(kept)


def _ends(plan: StagedRecipe, values: Mapping[ModelPart, float]) -> KindValues:
    """Returns, for each kind of stage, the values of parts with exposed communication."""
    kept = {part: value * (part not in plan.overlapping) for part, value in values.items()}
    return plan.layout.of_stages(kept)


def _once_seconds(
    plan: StagedRecipe, gather: Mapping[ModelPart, float], first: KindValues
) -> KindValues:
    """Returns the seconds in which each kind of rank sums, updates and gathers parameters."""
    layout, zero = plan.layout, plan.recipe.zero
    gathered = _ends(plan, gather) if zero == 3 else layout.of_stages(gather if zero else _NOTHING)
    update, gathers = layout.of_ranks(layout.of_stages(plan.updating)), layout.of_ranks(gathered)
    if zero == 3 or plan.in_stacks:
        return _map_kinds(lambda *overlapped: sum(overlapped), update, gathers)
    overlapped = _map_kinds(lambda own, sent: _overlap(own, sent, plan.layers), first, gathers)
    return _map_kinds(lambda own, both, passes: own + both - passes, update, overlapped, first)


def _map_kinds(function: Callable[..., float], *values: KindValues) -> KindValues:
    return tuple(map(function, *values))


def _overlap(compute: float, sent: float, pieces: float) -> float:
    return max(compute, sent) + min(compute, sent) / max(1.0, pieces)
