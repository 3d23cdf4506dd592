"""What may help where there is no plan, or none that fits: values that there are, memory freed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hierarchies import InputError
from synth.step.search.composing.composer import Composer
from synth.step.search.pins import Pins, pin_value_of
from synth.step.sharding import Recipe

FARTHEST = 4096
"""Batches that are no farther from the one that was asked for are looked at."""


def no_plan_error(
    model: str,
    devices: int,
    batch: int,
    pins: Pins,
    known: Sequence[Recipe],
    possible: Callable[[int], bool],
) -> InputError:
    """Why none of the ``known`` recipes has the pins; ``possible`` says it of another batch.

    Of pins that contradict each other the fewest are named, with the values that the last of them
    may have beside the others.
    """
    about = f"{model} for {batch} samples on {devices} devices"
    for some in pins.some():
        if known and not any(some.allow(one) for one in known):
            *others, last = some.said
            beside = Pins({name: some.said[name] for name in others})
            values = {pin_value_of(one, last) for one in known if beside.allow(one)}
            first = f"with {beside}, " if others else ""
            hint = f"{first}{last} is {_spell_values(values)}"
            return InputError(f"no plan of {about} has {some}", where="pin", hint=hint)
    if known:
        hint = "other microbatches: of 1, 2, 4, ... 64 samples on a device, or one"
        return InputError(f"no plan of {about} is tried", where="pin", hint=hint)
    near = list(_batches(batch, min(devices, FARTHEST), possible))
    hint = f"a batch of {' or '.join(map(str, near))}" if near else "fewer or more devices"
    return InputError(
        f"nothing divides {model} and {batch} samples among {devices} devices",
        where="batch",
        hint=f"{hint}, or other sizes of the model",
    )


def _batches(batch: int, farthest: int, possible: Callable[[int], bool]) -> Iterator[int]:
    """The next smaller and the next larger that something divides."""
    for several in (
        range(batch - 1, max(0, batch - farthest - 1), -1),
        range(batch + 1, batch + farthest + 1),
    ):
        found = next(filter(possible, several), None)
        if found is not None:
            yield found


def _spell_values(values: Iterable[str]) -> str:
    """In the order of numbers, if they are some."""
    known = sorted(values, key=lambda one: (int(one) if one.isdecimal() else 0, one))
    return known[0] if len(known) == 1 else f"one of {', '.join(known)}"


@dataclass(frozen=True)
class MemorySaving:
    """A change, and the least memory of a device with it, and how much less that is."""

    what: str
    size_bytes: float
    freed_bytes: float


def find_savings(
    size_bytes: float, changes: Mapping[str, Callable[[], float]]
) -> tuple[MemorySaving, ...]:
    """Which changes need less memory than what needs least now, the one that frees most first."""
    found = []
    for what, size in changes.items():
        try:
            own = size()
        except InputError:
            continue
        if own < size_bytes:
            found.append(MemorySaving(what, own, size_bytes - own))
    return tuple(sorted(found, key=lambda one: one.size_bytes))


def find_least_memory(composer: Composer, several: Iterable[Recipe]) -> float:
    """The least memory that one of several recipes needs. Raises InputError if none can be."""
    sizes = []
    for one in several:
        try:
            sizes.append(composer.size_bytes(one))
        except InputError:
            continue
    if not sizes:
        raise InputError("no such plan can be")
    return min(sizes)
