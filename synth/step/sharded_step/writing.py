"""A plan's program as a sharded step: its text says all that devices do.

A value that lies in several ways has a name for each: ``v7`` is how it was made, ``v7.1`` and
further ones what redistributions make of it.
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
from synth.step.sharding.program import EVERYWHERE, keys_made_by, keys_read_by


def write_sharded_step(step: Step, plan: Plan, program: StepProgram) -> ShardedStep:
    """The step as devices do it, where ``program`` is what the plan makes of it.

    With microbatches they are an axis, the first, and operations stand by when they are done, those
    of a stage together as far as they do not wait for another.
    """
    time = ((TIME, plan.microbatches),) if program.places else ()
    grouped, places = _group_by_stage(step, program)
    written = replace(step, graph=_graph(step.graph, grouped, step.updates))
    counts = [
        len(one.path.moves) if isinstance(one, RedistributedValue) else 1
        for one in grouped.instructions
    ]
    at = [place for place, count in zip(places, counts, strict=False) for _ in range(count)]
    return ShardedStep((*time, *plan.axes), written, tuple(at))


def _group_by_stage(step: Step, program: StepProgram) -> tuple[StepProgram, list[PipelinePosition]]:
    """The program by stages and times, and where and when each instruction is done."""
    if not program.places:
        return program, []
    both = list(zip(program.instructions, program.places, strict=True))
    inputs = zip(step.graph.inputs, program.inputs, program.homes, strict=True)
    there = {(home, (value.name, lies)) for value, lies, home in inputs}
    order: list[tuple[LocalOperation | RedistributedValue | SentValue, InstructionPlace]] = []
    stages = sorted({place.stage for place in program.places})
    for when in StepPhase:
        left = [one for one in both if one[1].when is when]
        while left:
            for stage in stages[:: -1 if when in (StepPhase.BACKWARD, StepPhase.WEIGHT) else 1]:
                waiting = []
                for one, place in left:
                    held = all(
                        there & {(stage, key), (EVERYWHERE, key)} for key in keys_read_by(one)
                    )
                    if place.stage != stage or not held:
                        waiting.append((one, place))
                        continue
                    order.append((one, place))
                    to = one.target if isinstance(one, SentValue) else stage
                    made = keys_read_by(one) if isinstance(one, SentValue) else keys_made_by(one)
                    there.update((to, key) for key in made)
                left = waiting
    found = replace(
        program,
        instructions=tuple(one for one, _ in order),
        places=tuple(place for _, place in order),
    )
    return found, [PipelinePosition(place.stage, place.when.name.lower()) for place in found.places]


def _graph(graph: Graph, program: StepProgram, updates: Sequence[tuple[int, int]] = ()) -> Graph:
    writer = _StepWriter({*graph.values})
    homes = program.homes or (EVERYWHERE,) * len(graph.inputs)
    inputs = tuple(map(writer.made, graph.inputs, program.inputs, homes))
    places = program.places or (InstructionPlace(EVERYWHERE, StepPhase.BEFORE),) * len(
        program.instructions
    )
    for one, place in zip(program.instructions, places, strict=True):
        match one:
            case LocalOperation():
                writer.do(one, place.stage)
            case RedistributedValue():
                writer.move(one, place.stage)
            case SentValue():
                writer.send(one)
    ends = {out: homes[place_in] for out, place_in in updates}
    outputs = tuple(
        writer.read(value, lies, ends.get(at))
        for at, (value, lies) in enumerate(zip(graph.outputs, program.outputs, strict=True))
    )
    return Graph(inputs, tuple(writer.operations), outputs)


@dataclass
class _StepWriter:
    """What is written so far: under which name each stage has each value, lying in which way."""

    taken: set[str]
    held: dict[tuple[str, Sharding], dict[int, Value]] = field(default_factory=dict)
    lines: dict[str, str] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)

    def made(self, value: Value, sharding: Sharding, stage: int) -> Value:
        found = replace(value, sharding=sharding)
        self.held.setdefault((value.name, sharding), {})[stage] = found
        return found

    def read(self, operand: Operand, sharding: Sharding, stage: int | None) -> Operand:
        """As a stage has it; as whoever does, for None."""
        if not isinstance(operand, Value):
            return operand
        places = self.held[operand.name, sharding]
        own = [places[one] for one in (stage, EVERYWHERE) if one is not None and one in places]
        return own[0] if own else next(iter(places.values()))

    def do(self, done: LocalOperation, stage: int) -> None:
        operation, how = done.operation, done.how
        both = zip(operation.operands, how.operands, strict=True)
        operands = tuple(self.read(one, lies, stage) for one, lies in both)
        made = zip(operation.results, how.results, strict=True)
        results = tuple(self.made(one, lies, stage) for one, lies in made)
        body = operation.body
        if body is not None:
            assert done.body is not None, operation
            body = _graph(body, done.body)
        self.lines.update((one.name, operation.line) for one in results)
        self.operations.append(replace(operation, operands=operands, results=results, body=body))

    def move(self, moved: RedistributedValue, stage: int) -> None:
        before = self.read(moved.value, moved.path.source, stage)
        assert isinstance(before, Value)
        for move in moved.path.moves:
            told = (("by", move.how.value), ("over", move.axes))
            before = self.same(REDISTRIBUTE, before, move.after, told, moved.value.name)
        self.held.setdefault((moved.value.name, moved.path.target), {})[stage] = before

    def send(self, sent: SentValue) -> None:
        name, lies = sent.value.name, sent.sharding
        before = self.read(sent.value, lies, sent.source)
        assert isinstance(before, Value)
        after = self.same(SEND, before, lies, (("to", sent.target),), name)
        self.held[name, lies][sent.target] = after

    def same(
        self,
        primitive: str,
        before: Value,
        lies: Sharding,
        told: tuple[tuple[str, Parameter], ...],
        name: str,
    ) -> Value:
        """A value that is another one lying otherwise, or elsewhere."""
        after = replace(before, name=self._name(name), sharding=lies)
        line = self.lines.get(name, "")
        self.operations.append(Operation(primitive, (before,), (after,), told, line=line))
        return after

    def _name(self, of: str) -> str:
        found = next(name for at in count(1) if (name := f"{of}.{at}") not in self.taken)
        self.taken.add(found)
        return found
