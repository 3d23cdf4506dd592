"""A job on a machine: all possible sizes of its axes, and the job with numbers only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from math import ceil, isqrt, prod

from grammar import Goal
from hierarchies import Axis, InputError
from synth.collective.workload.job import (
    Entry,
    JobAxis,
    Requirement,
    UnpricedTraffic,
    Workload,
    amounts_of,
    entry_value,
    number_text,
    values_at,
)
from synth.collective.workload.quantities import AtMostRule, Known, amounts_in, evaluate_amount

Sizes = Mapping[str, int]
MOST_ASSIGNMENTS = 100_000
_SHOWN = 8


@dataclass(frozen=True)
class SettledEntry:
    """A collective with numbers only, over axes of more than one device each.

    ``times`` is calls per step, ``hidden`` the share of its time that compute hides, 0 to 1.
    """

    name: str
    goal: Goal
    over: tuple[str, ...]
    payload_bytes: int
    times: Fraction
    hidden: Fraction

    @property
    def weight(self) -> Fraction:
        """Calls per step that compute does not hide; times the seconds of a call, the exposed
        seconds.
        """
        return self.times * (1 - self.hidden)


@dataclass(frozen=True)
class SettledTraffic:
    """Communication that is listed but not priced, and why."""

    name: str
    over: tuple[str, ...]
    payload_bytes: int
    times: Fraction
    why: str


@dataclass(frozen=True)
class SettledJob:
    """A job whose axes have sizes. ``entries`` may be empty: axes of size 1 send nothing."""

    name: str
    title: str
    axes: tuple[Axis, ...]
    entries: tuple[SettledEntry, ...]
    unpriced: tuple[SettledTraffic, ...]


def assignments(job: Workload, devices: int) -> tuple[Sizes, ...]:
    """Returns all sizes of the axes that fill the devices and meet the requirements.

    For data = any, tensor = 1|2 and 8 devices: data 8 with tensor 1, data 4 with tensor 2. Sizes
    follow the order of the job file, the last axis fastest; an axis of any size takes the divisors
    of the number of devices. Raises InputError if no sizes fit, with a hint at sizes that fit, and
    for more than ``MOST_ASSIGNMENTS``.
    """
    names = [axis.name for axis in job.axes]
    divisors = _divisors(devices)
    # One more than allowed, to tell "too many" from "exactly as many".
    sized = islice(_enumerate_sizes(job.axes, devices, divisors), MOST_ASSIGNMENTS + 1)
    candidates = [dict(zip(names, sizes, strict=True)) for sizes in sized]
    if len(candidates) > MOST_ASSIGNMENTS:
        problem = f"the open axes may have more than {MOST_ASSIGNMENTS} different sizes"
        raise InputError(problem, where=job.places.of("axes"), hint="give some of them a size")
    if not candidates:
        raise _misfit_error(job, devices, divisors)
    fitting = [_Candidate(sizes, values_at(job, sizes)) for sizes in candidates]
    for requirement in job.requires:
        met = [candidate for candidate in fitting if candidate.excess(requirement) <= 0]
        if not met:
            raise _unmet_error(requirement, fitting)
        fitting = met
    return tuple(candidate.sizes for candidate in fitting)


@dataclass(frozen=True)
class _Candidate:
    """Sizes whose product is the number of devices, and the values of the job's names there."""

    sizes: Sizes
    known: Known

    def values(self, requirement: Requirement) -> list[Fraction]:
        try:
            return [evaluate_amount(part, self.known) for part in amounts_in(requirement.rule)]
        except InputError as error:
            problem = f"{error.problem} at {_spell_sizes(self.sizes)}"
            raise InputError(problem, where=error.where or requirement.where) from None

    def excess(self, requirement: Requirement) -> Fraction:
        """The amount by which the sizes miss a requirement: 0 or less if they meet it."""
        values = self.values(requirement)
        return values[0] - values[1] if isinstance(requirement.rule, AtMostRule) else values[0] % 1


def _unmet_error(requirement: Requirement, fitting: list[_Candidate]) -> InputError:
    """The error for a requirement that no sizes meet; it names the sizes that come nearest."""
    best = min(fitting, key=lambda candidate: candidate.excess(requirement))
    values = " against ".join(number_text(value) for value in best.values(requirement))
    devices = prod(best.sizes.values())
    rule = f"{requirement.name!r}, {requirement.rule}"
    problem = f"no sizes that multiply to {devices} devices meet the requirement {rule}"
    hint = f"nearest are {_spell_sizes(best.sizes)}: {values}"
    return InputError(problem, where=requirement.where, hint=hint)


def settle_job(job: Workload, sizes: Sizes) -> SettledJob:
    """The job with numbers only. Bytes are rounded up; entries over axes of size 1 are left out.

    Raises InputError for sizes that the job does not allow and, with the place, for bytes and times
    that are not above 0, a hidden share outside 0 to 1, and a division by zero.
    """
    _check_sizes(job, sizes)
    known = values_at(job, sizes)
    return SettledJob(
        job.name,
        job.title,
        tuple(Axis(axis.name, sizes[axis.name]) for axis in job.axes),
        tuple(_entry(e, known, sizes) for e in job.entries if _settled_axes(e, sizes)),
        tuple(_unpriced(u, known, sizes) for u in job.unpriced if _settled_axes(u, sizes)),
    )


def _check_sizes(job: Workload, sizes: Sizes) -> None:
    names = [axis.name for axis in job.axes]
    if set(sizes) != set(names):
        given = ", ".join(sizes) or "none"
        raise InputError(f"sizes are given for {given}", hint=f"the axes are {', '.join(names)}")
    for axis in job.axes:
        if not axis.admits(sizes[axis.name]):
            problem = f"axis {axis.name!r} cannot have size {sizes[axis.name]}"
            raise InputError(problem, where=axis.where, hint=f"it may have {axis.text}")


def _settled_axes(entry: Entry | UnpricedTraffic, sizes: Sizes) -> tuple[str, ...]:
    """The axes that have more than one device, in the order of the job."""
    return tuple(name for name, size in sizes.items() if name in entry.over and size > 1)


def _entry(entry: Entry, known: Known, sizes: Sizes) -> SettledEntry:
    payload, times, hidden = _values(entry, known, sizes)
    return SettledEntry(
        entry.name, entry.goal, _settled_axes(entry, sizes), ceil(payload), times, hidden
    )


def _unpriced(entry: UnpricedTraffic, known: Known, sizes: Sizes) -> SettledTraffic:
    payload, times = _values(entry, known, sizes)
    return SettledTraffic(entry.name, _settled_axes(entry, sizes), ceil(payload), times, entry.why)


def _values(entry: Entry | UnpricedTraffic, known: Known, sizes: Sizes) -> list[Fraction]:
    try:
        return [entry_value(entry, key, known) for key, _ in amounts_of(entry)]
    except InputError as error:
        problem = f"{error.problem} at {_spell_sizes(sizes)}"
        raise InputError(problem, where=error.where, hint=error.hint) from None


def _enumerate_sizes(
    axes: tuple[JobAxis, ...], room: int, divisors: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    """All sizes that multiply to ``room``, whose divisors are among ``divisors``."""
    if len(axes) == 1:
        if axes[0].admits(room):
            yield (room,)
        return
    for size in axes[0].sizes if axes[0].sizes is not None else divisors:
        if room % size == 0:
            for rest in _enumerate_sizes(axes[1:], room // size, divisors):
                yield (size, *rest)


def _divisors(number: int) -> tuple[int, ...]:
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return tuple(sorted({*small, *(number // d for d in small)}))


def _misfit_error(job: Workload, devices: int, divisors: tuple[int, ...]) -> InputError:
    least = prod(min(axis.sizes) for axis in job.axes if axis.sizes is not None)
    if least > devices:
        return InputError(
            f"the axes need at least {least} devices, and the system has {devices}",
            where=job.places.of("axes"),
            hint='take a larger system, or smaller or open sizes, as in data = "any"',
        )
    for axis in job.axes:
        if axis.sizes is not None and not any(devices % size == 0 for size in axis.sizes):
            return InputError(
                f"no size of axis {axis.name!r} divides the {devices} devices of the system",
                where=axis.where,
                hint=f"it may have {axis.text}; sizes that do are {_shorten_list(divisors)}",
            )
    products = {1}
    for axis in job.axes:
        if axis.sizes is not None:
            products = {p * size for p in products for size in axis.sizes if p * size <= devices}
    open_axes = any(axis.sizes is None for axis in job.axes)
    goal = "divides" if open_axes else "is"
    return InputError(
        f"no product of the axes' sizes {goal} {devices}, the number of devices of the system",
        where=job.places.of("axes"),
        hint=f"the products up to it are {_shorten_list(sorted(products))}",
    )


def _shorten_list(numbers: tuple[int, ...] | list[int]) -> str:
    more = ", ..." if len(numbers) > _SHOWN else ""
    return ", ".join(str(number) for number in numbers[:_SHOWN]) + more


def _spell_sizes(sizes: Sizes) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())
