"""JAX: a mesh on the placement, and how every input of the step lies on it.

Source: ``jax.sharding.Mesh``, ``PartitionSpec`` and ``NamedSharding`` of jax 0.10 (2026), which is
installed where this is tested. XLA finds the redistributions; stages and their order are code, and
so are refused here: ``collsynth train MODEL --plan ... -o FILE`` writes that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod

from grammar.tensors.sharding import Sharding, Split, Type, part_shape
from hierarchies import InputError
from synth.collective.emit.conventions import conventions
from synth.collective.emit.text import templates
from synth.step.frameworks.asked import ConfigurationInputs, FrameworkFiles, RecipeDifferences
from synth.step.frameworks.megatron import note_first
from synth.step.sharding import Plan, plan_of
from synth.step.sharding.plan import PIPE, TIME


def jax(asked: ConfigurationInputs) -> FrameworkFiles:
    """``collsynth_mesh.py``. Raises InputError for stages, and for a model without its step."""
    step = asked.model.step
    if dict(asked.recipe.axes).get(PIPE, 1) > 1:
        raise InputError(
            "stages are no axis of a JAX mesh: no partition spec says their order",
            hint="collsynth train MODEL --plan ... --runtime torch -o FILE writes them as code",
        )
    if step is None:
        raise InputError(f"no step of {asked.model.name}", hint="trace it: specs are of its inputs")
    plan = plan_of(step, asked.recipe)
    specs: dict[str, dict[str, str]] = {}
    inputs = zip(step.roles, step.labels, step.graph.inputs, plan.cuts.inputs, strict=True)
    for role, label, value, lies in inputs:
        specs.setdefault(role, {})[label] = _spec(_unflatten(label, value.type, lies, plan))
    differs = RecipeDifferences(asked.recipe)
    if asked.recipe.microbatches > 1:
        differs.say(f"{asked.recipe.microbatches} microbatches are code: a loop over the batch")
    if asked.recipe.remat:
        differs.say("layers done again are code: jax.checkpoint")
    if asked.recipe.zero == 2:
        differs.say("XLA decides how gradients lie until the update: zero=2 is not said")
    if asked.recipe.bucket_bytes:
        differs.say("XLA has its own size of buckets")
    note_first(differs)
    text = templates("synth.step.frameworks").get_template("mesh.py.jinja")
    made = text.render(
        head=asked.head, notes=differs.notes, mesh=_mesh(asked), specs=_spell_specs(specs)
    )
    return FrameworkFiles({"collsynth_mesh.py": made}, differs.recipe, tuple(differs.notes))


def _unflatten(label: str, kind: Type, lies: Sharding, plan: Plan) -> Sharding:
    """The same without flat axes, which cut the first dimension of the block if they divide it.

    Raises InputError for what is padded: no partition spec says that.
    """
    if not lies.flat:
        return lies
    block = part_shape(kind, lies.unflattened(), plan.sizes)
    first = next((at for at in range(lies.lead, len(block)) if block[at] > 1), lies.lead)
    if block[first] % prod(plan.sizes[axis] for axis in lies.flat):
        raise InputError(
            f"{label}, {kind}, has no dimension that the axes of ZeRO divide",
            where="plan",
            hint="no partition spec says padded parts: train MODEL --plan ... -o FILE writes code",
        )
    found = lies.unflattened()
    for axis in lies.flat:
        found = found.laid(axis, Split(first))
    return found


def _mesh(asked: ConfigurationInputs) -> str:
    machine = asked.machine
    found = conventions(machine.placement, machine.system.is_torus)
    [said] = [one.say for one in found if one.framework == "JAX"]
    return said


def _spell_specs(specs: Mapping[str, Mapping[str, str]]) -> list[tuple[str, list[str]]]:
    return [
        (role, [f"{json.dumps(label)}: {spec}," for label, spec in found.items()])
        for role, found in specs.items()
    ]


def _spec(lies: Sharding) -> str:
    """``P("data", None)``: of each dimension the axes that cut it; those in time are a loop's."""
    parts = [tuple(axis for axis in axes if axis != TIME) for axes in lies.dimensions]
    while parts and not parts[-1]:
        parts.pop()
    return f"P({', '.join(map(_axes, parts))})"


def _axes(axes: tuple[str, ...]) -> str:
    if not axes:
        return "None"
    return json.dumps(axes[0]) if len(axes) == 1 else f"({', '.join(map(json.dumps, axes))})"
