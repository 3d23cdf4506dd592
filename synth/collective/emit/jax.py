"""JAX: a self-contained file with a collective for shard_map, a check and a clock.

In JAX all devices run one program, so all buffers have one shape at a time, and a collective over
mesh axes involves all devices. Schedules that need more use explicit groups where possible, and are
otherwise refused with the step's number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from synth.collective.emit.buffers import BufferHistory, follow_buffers
from synth.collective.emit.source import (
    CannotExpressError,
    EmitSource,
    Files,
    inexpressible_error,
    number_stripe_errors,
)
from synth.collective.emit.text import python_file, reorder_by_ranks
from synth.collective.semantics.schedule import Exchange, Phase, Transpose


@dataclass(frozen=True)
class _PhaseStep:
    """Properties of a phase beyond its collective and groups.

    * ``alone``: devices that take no part get groups of one;
    * ``everyone``: idle devices take part anyway, because JAX needs groups of one size where
      members send or receive pieces;
    * ``idle``: a transpose of buffers that no later phase reads, left out.
    """

    alone: bool = False
    everyone: bool = False
    idle: bool = False


def write(source: EmitSource) -> Files:
    """Returns ``collsynth_jax_STAMP.py``, with groups by mesh axes if possible, else explicit.

    Raises CannotExpressError for programs in which devices need buffers of different sizes at a
    time.
    """
    try:
        return _write_stripes("jax", source, explicit=False)
    except CannotExpressError:
        # Groups by axis names cannot leave devices out; explicit groups can.
        return _write_stripes("jax", source, explicit=True)


def write_flat(source: EmitSource) -> Files:
    """Returns ``collsynth_jax_flat_STAMP.py``, with explicit groups: for any mesh in rank order.

    Raises CannotExpressError for programs in which devices need buffers of different sizes at a
    time.
    """
    return _write_stripes("jax-flat", source, explicit=True)


def _write_stripes(target: str, source: EmitSource, explicit: bool) -> Files:
    found = []
    for number, stripe in enumerate(source.stripes, 1):
        with number_stripe_errors(source, number):
            found.append(_steps(stripe, explicit))
    steps = [step for of_stripe in found for step in of_stripe]
    first, last = reorder_by_ranks(source)
    ordered = ([_PhaseStep()] * len(first), [_PhaseStep()] * len(last))
    return python_file(
        target,
        source,
        explicit=explicit,
        how=[[*ordered[0], *of_stripe, *ordered[1]] for of_stripe in found],
        emulated=_numbers(source, found, lambda e, _: e.collective.rooted),
        crowded=_numbers(source, found, lambda _, step: step.everyone),
        alone=any(step.alone for step in steps),
        reorders=bool(first or last)
        or any(
            isinstance(phase, Transpose) and not step.idle
            for stripe, of_stripe in zip(source.stripes, found, strict=True)
            for phase, step in zip(stripe.schedule.phases, of_stripe, strict=True)
        ),
    )


def _numbers(
    source: EmitSource,
    steps: Sequence[tuple[_PhaseStep, ...]],
    what: Callable[[Exchange, _PhaseStep], bool],
) -> list[str]:
    """Returns the numbers, from 1, of exchanges that satisfy ``what``; with stripes if several."""
    found = []
    for number, (stripe, of_stripe) in enumerate(zip(source.stripes, steps, strict=True), 1):
        pairs = zip(stripe.schedule.phases, of_stripe, strict=True)
        exchanges = [(phase, step) for phase, step in pairs if isinstance(phase, Exchange)]
        of = f" of stripe {number}" if source.beside else ""
        found += [f"{n}{of}" for n, (e, step) in enumerate(exchanges, 1) if what(e, step)]
    return found


def _steps(source: EmitSource, explicit: bool) -> tuple[_PhaseStep, ...]:
    schedule, found = source.schedule, []
    held, parts = follow_buffers(schedule), schedule.pieces if schedule.goal.gathers else 1
    for number, phase in enumerate(schedule.phases):
        found.append(_step(source, held, number, phase))
        if found[-1].alone and not explicit:
            raise inexpressible_error(
                source, number, "only devices with some coordinates 0 take part"
            )
        parts = _parts_after(phase, parts)
        _check_one_shape(source, held, number, parts)
    return tuple(found)


def _step(source: EmitSource, held: BufferHistory, number: int, phase: Phase) -> _PhaseStep:
    needed = held.needed[number + 1]
    if isinstance(phase, Exchange):
        idle = phase.groups.size < source.schedule.devices
        in_pieces = phase.collective.in_pieces
        if idle and phase.collective.apart:
            raise inexpressible_error(
                source, number, "only some devices take part, and all have blocks"
            )
        return _PhaseStep(alone=idle and not in_pieces, everyone=idle and in_pieces)
    moving = np.zeros_like(needed)
    moving[phase.devices] = True
    if not (moving & needed).any():
        return _PhaseStep(idle=True)
    if (needed & ~moving).any():
        raise inexpressible_error(
            source, number, "only some of the devices whose buffers are needed take part"
        )
    return _PhaseStep()


def _parts_after(phase: Phase, parts: int) -> int:
    """Returns into how many parts all buffers divide the payload after a phase."""
    if not isinstance(phase, Exchange) or not phase.collective.in_pieces or phase.collective.apart:
        return parts
    members = int(phase.groups.shape[1])
    return parts // members if phase.collective.gathers else parts * members


def _check_one_shape(source: EmitSource, held: BufferHistory, number: int, parts: int) -> None:
    """Refuses a phase after which a device needs a buffer of another size than the others."""
    other = held.needed[number + 1] & (held.parts[number + 1] != parts)
    if other.any():
        wrong = int(held.parts[number + 1][other][0])
        raise inexpressible_error(
            source,
            number,
            f"some devices need {_share(wrong)} of the payload after it and others "
            f"{_share(parts)}, but in JAX all buffers have one shape at a time",
        )


def _share(parts: int) -> str:
    return "all" if parts == 1 else f"1/{parts}"
