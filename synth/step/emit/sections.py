"""Divides a program into sections, each the content of one function of an emitted file.

A program without places is one section. With microbatches there is a section for each pass of each
stage, and for the work that a stage does once, before or after all microbatches. Microbatches are
summed as they end. The sum over microbatches at the start of a gradient's path is therefore no
move.
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
)

ONCE_PHASES = (StepPhase.BEFORE, StepPhase.AFTER)
_LETTERS = {StepPhase.FORWARD: "F", StepPhase.BACKWARD: "B", StepPhase.WEIGHT: "W"}
_LATER_PHASES = {when: MICROBATCH_PHASES[at:] for at, when in enumerate(MICROBATCH_PHASES)}
"""For each pass, the passes of a microbatch that have not ended when it begins."""


@dataclass(frozen=True)
class Phase:
    """When a stage does something. Transfers divide work that is done once into turns."""

    stage: int
    when: StepPhase
    turn: int = 0

    def __str__(self) -> str:
        """Returns ``1F`` for stage 1's forward pass, or ``1 after`` for work done once."""
        letter = _LETTERS.get(self.when)
        if letter:
            return f"{self.stage}{letter}"
        stage = "every stage" if self.stage == EVERYWHERE else str(self.stage)
        return f"{stage} {self.when.name.lower()}{f' {self.turn + 1}' if self.turn else ''}"

    @property
    def function(self) -> str:
        """The name of its function."""
        stage = "every_stage" if self.stage == EVERYWHERE else f"stage_{self.stage}"
        return f"{stage}_{self.when.name.lower()}{f'_{self.turn + 1}' if self.turn else ''}"

    @property
    def sentence(self) -> str:
        """The phase as a sentence."""
        stage = "Every stage" if self.stage == EVERYWHERE else f"Stage {self.stage}"
        return f"{stage}, {self.when.value}."


@dataclass(frozen=True)
class ProgramSection:
    """The instructions of one function, with the values that it reads and makes.

    ``adds``: the values it makes that are sums over microbatches. ``keeps``: the values that later
    sections of the same microbatch need. ``phase`` is None if the program is a single section.
    """

    phase: Phase | None
    instructions: tuple[LocalOperation | RedistributedValue, ...]
    reads: tuple[tuple[Value, Sharding], ...]
    makes: tuple[tuple[Operand, Sharding], ...]
    adds: tuple[Key, ...] = ()
    keeps: tuple[Key, ...] = ()

    @property
    def function(self) -> str:
        """The name of its function."""
        return self.phase.function if self.phase else "device_step"

    @property
    def sentence(self) -> str:
        """Its work, as a sentence."""
        whole = "What every device does of a step, on its parts of the inputs."
        return self.phase.sentence if self.phase else whole


@dataclass(frozen=True)
class SectionTransfer:
    """A value sent from a section, once it is done, to the first section elsewhere to read it."""

    value: Value
    sharding: Sharding
    source: Phase
    target: Phase


@dataclass(frozen=True)
class Sections:
    """All sections, in an executable order; ``outputs``: the outputs of the step, not partial.

    ``sums``: for each sum over microbatches, the value that is summed.
    """

    sections: tuple[ProgramSection, ...]
    transfers: tuple[SectionTransfer, ...]
    outputs: tuple[tuple[Operand, Sharding], ...]
    sums: Mapping[Key, Key]


def split_sections(step: Step, program: StepProgram, parts: Mapping[str, int]) -> Sections:
    """Divides a program into sections; ``parts``: sizes of the plan's axes, time included.

    Raises InputError for an output that differs between microbatches.
    """
    finished, outputs = _complete_outputs(step, program, parts)
    if not program.places:
        inputs = tuple(zip(step.graph.inputs, program.inputs, strict=True))
        local = tuple(_as_local(instruction) for instruction, _ in finished)
        only = ProgramSection(None, local, inputs, outputs)
        return Sections((only,), (), outputs, {})
    return _SectionBuilder(step, program, outputs).sections(finished)


_Placed = list[tuple[LocalOperation | RedistributedValue | SentValue, InstructionPlace]]


def _as_local(
    instruction: LocalOperation | RedistributedValue | SentValue,
) -> LocalOperation | RedistributedValue:
    assert not isinstance(instruction, SentValue), instruction
    return instruction


def _complete_outputs(
    step: Step, program: StepProgram, parts: Mapping[str, int]
) -> tuple[_Placed, tuple[tuple[Operand, Sharding], ...]]:
    """Returns the instructions, with partial outputs reduced: no later step can complete them."""
    always = InstructionPlace(EVERYWHERE, StepPhase.BEFORE)
    places = program.places or (always,) * len(program.instructions)
    placed = list(zip(program.instructions, places, strict=True))
    homes = program.homes or (EVERYWHERE,) * len(program.inputs)
    stage_of = {value.name: home for value, home in zip(step.graph.inputs, homes, strict=True)}
    stage_of |= {key[0]: place.stage for done, place in placed for key in done.keys_made}
    outputs = []
    for output, sharding in zip(step.graph.outputs, program.outputs, strict=True):
        whole = replace(sharding, partial=())
        if TIME in whole.axes:
            problem = f"each microbatch has its own part of {output}, which the step returns"
            raise InputError(problem, where="plan", hint="remove the microbatches from the plan")
        if sharding.partial and isinstance(output, Value):
            path = find_redistribution(output, sharding, whole, parts, CostPriority.BYTES)
            placed.append(
                (
                    RedistributedValue(output, path),
                    InstructionPlace(stage_of[output.name], StepPhase.AFTER),
                )
            )
        outputs.append((output, whole))
    return placed, tuple(outputs)


@dataclass
class _SectionBuilder:
    """Collects sections; ``there``: the section that makes a value on a stage; none for inputs."""

    step: Step
    program: StepProgram
    outputs: tuple[tuple[Operand, Sharding], ...]
    there: dict[tuple[int, Key], Phase] = field(default_factory=dict)
    instructions: dict[Phase, list[LocalOperation | RedistributedValue]] = field(
        default_factory=lambda: defaultdict(list)
    )
    sent: list[tuple[SentValue, Phase]] = field(default_factory=list)
    sums: dict[Key, Key] = field(default_factory=dict)

    def sections(self, placed: _Placed) -> Sections:
        for instruction, place in placed:
            if isinstance(instruction, SentValue):
                self._send(instruction, place.when)
            elif (remaining := self._added(instruction, place)) is not None:
                phase = Phase(place.stage, place.when, self._turn(remaining, place))
                self.instructions[phase].append(remaining)
                self.there.update(((place.stage, key), phase) for key in remaining.keys_made)
        transfers = [
            SectionTransfer(sent.value, sent.sharding, source, target)
            for sent, source in self.sent
            if (target := self._reader(sent, source)) is not None
        ]
        for transfer in transfers:
            # Creates both phases in the defaultdict: an empty phase may relay a value.
            _ = self.instructions[transfer.source], self.instructions[transfer.target]
        order = list(StepPhase)
        phases = sorted(self.instructions, key=lambda p: (order.index(p.when), p.turn, p.stage))
        wanted = self._wanted()
        return Sections(
            tuple(self._section(phase, wanted) for phase in phases),
            tuple(transfers),
            self.outputs,
            self.sums,
        )

    def _added(
        self, instruction: LocalOperation | RedistributedValue, place: InstructionPlace
    ) -> LocalOperation | RedistributedValue | None:
        """Returns the instruction without its initial sum over microbatches, None if empty."""
        if isinstance(instruction, LocalOperation) or not accumulates(instruction.path):
            return instruction
        first, *rest = instruction.path.moves
        key, summed = (
            (instruction.value.name, instruction.path.source),
            (instruction.value.name, first.after),
        )
        self.sums[summed] = key
        self.there[place.stage, summed] = Phase(place.stage, StepPhase.BACKWARD)
        return (
            RedistributedValue(
                instruction.value,
                RedistributionPath(first.after, instruction.path.target, tuple(rest)),
            )
            if rest
            else None
        )

    def _made(self, stage: int, key: Key) -> Phase | None:
        return self.there.get((stage, key)) or self.there.get((EVERYWHERE, key))

    def _turn(
        self, instruction: LocalOperation | RedistributedValue, place: InstructionPlace
    ) -> int:
        """Returns the turn of work done once: the latest turn of its inputs from other stages."""
        made = (self._made(place.stage, key) for key in instruction.keys_read)
        turns = [phase.turn for phase in made if phase and phase.when is place.when]
        return max(turns, default=0) if place.when in ONCE_PHASES else 0

    def _send(self, sent: SentValue, when: StepPhase) -> None:
        [key] = sent.keys_read
        made = self._made(sent.source, key)
        turn = made.turn if made and made.when is when else 0
        self.sent.append((sent, Phase(sent.source, when, turn)))
        self.there[sent.target, key] = Phase(
            sent.target, when, turn + 1 if when in ONCE_PHASES else 0
        )

    def _reader(self, sent: SentValue, source: Phase) -> Phase | None:
        """Returns the section before which a value must have arrived."""
        if source.when in ONCE_PHASES:
            return Phase(sent.target, source.when, source.turn + 1)
        [key] = sent.keys_read
        for when in _LATER_PHASES[source.when]:
            phase = Phase(sent.target, when)
            if any(key in reader.keys_read for reader in self.instructions.get(phase, ())):
                return phase
        return None

    def _wanted(self) -> set[Key]:
        """Returns values that another section reads, and the outputs of the step."""
        keys = {(v.name, sharding) for v, sharding in self.outputs if isinstance(v, Value)}
        keys.update(key for sent, _ in self.sent for key in sent.keys_read)
        keys.update(self.sums.values())
        for instructions in self.instructions.values():
            keys.update(_list_reads(instructions))
        return keys

    def _section(self, phase: Phase, wanted: set[Key]) -> ProgramSection:
        instructions = self.instructions[phase]
        values = self.step.graph.values
        made = list(
            dict.fromkeys(
                key
                for instruction in instructions
                for key in instruction.keys_made
                if key in wanted
            )
        )
        sums = set(self.sums.values())
        return ProgramSection(
            phase,
            tuple(instructions),
            tuple((values[key[0]], key[1]) for key in _list_reads(instructions)),
            tuple((values[key[0]], key[1]) for key in made),
            tuple(key for key in made if key in sums),
            tuple(self._kept(phase)),
        )

    def _kept(self, phase: Phase) -> Iterable[Key]:
        """Yields values of one microbatch that a later pass of it reads or sends on."""
        later = [] if phase.when in ONCE_PHASES else _LATER_PHASES[phase.when][1:]
        keys: dict[Key, None] = {}
        for when in later:
            keys |= dict.fromkeys(_list_reads(self.instructions.get(Phase(phase.stage, when), ())))
            keys |= dict.fromkeys(
                key
                for sent, source in self.sent
                if (source.stage, source.when) == (phase.stage, when)
                for key in sent.keys_read
            )
        for key in keys:
            made = self._made(phase.stage, key)
            if made is not None and made.when not in (*ONCE_PHASES, *later):
                yield key


def _list_reads(instructions: Iterable[LocalOperation | RedistributedValue]) -> list[Key]:
    """Returns the values a section reads from others, in the order of reading."""
    own: set[Key] = set()
    reads: dict[Key, None] = {}
    for instruction in instructions:
        reads |= dict.fromkeys(key for key in instruction.keys_read if key not in own)
        own.update(instruction.keys_made)
    return list(reads)
