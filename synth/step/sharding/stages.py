"""Chooses the stage of each operation, given the stages of the layers.

A forward operation is on the highest stage of its operands, and a backward operation on the lowest.
So activations go up the stages and gradients come down. Operations before the layers are on the
first stage, and operations after the layers on the last. Operations that run once are on the stage
of their first reader, and an update is on the stage of its parameter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grammar.tensors.operations import Operand, Step, Value
from hierarchies import InputError
from synth.step.sharding.plan import PIPE, Plan
from synth.step.sharding.program import EVERYWHERE, StepPhase
from synth.step.sharding.recipes import check_shares

ANY = 10**9
ONCE_PHASES = (StepPhase.BEFORE, StepPhase.AFTER)


def stages_of(step: Step, phases: list[StepPhase], hints: Mapping[str, int]) -> tuple[int, ...]:
    """Returns the stage of each operation, given its phase; ``hints`` has the stages of values."""
    return _StageChooser(step, phases, hints).choose()


@dataclass
class _StageChooser:
    """Chooses stages: ``known`` has those of values by name, ``chosen`` of operations by index.

    ``hints`` has the stages of values in layers, which are fixed.
    """

    step: Step
    phases: list[StepPhase]
    hints: Mapping[str, int]
    chosen: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.known = dict(self.hints)
        self.operations = self.step.graph.operations
        self.readers: dict[str, list[int]] = defaultdict(list)
        self.makers: dict[str, int] = {}
        for at, operation in enumerate(self.operations):
            for operand in operation.operands:
                self.readers[str(operand)].append(at)
            self.makers.update((value.name, at) for value in operation.results)

    def choose(self) -> tuple[int, ...]:
        self._choose_everywhere()
        self._follow(StepPhase.BEFORE, StepPhase.FORWARD)
        self._settle(StepPhase.FORWARD)
        self._follow(StepPhase.BACKWARD)
        for at in reversed(range(len(self.operations))):
            if at not in self.chosen and self.phases[at] is not StepPhase.AFTER:
                self._choose(at, self._first_reader(at))
        self._choose_updates()
        for at in reversed(range(len(self.operations))):
            if at not in self.chosen:
                stage = self._first_reader(at)
                self._choose(at, max(self._stages_read(at), default=0) if stage is None else stage)
        self._settle(StepPhase.BACKWARD)
        return tuple(self.chosen[at] for at in range(len(self.operations)))

    def _choose_everywhere(self) -> None:
        """Replicates operations that depend on no weight and no sample on every stage."""
        graph = self.step.graph
        roles = zip(graph.inputs, self.step.roles, strict=True)
        known = {value.name for value, role in roles if role == "state"}
        for at, operation in enumerate(self.operations):
            names = {value.name for value in operation.operands if isinstance(value, Value)}
            if self.phases[at] is StepPhase.BEFORE and names <= known:
                self.chosen[at] = EVERYWHERE
                known.update(value.name for value in operation.results)

    def _choose(self, at: int, stage: int | None) -> None:
        if stage is not None:
            self.chosen[at] = stage
            self.known.update((value.name, stage) for value in self.operations[at].results)

    def _stages_read(self, at: int, *phases: StepPhase) -> list[int]:
        """Returns the stage of each operand, or the highest that reads it in these phases."""
        return [
            max(self.known[name], *self._readers(name, phases))
            for name in map(str, self.operations[at].operands)
            if name in self.known
        ]

    def _readers(self, name: str, phases: Sequence[StepPhase]) -> list[int]:
        """Returns the stages that read a value in some phases, as far as they are known."""
        readers = [reader for reader in self.readers[name] if self.phases[reader] in phases]
        return [self.chosen.get(reader, EVERYWHERE) for reader in readers] or [EVERYWHERE]

    def _follow(self, *phases: StepPhase) -> None:
        """Puts operations of layers on the stage of their layer, others on that of an operand."""
        for at, operation in enumerate(self.operations):
            hinted = [
                self.known[value.name] for value in operation.results if value.name in self.hints
            ]
            read_stages = self._stages_read(
                at, *((StepPhase.FORWARD,) if StepPhase.BACKWARD in phases else ())
            )
            if hinted:
                self._choose(at, hinted[0])
            elif read_stages and at not in self.chosen and self.phases[at] in phases:
                choose = min if self.phases[at] is StepPhase.BACKWARD else max
                self._choose(at, choose(read_stages))

    def _first_reader(self, at: int) -> int | None:
        """Returns the lowest stage that reads a result, as far as it is known."""
        names = [value.name for value in self.operations[at].results]
        readers = [other for name in names for other in self.readers[name]]
        known = (self.chosen[reader] for reader in readers if reader in self.chosen)
        return min((stage for stage in known if stage != EVERYWHERE), default=None)

    def _home(self, place: int) -> int | None:
        """Returns the stage of an input: that of its layer, or of its first reader."""
        name = self.step.graph.inputs[place].name
        if name in self.known:
            return self.known[name]
        return next(
            (self.chosen[reader] for reader in self.readers[name] if reader in self.chosen), None
        )

    def _choose_updates(self) -> None:
        """Puts each update, which runs once, on the stage of its parameter."""
        for out, place in self.step.updates:
            stage = self._home(place)
            waiting = [str(self.step.graph.outputs[out])] if stage is not None else []
            while waiting:
                at = self.makers.get(waiting.pop())
                if at is not None and at not in self.chosen and self.phases[at] in ONCE_PHASES:
                    self._choose(at, stage)
                    waiting += map(str, self.operations[at].operands)

    def _settle(self, when: StepPhase) -> None:
        """Moves operations to the only stage that reads them, if all their operands are there.

        A normalisation between layers of two stages moves to the stage that uses its result,
        because its input is sent there anyway. So does a gradient that only an update reads.
        """
        latest = self._latest(when)
        before = dict(self.chosen)
        for at, needed in latest.items():
            stage = max(self._stages_read(at, when)) if needed == ANY else needed
            if stage != before[at] and all(
                self._is_there(operand, at, stage, before)
                for operand in self.operations[at].operands
            ):
                self._choose(at, stage)

    def _latest(self, when: StepPhase) -> dict[int, int]:
        """Returns the stage at which each operation of a pass outside layers is needed.

        A forward result that only the backward pass reads may be on ``ANY`` stage.
        """
        found: dict[int, int] = {}
        for at in reversed(range(len(self.operations))):
            results = self.operations[at].results
            if self.phases[at] is not when or self._in_layer(at):
                continue
            readers = {reader for value in results for reader in self.readers[value.name]}
            if when is StepPhase.FORWARD:
                readers = {reader for reader in readers if self.phases[reader] is when}
            stages = [found.get(reader, self.chosen.get(reader, EVERYWHERE)) for reader in readers]
            if at not in self.chosen or EVERYWHERE in stages:
                continue
            if when is StepPhase.FORWARD:
                found[at] = min(stages, default=ANY)
            elif stages and all(
                self.phases[reader] is StepPhase.AFTER or reader in found for reader in readers
            ):
                found[at] = max(stages)
        return dict(reversed(found.items()))

    def _in_layer(self, at: int) -> bool:
        """Whether an operation belongs to a layer, or reads its weights."""
        operation = self.operations[at]
        return any(result.name in self.hints for result in operation.results) or any(
            str(operand) in self.known
            and (
                str(operand) in self.hints
                or self.phases[self.makers[str(operand)]] is StepPhase.BEFORE
            )
            for operand in operation.operands
        )

    def _is_there(self, operand: Operand, at: int, stage: int, before: Mapping[int, int]) -> bool:
        """Whether an operand is available on a stage: made there, or sent for another reader."""
        maker = self.makers.get(str(operand))
        if maker is None or self.chosen.get(maker, EVERYWHERE) in (EVERYWHERE, stage):
            return True
        readers = (reader for reader in self.readers[str(operand)] if reader != at)
        return any(before.get(reader) == stage for reader in readers)


def check_order(plan: Plan) -> None:
    """Raises InputError if a schedule does not fit the plan's ranks and microbatches."""
    pipe = dict(plan.axes).get(PIPE, 1)
    if plan.order is None:
        if pipe > 1 or plan.stages or plan.layers:
            problem = f"{PIPE}={pipe} without a schedule"
            raise InputError(problem, where="plan", hint="order 0F0 0B0 ..., a line for each rank")
        return
    check_shares(plan.layers, plan.order.stages)
    ranks = len(plan.order.ranks)
    if ranks != pipe:
        raise InputError(f"an order of {ranks} ranks for {PIPE}={pipe}", where="plan")
    if plan.order.microbatches != plan.microbatches or plan.microbatches < 2:
        problem = f"an order of {plan.order.microbatches} microbatches"
        hint = f"the plan has {plan.microbatches}, and an order needs at least 2"
        raise InputError(problem, where="plan", hint=hint)


def check_stages(step: Step, stages: tuple[int, ...], phases: list[StepPhase], count: int) -> None:
    """Raises InputError for stages that do not exist, and for a stage without work."""
    given, expected = len(stages), len(step.graph.operations)
    if given != expected:
        problem = f"{given} stages for the {expected} operations of {step.name}"
        raise InputError(problem, where="plan")
    for stage in range(count):
        for phase in (StepPhase.FORWARD, StepPhase.BACKWARD):
            if (stage, phase) not in zip(stages, phases, strict=True):
                raise InputError(
                    f"stage {stage} has no operations {phase.value}",
                    where="plan",
                    hint=f"each of the {count} stages of the order needs operations: "
                    "choose fewer stages",
                )
    if any(not EVERYWHERE <= stage < count for stage in stages):
        problem = f"an operation on stage {max(stages)} of {count} stages"
        raise InputError(problem, where="plan", hint=f"stages are 0 to {count - 1}")
