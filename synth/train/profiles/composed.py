"""Seconds of every operation of a program by its blocks, as the simulation takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from grammar.tensors.operations import Step
from synth.compute import Estimate
from synth.train.factors import part
from synth.train.plans import Done, Program
from synth.train.profiles.blocks import Block
from synth.train.profiles.events import Event, events
from synth.train.profiles.profile import Profile
from synth.train.simulation.groups import weight


@dataclass(frozen=True)
class Kinds:
    """How many events a program has, and how many of them a profile."""

    measured: int
    whole: int


@dataclass(frozen=True)
class Known:
    """What a profile has of a program: seconds of operations, as ``composed`` has them."""

    seconds: Mapping[int, Estimate]
    kinds: Kinds


def known(profile: Profile, step: Step, program: Program, sizes: Mapping[str, int]) -> Known:
    """What it has of the program of a step that is prepared; ``sizes`` are the plan's ``parts``.

    Raises InputError for what the profile's runtime has no words for.
    """
    written = events(profile.where.runtime, step, program, sizes)
    pairs = [(block, event) for block, event in written if block.of]
    kinds = {event.key for _, event in pairs}
    seconds = composed(pairs, profile.estimate, sizes)
    return Known(seconds, Kinds(len(kinds & profile.by_key.keys()), len(kinds)))


def composed(
    pairs: Iterable[tuple[Block, Event]],
    seconds: Callable[[Event], Estimate | None],
    sizes: Mapping[str, int],
) -> dict[int, Estimate]:
    """Of each operation, by the ``id`` of its ``Done``, its share of its block's seconds.

    Shares go by bytes, and only show in the timeline: a block begins and ends as measured. Of a
    loop it is what the loop does itself. Sums over microbatches are no operation's. Operations of
    blocks without ``seconds`` are left out.
    """
    found: dict[int, Estimate] = {}
    for block, event in pairs:
        taken = seconds(event)
        if taken is None or not block.of:
            continue
        weights = [_weight(one, sizes) for one in block.of]
        for one, share in zip(block.of, weights, strict=True):
            found[id(one)] = taken.times(share / sum(weights))
    return found


def _weight(one: Done, sizes: Mapping[str, int]) -> float:
    if one.body is not None:
        return 1.0
    return weight(part(one.operation, one.how, sizes).operation)
