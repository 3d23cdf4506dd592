"""Plans from which a search begins: what is known to be near, so that moves need not find it.

``levelled`` has the fewest kernels in a row, ``soonest_together`` the buckets that end first when
gradients are made as a plan makes them, and ``postponed`` sends the largest gradient before others
are made whose products take longer than their sums: these are done beside its sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from grammar.tensors.operations import Step
from hierarchies import InputError
from synth.train.bucketing.choosing import soonest
from synth.train.bucketing.gradients import Backward, Gradient, kind_of
from synth.train.fusion.flow import Flow
from synth.train.fusion.levels import kernels_by_levels
from synth.train.fusion.space import fused_as
from synth.train.plans import Plan
from synth.train.simulation import Simulated
from synth.train.simulation.sources import Rooflines

Seconds = Callable[[int], float]
"""Of a sum of so many bytes."""

WITHIN = 1e-9
"""Of a step: buckets that gain less are as good."""


def levelled(step: Step, plan: Plan, rooflines: Rooflines) -> Plan:
    """The plan with kernels by levels. Raises InputError as ``levels_of`` does."""
    return fused_as(step, plan, kernels_by_levels(Flow.of(step, plan), rooflines.scores))


def soonest_together(plan: Plan, sums: Sequence[str], alone: Simulated, seconds: Seconds) -> Plan:
    """The plan with the buckets by which the last sum ends first; ``alone`` is it without any."""
    made, sizes = dict[str, float](), Counter[str]()
    for one in alone.device.tasks:
        for name in {*one.sends}.intersection(sums):
            made[name] = max(alone.ends[maker] for maker in one.before)
            sizes[name] += kind_of(one).bytes
    order = sorted(made, key=lambda name: made[name])
    gradients = tuple(Gradient(name, -1, 0, sizes[name], made[name]) for name in order)
    ends = soonest(Backward("", gradients, made[order[-1]], 0.0), seconds, WITHIN)
    places = {name: at for at, name in enumerate(sums)}
    some = (
        sorted(order[first:last], key=places.__getitem__) for first, last in pairwise((0, *ends))
    )
    return replace(plan, buckets=tuple(sorted(tuple(one) for one in some if len(one) > 1)))


def postponed(
    step: Step, plan: Plan, sums: Sequence[str], rooflines: Rooflines, seconds: Seconds
) -> Plan:
    """The plan with one more kernel, in which what only some gradients need is done last.

    It waits for the sum of the gradient that needs least, as what that changes is done in it, too:
    so all that leads to the other sums goes before it. Raises InputError where no gradient is worth
    it, or none can be waited for.
    """
    flow = Flow.of(step, plan)
    needed = {name: flow.needed(name) for name in sums}
    alone = dict(zip(sums, flow.alone([*needed.values()], rooflines), strict=True))
    sizes = {name: flow.sent[name].value.type.bytes for name in sums}
    largest = max(sums, key=sizes.__getitem__)
    first = min(sums, key=lambda name: len(needed[name]))
    share = seconds(sum(sizes.values())) / sum(sizes.values())
    each = {name: min(seconds(size), share * size) for name, size in sizes.items()}
    later = {name for name in sums if alone[name] > each[name]} - {largest, first}
    own = {*flow.needed(*later)} - {
        *flow.needed(*flow.losses, *(n for n in sums if n not in later))
    }
    changed = {*flow.waiting(first)}.difference(*(flow.waiting(n) for n in sums if n != first))
    if not own or not changed:
        hint = "the largest may not be worth it, or all parameters wait for all sums"
        raise InputError("no gradient can be made later", where="plan", hint=hint)
    read = flow.needed(*(name for at in changed for name in flow.nodes[at].makes))
    last = flow.names(own | changed | (flow.late & {*read}))
    kernels = ([name for name in one.members if name not in last] for one in plan.fused)
    return fused_as(step, plan, [*(tuple(one) for one in kernels if one), tuple(last)])
