"""A sharded program in blocks: operations one after the other, between which nothing is sent.

A block ends where a device may have to wait, before a redistribution that sends, and where one may
begin, behind what makes a value that is to be sent. So a block takes as long in a step whose
communication is beside compute as in one where it is not. Bodies of loops are cut likewise; what a
loop does itself, which is to take slices and to stack results, is a block of its own.
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
from synth.step.sharding.program import Key, keys_made_by, keys_read_by

_REDUCING = (MoveKind.ALL_REDUCE, MoveKind.REDUCE_SCATTER)


@dataclass(frozen=True)
class OperationBlock:
    """Instructions, the values that they read from before, and those that are needed after.

    ``of`` are the operations of the program that it stands for: of a loop's own work the loop, of
    sums over microbatches none.
    ``sent`` are the values that are reduced over devices next. ``phase``: of which pass of which
    stage it is, where the program has microbatches.
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
    """All blocks of a program, those of bodies before what their loop does itself.

    ``keeps``: all that is made outside of loops is needed to the end of the function that makes it,
    as its variables live so long.
    """
    for one in split_sections(step, program, sizes).sections:
        yield from _blocks(one.instructions, one.makes, sizes, one.phase, keeps)
        if one.adds:
            yield _accumulation_block(step.graph, one)


def _blocks(
    instructions: Sequence[LocalOperation | RedistributedValue],
    made: Iterable[tuple[Operand, Sharding]],
    sizes: Mapping[str, int],
    phase: Phase | None,
    keeps: bool,
) -> Iterator[OperationBlock]:
    sent = {
        one.value.name
        for one in instructions
        if isinstance(one, RedistributedValue) and one.path.requests(sizes)
    }
    reduced = {
        (one.value.name, one.path.source)
        for one in instructions
        if isinstance(one, RedistributedValue)
        and one.path.moves
        and one.path.moves[0].how in _REDUCING
    }
    end = len(instructions)
    last = defaultdict[Key, int](lambda: end if keeps else -1)
    if not keeps:
        for at, one in enumerate(instructions):
            last |= dict.fromkeys(keys_read_by(one), at)
        last |= {(value.name, lies): end for value, lies in made if isinstance(value, Value)}
    some: list[int] = []

    def cut() -> Iterator[OperationBlock]:
        if any(isinstance(instructions[at], LocalOperation) for at in some):
            yield _block(instructions, some, last, reduced, phase)
            some.clear()

    for at, one in enumerate(instructions):
        if isinstance(one, LocalOperation) and one.body is not None:
            yield from cut()
            body, graph = one.body, one.operation.body
            assert graph is not None
            inner = [each for each in body.instructions if not isinstance(each, SentValue)]
            ends = zip(graph.outputs, body.outputs, strict=True)
            yield from _blocks(inner, ends, sizes, phase, keeps=False)
            yield _loop_block(one, phase)
        elif isinstance(one, RedistributedValue) and one.path.requests(sizes):
            yield from cut()
        else:
            some.append(at)
            if any(key[0] in sent for key in keys_made_by(one)):
                yield from cut()
    yield from cut()


def _block(
    instructions: Sequence[LocalOperation | RedistributedValue],
    some: Sequence[int],
    last: Mapping[Key, int],
    reduced: Collection[Key],
    phase: Phase | None,
) -> OperationBlock:
    done = [instructions[at] for at in some]
    inputs: dict[Key, Value] = {}
    made: dict[Key, Value] = {}
    for one in done:
        values = _values(one)
        inputs |= {key: values[key[0]] for key in keys_read_by(one) if key not in made}
        made |= {key: values[key[0]] for key in keys_made_by(one) if key not in inputs}
    needed = [key for key in made if last[key] > some[-1]]
    return OperationBlock(
        tuple(done),
        tuple((value, lies) for (_, lies), value in inputs.items()),
        tuple((made[key], key[1]) for key in needed),
        tuple(one for one in done if isinstance(one, LocalOperation)),
        frozenset((made[key], key[1]) for key in needed if key in reduced),
        phase,
    )


def _values(one: LocalOperation | RedistributedValue) -> dict[str, Value]:
    """All that it reads and makes, by name."""
    if isinstance(one, RedistributedValue):
        return {one.value.name: one.value}
    touched = (*one.operation.operands, *one.operation.results)
    return {value.name: value for value in touched if isinstance(value, Value)}


def _accumulation_block(graph: Graph, one: ProgramSection) -> OperationBlock:
    """What a microbatch adds to the sums of those before it; the first has nothing to add to."""
    done: list[LocalOperation] = []
    inputs: list[tuple[Value, Sharding]] = []
    outputs: list[tuple[Value, Sharding]] = []
    for name, lies in one.adds:
        mine = graph.values[name]
        before, after = (replace(mine, name=f"{name}/{word}") for word in ("before", "after"))
        operation = Operation("add", (before, mine), (after,))
        done.append(LocalOperation(operation, OperationSharding((lies, lies), (lies,), ())))
        inputs += [(before, lies), (mine, lies)]
        outputs.append((after, lies))
    return OperationBlock(tuple(done), tuple(inputs), tuple(outputs), (), phase=one.phase)


def _loop_block(one: LocalOperation, phase: Phase | None) -> OperationBlock:
    """What a loop does itself: it goes round a body that gives back what it is given."""
    loop, body, program = one.operation, one.operation.body, one.body
    assert body is not None
    assert program is not None
    divided = scan_operands_of(loop.parameter)
    given = [
        (Value(f"given{at}", output.type), lies)
        for at, (output, lies) in enumerate(zip(body.outputs, program.outputs, strict=True))
        if isinstance(output, Value)
    ]
    entering = list(zip(body.inputs, program.inputs, strict=True))[divided.constants :]
    inner = [*given, *entering]
    names = iter(given)
    outputs = [
        (next(names) if isinstance(output, Value) else (output, lies))
        for output, lies in zip(body.outputs, program.outputs, strict=True)
    ]
    graph = Graph(tuple(value for value, _ in inner), (), tuple(value for value, _ in outputs))
    idle = StepProgram(tuple(lies for _, lies in inner), (), tuple(lies for _, lies in outputs))
    operands = tuple(value for value, _ in given) + loop.operands[divided.constants :]
    how = OperationSharding(
        tuple(lies for _, lies in given) + one.how.operands[divided.constants :],
        one.how.results,
        (),
    )
    told = dict(loop.parameters) | {"num_consts": len(given)}
    operation = replace(loop, operands=operands, parameters=tuple(told.items()), body=graph)
    stacks = zip(loop.results[divided.carried :], one.how.results[divided.carried :], strict=True)
    read = zip(operands, how.operands, strict=True)
    inputs = tuple((value, lies) for value, lies in read if isinstance(value, Value))
    return OperationBlock(
        (LocalOperation(operation, how, idle),), inputs, tuple(stacks), (one,), phase=phase
    )


def list_operations(block: OperationBlock) -> Iterator[tuple[Operation, OperationSharding]]:
    """The operations of a block and how their values lie."""
    for one in block.instructions:
        if isinstance(one, LocalOperation):
            yield one.operation, one.how
