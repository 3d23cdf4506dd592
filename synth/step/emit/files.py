"""The file around the functions of a step: inputs and outputs, helpers, and a main function."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from textwrap import wrap
from typing import Any

import numpy as np

from grammar.tensors.constants import pack
from grammar.tensors.operations import Step, Value
from grammar.tensors.sharding import Sharding, Type
from hierarchies import InputError
from synth.collective.emit.text import templates
from synth.primitives.calls.spelling import spell_tuple, spell_words
from synth.step.emit.jax import JAX, spell_partition
from synth.step.emit.language import TargetLanguage
from synth.step.emit.listing import Listing
from synth.step.emit.programs import Programs
from synth.step.emit.scheduled import UNSCHEDULED, ScheduleText
from synth.step.emit.sections import ProgramSection
from synth.step.emit.spelling import WIDTH, trim_uncut
from synth.step.emit.torch import TORCH
from synth.step.emit.values import use_collective
from synth.step.emit.walk import build_listing, build_partial_listing
from synth.step.redistribution import MoveKind, ShardingMove
from synth.step.sharding import LocalOperation, Plan, StepProgram
from synth.step.sharding.program import EVERYWHERE

LANGUAGES: Mapping[str, TargetLanguage] = {"jax": JAX, "torch": TORCH}
"""The runtimes that a step can be written for."""

NOT_EXECUTED = (
    "Not executed yet: train --check runs it and compares it with the same step on one device."
)
"""A statement in the heading of a file that has not been executed."""

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
    """Writes a sharded step as a Python file; ``plan``: the text of the plan for its heading.

    With ``programs`` the file calls the programs of more than one collective; their modules must be
    in the same folder. A program with microbatches needs the plan itself (``schedule``).
    ``overlap``: in PyTorch, values computed in the step are sent during compute, as in a simulation
    with ``Overlap(sends=True)``. The exception is a loop over layers, which waits where it gathers
    again what its forward pass kept. XLA orders collectives itself.

    Raises InputError for primitives that the runtime lacks, with their line of the model, for
    partial inputs, and for inputs that are keys.
    """
    language = LANGUAGES[runtime]
    called = use_collective if programs is None else programs.call
    scheduled = None if schedule is None or not program.places else ScheduleText(schedule)
    parts = scheduled.plan.parts if scheduled else sizes
    axes = dict(scheduled.plan.axes) if scheduled else sizes
    listing = build_listing(step, program, parts, language, called, overlap)
    for label, value in zip(step.labels, step.graph.inputs, strict=True):
        if value.type.dtype == "key":
            hint = "pass the numbers of the key, and call wrap_key_data in the step"
            raise InputError(f"input {label} is a key", hint=hint)
    homes = program.homes or (EVERYWHERE,) * len(program.inputs)
    shardings = zip(step.graph.inputs, step.roles, program.inputs, homes, strict=True)
    inputs = [
        _describe_value(language, value.name, value.type, sharding) | {"role": role, "stage": home}
        for value, role, sharding, home in shardings
    ]
    outputs = [
        _describe_value(language, output.name, output.type, output.sharding) | {"kept": output.kept}
        for output in listing.outputs
    ]
    values = [value for graph in step.graph.graphs() for value in graph.values.values()]
    captured = [
        (
            name,
            pack(_encode_constant(language, step.graph.values[name].type.dtype, data), WIDTH - 10),
        )
        for name, data in step.constants
    ]
    return _fill_template(
        language,
        listing,
        axes,
        values,
        name=step.name,
        plan=plan,
        made_by=made_by,
        inputs=inputs,
        outputs=outputs,
        captured=captured,
        modules=sorted(programs.modules) if programs else [],
        placed=str(programs.placement) if programs and programs.reordered else "",
        **(scheduled.words(step, listing, language) if scheduled else UNSCHEDULED),
    )


def add_statement(text: str, statement: str) -> str:
    """Replaces ``NOT_EXECUTED`` in a file's heading by a statement of how the file was executed."""
    return text.replace(NOT_EXECUTED, "\n".join(wrap(statement, WIDTH)), 1)


def write_operations(
    runtime: str, section: ProgramSection, sizes: Mapping[str, int], sent: Collection[str] = ()
) -> str:
    """Writes operations of a step with the same helpers, to be called rather than run.

    Values have the section's shardings, and partial values stay partial. Values named ``sent`` are
    returned in the form that a collective needs. Raises InputError as ``write`` does.
    """
    language = LANGUAGES[runtime]
    listing = build_partial_listing(section, sizes, language, sent)
    values = [value for value, _ in section.reads]
    values += [
        result
        for instruction in section.instructions
        if isinstance(instruction, LocalOperation)
        for result in instruction.operation.results
    ]
    words = {"name": "operations", "plan": "", "made_by": "collsynth", **UNSCHEDULED}
    words |= dict.fromkeys(("inputs", "outputs", "captured", "modules", "placed"), ())
    return _fill_template(language, listing, sizes, values, **words)


def _fill_template(
    language: TargetLanguage,
    listing: Listing,
    axes: Mapping[str, int],
    values: Iterable[Value],
    **words: Any,
) -> str:
    return (
        templates("synth.step.emit")
        .get_template(language.template)
        .render(
            runtime=language.spelling.name,
            axes=list(axes.items()),
            sizes=", ".join(f"{axis}={size}" for axis, size in axes.items()),
            world=prod(axes.values()),
            over=_list_exchanges(listing.moves, axes),
            functions=listing.text,
            later="later=True" in listing.text,
            executed=NOT_EXECUTED,
            uses=listing.uses,
            flats=any(value["flat"] for value in words["inputs"]),
            wide=any(value.type.dtype in _WIDE for value in values),
            **words,
        )
    )


def _list_exchanges(moves: Sequence[ShardingMove], sizes: Mapping[str, int]) -> list[str]:
    """Returns the sets of axes over which groups communicate, each in the order of the axes."""
    sending = (
        MoveKind.ALL_GATHER,
        MoveKind.ALL_TO_ALL,
        MoveKind.ALL_REDUCE,
        MoveKind.REDUCE_SCATTER,
    )
    exchanged = {tuple(axis for axis in sizes if axis in m.axes) for m in moves if m.how in sending}
    return [spell_words(axes) for axes in sorted(exchanged)]


def _describe_value(
    language: TargetLanguage, name: str, kind: Type, sharding: Sharding
) -> dict[str, Any]:
    """Returns an input or output in the form that templates use."""
    return {
        "name": name,
        "dtype": _spell_dtype(language, kind.dtype),
        "shape": kind.shape,
        "spec": spell_partition(sharding),
        "cuts": spell_tuple(map(spell_words, trim_uncut(replace(sharding, flat=())))),
        "flat": f"({sharding.lead}, {spell_words(sharding.flat)})" if sharding.flat else "",
    }


def _spell_dtype(language: TargetLanguage, dtype: str) -> str:
    """Returns the element type of arrays in the file."""
    return language.spelling.dtypes.get(dtype, dtype).rpartition(".")[2].rstrip("_")


def _encode_constant(language: TargetLanguage, dtype: str, data: bytes) -> bytes:
    """Returns the bytes of an array in the runtime's elements: PyTorch stores u32 in 64 bits."""
    # Other element types have the same bytes in every runtime.
    if (dtype, _spell_dtype(language, dtype)) != ("u32", "int64"):
        return data
    return np.frombuffer(data, "<u4").astype("<i8").tobytes()


LONG_DTYPES = {dtype: _spell_dtype(JAX, dtype) for dtype in JAX.spelling.dtypes if dtype != "key"}
