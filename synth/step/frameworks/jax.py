"""JAX: writes a mesh on the placement, and the sharding of every input of the step.

Source: ``jax.sharding.Mesh``, ``PartitionSpec`` and ``NamedSharding`` of jax 0.10 (2026), which the
tests install. XLA finds the redistributions. Stages and their schedule are code, so they are
refused here; ``collsynth train MODEL --plan ... -o FILE`` writes that code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from math import prod

from grammar.tensors.operations import Step
from grammar.tensors.sharding import Sharding, Split, Type, part_shape
from hierarchies import InputError
from synth.collective.emit.conventions import conventions
from synth.collective.emit.text import templates
from synth.step.frameworks.inputs import (
    ConfigurationInputs,
    FrameworkFiles,
    RecipeDifferences,
    RecipeInputs,
)
from synth.step.same import IdentityKey
from synth.step.sharding import Plan, Recipe, plan_of
from synth.step.sharding.plan import PIPE, TIME

Specs = Mapping[str, Mapping[str, str]]
"""The partition spec of each input, by its role and label."""


def jax(inputs: ConfigurationInputs) -> FrameworkFiles:
    """Writes ``collsynth_mesh.py``. Raises InputError for stages, or a model without its step."""
    specs, differs = _decide_specs(inputs)
    text = templates("synth.step.frameworks").get_template("mesh.py.jinja")
    script = text.render(
        head=inputs.head, notes=differs.notes, mesh=_mesh(inputs), specs=_spell_specs(specs)
    )
    return differs.written({"collsynth_mesh.py": script})


def decide_jax(inputs: RecipeInputs) -> RecipeDifferences:
    """Returns what JAX runs instead of a recipe. Raises InputError if it cannot run it."""
    return _decide_specs(inputs)[1]


def _decide_specs(inputs: RecipeInputs) -> tuple[Specs, RecipeDifferences]:
    """Returns the partition specs of inputs, by role and label."""
    inputs.refuse_precision("JAX")
    if dict(inputs.recipe.axes).get(PIPE, 1) > 1:
        raise InputError(
            "stages are not an axis of a JAX mesh: no partition spec expresses their order",
            hint="collsynth train MODEL --plan ... --runtime torch -o FILE writes them as code",
        )
    if inputs.model.step is None:
        raise InputError(
            f"no step of {inputs.model.name}", hint="trace it: partition specs need its inputs"
        )
    differs = RecipeDifferences(inputs.recipe)
    if inputs.recipe.microbatches > 1:
        differs.say(f"{inputs.recipe.microbatches} microbatches need code: a loop over the batch")
    if inputs.recipe.remat:
        differs.say("recomputed layers need code: jax.checkpoint")
    if inputs.recipe.zero == 2:
        differs.say("XLA chooses the sharding of gradients before the update: zero=2 is left out")
    if inputs.recipe.bucket_bytes:
        note = "XLA chooses the bucket size itself"
        differs.say(note, replace(differs.recipe, bucket_bytes=0))
    differs.note_first()
    # The shardings of inputs depend on no decision about passes.
    whole = replace(inputs.recipe, microbatches=1, remat=False, bucket_bytes=0)
    specs = _list_specs(IdentityKey(inputs.model.step), whole)
    if isinstance(specs, InputError):
        raise specs
    return specs, differs


@lru_cache(maxsize=1024)
def _list_specs(key: IdentityKey[Step], recipe: Recipe) -> Specs | InputError:
    """Returns the specs, or why there are none; cached because searches vary only the passes."""
    step = key.one
    try:
        plan = plan_of(step, recipe)
        specs: dict[str, dict[str, str]] = {}
        values = zip(step.roles, step.labels, step.graph.inputs, plan.cuts.inputs, strict=True)
        for role, label, value, sharding in values:
            spec = _spec(_unflatten(label, value.type, sharding, plan))
            specs.setdefault(role, {})[label] = spec
    except InputError as error:
        return error
    return specs


def _unflatten(label: str, kind: Type, sharding: Sharding, plan: Plan) -> Sharding:
    """Returns the sharding without flat axes, which cut the first dimension if they divide it.

    The dimension is the first one of the block with more than one element. Raises InputError for
    padded shards, which no partition spec can express.
    """
    if not sharding.flat:
        return sharding
    block = part_shape(kind, sharding.unflattened(), plan.sizes)
    first = next((at for at in range(sharding.lead, len(block)) if block[at] > 1), sharding.lead)
    if block[first] % prod(plan.sizes[axis] for axis in sharding.flat):
        raise InputError(
            f"{label}, {kind}, has no dimension that the axes of ZeRO divide",
            where="plan",
            hint="no partition spec expresses padded parts: train MODEL --plan ... "
            "-o FILE writes code",
        )
    unflattened = sharding.unflattened()
    for axis in sharding.flat:
        unflattened = unflattened.laid(axis, Split(first))
    return unflattened


def _mesh(inputs: ConfigurationInputs) -> str:
    machine = inputs.machine
    frameworks = conventions(machine.placement, machine.system.is_torus)
    [mesh] = [convention.say for convention in frameworks if convention.framework == "JAX"]
    return mesh


def _spell_specs(specs: Specs) -> list[tuple[str, list[str]]]:
    return [
        (role, [f"{json.dumps(label)}: {spec}," for label, spec in by_label.items()])
        for role, by_label in specs.items()
    ]


def _spec(sharding: Sharding) -> str:
    """Returns ``P("data", None)``: the axes that cut each dimension, without axes over time."""
    parts = [tuple(axis for axis in axes if axis != TIME) for axes in sharding.dimensions]
    while parts and not parts[-1]:
        parts.pop()
    return f"P({', '.join(map(_axes, parts))})"


def _axes(axes: tuple[str, ...]) -> str:
    if not axes:
        return "None"
    return json.dumps(axes[0]) if len(axes) == 1 else f"({', '.join(map(json.dumps, axes))})"
