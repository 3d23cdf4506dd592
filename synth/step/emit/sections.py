"""A program in sections: what one function of an emitted file does, is given, and makes.

A program without places is one section. One with microbatches has a section for each pass of each
stage, and for what a stage does once, before or after all microbatches. Sums over microbatches are
not waited for: each microbatch is added as it ends, so that the first move of a gradient is none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from grammar.tensors.operations import Operand, Step, Value
from grammar.tensors.sharding import Sharding
from hierarchies import InputError
from synth.step.redistribution import RedistributionPath
from synth.step.redistribution.paths import CostPriority
from synth.step.sharding import (
    InstructionPlace,
    LocalOperation,
    RedistributedValue,
    SentValue,
    StepPhase,
    StepProgram,
)
from synth.step.sharding.microbatches import accumulates, find_redistribution
from synth.step.sharding.plan import TIME
from synth.step.sharding.program import (
    EVERYWHERE,
    MICROBATCH_PHASES,
    Key,
    keys_made_by,
    keys_read_by,
)

ONCE_PHASES = (StepPhase.BEFORE, StepPhase.AFTER)
_LETTERS = {StepPhase.FORWARD: "F", StepPhase.BACKWARD: "B", StepPhase.WEIGHT: "W"}
_LATER_PHASES = {when: MICROBATCH_PHASES[at:] for at, when in enumerate(MICROBATCH_PHASES)}
"""Of each pass those of a microbatch that are not over when it begins."""


@dataclass(frozen=True)
class Phase:
    """When a stage does something. What is done once has turns: others come in between."""

    stage: int
    when: StepPhase
    turn: int = 0

    def __str__(self) -> str:
        """``1F`` is the forward pass of stage 1, as in an order; ``1 after`` is done once."""
        letter = _LETTERS.get(self.when)
        if letter:
            return f"{self.stage}{letter}"
        stage = "every stage" if self.stage == EVERYWHERE else str(self.stage)
        return f"{stage} {self.when.name.lower()}{f' {self.turn + 1}' if self.turn else ''}"

    @property
    def function(self) -> str:
        """What the function is called that does it."""
        stage = "every_stage" if self.stage == EVERYWHERE else f"stage_{self.stage}"
        return f"{stage}_{self.when.name.lower()}{f'_{self.turn + 1}' if self.turn else ''}"

    @property
    def told(self) -> str:
        """The same as a sentence."""
        stage = "Every stage" if self.stage == EVERYWHERE else f"Stage {self.stage}"
        return f"{stage}, {self.when.value}."


@dataclass(frozen=True)
class ProgramSection:
    """Instructions of one function: what it reads from others, and makes for them.

    Of what it makes ``adds`` are sums over microbatches; ``keeps`` is what later sections of the
    same microbatch need. ``phase`` is None where a program is one section.
    """

    phase: Phase | None
    instructions: tuple[LocalOperation | RedistributedValue, ...]
    reads: tuple[tuple[Value, Sharding], ...]
    makes: tuple[tuple[Operand, Sharding], ...]
    adds: tuple[Key, ...] = ()
    keeps: tuple[Key, ...] = ()

    @property
    def function(self) -> str:
        """What its function is called."""
        return self.phase.function if self.phase else "device_step"

    @property
    def told(self) -> str:
        """What it does, as a sentence."""
        whole = "What every device does of a step, on its parts of the inputs."
        return self.phase.told if self.phase else whole


@dataclass(frozen=True)
class SectionTransfer:
    """A value from a section, once that is done, to the first one elsewhere that needs it."""

    value: Value
    sharding: Sharding
    source: Phase
    target: Phase


@dataclass(frozen=True)
class Sections:
    """All, in an order in which one could do them; ``outputs`` are those of the step, lying whole.

    ``sums`` has for each sum over microbatches the value that is added up.
    """

    sections: tuple[ProgramSection, ...]
    transfers: tuple[SectionTransfer, ...]
    outputs: tuple[tuple[Operand, Sharding], ...]
    sums: Mapping[Key, Key]


def split_sections(step: Step, program: StepProgram, parts: Mapping[str, int]) -> Sections:
    """The sections of a program; ``parts`` are those of the plan's axes, time included.

    Raises InputError for outputs that each microbatch has for itself.
    """
    finished, outputs = _complete_outputs(step, program, parts)
    if not program.places:
        inputs = tuple(zip(step.graph.inputs, program.inputs, strict=True))
        only = ProgramSection(None, tuple(_as_local(one) for one, _ in finished), inputs, outputs)
        return Sections((only,), (), outputs, {})
    return _SectionBuilder(step, program, outputs).sections(finished)


_Placed = list[tuple[LocalOperation | RedistributedValue | SentValue, InstructionPlace]]


def _as_local(
    one: LocalOperation | RedistributedValue | SentValue,
) -> LocalOperation | RedistributedValue:
    assert not isinstance(one, SentValue), one
    return one


def _complete_outputs(
    step: Step, program: StepProgram, parts: Mapping[str, int]
) -> tuple[_Placed, tuple[tuple[Operand, Sharding], ...]]:
    """The instructions, with outputs made whole that are partial: nobody else can complete them."""
    always = InstructionPlace(EVERYWHERE, StepPhase.BEFORE)
    places = program.places or (always,) * len(program.instructions)
    found = list(zip(program.instructions, places, strict=True))
    homes = program.homes or (EVERYWHERE,) * len(program.inputs)
    at = {value.name: home for value, home in zip(step.graph.inputs, homes, strict=True)}
    at |= {key[0]: place.stage for one, place in found for key in keys_made_by(one)}
    outputs = []
    for output, lies in zip(step.graph.outputs, program.outputs, strict=True):
        whole = replace(lies, partial=())
        if TIME in whole.axes:
            problem = f"each microbatch has its own part of {output}, which the step gives"
            raise InputError(problem, where="plan", hint="leave microbatches out of the plan")
        if lies.partial and isinstance(output, Value):
            path = find_redistribution(output, lies, whole, parts, CostPriority.BYTES)
            found.append(
                (
                    RedistributedValue(output, path),
                    InstructionPlace(at[output.name], StepPhase.AFTER),
                )
            )
        outputs.append((output, whole))
    return found, tuple(outputs)


@dataclass
class _SectionBuilder:
    """``there`` is in which section of a stage a value is since when; inputs are in none."""

    step: Step
    program: StepProgram
    outputs: tuple[tuple[Operand, Sharding], ...]
    there: dict[tuple[int, Key], Phase] = field(default_factory=dict)
    found: dict[Phase, list[LocalOperation | RedistributedValue]] = field(
        default_factory=lambda: defaultdict(list)
    )
    sent: list[tuple[SentValue, Phase]] = field(default_factory=list)
    sums: dict[Key, Key] = field(default_factory=dict)

    def sections(self, placed: _Placed) -> Sections:
        for one, place in placed:
            if isinstance(one, SentValue):
                self._send(one, place.when)
            elif (left := self._added(one, place)) is not None:
                phase = Phase(place.stage, place.when, self._turn(left, place))
                self.found[phase].append(left)
                self.there.update(((place.stage, key), phase) for key in keys_made_by(left))
        transfers = [
            SectionTransfer(one.value, one.sharding, source, target)
            for one, source in self.sent
            if (target := self._reader(one, source)) is not None
        ]
        for sent in transfers:
            _ = self.found[sent.source], self.found[sent.target]
        phases = sorted(
            self.found, key=lambda one: (list(StepPhase).index(one.when), one.turn, one.stage)
        )
        wanted = self._wanted()
        return Sections(
            tuple(self._section(phase, wanted) for phase in phases),
            tuple(transfers),
            self.outputs,
            self.sums,
        )

    def _added(
        self, one: LocalOperation | RedistributedValue, place: InstructionPlace
    ) -> LocalOperation | RedistributedValue | None:
        """Without the sum over microbatches with which it begins; None if that is all."""
        if isinstance(one, LocalOperation) or not accumulates(one.path):
            return one
        first, *rest = one.path.moves
        key, done = (one.value.name, one.path.source), (one.value.name, first.after)
        self.sums[done] = key
        self.there[place.stage, done] = Phase(place.stage, StepPhase.BACKWARD)
        return (
            RedistributedValue(
                one.value, RedistributionPath(first.after, one.path.target, tuple(rest))
            )
            if rest
            else None
        )

    def _made(self, stage: int, key: Key) -> Phase | None:
        return self.there.get((stage, key)) or self.there.get((EVERYWHERE, key))

    def _turn(self, one: LocalOperation | RedistributedValue, place: InstructionPlace) -> int:
        """Of what is done once: as late as what it reads comes from another stage."""
        made = (self._made(place.stage, key) for key in keys_read_by(one))
        turns = [phase.turn for phase in made if phase and phase.when is place.when]
        return max(turns, default=0) if place.when in ONCE_PHASES else 0

    def _send(self, one: SentValue, when: StepPhase) -> None:
        [key] = keys_read_by(one)
        made = self._made(one.source, key)
        turn = made.turn if made and made.when is when else 0
        self.sent.append((one, Phase(one.source, when, turn)))
        self.there[one.target, key] = Phase(
            one.target, when, turn + 1 if when in ONCE_PHASES else 0
        )

    def _reader(self, one: SentValue, source: Phase) -> Phase | None:
        """The section before which a value must have come."""
        if source.when in ONCE_PHASES:
            return Phase(one.target, source.when, source.turn + 1)
        [key] = keys_read_by(one)
        for when in _LATER_PHASES[source.when]:
            phase = Phase(one.target, when)
            if any(key in keys_read_by(other) for other in self.found.get(phase, ())):
                return phase
        return None

    def _wanted(self) -> set[Key]:
        """What is read in another section than it is made in, or is a result of the step."""
        found = {(one.name, lies) for one, lies in self.outputs if isinstance(one, Value)}
        found.update(key for one, _ in self.sent for key in keys_read_by(one))
        found.update(self.sums.values())
        for some in self.found.values():
            found.update(_list_reads(some))
        return found

    def _section(self, phase: Phase, wanted: set[Key]) -> ProgramSection:
        some = self.found[phase]
        values = self.step.graph.values
        made = list(
            dict.fromkeys(key for one in some for key in keys_made_by(one) if key in wanted)
        )
        sums = set(self.sums.values())
        return ProgramSection(
            phase,
            tuple(some),
            tuple((values[key[0]], key[1]) for key in _list_reads(some)),
            tuple((values[key[0]], key[1]) for key in made),
            tuple(key for key in made if key in sums),
            tuple(self._kept(phase)),
        )

    def _kept(self, phase: Phase) -> Iterable[Key]:
        """What is of one microbatch, and read or sent on by a later pass of it."""
        later = [] if phase.when in ONCE_PHASES else _LATER_PHASES[phase.when][1:]
        found: dict[Key, None] = {}
        for when in later:
            found |= dict.fromkeys(_list_reads(self.found.get(Phase(phase.stage, when), ())))
            found |= dict.fromkeys(
                key
                for one, source in self.sent
                if (source.stage, source.when) == (phase.stage, when)
                for key in keys_read_by(one)
            )
        for key in found:
            made = self._made(phase.stage, key)
            if made is not None and made.when not in (*ONCE_PHASES, *later):
                yield key


def _list_reads(some: Iterable[LocalOperation | RedistributedValue]) -> list[Key]:
    """What a section has from others, in the order in which it reads it."""
    own: set[Key] = set()
    found: dict[Key, None] = {}
    for one in some:
        found |= dict.fromkeys(key for key in keys_read_by(one) if key not in own)
        own.update(keys_made_by(one))
    return list(found)
