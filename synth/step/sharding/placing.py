"""A program on stages: where and when each instruction is done, and what is sent between stages.

A value is redistributed where it is made, and then sent, lying so, to every stage that reads it,
once. Activations go up the stages and gradients come down, so that any valid order of passes has
what it reads: what only the way back on a later stage reads of an activation goes up, too, as soon
as that is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from grammar.tensors.operations import Operand, Step, Value
from grammar.tensors.sharding import Sharding
from hierarchies import InputError
from synth.step.sharding.plan import Plan
from synth.step.sharding.program import (
    EVERYWHERE,
    InstructionPlace,
    Key,
    LocalOperation,
    RedistributedValue,
    SentValue,
    StepPhase,
    StepProgram,
    keys_made_by,
    keys_read_by,
)


def place_program(
    step: Step, plan: Plan, program: StepProgram, whens: Sequence[StepPhase]
) -> StepProgram:
    """The program with places; ``whens`` are of its instructions. Raises InputError."""
    stages = plan.stages or (0,) * len(step.graph.operations)
    found = _delay_updates(
        _StagePlacer(step, program, homes_of(step, stages)).program(stages, whens)
    )
    return _split_backward(found) if plan.order is not None and plan.order.halves else found


def _delay_updates(program: StepProgram) -> StepProgram:
    """What only the update reads is done with it, so that nothing is kept for it meanwhile."""
    early: set[Key] = set()
    places = list(program.places)
    for at in reversed(range(len(places))):
        one = program.instructions[at]
        made = keys_made_by(one)
        if places[at].when is StepPhase.BEFORE and made and early.isdisjoint(made):
            places[at] = replace(places[at], when=StepPhase.AFTER)
        if places[at].when is not StepPhase.AFTER:
            early.update(keys_read_by(one))
    return replace(program, places=tuple(places))


def _split_backward(program: StepProgram) -> StepProgram:
    """Backward passes in halves: what no other stage waits for is the one for weights.

    Raises InputError where no gradient is apart from what others wait for.
    """
    waited: set[tuple[int, Key]] = set()
    places = list(program.places)
    for at in reversed(range(len(places))):
        one, place = program.instructions[at], places[at]
        if place.when is not StepPhase.BACKWARD:
            continue
        if isinstance(one, SentValue) or not waited.isdisjoint(
            (place.stage, k) for k in keys_made_by(one)
        ):
            waited.update((place.stage, key) for key in keys_read_by(one))
        else:
            places[at] = replace(place, when=StepPhase.WEIGHT)
    if all(place.when is not StepPhase.WEIGHT for place in places):
        raise InputError(
            "no gradient of weights is apart from what other stages wait for, and the order has"
            " halves",
            where="plan",
            hint="take an order of whole backward passes, as 1f1b is",
        )
    return replace(program, places=tuple(places))


def homes_of(step: Step, stages: Sequence[int]) -> tuple[int, ...]:
    """A parameter lies where it is read first; batches and the count of steps on every stage.

    On one stage all lies there.
    """
    if max(stages) == 0:
        return (0,) * len(step.graph.inputs)
    first: dict[str, int] = {}
    for operation, stage in zip(step.graph.operations, stages, strict=True):
        for one in operation.operands:
            first.setdefault(str(one), stage)
    return tuple(
        EVERYWHERE if role in ("batch", "state") else first.get(value.name, 0)
        for value, role in zip(step.graph.inputs, step.roles, strict=True)
    )


@dataclass
class _StagePlacer:
    step: Step
    whole: StepProgram
    homes: tuple[int, ...]
    written: list[LocalOperation | RedistributedValue | SentValue] = field(default_factory=list)
    places: list[InstructionPlace] = field(default_factory=list)
    at: dict[tuple[str, Sharding], tuple[int, StepPhase]] = field(default_factory=dict)
    sent: set[tuple[str, Sharding, int]] = field(default_factory=set)

    def program(self, stages: Sequence[int], whens: Sequence[StepPhase]) -> StepProgram:
        for value, lies, home in zip(
            self.step.graph.inputs, self.whole.inputs, self.homes, strict=True
        ):
            self.at[value.name, lies] = (home, StepPhase.BEFORE)
        waiting = iter(stages)
        reading = _find_reader_stages(self.whole, stages)
        for one, when, stage in zip(self.whole.instructions, whens, reading, strict=True):
            match one:
                case RedistributedValue(value, path):
                    home, made = self.at[value.name, path.source]
                    up = made is StepPhase.FORWARD and when is StepPhase.BACKWARD and home < stage
                    place = InstructionPlace(
                        stage if home == EVERYWHERE else home, made if up else when
                    )
                    self.at[value.name, path.target] = (place.stage, place.when)
                case LocalOperation(operation, how):
                    place = InstructionPlace(next(waiting), when)
                    for read, lies in zip(operation.operands, how.operands, strict=True):
                        self.bring(read, lies, place, operation.line)
                    for value, lies in zip(operation.results, how.results, strict=True):
                        self.at[value.name, lies] = (place.stage, when)
                case _:
                    raise AssertionError(one)
            self.written.append(one)
            self.places.append(place)
        for out, place_in in self.step.updates:
            lies = self.whole.outputs[out]
            self.bring(
                self.step.graph.outputs[out],
                lies,
                InstructionPlace(self.homes[place_in], StepPhase.AFTER),
                "",
            )
        return replace(
            self.whole,
            instructions=tuple(self.written),
            places=tuple(self.places),
            homes=self.homes,
        )

    def bring(self, read: Operand, lies: Sharding, to: InstructionPlace, line: str) -> None:
        """Sends a value to where it is read, unless it is there."""
        if not isinstance(read, Value):
            return
        home, made = self.at[read.name, lies]
        if home in (to.stage, EVERYWHERE) or (read.name, lies, to.stage) in self.sent:
            return
        wrong_way = {StepPhase.FORWARD: home > to.stage, StepPhase.BACKWARD: home < to.stage}
        if made is to.when and wrong_way.get(made, False):
            raise InputError(
                f"{read} is made {made.value} on stage {home} and read on stage {to.stage}",
                where=line,
                hint="activations go up the stages, and gradients come down",
            )
        up = made is StepPhase.FORWARD and to.when is StepPhase.BACKWARD and home > to.stage
        when = StepPhase.BACKWARD if up else made
        self.sent.add((read.name, lies, to.stage))
        self.written.append(SentValue(read, lies, home, to.stage))
        self.places.append(InstructionPlace(home, when))


def _find_reader_stages(program: StepProgram, stages: Sequence[int]) -> list[int]:
    """For each instruction the stage of the operation that it is done for, or does."""
    found: list[int] = []
    left = list(stages)
    for one in reversed(program.instructions):
        if isinstance(one, LocalOperation):
            stage = left.pop()
        elif not found:
            stage = stages[-1]
        else:
            stage = found[-1]
        found.append(stage)
    return found[::-1]
