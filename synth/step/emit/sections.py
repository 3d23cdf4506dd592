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
from synth.step.redistribution import Path
from synth.step.redistribution.paths import First
from synth.step.sharding import Done, Moved, Place, Program, Sent, When
from synth.step.sharding.microbatches import accumulates, redistribution
from synth.step.sharding.plan import TIME
from synth.step.sharding.program import EACH, EVERYWHERE, Key, makes, reads

ONCE = (When.BEFORE, When.AFTER)
_LETTERS = {When.FORWARD: "F", When.BACKWARD: "B", When.WEIGHT: "W"}
_LATER = {when: EACH[at:] for at, when in enumerate(EACH)}
"""Of each pass those of a microbatch that are not over when it begins."""


@dataclass(frozen=True)
class Phase:
    """When a stage does something. What is done once has turns: others come in between."""

    stage: int
    when: When
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
class Section:
    """Instructions of one function: what it reads from others, and makes for them.

    Of what it makes ``adds`` are sums over microbatches; ``keeps`` is what later sections of the
    same microbatch need. ``phase`` is None where a program is one section.
    """

    phase: Phase | None
    instructions: tuple[Done | Moved, ...]
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
class Transfer:
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

    sections: tuple[Section, ...]
    transfers: tuple[Transfer, ...]
    outputs: tuple[tuple[Operand, Sharding], ...]
    sums: Mapping[Key, Key]


def sections(step: Step, program: Program, parts: Mapping[str, int]) -> Sections:
    """The sections of a program; ``parts`` are those of the plan's axes, time included.

    Raises InputError for outputs that each microbatch has for itself.
    """
    finished, outputs = _finished(step, program, parts)
    if not program.places:
        inputs = tuple(zip(step.graph.inputs, program.inputs, strict=True))
        only = Section(None, tuple(_done(one) for one, _ in finished), inputs, outputs)
        return Sections((only,), (), outputs, {})
    return _Cutting(step, program, outputs).sections(finished)


_Placed = list[tuple[Done | Moved | Sent, Place]]


def _done(one: Done | Moved | Sent) -> Done | Moved:
    assert not isinstance(one, Sent), one
    return one


def _finished(
    step: Step, program: Program, parts: Mapping[str, int]
) -> tuple[_Placed, tuple[tuple[Operand, Sharding], ...]]:
    """The instructions, with outputs made whole that are partial: nobody else can complete them."""
    always = Place(EVERYWHERE, When.BEFORE)
    places = program.places or (always,) * len(program.instructions)
    found = list(zip(program.instructions, places, strict=True))
    homes = program.homes or (EVERYWHERE,) * len(program.inputs)
    at = {value.name: home for value, home in zip(step.graph.inputs, homes, strict=True)}
    at |= {key[0]: place.stage for one, place in found for key in makes(one)}
    outputs = []
    for output, lies in zip(step.graph.outputs, program.outputs, strict=True):
        whole = replace(lies, partial=())
        if TIME in whole.axes:
            problem = f"each microbatch has its own part of {output}, which the step gives"
            raise InputError(problem, where="plan", hint="leave microbatches out of the plan")
        if lies.partial and isinstance(output, Value):
            path = redistribution(output, lies, whole, parts, First.BYTES)
            found.append((Moved(output, path), Place(at[output.name], When.AFTER)))
        outputs.append((output, whole))
    return found, tuple(outputs)


@dataclass
class _Cutting:
    """``there`` is in which section of a stage a value is since when; inputs are in none."""

    step: Step
    program: Program
    outputs: tuple[tuple[Operand, Sharding], ...]
    there: dict[tuple[int, Key], Phase] = field(default_factory=dict)
    found: dict[Phase, list[Done | Moved]] = field(default_factory=lambda: defaultdict(list))
    sent: list[tuple[Sent, Phase]] = field(default_factory=list)
    sums: dict[Key, Key] = field(default_factory=dict)

    def sections(self, placed: _Placed) -> Sections:
        for one, place in placed:
            if isinstance(one, Sent):
                self._send(one, place.when)
            elif (left := self._added(one, place)) is not None:
                phase = Phase(place.stage, place.when, self._turn(left, place))
                self.found[phase].append(left)
                self.there.update(((place.stage, key), phase) for key in makes(left))
        transfers = [
            Transfer(one.value, one.sharding, source, target)
            for one, source in self.sent
            if (target := self._reader(one, source)) is not None
        ]
        for sent in transfers:
            _ = self.found[sent.source], self.found[sent.target]
        phases = sorted(
            self.found, key=lambda one: (list(When).index(one.when), one.turn, one.stage)
        )
        wanted = self._wanted()
        return Sections(
            tuple(self._section(phase, wanted) for phase in phases),
            tuple(transfers),
            self.outputs,
            self.sums,
        )

    def _added(self, one: Done | Moved, place: Place) -> Done | Moved | None:
        """Without the sum over microbatches with which it begins; None if that is all."""
        if isinstance(one, Done) or not accumulates(one.path):
            return one
        first, *rest = one.path.moves
        key, done = (one.value.name, one.path.source), (one.value.name, first.after)
        self.sums[done] = key
        self.there[place.stage, done] = Phase(place.stage, When.BACKWARD)
        return Moved(one.value, Path(first.after, one.path.target, tuple(rest))) if rest else None

    def _made(self, stage: int, key: Key) -> Phase | None:
        return self.there.get((stage, key)) or self.there.get((EVERYWHERE, key))

    def _turn(self, one: Done | Moved, place: Place) -> int:
        """Of what is done once: as late as what it reads comes from another stage."""
        made = (self._made(place.stage, key) for key in reads(one))
        turns = [phase.turn for phase in made if phase and phase.when is place.when]
        return max(turns, default=0) if place.when in ONCE else 0

    def _send(self, one: Sent, when: When) -> None:
        [key] = reads(one)
        made = self._made(one.source, key)
        turn = made.turn if made and made.when is when else 0
        self.sent.append((one, Phase(one.source, when, turn)))
        self.there[one.target, key] = Phase(one.target, when, turn + 1 if when in ONCE else 0)

    def _reader(self, one: Sent, source: Phase) -> Phase | None:
        """The section before which a value must have come."""
        if source.when in ONCE:
            return Phase(one.target, source.when, source.turn + 1)
        [key] = reads(one)
        for when in _LATER[source.when]:
            phase = Phase(one.target, when)
            if any(key in reads(other) for other in self.found.get(phase, ())):
                return phase
        return None

    def _wanted(self) -> set[Key]:
        """What is read in another section than it is made in, or is a result of the step."""
        found = {(one.name, lies) for one, lies in self.outputs if isinstance(one, Value)}
        found.update(key for one, _ in self.sent for key in reads(one))
        found.update(self.sums.values())
        for some in self.found.values():
            found.update(_read(some))
        return found

    def _section(self, phase: Phase, wanted: set[Key]) -> Section:
        some = self.found[phase]
        values = self.step.graph.values
        made = list(dict.fromkeys(key for one in some for key in makes(one) if key in wanted))
        sums = set(self.sums.values())
        return Section(
            phase,
            tuple(some),
            tuple((values[key[0]], key[1]) for key in _read(some)),
            tuple((values[key[0]], key[1]) for key in made),
            tuple(key for key in made if key in sums),
            tuple(self._kept(phase)),
        )

    def _kept(self, phase: Phase) -> Iterable[Key]:
        """What is of one microbatch, and read or sent on by a later pass of it."""
        later = [] if phase.when in ONCE else _LATER[phase.when][1:]
        found: dict[Key, None] = {}
        for when in later:
            found |= dict.fromkeys(_read(self.found.get(Phase(phase.stage, when), ())))
            found |= dict.fromkeys(
                key
                for one, source in self.sent
                if (source.stage, source.when) == (phase.stage, when)
                for key in reads(one)
            )
        for key in found:
            made = self._made(phase.stage, key)
            if made is not None and made.when not in (*ONCE, *later):
                yield key


def _read(some: Iterable[Done | Moved]) -> list[Key]:
    """What a section has from others, in the order in which it reads it."""
    own: set[Key] = set()
    found: dict[Key, None] = {}
    for one in some:
        found |= dict.fromkeys(key for key in reads(one) if key not in own)
        own.update(makes(one))
    return list(found)
