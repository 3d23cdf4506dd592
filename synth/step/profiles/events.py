"""The measured events of a plan: its blocks as in the emitted file, equal ones once.

Two blocks are equal if their texts are, with values named by position: the same primitives with the
same parameters on parts of the same shapes and types, in the same order. The measured process runs
this text, so the comparison misses nothing.

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
>>> [(_, event)] = list_events("torch", step, apply(step, plan), plan.sizes)
>>> event.name, event.operations, [str(kind) for kind in event.inputs]
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
from synth.step.emit import ProgramSection
from synth.step.factors import OperationSharding, part_of
from synth.step.profiles.blocks import OperationBlock, list_operations, split_blocks
from synth.step.sharding import LocalOperation, RedistributedValue, StepProgram

_COMMENT = re.compile(r"^\s*#.*\n|  # .*$", re.MULTILINE)
_FUNCTIONS = re.compile(r"^def (loop_\d+|device_step)\(.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)

KEEPING_RUNTIMES = ("torch",)
"""Runtimes whose variables live to the end of a step, so every result has its own memory.

Other runtimes free values after their last read, or never materialise them.
"""


@dataclass(frozen=True)
class ProfileEvent:
    """Uninterrupted work of one device, and the types of the parts it reads.

    ``text`` is a file with a function ``device_step`` of a list of these inputs.
    ``operations``, ``flops`` and ``moved_bytes`` (read and written by each operation) support
    an estimate of its seconds.
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
    """Yields every block of a program with its event; equal blocks have one event.

    ``sizes`` are the plan's ``parts``, which include microbatches. Raises InputError for an
    operation that the runtime cannot express.
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
    from synth.step.emit import write_operations  # only measurements need its templates

    text = write_operations(runtime, section, sizes, sent)
    inputs = tuple(
        Type(value.type.dtype, part_shape(value.type, sharding, sizes))
        for value, sharding in block.inputs
    )
    words = "\n".join(_COMMENT.sub("", found.group()) for found in _FUNCTIONS.finditer(text))
    axes = [f"{axis}={size}" for axis, size in sizes.items() if f'"{axis}"' in words]
    identity = "\n".join((runtime, *axes, *map(str, inputs), words))
    flops, moved, names = 0, 0, []
    for operation, how in list_operations(block):
        names.append(operation.primitive)
        flops += 0 if operation.body is not None else _flops(operation, how, sizes)
        mine = part_of(operation, how, sizes).operation if operation.body is None else operation
        touched = (*mine.operands, *mine.results)
        moved += sum(value.type.bytes for value in touched if isinstance(value, Value))
    return ProfileEvent(
        hashlib.sha256(identity.encode()).hexdigest()[:16],
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
    """Returns the block as a section of its own, with values named by position."""
    names: dict[str, str] = {}

    def renamed(operand: Operand) -> Operand:
        if not isinstance(operand, Value):
            return operand
        return replace(operand, name=names.setdefault(operand.name, f"v{len(names)}"))

    def value(old: Value) -> Value:
        found = renamed(old)
        assert isinstance(found, Value)
        return found

    inputs = tuple(value(instruction) for instruction, _ in block.inputs)
    instructions: list[LocalOperation | RedistributedValue] = []
    for instruction in block.instructions:
        match instruction:
            case RedistributedValue():
                instructions.append(replace(instruction, value=value(instruction.value)))
            case LocalOperation(operation=operation):
                mine = replace(
                    operation,
                    operands=tuple(map(renamed, operation.operands)),
                    results=tuple(map(value, operation.results)),
                    body=operation.body and _plain_body(operation.body),
                    line="",
                )
                instructions.append(replace(instruction, operation=mine))
    outputs = tuple(value(instruction) for instruction, _ in block.outputs)
    return ProgramSection(
        None,
        tuple(instructions),
        tuple(zip(inputs, (sharding for _, sharding in block.inputs), strict=True)),
        tuple(zip(outputs, (sharding for _, sharding in block.outputs), strict=True)),
    )


def _plain_body(body: Graph) -> Graph:
    """Returns a body that does nothing, its values named by position."""
    names = {value.name: replace(value, name=f"w{at}") for at, value in enumerate(body.inputs)}
    outputs = (names[value.name] if isinstance(value, Value) else value for value in body.outputs)
    return Graph(tuple(names.values()), (), tuple(outputs))
