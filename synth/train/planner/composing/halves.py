"""What backward passes in halves keep of a microbatch, read off two stages of a layer each.

The half for weights needs activations and gradients that the half for inputs leaves: with layers
computed again these are most of the memory, as little else is kept. The first of the two stages
waits for nobody's gradient, so all of its backward pass is for weights; the second is as all others
are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace

from grammar.tensors.operations import Step
from synth.train.orders import Order, Pass
from synth.train.planner.composing.inside import Halves, Part
from synth.train.plans import Recipe, When, apply, plan_of, prepared
from synth.train.plans.plan import PIPE
from synth.train.simulation import Overlap, Runtime, device
from synth.train.simulation.passes import EACH
from synth.train.simulation.predicting import grouped

STAGES = 2


def whole(recipe: Recipe) -> Recipe:
    """The recipe without stages, and so with whole backward passes."""
    axes = tuple(axis for axis in recipe.axes if axis[0] != PIPE)
    return replace(recipe, axes=axes, schedule="")


def halves(step: Step, recipe: Recipe) -> Halves:
    """Of a step of two layers by a recipe of ``STAGES``. Raises InputError where it has none."""
    plan = plan_of(step, recipe)
    program = apply(step, plan)
    runtime = Runtime(Overlap(sends=True))
    written = device(
        prepared(step, plan),
        plan,
        program,
        computing=lambda section: 0.0,
        sending=lambda *how: 0.0,
        overlap=runtime.overlap,
        grouping=grouped(plan, program, runtime),
    )
    read: defaultdict[int, set[When]] = defaultdict(set)
    for task in written.tasks:
        for number in task.reads:
            read[number].add(task.place.when)
    found: dict[tuple[When, When], Counter[Part]] = {
        (made, last): Counter() for at, made in enumerate(EACH) for last in EACH[at + 1 :]
    }
    for number, one in enumerate(written.buffers):
        task = written.tasks[one.maker]
        if one.maker < 0 or task.place.stage != STAGES - 1 or task.place.when not in EACH:
            continue
        made = task.place.when
        later = [when for when in EACH[EACH.index(made) + 1 :] if when in read[number]]
        if later:
            part = Part.LAYER if task.layer >= 0 else Part.LAST
            found[made, later[-1]][part] += one.size_bytes
    return {key: {part: float(sizes[part]) for part in Part} for key, sizes in found.items()}


def most_kept(
    order: Order, rank: int, kept: Callable[[int], Mapping[tuple[When, When], float]]
) -> float:
    """The most bytes that a rank keeps between its passes; ``kept`` is of a stage's microbatch."""
    held = most = 0.0
    for action in order.ranks[rank]:
        of = kept(action.stage)
        forward, whole = of[When.FORWARD, When.BACKWARD], of[When.FORWARD, When.WEIGHT]
        waiting = of[When.BACKWARD, When.WEIGHT]
        match action.kind:
            case Pass.FORWARD:
                held += forward + whole
            case Pass.INPUT:
                held += waiting
        most = max(most, held)
        match action.kind:
            case Pass.INPUT:
                held -= forward
            case Pass.WEIGHT:
                held -= whole + waiting
            case Pass.BACKWARD:
                held -= forward + whole
    return most
