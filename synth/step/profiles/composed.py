"""Composes the seconds of every operation of a program from its blocks, for the simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from grammar.tensors.operations import Step
from synth.compute import Estimate
from synth.step.factors import part_of
from synth.step.profiles.blocks import OperationBlock
from synth.step.profiles.events import ProfileEvent, list_events
from synth.step.profiles.profile import Profile
from synth.step.sharding import LocalOperation, StepProgram
from synth.step.simulation.groups import weight


@dataclass(frozen=True)
class Kinds:
    """The number of events of a program, and how many of them a profile has."""

    measured: int
    whole: int


@dataclass(frozen=True)
class Known:
    """The measured ``seconds`` of a program's operations, as in ``compose_seconds``."""

    seconds: Mapping[int, Estimate]
    kinds: Kinds


def known(profile: Profile, step: Step, program: StepProgram, sizes: Mapping[str, int]) -> Known:
    """Looks up the program of a prepared step in a profile; ``sizes`` are the plan's ``parts``.

    Raises InputError for a program that the profile's runtime cannot express.
    """
    written = list_events(profile.where.runtime, step, program, sizes)
    pairs = [(block, event) for block, event in written if block.of]
    kinds = {event.key for _, event in pairs}
    seconds = compose_seconds(pairs, profile.estimate, sizes)
    return Known(seconds, Kinds(len(kinds & profile.by_key.keys()), len(kinds)))


def compose_seconds(
    pairs: Iterable[tuple[OperationBlock, ProfileEvent]],
    seconds: Callable[[ProfileEvent], Estimate | None],
    sizes: Mapping[str, int],
) -> dict[int, Estimate]:
    """Returns each operation's share of its block's seconds, by ``id`` of its LocalOperation.

    Shares are proportional to bytes. They only affect the timeline: a block begins and ends as
    measured. A loop's share covers its own work. Sums over microbatches belong to no operation.
    Operations of blocks without ``seconds`` are omitted.
    """
    found: dict[int, Estimate] = {}
    for block, event in pairs:
        taken = seconds(event)
        if taken is None or not block.of:
            continue
        weights = [_weight(operation, sizes) for operation in block.of]
        for operation, share in zip(block.of, weights, strict=True):
            found[id(operation)] = taken.times(share / sum(weights))
    return found


def _weight(operation: LocalOperation, sizes: Mapping[str, int]) -> float:
    if operation.body is not None:
        return 1.0
    return weight(part_of(operation.operation, operation.how, sizes).operation)
