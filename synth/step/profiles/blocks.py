"""Cuts a sharded program into blocks: consecutive operations without communication.

A block ends before a redistribution that communicates, because a device may have to wait there. It
also ends after the operation that computes the redistributed value, because communication may begin
there. A block therefore takes as long in a step that overlaps communication as in a step that does
not. Bodies of loops are cut likewise. A loop's own work, which is slicing inputs and stacking
results, is a separate block.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from grammar.tensors.operations import Graph, Operand, Operation, Step, Value
from grammar.tensors.sharding import Sharding
from synth.step.emit import Phase, ProgramSection, split_sections
from synth.step.factors import OperationSharding
from synth.step.redistribution import MoveKind
from synth.step.sharding import LocalOperation, RedistributedValue, SentValue, StepProgram
from synth.step.sharding.plan import scan_operands_of
from synth.step.sharding.program import Key

_REDUCING = (MoveKind.ALL_REDUCE, MoveKind.REDUCE_SCATTER)


@dataclass(frozen=True)
class OperationBlock:
    """Instructions, the earlier values that they read, and their results that are needed later.

    ``of``: the operations of the program that the block represents: for a loop's own work the loop,
    for sums over microbatches none. ``sent``: the values that are reduced over devices next.
    ``phase``: its pass and stage, if the program has microbatches.
    """

    instructions: tuple[LocalOperation | RedistributedValue, ...]
    inputs: tuple[tuple[Value, Sharding], ...]
    outputs: tuple[tuple[Value, Sharding], ...]
    of: tuple[LocalOperation, ...]
    sent: frozenset[tuple[Value, Sharding]] = frozenset()
    phase: Phase | None = None


def split_blocks(
    step: Step, program: StepProgram, sizes: Mapping[str, int], keeps: bool = False
) -> Iterator[OperationBlock]:
    """Yields all blocks of a program; the blocks of a loop's body precede the loop's own block.

    ``keeps``: whether all values made outside loops are needed until the end of their function,
    because the runtime's variables live that long.
    """
    for section in split_sections(step, program, sizes).sections:
        yield from _blocks(section.instructions, section.makes, sizes, section.phase, keeps)
        if section.adds:
            yield _accumulation_block(step.graph, section)


def _blocks(
    instructions: Sequence[LocalOperation | RedistributedValue],
    made: Iterable[tuple[Operand, Sharding]],
    sizes: Mapping[str, int],
    phase: Phase | None,
    keeps: bool,
) -> Iterator[OperationBlock]:
    sent = {
        instruction.value.name
        for instruction in instructions
        if isinstance(instruction, RedistributedValue) and instruction.path.requests(sizes)
    }
    reduced = {
        (instruction.value.name, instruction.path.source)
        for instruction in instructions
        if isinstance(instruction, RedistributedValue)
        and instruction.path.moves
        and instruction.path.moves[0].how in _REDUCING
    }
    end = len(instructions)
    last = defaultdict[Key, int](lambda: end if keeps else -1)
    if not keeps:
        for at, instruction in enumerate(instructions):
            last |= dict.fromkeys(instruction.keys_read, at)
        last |= {
            (value.name, sharding): end for value, sharding in made if isinstance(value, Value)
        }
    positions: list[int] = []

    def cut() -> Iterator[OperationBlock]:
        if any(isinstance(instructions[at], LocalOperation) for at in positions):
            yield _block(instructions, positions, last, reduced, phase)
            positions.clear()

    for at, instruction in enumerate(instructions):
        if isinstance(instruction, LocalOperation) and instruction.body is not None:
            yield from cut()
            body, graph = instruction.body, instruction.operation.body
            assert graph is not None
            inner = [
                inner_instruction
                for inner_instruction in body.instructions
                if not isinstance(inner_instruction, SentValue)
            ]
            ends = zip(graph.outputs, body.outputs, strict=True)
            yield from _blocks(inner, ends, sizes, phase, keeps=False)
            yield _loop_block(instruction, phase)
        elif isinstance(instruction, RedistributedValue) and instruction.path.requests(sizes):
            yield from cut()
        else:
            positions.append(at)
            if any(key[0] in sent for key in instruction.keys_made):
                yield from cut()
    yield from cut()


def _block(
    instructions: Sequence[LocalOperation | RedistributedValue],
    positions: Sequence[int],
    last: Mapping[Key, int],
    reduced: Collection[Key],
    phase: Phase | None,
) -> OperationBlock:
    done = [instructions[at] for at in positions]
    inputs: dict[Key, Value] = {}
    made: dict[Key, Value] = {}
    for instruction in done:
        values = _values(instruction)
        inputs |= {key: values[key[0]] for key in instruction.keys_read if key not in made}
        made |= {key: values[key[0]] for key in instruction.keys_made if key not in inputs}
    needed = [key for key in made if last[key] > positions[-1]]
    return OperationBlock(
        tuple(done),
        tuple((value, sharding) for (_, sharding), value in inputs.items()),
        tuple((made[key], key[1]) for key in needed),
        tuple(instruction for instruction in done if isinstance(instruction, LocalOperation)),
        frozenset((made[key], key[1]) for key in needed if key in reduced),
        phase,
    )


def _values(instruction: LocalOperation | RedistributedValue) -> dict[str, Value]:
    """Returns all values that an instruction reads or makes, by name."""
    if isinstance(instruction, RedistributedValue):
        return {instruction.value.name: instruction.value}
    touched = (*instruction.operation.operands, *instruction.operation.results)
    return {value.name: value for value in touched if isinstance(value, Value)}


def _accumulation_block(graph: Graph, section: ProgramSection) -> OperationBlock:
    """Returns a microbatch's addition to earlier sums; the first microbatch adds nothing."""
    done: list[LocalOperation] = []
    inputs: list[tuple[Value, Sharding]] = []
    outputs: list[tuple[Value, Sharding]] = []
    for name, sharding in section.adds:
        mine = graph.values[name]
        before, after = (replace(mine, name=f"{name}/{word}") for word in ("before", "after"))
        operation = Operation("add", (before, mine), (after,))
        done.append(
            LocalOperation(operation, OperationSharding((sharding, sharding), (sharding,), ()))
        )
        inputs += [(before, sharding), (mine, sharding)]
        outputs.append((after, sharding))
    return OperationBlock(tuple(done), tuple(inputs), tuple(outputs), (), phase=section.phase)


def _loop_block(instruction: LocalOperation, phase: Phase | None) -> OperationBlock:
    """Returns a loop's own work, as a loop over a body that returns its inputs."""
    loop, body, program = instruction.operation, instruction.operation.body, instruction.body
    assert body is not None
    assert program is not None
    divided = scan_operands_of(loop.parameter)
    given = [
        (Value(f"given{at}", output.type), sharding)
        for at, (output, sharding) in enumerate(zip(body.outputs, program.outputs, strict=True))
        if isinstance(output, Value)
    ]
    entering = list(zip(body.inputs, program.inputs, strict=True))[divided.constants :]
    inner = [*given, *entering]
    names = iter(given)
    outputs = [
        (next(names) if isinstance(output, Value) else (output, sharding))
        for output, sharding in zip(body.outputs, program.outputs, strict=True)
    ]
    graph = Graph(tuple(value for value, _ in inner), (), tuple(value for value, _ in outputs))
    idle = StepProgram(
        tuple(sharding for _, sharding in inner), (), tuple(sharding for _, sharding in outputs)
    )
    operands = tuple(value for value, _ in given) + loop.operands[divided.constants :]
    shardings = OperationSharding(
        tuple(sharding for _, sharding in given) + instruction.how.operands[divided.constants :],
        instruction.how.results,
        (),
    )
    parameters = dict(loop.parameters) | {"num_consts": len(given)}
    operation = replace(loop, operands=operands, parameters=tuple(parameters.items()), body=graph)
    stacks = zip(
        loop.results[divided.carried :], instruction.how.results[divided.carried :], strict=True
    )
    read = zip(operands, shardings.operands, strict=True)
    inputs = tuple((value, sharding) for value, sharding in read if isinstance(value, Value))
    return OperationBlock(
        (LocalOperation(operation, shardings, idle),),
        inputs,
        tuple(stacks),
        (instruction,),
        phase=phase,
    )


def list_operations(block: OperationBlock) -> Iterator[tuple[Operation, OperationSharding]]:
    """Yields the operations of a block with the shardings of their values."""
    for instruction in block.instructions:
        if isinstance(instruction, LocalOperation):
            yield instruction.operation, instruction.how
