"""The planner's all-reduce on a shaped network: its file for PyTorch, and its seconds by its steps.

Each step's collective is measured among its own groups, all at once, and the network calibrated to
it alone, as gloo's collectives say nothing of each other. The steps then overlap as simulated: no
run of the whole program is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod

from grammar import parse
from hierarchies import Axis, Placement, Reduction, System, placements
from synth.collective.algorithms.algorithms import Choice
from synth.collective.emit.source import EmitOptions, EmitSource
from synth.collective.emit.targets import emit
from synth.collective.price.step_prices import Simulator
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Request
from synth.collective.semantics.layout import Move
from synth.collective.semantics.lowering import buffer_fraction, lower, moves
from synth.collective.semantics.rules import Derivation, derive
from synth.collective.semantics.schedule import Exchange
from synth.collective.verify.symbolic import Proved
from synth.events.overlap import PhaseWork, makespan_seconds
from synth.step.bucketing import AXIS

PLAIN = "all-reduce root inside"
PAYLOAD_BYTES = 2**22
"""For which the program is asked: about what the models that are trained here have."""


@dataclass(frozen=True)
class Program:
    """An all-reduce over all devices: its steps, and into how many segments it is cut."""

    text: str
    segments: int
    reduction: Reduction

    @cached_property
    def derivation(self) -> Derivation:
        found = derive(parse(self.text), self.reduction.tree)
        assert isinstance(found, Derivation)
        return found

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """Its steps."""
        return moves(self.derivation)

    @property
    def collectives(self) -> list[str]:
        return [one.instruction.collective.value for one in self.moves]

    def members(self, move: int) -> tuple[int, ...]:
        """How many children of each level a group of a step has ranks in."""
        phases = lower(self.derivation, self.reduction, PAYLOAD_BYTES).phases
        group = [one for one in phases if isinstance(one, Exchange)][move].groups.tolist()[0]
        counts = self.reduction.placement.hierarchy.cardinalities
        inside = [prod(counts[level + 1 :]) for level in range(len(counts))]
        return tuple(
            len({rank // size % count for rank in group})
            for size, count in zip(inside, counts, strict=True)
        )

    def buffer_bytes(self, move: int, size_bytes: int) -> int:
        """The largest buffer of a step where so many bytes are reduced."""
        kinds = self.moves[move].buffers
        return size_bytes // min(buffer_fraction(kind, self.reduction.tree) for kind in kinds)

    def segments_of(self, size_bytes: int) -> int:
        """As the written file cuts a payload: small ones into fewer."""
        return max(1, min(self.segments, ceil(size_bytes / ceil(PAYLOAD_BYTES / self.segments))))


def placed(system: System) -> Placement:
    """Data over all devices."""
    [found] = placements(system.hierarchy, [Axis(AXIS, system.devices)])
    return found


def plain(system: System) -> Program:
    """The runtime's own."""
    return Program(PLAIN, 1, Reduction(placed(system), (AXIS,)))


def best(system: System, made_by: str) -> tuple[Program, str]:
    """The planner's best on a network as it is described, by rings; and its file."""
    request = Request(
        (Axis(AXIS, system.devices),),
        (AXIS,),
        PAYLOAD_BYTES,
        k=1,
        choice=Choice.RING,
        segments=(1, 2, 4, 8),
        stripes=False,
    )
    [answer] = answers(system, request).answers
    [stripe] = answer.stripes
    found, verdict = answer.candidate, stripe.verdict
    assert isinstance(verdict, Proved)
    schedule = lower(found.derivation, found.reduction, PAYLOAD_BYTES, found.segments)
    source = EmitSource(schedule, system, stripe.prices, verdict, EmitOptions(made_by=made_by))
    [text] = emit("torch", source).values()
    return Program(found.text, found.segments, found.reduction), str(text)


@dataclass
class Seconds:
    """Of a program for so many bytes, on systems that are calibrated to each of its steps."""

    program: Program
    systems: Sequence[System]

    def __post_init__(self) -> None:
        self._known: dict[int, float] = {}
        self._simulators = [Simulator(one, Choice.RING) for one in self.systems]

    def __call__(self, size_bytes: int) -> float:
        if size_bytes not in self._known:
            segments = self.program.segments_of(size_bytes)
            phases = self._phases(size_bytes / segments)
            self._known[size_bytes] = makespan_seconds(phases, segments)
        return self._known[size_bytes]

    def _phases(self, size_bytes: float) -> list[PhaseWork]:
        return [
            price.work
            for simulator, move in zip(self._simulators, self.program.moves, strict=True)
            for price in simulator.move(move, self.program.reduction, size_bytes)
        ]
