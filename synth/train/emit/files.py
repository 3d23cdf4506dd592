"""The file around the functions of a step: what goes in and out, helpers, and a main."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from grammar.tensors.operations import Step
from grammar.tensors.sharding import Sharding
from hierarchies import InputError
from synth.emit.text import templates
from synth.train.emit.jax import JAX
from synth.train.emit.programs import Programs
from synth.train.emit.spelling import listed, quoted
from synth.train.emit.torch import TORCH
from synth.train.emit.walk import Language, listing, no_calls
from synth.train.plans import Program
from synth.train.resharding import How, Move

LANGUAGES: Mapping[str, Language] = {"jax": JAX, "torch": TORCH}
"""The runtimes that a step can be written for."""

_WIDE = frozenset(("i64", "u64", "f64"))


def write(
    runtime: str,
    step: Step,
    program: Program,
    sizes: Mapping[str, int],
    plan: str = "",
    made_by: str = "collsynth",
    programs: Programs | None = None,
) -> str:
    """A sharded step as the text of a Python file; ``plan`` is what stands in its heading.

    With ``programs`` it calls those of them that are more than one collective: their modules must
    lie beside it.

    Raises InputError for primitives that the runtime has no words for, with their user's line,
    for inputs that are partial, and for inputs that are keys.
    """
    language = LANGUAGES[runtime]
    called = no_calls if programs is None else programs.call
    found = listing(step, program, sizes, language, called)
    for label, value in zip(step.labels, step.graph.inputs, strict=True):
        if value.type.dtype == "key":
            hint = "give the numbers that a key is made of, and wrap them in the step"
            raise InputError(f"input {label} is a key", hint=hint)
    inputs = [
        _words(value.name, role, value.type.dtype, value.type.shape, sharding)
        for value, role, sharding in zip(step.graph.inputs, step.roles, program.inputs, strict=True)
    ]
    outputs = [
        _words(one.name, "", one.type.dtype, one.type.shape, one.sharding) for one in found.outputs
    ]
    values = [*step.graph.values.values()]
    values += [
        value
        for one in step.graph.everywhere()
        if one.body is not None
        for value in one.body.values.values()
    ]
    return (
        templates("synth.train.emit")
        .get_template(language.template)
        .render(
            name=step.name,
            runtime=language.name,
            plan=plan,
            made_by=made_by,
            axes=list(sizes.items()),
            sizes=", ".join(f"{axis}={size}" for axis, size in sizes.items()),
            world=prod(sizes.values()),
            inputs=inputs,
            outputs=outputs,
            over=_over(found.moves, sizes),
            modules=sorted(programs.modules) if programs else [],
            functions=found.text,
            uses=found.uses,
            wide=any(value.type.dtype in _WIDE for value in values),
        )
    )


def _over(moves: Sequence[Move], sizes: Mapping[str, int]) -> list[str]:
    """The sets of axes along which groups exchange something, in the order of the axes."""
    sending = (How.ALL_GATHER, How.ALL_TO_ALL, How.ALL_REDUCE, How.REDUCE_SCATTER)
    found = {tuple(axis for axis in sizes if axis in m.axes) for m in moves if m.how in sending}
    return [quoted(axes) for axes in sorted(found)]


def _words(
    name: str, role: str, dtype: str, shape: tuple[int, ...], sharding: Sharding
) -> dict[str, Any]:
    """One input or output as templates have it."""
    return {
        "name": name,
        "role": role,
        "dtype": _LONG.get(dtype, dtype),
        "shape": shape,
        "spec": f"P({', '.join(map(_entry, _to_last(sharding)))})",
        "cuts": listed(map(quoted, _to_last(sharding))),
    }


def _to_last(sharding: Sharding) -> tuple[tuple[str, ...], ...]:
    """The axes of each dimension up to the last that is cut."""
    cut = [at for at, axes in enumerate(sharding.dimensions, 1) if axes]
    return sharding.dimensions[: max(cut, default=0)]


def _entry(axes: tuple[str, ...]) -> str:
    """Of one dimension what a PartitionSpec has."""
    if not axes:
        return "None"
    return f'"{axes[0]}"' if len(axes) == 1 else quoted(axes)


_LONG = {
    "bool": "bool",
    "bf16": "bfloat16",
    "f8_e4m3fn": "float8_e4m3fn",
    "f8_e5m2": "float8_e5m2",
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
