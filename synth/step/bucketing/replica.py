"""A model's data-parallel step on a machine, for filling buckets."""

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
from synth.step.simulation.predicting import Sources, write_plan

AXIS = "data"


@dataclass(frozen=True)
class Replica:
    """The backward pass of a replica, the uncertainty of its seconds, and its reductions.

    ``fast`` and ``slow``: the ratios between which all of its compute may be off at once.
    ``taken``: the share of the cores that a reduction takes; zero if network cards reduce.
    """

    backward: BackwardPass
    how: Provenance
    fast: float
    slow: float
    sums: Sums
    taken: float = 0.0

    def computing(self, ratio: float) -> BackwardPass:
        """Returns the backward pass if all compute takes ``ratio`` times as long."""
        backward = self.backward
        gradients = tuple(
            replace(gradient, ready_seconds=ratio * gradient.ready_seconds)
            for gradient in backward.gradients
        )
        return replace(
            backward,
            gradients=gradients,
            compute_seconds=ratio * backward.compute_seconds,
            update_seconds=ratio * backward.update_seconds,
        )


def sum_gradients_first(step: Step, plan: Plan) -> Plan:
    """Returns the plan with each gradient reduced before any operation reads it, as in DDP.

    A plan need not do so: if a gradient is scaled by a learning rate, it may reduce the scaled
    addends.
    """
    kinds = kinds_of(step)

    def cut(operation: Operation, rows: Rows | Cuts) -> Rows | Cuts:
        reads = any(kinds.get(str(one)) is BufferKind.GRADIENTS for one in operation.operands)
        makes = any(kinds[one.name] is BufferKind.GRADIENTS for one in operation.results)
        return () if reads and not makes and operation.body is None else rows

    pairs = zip(step.graph.operations, plan.cuts.operations, strict=True)
    return replace(plan, cuts=replace(plan.cuts, operations=tuple(cut(*pair) for pair in pairs)))


def build_replica(step: Step, system: System, placement: Placement, device: Device) -> Replica:
    """Builds the replica of a step on all devices of a system.

    Raises InputError for a batch that the number of devices does not divide, and as ``backward_of``
    does. The step is written twice: with each gradient in its own bucket, which shows when it is
    computed; and with all gradients in one bucket, because then the optimizer updates all
    parameters at once, as fused optimizers do.
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
        sources = Sources(computing, lambda *_: 0.0, lambda *_: 0.0)
        return write_plan(step, replace(plan, buckets=buckets), sources, RUNTIME)

    alone = tasks(())
    whole = sum_estimates_of_section(estimate for _, estimate in known.values())
    # No gradients reach this cap in bytes, so all of them share a bucket.
    everything = buckets_of(prepare_step(step, plan), apply(step, plan), plan.sizes, 2**62)
    update = update_of(step, tasks(everything))
    return Replica(
        backward_of(step, alone, update),
        whole.how,
        whole.low / whole.seconds if whole.seconds else 1.0,
        whole.high / whole.seconds if whole.seconds else 1.0,
        Sums(system, placement),
    )
