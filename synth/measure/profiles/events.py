"""What is measured of a plan: its blocks as the written file has them, equal ones once.

Two blocks are equal if their text is the same once values have names by their place: the same
primitives with the same parameters on parts of the same shapes and types, in the same order. It is
this text that is run, so nothing that it depends on is left out.

>>> from grammar.tensors.parser import parse_step
>>> from synth.step.sharding import apply, parse_recipe, plan_of
>>> step = parse_step('''
... step total
... in x: f32[8,2] batch
... v0: f32[8,2] = exp(x)
... v1: f32[8,2] = exp(v0)
... v2: f32[] = reduce_sum(v1) axes=(0,1)
... out v2
... ''')
>>> plan = plan_of(step, parse_recipe("data=4; batch over data"))
>>> [(_, event)] = events("torch", step, apply(step, plan), plan.sizes)
>>> event.name, event.operations, [str(one) for one in event.inputs]
('exp to reduce_sum', 3, ['f32[2,2]'])
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from grammar.tensors.operations import Graph, Operand, Step, Value
from grammar.tensors.sharding import Type, part_shape
from hierarchies import InputError
from synth.compute import flops_of
from synth.measure.profiles.blocks import OperationBlock, list_operations, split_blocks
from synth.step.emit import ProgramSection, write_operations
from synth.step.factors import OperationSharding, part_of
from synth.step.sharding import LocalOperation, RedistributedValue, StepProgram

_COMMENT = re.compile(r"^\s*#.*\n|  # .*$", re.MULTILINE)
_FUNCTIONS = re.compile(r"^def (loop_\d+|device_step)\(.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)

KEEPING_RUNTIMES = ("torch",)
"""Runtimes in which the variables of a step live to its end, so that all that it makes lies
elsewhere in memory; others let go of what is read no more, or never make it."""


@dataclass(frozen=True)
class ProfileEvent:
    """Work that one device does without a break, and what it reads: types of parts.

    ``text`` is a file with a function ``device_step`` of a list of these inputs.
    ``list_operations``, ``flops`` and ``moved_bytes`` (read and written by each operation) are what
    an estimate of its seconds may go by.
    """

    key: str
    name: str
    text: str
    inputs: tuple[Type, ...]
    operations: int
    flops: int
    moved_bytes: int


def list_events(
    runtime: str, step: Step, program: StepProgram, sizes: Mapping[str, int]
) -> Iterator[tuple[OperationBlock, ProfileEvent]]:
    """Every block of a program with its event; equal blocks have one event.

    ``sizes`` are the ``parts`` of the plan, in which microbatches are. Raises InputError for what
    the runtime has no words for.
    """
    known: dict[str, ProfileEvent] = {}
    for block in split_blocks(step, program, sizes, keeps=runtime in KEEPING_RUNTIMES):
        event = _event(runtime, block, sizes)
        yield block, known.setdefault(event.key, event)


def _event(runtime: str, block: OperationBlock, sizes: Mapping[str, int]) -> ProfileEvent:
    section = _rename_values(block)
    sent = [
        str(new)
        for (new, _), old in zip(section.makes, block.outputs, strict=True)
        if old in block.sent
    ]
    text = write_operations(runtime, section, sizes, sent)
    inputs = tuple(
        Type(value.type.dtype, part_shape(value.type, lies, sizes)) for value, lies in block.inputs
    )
    words = "\n".join(_COMMENT.sub("", one.group()) for one in _FUNCTIONS.finditer(text))
    axes = [f"{axis}={size}" for axis, size in sizes.items() if f'"{axis}"' in words]
    said = "\n".join((runtime, *axes, *map(str, inputs), words))
    flops, moved, names = 0, 0, []
    for operation, how in list_operations(block):
        names.append(operation.primitive)
        flops += 0 if operation.body is not None else _flops(operation, how, sizes)
        mine = part_of(operation, how, sizes).operation if operation.body is None else operation
        touched = (*mine.operands, *mine.results)
        moved += sum(one.type.bytes for one in touched if isinstance(one, Value))
    return ProfileEvent(
        hashlib.sha256(said.encode()).hexdigest()[:16],
        _name(names, block.of[0].operation.line if block.of else ""),
        text,
        inputs,
        len(names),
        flops,
        moved,
    )


def _flops(operation: object, how: OperationSharding, sizes: Mapping[str, int]) -> int:
    try:
        return flops_of(part_of(operation, how, sizes).operation)  # type: ignore[arg-type]
    except InputError:
        return 0


def _name(primitives: list[str], line: str) -> str:
    ends = dict.fromkeys((primitives[0], primitives[-1]))
    return " to ".join(ends) + (f" at {line}" if line else "")


def _rename_values(block: OperationBlock) -> ProgramSection:
    """The block by itself, its values called by their place."""
    names: dict[str, str] = {}

    def renamed(one: Operand) -> Operand:
        if not isinstance(one, Value):
            return one
        return replace(one, name=names.setdefault(one.name, f"v{len(names)}"))

    def value(one: Value) -> Value:
        found = renamed(one)
        assert isinstance(found, Value)
        return found

    inputs = tuple(value(one) for one, _ in block.inputs)
    instructions: list[LocalOperation | RedistributedValue] = []
    for one in block.instructions:
        match one:
            case RedistributedValue():
                instructions.append(replace(one, value=value(one.value)))
            case LocalOperation(operation=operation):
                mine = replace(
                    operation,
                    operands=tuple(map(renamed, operation.operands)),
                    results=tuple(map(value, operation.results)),
                    body=operation.body and _plain_body(operation.body),
                    line="",
                )
                instructions.append(replace(one, operation=mine))
    outputs = tuple(value(one) for one, _ in block.outputs)
    return ProgramSection(
        None,
        tuple(instructions),
        tuple(zip(inputs, (lies for _, lies in block.inputs), strict=True)),
        tuple(zip(outputs, (lies for _, lies in block.outputs), strict=True)),
    )


def _plain_body(body: Graph) -> Graph:
    """A body that does nothing, its values called by their place."""
    names = {one.name: replace(one, name=f"w{at}") for at, one in enumerate(body.inputs)}
    outputs = (names[one.name] if isinstance(one, Value) else one for one in body.outputs)
    return Graph(tuple(names.values()), (), tuple(outputs))
