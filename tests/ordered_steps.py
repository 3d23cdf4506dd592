"""The judge of programs on stages: what each stage holds, done action by action as an order says.

It knows no rule of who goes where. It keeps books: a stage may read what it made for the same
microbatch or what it was sent, and what is done once may be read by all. With the judge of values,
for which microbatches are one more axis, that is the whole: no value depends on when it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from grammar.tensors.operations import Step, Value
from grammar.tensors.sharding import Sharding
from synth.step.schedules import Action, Pass, PipelineSchedule
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

PASSES = {
    Pass.FORWARD: (StepPhase.FORWARD,),
    Pass.BACKWARD: (StepPhase.BACKWARD, StepPhase.WEIGHT),
    Pass.INPUT: (StepPhase.BACKWARD,),
    Pass.WEIGHT: (StepPhase.WEIGHT,),
}
ONCE = -1


class MissingError(Exception):
    """A stage reads what it does not have."""


@dataclass
class Books:
    """For each stage and microbatch the values that are there, lying how."""

    microbatches: int
    held: set[tuple[int, int, str, Sharding]] = field(default_factory=set)

    def has(self, stage: int, microbatch: int, name: str, lies: Sharding) -> bool:
        return any((stage, one, name, lies) in self.held for one in (microbatch, ONCE))

    def read(self, stage: int, microbatch: int, value: object, lies: Sharding) -> None:
        """Raise MissingError unless it is there; once all are done, of every microbatch."""
        if not isinstance(value, Value):
            return
        each = (
            range(self.microbatches) if microbatch == ONCE and TIME in lies.axes else [microbatch]
        )
        for one in each:
            if not self.has(stage, one, value.name, lies):
                spelled = f"{value} {lies.spelled()} of microbatch {one}"
                raise MissingError(f"stage {stage} has no {spelled}")

    def make(self, stage: int, microbatch: int, name: str, lies: Sharding) -> None:
        self.held.add((stage, microbatch, name, lies))

    def do(
        self, one: LocalOperation | RedistributedValue | SentValue, stage: int, microbatch: int
    ) -> None:
        match one:
            case LocalOperation(operation, how):
                for operand, lies in zip(operation.operands, how.operands, strict=True):
                    self.read(stage, microbatch, operand, lies)
                for value, lies in zip(operation.results, how.results, strict=True):
                    self.make(stage, microbatch, value.name, lies)
            case RedistributedValue(value, path):
                together = any(TIME in move.axes for move in path.moves if path.source.partial)
                if together and microbatch != ONCE:
                    raise MissingError(f"{value} is put together before the last microbatch")
                self.read(stage, microbatch, value, path.source)
                self.make(stage, microbatch, value.name, path.target)
            case SentValue(value, lies, source, target):
                if stage != source:
                    raise MissingError(f"{value} is sent by stage {stage}, not {source}")
                self.read(stage, microbatch, value, lies)
                self.make(target, microbatch, value.name, lies)


def in_turn(order: PipelineSchedule) -> Iterator[Action]:
    """The actions of all ranks, each as soon as its rank and what it needs are done."""
    done: set[Action] = set()
    left = [list(row) for row in order.ranks]
    while any(left):
        for row in left:
            if row and all(one in done for one in order.needs(row[0])):
                done.add(row[0])
                yield row.pop(0)


def judge_order(step: Step, plan: Plan, program: StepProgram) -> None:
    """Raise MissingError unless every stage has what it reads; ``step`` is the prepared one."""
    order = plan.order
    assert order is not None
    books = Books(plan.microbatches)
    placed = list(zip(program.instructions, program.places, strict=True))

    def stages(home: int) -> Iterable[int]:
        return range(order.stages) if home == EVERYWHERE else [home]

    for value, lies, home in zip(step.graph.inputs, program.inputs, program.homes, strict=True):
        for stage in stages(home):
            books.make(stage, ONCE, value.name, lies)
    _do_once(StepPhase.BEFORE, placed, books, stages)
    for action in in_turn(order):
        for when in PASSES[action.kind]:
            for one, place in placed:
                if (place.stage, place.when) == (action.stage, when):
                    books.do(one, place.stage, action.microbatch)
    _do_once(StepPhase.AFTER, placed, books, stages)
    for out, place_in in step.updates:
        for stage in stages(program.homes[place_in]):
            books.read(stage, ONCE, step.graph.outputs[out], program.outputs[out])


def _do_once(
    when: StepPhase,
    placed: list[tuple[LocalOperation | RedistributedValue | SentValue, InstructionPlace]],
    books: Books,
    stages: Callable[[int], Iterable[int]],
) -> None:
    for one, place in placed:
        for stage in stages(place.stage) if place.when is when else ():
            books.do(one, stage, ONCE)
