"""What programs of explicit groups cost: step by step, on links that may all differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from grammar import Collective, Instruction
from hierarchies.links import Wiring
from synth.collectives.algorithms import Choice
from synth.degraded.cores import Core
from synth.degraded.loads import lines_of
from synth.degraded.programs import GroupProgram, Survivors
from synth.events.overlap import Work
from synth.price.steps import StepPrice, priced_by
from synth.price.ways import MEMORY, Line, fastest
from synth.semantics.layout import Move, Shuffle
from synth.semantics.lowering import buffer_fraction
from synth.verify.concrete import GroupStep


@dataclass(frozen=True)
class Sized:
    """The lines a step may run by, and its largest buffer as a share of the payload."""

    collective: Collective
    lines: tuple[Line, ...]
    share: float

    def price(self, payload_bytes: float) -> StepPrice:
        size = self.share * payload_bytes
        return priced_by(self.collective.value, fastest(self.lines, size), size)


@dataclass(frozen=True)
class CorePrices:
    """What the moves of programs on a core may run by; ``steps`` are what instructions mean."""

    core: Core
    steps: Mapping[Instruction, GroupStep]
    sized: Mapping[tuple[Instruction, float], Sized]
    memory_bytes_per_second: float

    def phases(self, move: Move, payload_bytes: float) -> list[StepPrice]:
        """A move with its shuffles."""
        step = self.sized[move.instruction, _share(move, self.core)].price(payload_bytes)
        before, after = (
            [self._shuffle(shuffle, payload_bytes) for shuffle in some]
            for some in (move.before, move.after)
        )
        return [*before, step, *after]

    def works(self, move: Move, payload_bytes: float) -> tuple[Work, ...]:
        """The same as what they ask of the machine."""
        return tuple(price.work for price in self.phases(move, payload_bytes))

    def _shuffle(self, shuffle: Shuffle, payload_bytes: float) -> StepPrice:
        size = payload_bytes / buffer_fraction(shuffle.scattered, self.core.tree)
        seconds = 2 * size / self.memory_bytes_per_second
        return StepPrice("transpose", None, size, seconds, 0.0, MEMORY, (), ((MEMORY, seconds),))


def _share(move: Move, core: Core) -> float:
    """The largest buffer of those who take part, as a share of the payload."""
    return 1 / min(buffer_fraction(kind, core.tree) for kind in move.buffers)


class GroupPricer:
    """Prices steps over groups of the devices that are left."""

    def __init__(self, survivors: Survivors, choice: Choice = Choice.AUTO) -> None:
        self._devices = np.array(survivors.devices, dtype=np.int64)
        self._wiring = Wiring(survivors.system)
        self._choice = choice
        self._known: dict[tuple[GroupStep, tuple[float, ...], bool], tuple[Line, ...]] = {}

    def program(self, program: GroupProgram) -> list[Sized]:
        """Every step of a program with what it may run by."""
        return [
            self._sized(step, sizes, equal)
            for step, (sizes, equal) in zip(program.steps, _buffers(program), strict=True)
        ]

    def whole(self, step: GroupStep) -> Sized:
        """A step that moves whole payloads."""
        return self._sized(step, (1.0,) * len(step.groups), True)

    def on_core(self, core: Core, alphabet: Sequence[Move]) -> CorePrices:
        """What the moves of programs on an even core cost."""
        steps: dict[Instruction, GroupStep] = {}
        sized: dict[tuple[Instruction, float], Sized] = {}
        for move in alphabet:
            what = move.instruction
            share = _share(move, core)
            if what not in steps:
                steps[what] = core.step(what)
            if (what, share) not in sized:
                step = steps[what]
                sized[what, share] = self._sized(step, (share,) * len(step.groups), True)
        return CorePrices(core, steps, sized, self._wiring.system.memory_bytes_per_second)

    def _sized(self, step: GroupStep, sizes: tuple[float, ...], equal: bool) -> Sized:
        key = (step, sizes, equal)
        largest = max(sizes)
        if key not in self._known:
            groups = [self._devices[list(group)] for group in step.groups]
            shares = [size / largest for size in sizes]
            self._known[key] = lines_of(
                step.collective, groups, self._wiring, self._choice, equal=equal, sizes=shares
            )
        return Sized(step.collective, self._known[key], largest)


def _buffers(program: GroupProgram) -> Iterator[tuple[tuple[float, ...], bool]]:
    """For each step the largest buffer of each group, and whether all pieces of it are equal."""
    held: dict[int, int] = {}

    def of(group: Sequence[int]) -> list[int]:
        return [held.get(rank, program.chunks) for rank in group]

    for step in program.steps:
        sizes, equal = [], True
        for number, group in enumerate(step.groups):
            before = of(group)[:1] if step.collective.from_first else of(group)
            whole = sum(before) if step.collective.gathers else max(before)
            after = [whole] * len(group)
            if step.collective.to_first:
                after = [whole] + [0] * (len(group) - 1)
            if step.collective.scatters:
                assert step.pieces is not None
                after = [len(piece) for piece in step.pieces[number]]
                equal = equal and len(set(after)) == 1
            if step.collective.gathers:
                equal = equal and len(set(before)) == 1
            held.update(zip(group, after, strict=True))
            sizes.append(whole / program.chunks)
        yield tuple(sizes), equal
