"""A group of measured plans in the order in which ``collsynth plan`` would list them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import inf
from typing import Any

import numpy as np

from hierarchies import InputError
from results.order.groups import Group, Measured
from results.order.offers import Offer, Offered, offered
from results.order.ranking import FIRST, ranked, sorted_by
from results.steps.hindrances import Late
from results.steps.protocol import short
from results.steps.shapes import Plan, Shape
from synth.step.search.finalists import Finalist
from synth.step.search.resolution import choose_advised, compare_seconds

TWICE = 2.0
"""A run that takes so many times what is expected is late: more went on than its plan says."""


@dataclass(frozen=True)
class Judged:
    """A group, and what is expected of it. All seconds are of a sample."""

    group: Group

    @cached_property
    def seconds(self) -> list[float]:
        """As measured."""
        return [one.each for one in self.group.plans]

    @cached_property
    def offers(self) -> list[Offer]:
        return [self._offer(one.shape, one.plan) for one in self.group.plans]

    @cached_property
    def composed(self) -> list[float]:
        """What the search goes by: infinite for plans that it has not, or that do not fit."""
        both = zip(self.group.plans, self.offers, strict=True)
        return [self._each(one.shape, one.plan, offer) for one, offer in both]

    @cached_property
    def finalists(self) -> dict[int, Finalist]:
        """The first that fit, as the answer has them; one that does not after all makes room."""
        return dict(self._finalists())

    @cached_property
    def simulated(self) -> dict[int, float]:
        """Their seconds."""
        return {
            at: one.found.seconds / self.group.plans[at].plan.sequences
            for at, one in self.finalists.items()
        }

    @cached_property
    def order(self) -> list[int]:
        """Those that are simulated, and then the others."""
        first = sorted(self.simulated, key=self.simulated.__getitem__)
        return first + [at for at in sorted_by(self.composed) if at not in self.simulated]

    def _known(self, shape: Shape, plan: Plan) -> Offered:
        return offered(self.group.asked(shape, plan))

    def _offer(self, shape: Shape, plan: Plan) -> Offer:
        return self._known(shape, plan).offer(plan, self.group.layers(shape, plan))

    def _each(self, shape: Shape, plan: Plan, offer: Offer) -> float:
        fits = self._known(shape, plan).fits(offer.size_bytes)
        return offer.seconds / plan.sequences if fits else inf

    def _finalists(self) -> Iterator[tuple[int, Finalist]]:
        found = 0
        for at in sorted_by(self.composed):
            one, candidate = self.group.plans[at], self.offers[at].candidate
            known = self._known(one.shape, one.plan)
            assert candidate is not None, one
            try:
                last = known.simulated(candidate)
            except InputError:
                continue
            if known.fits(last.size_bytes):
                found += 1
                yield at, last
            if found == FIRST:
                return

    def told(self) -> dict[str, Any]:
        """All figures of the group."""
        refused = Counter(one.refused for one in self.offers if one.refused)
        best = self.seconds.index(min(self.seconds))
        return {
            "group": self.group.name,
            "family": self.group.family.name,
            "devices": self.group.devices,
            "plans": len(self.seconds),
            "refused": dict(refused.most_common()),
            "fitting": len(sorted_by(self.composed)),
            "first": [self._plan(at) for at in self.order[:FIRST]],
            "best": self._plan(best),
            "plan": ranked(self.seconds, self.order, self.composed),
            "composed": ranked(self.seconds, sorted_by(self.composed), self.composed),
            **self._ties(),
            **self._late(),
            **self._crashed(),
        }

    def _plan(self, at: int) -> dict[str, Any]:
        """A plan with seconds of a step: as measured, and as expected if it is in the order."""
        one = self.group.plans[at]
        expected = self.simulated.get(at, self.composed[at])
        return {
            "plan": said(one),
            "measured": short(one.seconds),
            "expected": None if expected == inf else short(expected * one.plan.sequences),
        }

    def _ties(self) -> dict[str, Any]:
        """What the answer says of its plans: which to take of those that are tied with the first,
        and which are surely faster than which, of these how many were.

        Nothing where the group is of several models: that is no one answer.
        """
        several = [at for at in self.order if at in self.finalists]
        questions = {
            self.group.asked(one.shape, one.plan)
            for one in map(self.group.plans.__getitem__, several)
        }
        if len(questions) != 1:
            return {"advised": None, "told": 0, "right": 0}
        mine = [self.finalists[at] for at in several]
        on = offered(*questions)
        ends = on.likely(mine)
        pairs = [
            self.seconds[one] < self.seconds[other]
            for (one, here), (other, there) in combinations(zip(several, ends, strict=True), 2)
            if compare_seconds(here, there).is_clear
        ]
        told = [compare_seconds(ends[0], one) for one in ends]
        first = several[choose_advised(mine, told, on.job.device.memory_bytes)]
        order = [first, *(at for at in self.order if at != first)]
        return {
            "advised": ranked(self.seconds, order, self.composed),
            "told": len(pairs),
            "right": sum(pairs),
        }

    def _late(self) -> dict[str, Any]:
        """How many take far longer than expected, and the order of those that do not."""
        some = [
            at for at in sorted_by(self.composed) if self.seconds[at] <= TWICE * self.composed[at]
        ]
        mine, ours = ([of[at] for at in some] for of in (self.seconds, self.composed))
        return {
            "late": len(sorted_by(self.composed)) - len(some),
            "in_time": ranked(mine, sorted_by(ours), ours) if some else None,
        }

    def delayed(self, late: Late) -> dict[str, Any]:
        """The order if hand-overs between stages take as long as others found them to take."""
        plans = [one.plan for one in self.group.plans]
        batches = np.array([one.sequences for one in plans])
        expected = (late.slowed(np.array(self.composed) * batches, plans) / batches).tolist()
        return dict(ranked(self.seconds, sorted_by(expected), expected))

    def _crashed(self) -> dict[str, Any]:
        """How many of the first would be plans that never ran, were they among the others."""
        if not self.group.crashed:
            return {"tried": 0, "crashed": 0}
        never = [
            self._each(shape, plan, self._offer(shape, plan)) for shape, plan in self.group.crashed
        ]
        every = [*self.composed, *never]
        first = sorted_by(every)[:FIRST]
        return {"tried": len(never), "crashed": sum(at >= len(self.composed) for at in first)}


def said(one: Measured) -> str:
    """``data=8 tensor=2 zero=1, 4 a microbatch``."""
    plan = one.plan
    sizes = {"pipe": plan.pipe, "data": plan.data, "tensor": plan.tensor}
    words = [f"{name}={size}" for name, size in sizes.items() if size > 1]
    words += [f"zero={plan.sharded}"] if plan.sharded else []
    return f"{' '.join(words)}, {plan.micro} a microbatch"


def estimated(several: Sequence[Measured], expected: Sequence[float]) -> dict[str, Any]:
    """The order by seconds of steps that another method expects."""
    each = [took / one.plan.sequences for took, one in zip(expected, several, strict=True)]
    return dict(ranked([one.each for one in several], sorted_by(each), each))
