"""The stage of each operation, given those of the layers.

An operation forward is done where the last of what it reads is made, one backward where the first
is: so activations go up the stages and gradients come down. What comes before the layers is on the
first stage, what comes after on the last; what is done once is where it is read first, and an
update where its parameter is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from grammar.tensors.operations import Operation, Step, Value
from hierarchies import InputError
from synth.train.plans.program import EVERYWHERE, When

ONCE = (When.BEFORE, When.AFTER)


def stages_of(step: Step, whens: list[When], hints: Mapping[str, int]) -> tuple[int, ...]:
    """For each operation of the step, done at such times. ``hints`` are stages of values."""
    return _Stages(step, whens, dict(hints)).found()


@dataclass
class _Stages:
    """``known`` is where values are made or lie; ``chosen`` where operations are done."""

    step: Step
    whens: list[When]
    known: dict[str, int]
    chosen: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.operations = self.step.graph.operations
        self.readers: dict[str, list[int]] = defaultdict(list)
        self.makers: dict[str, int] = {}
        for at, operation in enumerate(self.operations):
            for one in operation.operands:
                self.readers[str(one)].append(at)
            self.makers.update((one.name, at) for one in operation.results)

    def found(self) -> tuple[int, ...]:
        self._everywhere()
        for at, operation in enumerate(self.operations):
            self._follow(at, operation)
        for at in reversed(range(len(self.operations))):
            if at not in self.chosen and self.whens[at] is not When.AFTER:
                self._choose(at, self._first_reader(at))
        self._updates()
        for at in reversed(range(len(self.operations))):
            if at not in self.chosen:
                stage = self._first_reader(at)
                self._choose(at, max(self._stages_read(at), default=0) if stage is None else stage)
        self._gradients()
        return tuple(self.chosen[at] for at in range(len(self.operations)))

    def _everywhere(self) -> None:
        """What comes of no weight and no sample is done by every stage itself."""
        graph = self.step.graph
        roles = zip(graph.inputs, self.step.roles, strict=True)
        known = {value.name for value, role in roles if role == "state"}
        for at, operation in enumerate(self.operations):
            names = {one.name for one in operation.operands if isinstance(one, Value)}
            if self.whens[at] is When.BEFORE and names <= known:
                self.chosen[at] = EVERYWHERE
                known.update(one.name for one in operation.results)

    def _choose(self, at: int, stage: int | None) -> None:
        if stage is not None:
            self.chosen[at] = stage
            self.known.update((one.name, stage) for one in self.operations[at].results)

    def _stages_read(self, at: int) -> list[int]:
        return [self.known[str(o)] for o in self.operations[at].operands if str(o) in self.known]

    def _follow(self, at: int, operation: Operation) -> None:
        """What belongs to a layer is there; the rest follows what it reads."""
        hinted = [self.known[one.name] for one in operation.results if one.name in self.known]
        read = self._stages_read(at)
        if hinted:
            self._choose(at, hinted[0])
        elif read and at not in self.chosen and self.whens[at] is not When.AFTER:
            self._choose(at, min(read) if self.whens[at] is When.BACKWARD else max(read))

    def _first_reader(self, at: int) -> int | None:
        """The lowest stage where a result is read, so far as that is known."""
        names = [one.name for one in self.operations[at].results]
        readers = [other for name in names for other in self.readers[name]]
        known = (self.chosen[one] for one in readers if one in self.chosen)
        return min((stage for stage in known if stage != EVERYWHERE), default=None)

    def home(self, place: int) -> int | None:
        """Where an input lies: in its layer, or where it is read first."""
        name = self.step.graph.inputs[place].name
        if name in self.known:
            return self.known[name]
        return next((self.chosen[one] for one in self.readers[name] if one in self.chosen), None)

    def _updates(self) -> None:
        """What is done once after all microbatches, to the parameter that comes of it."""
        for out, place in self.step.updates:
            stage = self.home(place)
            waiting = [str(self.step.graph.outputs[out])] if stage is not None else []
            while waiting:
                at = self.makers.get(waiting.pop())
                if at is not None and at not in self.chosen and self.whens[at] in ONCE:
                    self._choose(at, stage)
                    waiting += map(str, self.operations[at].operands)

    def _gradients(self) -> None:
        """A gradient that only an update reads is made where that is, if all that it needs is."""
        for at in range(len(self.operations)):
            operation = self.operations[at]
            readers = {one for value in operation.results for one in self.readers[value.name]}
            homes = {self.chosen[one] for one in readers}
            if self.whens[at] is not When.BACKWARD or len(homes) != 1 or operation.body is not None:
                continue
            [home] = homes
            late = all(self.whens[one] is When.AFTER for one in readers)
            there = all(
                any(self.chosen[one] == home for one in self.readers[str(operand)] if one != at)
                for operand in operation.operands
                if isinstance(operand, Value)
            )
            if late and there and home < self.chosen[at]:
                self._choose(at, home)


def check_stages(step: Step, stages: tuple[int, ...], whens: list[When], count: int) -> None:
    """Raise InputError for stages that are not there, and for one that does nothing."""
    told, wanted = len(stages), len(step.graph.operations)
    if told != wanted:
        problem = f"{told} stages for the {wanted} operations of {step.name}"
        raise InputError(problem, where="plan")
    for stage in range(count):
        for when in (When.FORWARD, When.BACKWARD):
            if (stage, when) not in zip(stages, whens, strict=True):
                raise InputError(
                    f"stage {stage} has no operations {when.value}",
                    where="plan",
                    hint=f"the order has {count} stages, and each has work: take fewer",
                )
    if any(not EVERYWHERE <= stage < count for stage in stages):
        problem = f"an operation on stage {max(stages)} of {count}"
        raise InputError(problem, where="plan", hint=f"stages are 0 to {count - 1}")
