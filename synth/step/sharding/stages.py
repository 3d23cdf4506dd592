"""The stage of each operation, given those of the layers.

An operation forward is done where the last of what it reads is made, one backward where the first
is: so activations go up the stages and gradients come down. What comes before the layers is on the
first stage, what comes after on the last; what is done once is where it is read first, and an
update where its parameter is.
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


def stages_of(step: Step, whens: list[StepPhase], hints: Mapping[str, int]) -> tuple[int, ...]:
    """For each operation of the step, done at such times. ``hints`` are stages of values."""
    return _Stages(step, whens, hints, dict(hints)).found()


@dataclass
class _Stages:
    """``known`` is where values are made or lie; ``chosen`` where operations are done.

    ``hints`` are of values in layers, which stay.
    """

    step: Step
    whens: list[StepPhase]
    hints: Mapping[str, int]
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
        self._follow(StepPhase.BEFORE, StepPhase.FORWARD)
        self._settle(StepPhase.FORWARD)
        self._follow(StepPhase.BACKWARD)
        for at in reversed(range(len(self.operations))):
            if at not in self.chosen and self.whens[at] is not StepPhase.AFTER:
                self._choose(at, self._first_reader(at))
        self._updates()
        for at in reversed(range(len(self.operations))):
            if at not in self.chosen:
                stage = self._first_reader(at)
                self._choose(at, max(self._stages_read(at), default=0) if stage is None else stage)
        self._settle(StepPhase.BACKWARD)
        return tuple(self.chosen[at] for at in range(len(self.operations)))

    def _everywhere(self) -> None:
        """What comes of no weight and no sample is done by every stage itself."""
        graph = self.step.graph
        roles = zip(graph.inputs, self.step.roles, strict=True)
        known = {value.name for value, role in roles if role == "state"}
        for at, operation in enumerate(self.operations):
            names = {one.name for one in operation.operands if isinstance(one, Value)}
            if self.whens[at] is StepPhase.BEFORE and names <= known:
                self.chosen[at] = EVERYWHERE
                known.update(one.name for one in operation.results)

    def _choose(self, at: int, stage: int | None) -> None:
        if stage is not None:
            self.chosen[at] = stage
            self.known.update((one.name, stage) for one in self.operations[at].results)

    def _stages_read(self, at: int, *sent: StepPhase) -> list[int]:
        """Where what an operation reads is; also where it was sent to, to be read then."""
        return [
            max(self.known[name], *self._readers(name, sent))
            for name in map(str, self.operations[at].operands)
            if name in self.known
        ]

    def _readers(self, name: str, whens: Sequence[StepPhase]) -> list[int]:
        """The stages where a value is read, so far as that is known."""
        readers = [one for one in self.readers[name] if self.whens[one] in whens]
        return [self.chosen.get(one, EVERYWHERE) for one in readers] or [EVERYWHERE]

    def _follow(self, *whens: StepPhase) -> None:
        """What belongs to a layer is there; the rest follows what it reads."""
        for at, operation in enumerate(self.operations):
            hinted = [self.known[one.name] for one in operation.results if one.name in self.hints]
            read = self._stages_read(
                at, *((StepPhase.FORWARD,) if StepPhase.BACKWARD in whens else ())
            )
            if hinted:
                self._choose(at, hinted[0])
            elif read and at not in self.chosen and self.whens[at] in whens:
                self._choose(at, min(read) if self.whens[at] is StepPhase.BACKWARD else max(read))

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
                if at is not None and at not in self.chosen and self.whens[at] in ONCE_PHASES:
                    self._choose(at, stage)
                    waiting += map(str, self.operations[at].operands)

    def _settle(self, when: StepPhase) -> None:
        """What only another stage reads is done there, if all that it needs is there, too.

        A normalisation between two layers of different stages is done where its result is used:
        its input goes there anyway. So is a gradient that only an update reads, in several steps.
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
        """For each operation of a pass that is in no layer, the stage at which it is needed.

        What goes forward and is kept for the way back only is needed at any.
        """
        found: dict[int, int] = {}
        for at in reversed(range(len(self.operations))):
            results = self.operations[at].results
            if self.whens[at] is not when or self._in_layer(at):
                continue
            readers = {one for value in results for one in self.readers[value.name]}
            if when is StepPhase.FORWARD:
                readers = {one for one in readers if self.whens[one] is when}
            stages = [found.get(one, self.chosen.get(one, EVERYWHERE)) for one in readers]
            if at not in self.chosen or EVERYWHERE in stages:
                continue
            if when is StepPhase.FORWARD:
                found[at] = min(stages, default=ANY)
            elif stages and all(
                self.whens[one] is StepPhase.AFTER or one in found for one in readers
            ):
                found[at] = max(stages)
        return dict(reversed(found.items()))

    def _in_layer(self, at: int) -> bool:
        """Whether an operation is a layer's, or reads its weights."""
        one = self.operations[at]
        return any(value.name in self.hints for value in one.results) or any(
            str(value) in self.known
            and (
                str(value) in self.hints or self.whens[self.makers[str(value)]] is StepPhase.BEFORE
            )
            for value in one.operands
        )

    def _is_there(self, operand: Operand, at: int, stage: int, before: Mapping[int, int]) -> bool:
        """Whether a stage has what an operation reads, also if that is done elsewhere."""
        maker = self.makers.get(str(operand))
        if maker is None or self.chosen.get(maker, EVERYWHERE) in (EVERYWHERE, stage):
            return True
        others = (one for one in self.readers[str(operand)] if one != at)
        return any(before.get(one) == stage for one in others)


def check_order(plan: Plan) -> None:
    """Raise InputError for an order that is not one of the plan's ranks and microbatches."""
    pipe = dict(plan.axes).get(PIPE, 1)
    if plan.order is None:
        if pipe > 1 or plan.stages or plan.layers:
            problem = f"{PIPE}={pipe} and no order of its stages"
            raise InputError(problem, where="plan", hint="order 0F0 0B0 ..., a line for each rank")
        return
    check_shares(plan.layers, plan.order.stages)
    ranks = len(plan.order.ranks)
    if ranks != pipe:
        raise InputError(f"an order of {ranks} ranks, and {PIPE}={pipe}", where="plan")
    if plan.order.microbatches != plan.microbatches or plan.microbatches < 2:
        problem = f"an order of {plan.order.microbatches} microbatches"
        hint = f"the plan has {plan.microbatches}, and an order needs 2 at least"
        raise InputError(problem, where="plan", hint=hint)


def check_stages(step: Step, stages: tuple[int, ...], whens: list[StepPhase], count: int) -> None:
    """Raise InputError for stages that are not there, and for one that does nothing."""
    told, wanted = len(stages), len(step.graph.operations)
    if told != wanted:
        problem = f"{told} stages for the {wanted} operations of {step.name}"
        raise InputError(problem, where="plan")
    for stage in range(count):
        for when in (StepPhase.FORWARD, StepPhase.BACKWARD):
            if (stage, when) not in zip(stages, whens, strict=True):
                raise InputError(
                    f"stage {stage} has no operations {when.value}",
                    where="plan",
                    hint=f"the order has {count} stages, and each has work: take fewer",
                )
    if any(not EVERYWHERE <= stage < count for stage in stages):
        problem = f"an operation on stage {max(stages)} of {count}"
        raise InputError(problem, where="plan", hint=f"stages are 0 to {count - 1}")
