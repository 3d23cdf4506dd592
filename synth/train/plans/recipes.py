"""Recipes by name: how the inputs of a step lie, from which all else follows.

``batch over data`` cuts each batch by samples; ``zero=1`` cuts the moments along the same axis,
2 the gradients, too, and 3 the parameters; ``weights over tensor as Megatron`` cuts heads and the
wide dimension inside each half of a layer (Shoeybi et al. 2019). These are places of axes in
types, no code of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grammar.tensors.operations import Step, Value
from grammar.tensors.sharding import Sharding, Split, replicated
from hierarchies import InputError
from synth.train.plans.following import Rules, follow
from synth.train.plans.plan import Plan, loop_of

MEGATRON: Mapping[str, int] = {
    **{f"attention/{name}": -2 for name in ("query", "key", "value")},
    **{f"attention/{name}_bias": -2 for name in ("query", "key", "value")},
    "attention/out": -3,
    "mlp/up": -1,
    "mlp/up_bias": -1,
    "mlp/gate": -1,
    "mlp/down": -2,
}
"""Of each weight of a layer, by the end of its label, the dimension that is cut, from the last."""

GROUPED: Mapping[str, int] = {"query": -3, "key": -2, "value": -2, "out": -4}
"""The same where heads come in groups that share a key, as in Llama: groups are cut."""


@dataclass(frozen=True)
class Recipe:
    """Axes and what they cut; an axis that is not said cuts nothing."""

    axes: tuple[tuple[str, int], ...]
    batch: str = ""
    megatron: str = ""
    zero: int = 0

    def __post_init__(self) -> None:
        names = [name for name, _ in self.axes]
        for one in (self.batch, self.megatron):
            if one and one not in names:
                raise InputError(f"no axis {one!r}", hint=f"the axes are {', '.join(names)}")
        if self.batch and self.batch == self.megatron:
            raise InputError(f"axis {self.batch!r} cuts batch and weights", hint="use two axes")
        if self.zero not in range(4):
            raise InputError(f"zero={self.zero}", hint="ZeRO has stages 1, 2 and 3; 0 is none")
        if self.zero and not self.batch:
            raise InputError(f"zero={self.zero} and no axis cuts the batch", hint="batch over AXIS")

    def __str__(self) -> str:
        said = [" ".join(f"{name}={size}" for name, size in self.axes)]
        if self.batch:
            said.append(f"batch over {self.batch}")
        if self.megatron:
            said.append(f"weights over {self.megatron} as Megatron")
        if self.zero:
            said.append(f"zero={self.zero}")
        return "; ".join(said)


def plan_of(step: Step, recipe: Recipe) -> Plan:
    """The recipe written out for a step. Raises InputError where axes do not divide it."""
    inputs = [
        _lies(step, recipe, *one)
        for one in zip(step.graph.inputs, step.roles, step.labels, strict=True)
    ]
    if recipe.megatron and not any(recipe.megatron in one.axes for one in inputs):
        raise InputError(
            f"no weight of {step.name} is one that Megatron cuts",
            where="plan",
            hint=f"such are those whose labels end in {', '.join(MEGATRON)}",
        )
    batch = frozenset((recipe.batch,) if recipe.batch else ())
    scatters = batch if recipe.zero >= 2 else frozenset[str]()
    return follow(step, inputs, Rules(dict(recipe.axes), batch, scatters))


def _lies(step: Step, recipe: Recipe, value: Value, role: str, label: str) -> Sharding:
    found = replicated(len(value.type.shape))
    if role in ("batch", "cache") and recipe.batch:
        found = found.laid(recipe.batch, Split(0))
    if role == "batch":
        return found
    *_, half, name = ("", *label.split("/"))
    place = MEGATRON.get(f"{half}/{name}", GROUPED.get(name))
    if recipe.megatron and place is not None and len(value.type.shape) + place >= 0:
        found = found.laid(recipe.megatron, Split(len(value.type.shape) + place))
    if recipe.zero >= 3 or (recipe.zero and role == "moment"):
        return _divided(value, found, recipe, first=int(_is_stacked(step, label)))
    return found


def _divided(value: Value, found: Sharding, recipe: Recipe, *, first: int) -> Sharding:
    """Cut along the batch's axis in its first dimension that divides; whole if there is none."""
    parts = dict(recipe.axes)[recipe.batch]
    for at, size in enumerate(value.type.shape):
        if at >= first and not found.dimensions[at] and size % parts == 0:
            return found.laid(recipe.batch, Split(at))
    return found


def _is_stacked(step: Step, label: str) -> bool:
    """Whether layers are the first dimension: of the parameter, or of the one it is a moment of."""
    names = {
        str(one)
        for loop in step.graph.operations
        if loop.body is not None
        for divided in (loop_of(loop.parameter),)
        for one in loop.operands[divided.constants + divided.carried :]
    }
    stacks = [
        one
        for value, one in zip(step.graph.inputs, step.labels, strict=True)
        if value.name in names
    ]
    return any(label == one or label.endswith(f"/{one}") for one in stacks)
