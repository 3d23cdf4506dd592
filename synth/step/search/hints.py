"""Hints if there is no plan, or if none fits: possible values, and changes that save memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hierarchies import InputError
from synth.step.frameworks import FRAMEWORKS, FrameworkRules
from synth.step.search.composing.composer import Composer
from synth.step.search.pins import Pins, pin_value_of
from synth.step.sharding import Recipe

FARTHEST = 4096
"""The largest distance from the requested batch at which other batches are tried."""


def no_plan_error(
    model: str,
    devices: int,
    batch: int,
    pins: Pins,
    known: Sequence[Recipe],
    possible: Callable[[int], bool],
) -> InputError:
    """Returns an error that says why no ``known`` recipe satisfies the pins.

    Names the smallest set of pins that contradict each other, and the values that the last of them
    can have together with the others. ``possible``: whether any recipe divides another batch.
    """
    about = f"{model} for {batch} samples on {devices} devices"
    for pins_at_odds in pins.subsets():
        if known and not any(pins_at_odds.allow(recipe) for recipe in known):
            *others, last = pins_at_odds.values
            rest = Pins({name: pins_at_odds.values[name] for name in others})
            values = {pin_value_of(recipe, last) for recipe in known if rest.allow(recipe)}
            first = f"with {rest}, " if others else ""
            hint = f"{first}{last} is {_spell_values(values)}"
            return InputError(f"no plan of {about} has {pins_at_odds}", where="pin", hint=hint)
    if known:
        hint = "choose microbatches of 1, 2, 4, ... 64 samples on a device, or one microbatch"
        return InputError(f"no plan of {about} matches", where="pin", hint=hint)
    near = list(_batches(batch, min(devices, FARTHEST), possible))
    hint = f"a batch of {' or '.join(map(str, near))}" if near else "fewer or more devices"
    return InputError(
        f"nothing divides {model} and {batch} samples among {devices} devices",
        where="batch",
        hint=f"{hint}, or other sizes of the model",
    )


def not_run_error(
    model: str, machine: str, pins: Pins, known: Sequence[Recipe], rules: FrameworkRules
) -> InputError:
    """Returns an error that says why the frameworks of the pins run no ``known`` recipe with them.

    Names the smallest set of pins that a framework refuses, and another framework that does not.
    """
    framework = pins.frameworks[0]
    for refused in (Pins({}), *pins.subsets()):
        given = [recipe for recipe in known if refused.allow(recipe)]
        if all(_why_not_run(rules, framework, recipe, refused) for recipe in given):
            break
    # Of the simplest recipe, because others are refused for several reasons.
    simplest = min(given, key=lambda recipe: len(str(recipe)))
    reason = _why_not_run(rules, framework, simplest, refused)
    able = (
        other
        for other in FRAMEWORKS
        if other not in pins.frameworks
        and not all(_why_not_run(rules, other, recipe, refused) for recipe in given)
    )
    other = next(able, "")
    if not refused.values:
        problem = f"{framework} runs no plan of {model} on {machine}: {reason}"
        hint = f"--framework {other}" if other else "no framework does; leave it out"
        return InputError(problem, where="framework", hint=hint)
    problem = f"{framework} runs no plan of {model} with {refused}: {reason}"
    hint = f"leave it out, or --framework {other}" if other else "leave it out: no framework does"
    return InputError(problem, where="pin", hint=hint)


def _why_not_run(rules: FrameworkRules, framework: str, recipe: Recipe, pins: Pins) -> str:
    """Returns why a framework runs nothing with the pins for a recipe; empty if it does."""
    try:
        allowed = pins.allow(rules.express(framework, recipe))
    except InputError:
        allowed = False
    return "" if allowed else rules.refusal(framework, recipe)


def _batches(batch: int, farthest: int, possible: Callable[[int], bool]) -> Iterator[int]:
    """Yields the next smaller and the next larger batch that is possible."""
    for candidates in (
        range(batch - 1, max(0, batch - farthest - 1), -1),
        range(batch + 1, batch + farthest + 1),
    ):
        batch_near = next(filter(possible, candidates), None)
        if batch_near is not None:
            yield batch_near


def _spell_values(values: Iterable[str]) -> str:
    """Spells values in numeric order, if they are numbers."""
    ordered = sorted(values, key=lambda value: (int(value) if value.isdecimal() else 0, value))
    return ordered[0] if len(ordered) == 1 else f"one of {', '.join(ordered)}"


@dataclass(frozen=True)
class MemorySaving:
    """A change, the least memory of a device with it in bytes, and the bytes that it frees."""

    what: str
    size_bytes: float
    freed_bytes: float


def find_savings(
    size_bytes: float, changes: Mapping[str, Callable[[], float]]
) -> tuple[MemorySaving, ...]:
    """Lists the changes that need less memory than ``size_bytes``, the largest saving first."""
    savings = []
    for what, size in changes.items():
        try:
            changed_bytes = size()
        except InputError:
            continue
        if changed_bytes < size_bytes:
            savings.append(MemorySaving(what, changed_bytes, size_bytes - changed_bytes))
    return tuple(sorted(savings, key=lambda saving: saving.size_bytes))


def find_least_memory(composer: Composer, recipes: Iterable[Recipe]) -> float:
    """Returns the least bytes that any recipe needs. Raises InputError if none is valid."""
    sizes = []
    for recipe in recipes:
        try:
            sizes.append(composer.size_bytes(recipe))
        except InputError:
            continue
    if not sizes:
        raise InputError("no such plan is possible")
    return min(sizes)
