"""The file around the functions of a step: what goes in and out, helpers, and a main."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from textwrap import wrap
from typing import Any

import numpy as np

from grammar.tensors.constants import pack
from grammar.tensors.operations import Step, Value
from grammar.tensors.sharding import Sharding
from hierarchies import InputError
from synth.collective.emit.text import templates
from synth.step.emit.jax import JAX, spell_partition
from synth.step.emit.language import TargetLanguage
from synth.step.emit.listing import Listing
from synth.step.emit.programs import Programs
from synth.step.emit.scheduled import UNSCHEDULED, ScheduleText
from synth.step.emit.sections import ProgramSection
from synth.step.emit.spelling import WIDTH, spell_tuple, spell_words, trim_uncut
from synth.step.emit.torch import TORCH
from synth.step.emit.values import use_collective
from synth.step.emit.walk import build_listing, build_partial_listing
from synth.step.redistribution import MoveKind, ShardingMove
from synth.step.sharding import LocalOperation, Plan, StepProgram
from synth.step.sharding.program import EVERYWHERE

LANGUAGES: Mapping[str, TargetLanguage] = {"jax": JAX, "torch": TORCH}
"""The runtimes that a step can be written for."""

NOT_EXECUTED = (
    "Not executed when it was written: train --check runs it beside the same step on one device."
)
"""What stands in the heading of a file that nobody has run."""

_WIDE = frozenset(("i64", "u64", "f64"))


def write(
    runtime: str,
    step: Step,
    program: StepProgram,
    sizes: Mapping[str, int],
    plan: str = "",
    made_by: str = "collsynth",
    programs: Programs | None = None,
    schedule: Plan | None = None,
    overlap: bool = False,
) -> str:
    """A sharded step as the text of a Python file; ``plan`` is what stands in its heading.

    With ``programs`` it calls those of them that are more than one collective: their modules must
    lie beside it. A program with microbatches needs the plan itself, for the order of passes.
    ``overlap``: in PyTorch what is made in the step is sent beside compute, as the simulation's
    ``Overlap(sends=True)`` says, but that a loop over layers waits where it gathers again what its
    forward pass kept; XLA orders collectives itself.

    Raises InputError for primitives that the runtime has no words for, with their user's line,
    for inputs that are partial, and for inputs that are keys.
    """
    language = LANGUAGES[runtime]
    called = use_collective if programs is None else programs.call
    scheduled = None if schedule is None or not program.places else ScheduleText(schedule)
    parts = scheduled.plan.parts if scheduled else sizes
    axes = dict(scheduled.plan.axes) if scheduled else sizes
    found = build_listing(step, program, parts, language, called, overlap)
    for label, value in zip(step.labels, step.graph.inputs, strict=True):
        if value.type.dtype == "key":
            hint = "give the numbers that a key is made of, and wrap them in the step"
            raise InputError(f"input {label} is a key", hint=hint)
    homes = program.homes or (EVERYWHERE,) * len(program.inputs)
    inputs = [
        _describe_value(
            value.name, role, _spell_dtype(language, value.type.dtype), value.type.shape, sharding
        )
        | {"stage": home}
        for value, role, sharding, home in zip(
            step.graph.inputs, step.roles, program.inputs, homes, strict=True
        )
    ]
    outputs = [
        _describe_value(
            one.name, "", _spell_dtype(language, one.type.dtype), one.type.shape, one.sharding
        )
        | {"kept": one.kept}
        for one in found.outputs
    ]
    values = [*step.graph.values.values()]
    values += [
        value
        for one in step.graph.everywhere()
        if one.body is not None
        for value in one.body.values.values()
    ]
    return _fill_template(
        language,
        found,
        axes,
        values,
        name=step.name,
        plan=plan,
        made_by=made_by,
        inputs=inputs,
        outputs=outputs,
        captured=[
            (
                name,
                pack(
                    _encode_constant(language, step.graph.values[name].type.dtype, data), WIDTH - 10
                ),
            )
            for name, data in step.constants
        ],
        modules=sorted(programs.modules) if programs else [],
        placed=str(programs.placement) if programs and programs.reordered else "",
        **(scheduled.words(step, found, language) if scheduled else UNSCHEDULED),
    )


def add_statement(text: str, statement: str) -> str:
    """A file whose heading says how it was executed, in the place of ``NOT_EXECUTED``."""
    return text.replace(NOT_EXECUTED, "\n".join(wrap(statement, WIDTH)), 1)


def write_operations(
    runtime: str, some: ProgramSection, sizes: Mapping[str, int], sent: Collection[str] = ()
) -> str:
    """Some operations of a step as the same file has them, to be called and not to be run.

    Values lie as the section says, and what is partial stays so; the values named ``sent`` are
    given away as to a collective. Raises InputError as ``write``.
    """
    language = LANGUAGES[runtime]
    found = build_partial_listing(some, sizes, language, sent)
    values = [value for value, _ in some.reads]
    values += [
        one
        for done in some.instructions
        if isinstance(done, LocalOperation)
        for one in done.operation.results
    ]
    words: dict[str, Any] = {"name": "operations", "plan": "", "made_by": "collsynth"}
    nothing: dict[str, Any] = dict.fromkeys(
        ("inputs", "outputs", "captured", "modules", "placed"), ()
    )
    return _fill_template(language, found, sizes, values, **words, **nothing, **UNSCHEDULED)


def _fill_template(
    language: TargetLanguage,
    found: Listing,
    axes: Mapping[str, int],
    values: Iterable[Value],
    **words: Any,
) -> str:
    return (
        templates("synth.step.emit")
        .get_template(language.template)
        .render(
            runtime=language.name,
            axes=list(axes.items()),
            sizes=", ".join(f"{axis}={size}" for axis, size in axes.items()),
            world=prod(axes.values()),
            over=_list_exchanges(found.moves, axes),
            functions=found.text,
            later="later=True" in found.text,
            executed=NOT_EXECUTED,
            uses=found.uses,
            flats=any(one["flat"] for one in words["inputs"]),
            wide=any(value.type.dtype in _WIDE for value in values),
            **words,
        )
    )


def _list_exchanges(moves: Sequence[ShardingMove], sizes: Mapping[str, int]) -> list[str]:
    """The sets of axes along which groups exchange something, in the order of the axes."""
    sending = (
        MoveKind.ALL_GATHER,
        MoveKind.ALL_TO_ALL,
        MoveKind.ALL_REDUCE,
        MoveKind.REDUCE_SCATTER,
    )
    found = {tuple(axis for axis in sizes if axis in m.axes) for m in moves if m.how in sending}
    return [spell_words(axes) for axes in sorted(found)]


def _describe_value(
    name: str, role: str, dtype: str, shape: tuple[int, ...], sharding: Sharding
) -> dict[str, Any]:
    """One input or output as templates have it."""
    return {
        "name": name,
        "role": role,
        "dtype": dtype,
        "shape": shape,
        "spec": spell_partition(sharding),
        "cuts": spell_tuple(map(spell_words, trim_uncut(replace(sharding, flat=())))),
        "flat": f"({sharding.lead}, {spell_words(sharding.flat)})" if sharding.flat else "",
    }


def _spell_dtype(language: TargetLanguage, dtype: str) -> str:
    """An element type as arrays of the file have it."""
    return language.dtypes.get(dtype, dtype).rpartition(".")[2].rstrip("_")


def _encode_constant(language: TargetLanguage, dtype: str, data: bytes) -> bytes:
    """The bytes of an array as the runtime has its elements: PyTorch keeps u32 in 64 bits."""
    if (dtype, _spell_dtype(language, dtype)) != ("u32", "int64"):
        return data
    return np.frombuffer(data, "<u4").astype("<i8").tobytes()


LONG_DTYPES = {dtype: _spell_dtype(JAX, dtype) for dtype in JAX.dtypes if dtype != "key"}
