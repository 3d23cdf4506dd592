"""A model's data-parallel step on a machine, as who fills buckets sees it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from grammar.tensors.operations import Operation, Step
from hierarchies import Placement, System
from hierarchies.devices import Device
from synth.compute import Estimate, Provenance, Section, sum_estimates_of_section
from synth.step.bucketing.gradients import BackwardPass, backward_of, hoist_casts, update_of
from synth.step.bucketing.sums import Sums
from synth.step.search.finalists import RUNTIME, rooflines_of
from synth.step.sharding import Plan, apply, parse_recipe, plan_of, prepare_step
from synth.step.sharding.plan import Cuts, Rows
from synth.step.sharding.together.buckets import buckets_of
from synth.step.simulation.device import DeviceTasks as Tasks
from synth.step.simulation.kinds import BufferKind, kinds_of
from synth.step.simulation.predicting import Sources, write_tasks

AXIS = "data"


@dataclass(frozen=True)
class Replica:
    """The backward pass of a replica, how sure its seconds are, and what sums its gradients.

    ``fast`` and ``slow`` are the ratios between which all of its computing may be off at once;
    ``taken`` is the part of what computes that a sum takes: none, where network cards do it.
    """

    backward: BackwardPass
    how: Provenance
    fast: float
    slow: float
    sums: Sums
    taken: float = 0.0

    def computing(self, ratio: float) -> BackwardPass:
        """The same where all that is computed takes so many times as long."""
        one = self.backward
        made = (replace(each, ready_seconds=ratio * each.ready_seconds) for each in one.gradients)
        return replace(
            one,
            gradients=tuple(made),
            compute_seconds=ratio * one.compute_seconds,
            update_seconds=ratio * one.update_seconds,
        )


def sum_gradients_first(step: Step, plan: Plan) -> Plan:
    """The plan with each gradient summed before anything is made of it, as DDP sums it.

    A plan need not: of a sum that is scaled by a learning rate the scaled parts can be summed, too.
    """
    kinds = kinds_of(step)

    def of(one: Operation, rows: Rows | Cuts) -> Rows | Cuts:
        read = any(kinds.get(str(value)) is BufferKind.GRADIENTS for value in one.operands)
        still = any(kinds[value.name] is BufferKind.GRADIENTS for value in one.results)
        return () if read and not still and one.body is None else rows

    both = zip(step.graph.operations, plan.cuts.operations, strict=True)
    return replace(plan, cuts=replace(plan.cuts, operations=tuple(of(*one) for one in both)))


def build_replica(step: Step, system: System, placement: Placement, device: Device) -> Replica:
    """Raises InputError for a batch that devices do not divide, and as ``backward_of`` does.

    The step is written down twice: with each gradient alone, to see when it is made; and with all
    in one bucket, as then the optimizer does all at once, as fused ones do.
    """
    devices, step = system.devices, hoist_casts(step)
    recipe = parse_recipe(f"{AXIS}={devices}; batch over {AXIS}")
    plan = sum_gradients_first(step, plan_of(step, recipe))
    known: dict[int, tuple[Section, Estimate]] = {}
    rooflines = rooflines_of(step, plan, device)

    def computing(section: Section) -> float:
        if id(section) not in known:
            known[id(section)] = section, rooflines(section)
        return known[id(section)][1].seconds

    def tasks(buckets: tuple[tuple[str, ...], ...]) -> Tasks:
        own = replace(plan, buckets=buckets)
        sources = Sources(computing, lambda *_: 0.0, lambda *_: 0.0)
        return write_tasks(prepare_step(step, own), own, apply(step, own), sources, RUNTIME)

    alone = tasks(())
    sure = sum_estimates_of_section(one for _, one in known.values())
    everything = buckets_of(prepare_step(step, plan), apply(step, plan), plan.sizes, 2**62)
    update = update_of(step, tasks(everything))
    return Replica(
        backward_of(step, alone, update),
        sure.how,
        sure.low / sure.seconds if sure.seconds else 1.0,
        sure.high / sure.seconds if sure.seconds else 1.0,
        Sums(system, placement),
    )
