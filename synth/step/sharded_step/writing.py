"""Writes a plan's program as a sharded step, whose text has everything that devices do.

A value has a name for each of its shardings: ``v7`` as it was computed, and ``v7.1``, ``v7.2`` and
so on after redistributions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from grammar.tensors.operations import (
    REDISTRIBUTE,
    SEND,
    Graph,
    Operand,
    Operation,
    Parameter,
    PipelinePosition,
    ShardedStep,
    Step,
    Value,
)
from grammar.tensors.sharding import Sharding
from synth.step.sharding import (
    InstructionPlace,
    LocalOperation,
    Plan,
    RedistributedValue,
    SentValue,
    StepPhase,
    StepProgram,
)
from synth.step.sharding.plan import TIME
from synth.step.sharding.program import EVERYWHERE


def write_sharded_step(step: Step, plan: Plan, program: StepProgram) -> ShardedStep:
    """Writes the ``program`` of a plan for a step as a sharded step.

    With microbatches these are the first axis, and operations are in the order of their phases. The
    operations of a stage stay together unless they wait for another stage.
    """
    time = ((TIME, plan.microbatches),) if program.places else ()
    grouped, places = _group_by_stage(step, program)
    written = replace(step, graph=_graph(step.graph, grouped, step.updates))
    counts = [
        len(instruction.path.moves) if isinstance(instruction, RedistributedValue) else 1
        for instruction in grouped.instructions
    ]
    at = [place for place, count in zip(places, counts, strict=False) for _ in range(count)]
    return ShardedStep((*time, *plan.axes), written, tuple(at))


def _group_by_stage(step: Step, program: StepProgram) -> tuple[StepProgram, list[PipelinePosition]]:
    """Sorts a program by phases and stages; also returns the position of each instruction."""
    if not program.places:
        return program, []
    pairs = list(zip(program.instructions, program.places, strict=True))
    inputs = zip(step.graph.inputs, program.inputs, program.homes, strict=True)
    available = {(home, (value.name, sharding)) for value, sharding, home in inputs}
    order: list[tuple[LocalOperation | RedistributedValue | SentValue, InstructionPlace]] = []
    stages = sorted({place.stage for place in program.places})
    for when in StepPhase:
        remaining = [pair for pair in pairs if pair[1].when is when]
        while remaining:
            # Gradients come down the stages, so this order needs the fewest rounds.
            for stage in stages[:: -1 if when in (StepPhase.BACKWARD, StepPhase.WEIGHT) else 1]:
                waiting = []
                for instruction, place in remaining:
                    read = instruction.keys_read
                    is_ready = all(available & {(stage, key), (EVERYWHERE, key)} for key in read)
                    if place.stage != stage or not is_ready:
                        waiting.append((instruction, place))
                        continue
                    order.append((instruction, place))
                    if isinstance(instruction, SentValue):
                        available.update((instruction.target, key) for key in read)
                    else:
                        available.update((stage, key) for key in instruction.keys_made)
                remaining = waiting
    places = tuple(place for _, place in order)
    instructions = tuple(instruction for instruction, _ in order)
    positions = [PipelinePosition(place.stage, place.when.name.lower()) for place in places]
    return replace(program, instructions=instructions, places=places), positions


def _graph(graph: Graph, program: StepProgram, updates: Sequence[tuple[int, int]] = ()) -> Graph:
    writer = _StepWriter({*graph.values})
    homes = program.homes or (EVERYWHERE,) * len(graph.inputs)
    inputs = tuple(map(writer.make, graph.inputs, program.inputs, homes))
    places = program.places or (InstructionPlace(EVERYWHERE, StepPhase.BEFORE),) * len(
        program.instructions
    )
    for instruction, place in zip(program.instructions, places, strict=True):
        match instruction:
            case LocalOperation():
                writer.operation(instruction, place.stage)
            case RedistributedValue():
                writer.redistribution(instruction, place.stage)
            case SentValue():
                writer.send(instruction)
    ends = {out: homes[place_in] for out, place_in in updates}
    outputs = tuple(
        writer.read(value, sharding, ends.get(at))
        for at, (value, sharding) in enumerate(zip(graph.outputs, program.outputs, strict=True))
    )
    return Graph(inputs, tuple(writer.operations), outputs)


@dataclass
class _StepWriter:
    """The operations written so far, and the named value of each key on each stage."""

    taken: set[str]
    held: dict[tuple[str, Sharding], dict[int, Value]] = field(default_factory=dict)
    lines: dict[str, str] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)

    def make(self, value: Value, sharding: Sharding, stage: int) -> Value:
        made = replace(value, sharding=sharding)
        self.held.setdefault((value.name, sharding), {})[stage] = made
        return made

    def read(self, operand: Operand, sharding: Sharding, stage: int | None) -> Operand:
        """Returns an operand as a stage has it; as any stage has it if ``stage`` is None."""
        if not isinstance(operand, Value):
            return operand
        values = self.held[operand.name, sharding]
        own = [values[at] for at in (stage, EVERYWHERE) if at is not None and at in values]
        return own[0] if own else next(iter(values.values()))

    def operation(self, local: LocalOperation, stage: int) -> None:
        operation, how = local.operation, local.how
        read = zip(operation.operands, how.operands, strict=True)
        operands = tuple(self.read(operand, sharding, stage) for operand, sharding in read)
        made = zip(operation.results, how.results, strict=True)
        results = tuple(self.make(value, sharding, stage) for value, sharding in made)
        body = operation.body
        if body is not None:
            assert local.body is not None, operation
            body = _graph(body, local.body)
        self.lines.update((value.name, operation.line) for value in results)
        self.operations.append(replace(operation, operands=operands, results=results, body=body))

    def redistribution(self, moved: RedistributedValue, stage: int) -> None:
        before = self.read(moved.value, moved.path.source, stage)
        assert isinstance(before, Value)
        for move in moved.path.moves:
            parameters = (("by", move.how.value), ("over", move.axes))
            before = self.copy(REDISTRIBUTE, before, move.after, parameters, moved.value.name)
        self.held.setdefault((moved.value.name, moved.path.target), {})[stage] = before

    def send(self, sent: SentValue) -> None:
        name, sharding = sent.value.name, sent.sharding
        before = self.read(sent.value, sharding, sent.source)
        assert isinstance(before, Value)
        after = self.copy(SEND, before, sharding, (("to", sent.target),), name)
        self.held[name, sharding][sent.target] = after

    def copy(
        self,
        primitive: str,
        before: Value,
        sharding: Sharding,
        parameters: tuple[tuple[str, Parameter], ...],
        name: str,
    ) -> Value:
        """Appends an operation that redistributes or sends a value, and returns its result."""
        after = replace(before, name=self._new_name(name), sharding=sharding)
        line = self.lines.get(name, "")
        self.operations.append(Operation(primitive, (before,), (after,), parameters, line=line))
        return after

    def _new_name(self, of: str) -> str:
        name = next(name for at in count(1) if (name := f"{of}.{at}") not in self.taken)
        self.taken.add(name)
        return name
