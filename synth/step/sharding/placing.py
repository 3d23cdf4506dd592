"""Places a program on stages: stage and phase of each instruction, and sends between stages.

A value is redistributed on the stage that makes it, and then sent once, in that sharding, to every
stage that reads it. Activations go up the stages and gradients come down, so that the inputs of
every pass are available in any valid order. So a redistribution that only the backward pass of a
later stage reads is done and sent in the forward pass.
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
)


def place_program(
    step: Step, plan: Plan, program: StepProgram, phases: Sequence[StepPhase]
) -> StepProgram:
    """Returns the program with the stage and phase of each instruction; ``phases`` are given.

    Raises InputError if a value would be sent against the direction of its pass.
    """
    stages = plan.stages or (0,) * len(step.graph.operations)
    placed = _delay_updates(
        _StagePlacer(step, program, homes_of(step, stages)).program(stages, phases)
    )
    return _split_backward(placed) if plan.order is not None and plan.order.halves else placed


def _delay_updates(program: StepProgram) -> StepProgram:
    """Delays instructions that only the update reads until after all microbatches.

    This saves memory.
    """
    early: set[Key] = set()
    places = list(program.places)
    for at in reversed(range(len(places))):
        instruction = program.instructions[at]
        made = instruction.keys_made
        if places[at].when is StepPhase.BEFORE and made and early.isdisjoint(made):
            places[at] = places[at]._replace(when=StepPhase.AFTER)
        if places[at].when is not StepPhase.AFTER:
            early.update(instruction.keys_read)
    return replace(program, places=tuple(places))


def _split_backward(program: StepProgram) -> StepProgram:
    """Splits backward passes: instructions for which no other stage waits are the weight half.

    Raises InputError if other stages wait for all instructions of backward passes.
    """
    waited: set[tuple[int, Key]] = set()
    places = list(program.places)
    for at in reversed(range(len(places))):
        instruction, place = program.instructions[at], places[at]
        if place.when is not StepPhase.BACKWARD:
            continue
        if isinstance(instruction, SentValue) or not waited.isdisjoint(
            (place.stage, k) for k in instruction.keys_made
        ):
            waited.update((place.stage, key) for key in instruction.keys_read)
        else:
            places[at] = place._replace(when=StepPhase.WEIGHT)
    if all(place.when is not StepPhase.WEIGHT for place in places):
        raise InputError(
            "no gradient of weights is separate from the gradients for other stages, but the order "
            "has halves",
            where="plan",
            hint="choose an order with whole backward passes, such as 1f1b",
        )
    return replace(program, places=tuple(places))


def homes_of(step: Step, stages: Sequence[int]) -> tuple[int, ...]:
    """Returns the stage of each input.

    A parameter or moment is on the stage that reads it first; batches and the step count are
    ``EVERYWHERE``. If there is only one stage, all inputs are on it.
    """
    if max(stages) == 0:
        return (0,) * len(step.graph.inputs)
    first: dict[str, int] = {}
    for operation, stage in zip(step.graph.operations, stages, strict=True):
        for operand in operation.operands:
            first.setdefault(str(operand), stage)
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

    def program(self, stages: Sequence[int], phases: Sequence[StepPhase]) -> StepProgram:
        for value, sharding, home in zip(
            self.step.graph.inputs, self.whole.inputs, self.homes, strict=True
        ):
            self.at[value.name, sharding] = (home, StepPhase.BEFORE)
        operation_stages = iter(stages)
        reader_stages = _find_reader_stages(self.whole, stages)
        for instruction, when, stage in zip(
            self.whole.instructions, phases, reader_stages, strict=True
        ):
            match instruction:
                case RedistributedValue(value, path):
                    home, made = self.at[value.name, path.source]
                    up = made is StepPhase.FORWARD and when is StepPhase.BACKWARD and home < stage
                    place = InstructionPlace(
                        stage if home == EVERYWHERE else home, made if up else when
                    )
                    self.at[value.name, path.target] = (place.stage, place.when)
                case LocalOperation(operation, how):
                    place = InstructionPlace(next(operation_stages), when)
                    for operand, sharding in zip(operation.operands, how.operands, strict=True):
                        self.send(operand, sharding, place, operation.line)
                    for value, sharding in zip(operation.results, how.results, strict=True):
                        self.at[value.name, sharding] = (place.stage, when)
                case _:
                    raise AssertionError(instruction)
            self.written.append(instruction)
            self.places.append(place)
        for out, input_index in self.step.updates:
            self.send(
                self.step.graph.outputs[out],
                self.whole.outputs[out],
                InstructionPlace(self.homes[input_index], StepPhase.AFTER),
                "",
            )
        return replace(
            self.whole,
            instructions=tuple(self.written),
            places=tuple(self.places),
            homes=self.homes,
        )

    def send(self, value: Operand, sharding: Sharding, to: InstructionPlace, line: str) -> None:
        """Sends a value to the stage that reads it, unless it is available there."""
        if not isinstance(value, Value):
            return
        home, made = self.at[value.name, sharding]
        if home in (to.stage, EVERYWHERE) or (value.name, sharding, to.stage) in self.sent:
            return
        wrong_way = {StepPhase.FORWARD: home > to.stage, StepPhase.BACKWARD: home < to.stage}
        if made is to.when and wrong_way.get(made, False):
            raise InputError(
                f"{value} is made {made.value} on stage {home} and read on stage {to.stage}",
                where=line,
                hint="activations go to the next stage, and gradients to the previous one",
            )
        comes_down = made is StepPhase.FORWARD and to.when is StepPhase.BACKWARD and home > to.stage
        when = StepPhase.BACKWARD if comes_down else made
        self.sent.add((value.name, sharding, to.stage))
        self.written.append(SentValue(value, sharding, home, to.stage))
        self.places.append(InstructionPlace(home, when))


def _find_reader_stages(program: StepProgram, stages: Sequence[int]) -> list[int]:
    """Returns for each instruction the stage of the next operation at or after it."""
    found: list[int] = []
    remaining = list(stages)
    for instruction in reversed(program.instructions):
        if isinstance(instruction, LocalOperation):
            stage = remaining.pop()
        elif not found:
            stage = stages[-1]
        else:
            stage = found[-1]
        found.append(stage)
    return found[::-1]
