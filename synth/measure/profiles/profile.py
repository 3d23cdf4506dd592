"""A profile: seconds of the events of a plan, with the machine and the versions they hold for.

It is kept as JSON, and what is read back is refused where its numbers would not hold: on another
machine, with other versions, or measured while the machine's speed drifted. An event that nobody
measured has an estimate by those that were, which says between what it lies.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy
from pydantic import ConfigDict, TypeAdapter, ValidationError

from hierarchies import InputError
from synth.compute import Estimate
from synth.measure.profiles.events import ProfileEvent

MOST_DRIFT = 0.10
"""Of the reference: beyond it nothing is called measured."""

_LEAST_FITTED = 4
"""Fewer events are no basis for estimates of others."""
MIDDLE_HALF = 1.22
"""Times the width of the middle half of a normal distribution nine of ten are from its middle."""

FEW = 20
"""Of fewer no quantile is beyond which one in twenty lies."""

Floats = npt.NDArray[np.float64]

_OF_RUNTIME = {"torch": ("torch",), "jax": ("jax", "jaxlib")}


@dataclass(frozen=True)
class ProfileConditions:
    """What the seconds of a profile depend on beside the work."""

    processor: str
    cores: int
    device: str
    runtime: Literal["torch", "jax"]
    versions: dict[str, str]
    threads: int
    processes: int


@dataclass(frozen=True)
class MeasuredEvent:
    """An event and its seconds: the median, and how far the middle half of its samples spread.

    ``spread`` is a share of the seconds.
    """

    key: str
    name: str
    operations: int
    flops: int
    moved_bytes: int
    seconds: float
    spread: float
    samples: int


@dataclass(frozen=True)
class Profile:
    """All that was measured at one time. ``drift`` is how far the reference moved, as a share."""

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)

    model: str
    plan: str
    date: str
    where: ProfileConditions
    reference_seconds: float
    drift: float
    events: tuple[MeasuredEvent, ...]

    @cached_property
    def by_key(self) -> dict[str, MeasuredEvent]:
        return {one.key: one for one in self.events}

    def estimate(self, event: ProfileEvent) -> Estimate:
        """The seconds of an event, measured, or else fitted to all that were.

        Raises InputError where too few were measured.
        """
        if event.key in self.by_key:
            found = self.by_key[event.key]
            half = min(1.0, MIDDLE_HALF * found.spread) * found.seconds
            return Estimate(found.seconds, found.seconds - half, found.seconds + half, "measured")
        if len(self.events) < _LEAST_FITTED:
            problem = f"nobody measured {event.name}, and {len(self.events)} events are too few"
            raise InputError(problem, where="profile", hint="measure the plan that you simulate")
        rates, low, high = self._rates
        seconds = float(rates @ _counts(event))
        return Estimate(seconds, low * seconds, high * seconds, "fitted")

    def seconds(self, event: ProfileEvent) -> float:
        """Of an event that was measured.

        Raises InputError for another, which says what it may take.
        """
        if event.key in self.by_key:
            return self.by_key[event.key].seconds
        found = self.estimate(event)
        times = (f"{1e6 * one:.3g}" for one in (found.seconds, found.low, found.high))
        about = "fitted to others about {} us, between {} and {}".format(*times)
        raise InputError(
            f"nobody measured {event.name} ({event.operations} operations)",
            where="profile",
            hint=f"{about}: measure this plan, or ask for fitted seconds",
        )

    @cached_property
    def _rates(self) -> tuple[Floats, float, float]:
        """Seconds an operation, a flop and a byte, and between which ratios events lie of these.

        Each ratio is that of an event to a fit of all others: a fit is near to what it was made of.
        """
        counts = np.array([_counts(one) for one in self.events], dtype=float)
        taken = np.array([max(one.seconds, 1e-9) for one in self.events])
        several = range(len(taken))
        others = (_fit_counts(np.delete(counts, at, 0), np.delete(taken, at)) for at in several)
        expected = [counts[at] @ rates for at, rates in zip(several, others, strict=True)]
        low, high = _find_interval(np.log(taken / np.maximum(expected, 1e-12)))
        return _fit_counts(counts, taken), min(1.0, low), max(1.0, high)


def _fit_counts(counts: Floats, taken: Floats) -> Floats:
    rates, _ = scipy.optimize.nnls(counts / taken[:, None], np.ones(len(taken)))
    return np.asarray(rates, dtype=float)


def _find_interval(logarithms: Floats) -> tuple[float, float]:
    """The ratios between which one more of the same kind lies in nine of ten cases.

    Of many those that nine of ten lie between; few are taken to be normally distributed.
    """
    count = len(logarithms)
    if count >= FEW:
        low, high = np.quantile(logarithms, (0.05, 0.95), method="weibull")
    else:
        each = np.std(logarithms, ddof=1) * (1 + 1 / count) ** 0.5
        width = float(scipy.special.stdtrit(count - 1, 0.95)) * each
        low, high = (np.mean(logarithms) + sign * width for sign in (-1, 1))
    return float(np.exp(low)), float(np.exp(high))


def _counts(one: ProfileEvent | MeasuredEvent) -> tuple[int, int, int]:
    return one.operations, one.flops, one.moved_bytes


_FILE = TypeAdapter(Profile)


def read_profile(text: str, where: str = "profile") -> Profile:
    """What ``profile_text`` wrote. Raises InputError for another text."""
    try:
        return _FILE.validate_json(text, strict=False)
    except ValidationError as error:
        [first, *_] = error.errors()
        at = ".".join(map(str, first["loc"])) or "the text"
        hint = "'collsynth profile MODEL --plan PLAN -o FILE' makes one"
        raise InputError(f"no profile: {at}: {first['msg']}", where=where, hint=hint) from None


def profile_text(profile: Profile) -> str:
    """As JSON."""
    return _FILE.dump_json(profile, indent=1).decode() + "\n"


def check_here(profile: Profile, where: str = "profile") -> None:
    """Refuse a profile that does not hold here.

    Raises InputError for one of another processor or of other versions, and for one that was
    measured while the machine drifted.
    """
    there = profile.where
    here = {"processor": processor_name(), "cores": os.cpu_count() or 1}
    here |= versions_of(there.runtime)
    told = {"processor": there.processor, "cores": there.cores, **there.versions}
    for name in told:
        if told[name] != here.get(name):
            raise InputError(
                f"it was measured with {name} {told[name]}, and here it is {here.get(name)}",
                where=where,
                hint="seconds hold where they were measured: profile here",
            )
    check_drift(profile, where)


def check_drift(profile: Profile, where: str = "profile") -> None:
    """Refuse what was measured while the reference drifted by more than MOST_DRIFT."""
    if profile.drift > MOST_DRIFT:
        raise InputError(
            f"the machine drifted by {profile.drift:.0%} while it was measured",
            where=where,
            hint=f"at most {MOST_DRIFT:.0%} may be called measured: let nothing else run, and "
            "measure again",
        )


def drift_of(reference: Sequence[float]) -> float:
    """How far the medians of its thirds are apart, as a share of the median of all.

    A sample alone that was disturbed says nothing; a third of all that is slower does.
    """
    third = max(1, len(reference) // 3)
    parts = [reference[:third], reference[third:-third] or reference, reference[-third:]]
    found = [median(one) for one in parts]
    return (max(found) - min(found)) / median(reference)


def versions_of(runtime: str) -> dict[str, str]:
    """What is installed, by name."""
    found = {"python": platform.python_version()}
    for name in _OF_RUNTIME[runtime]:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def processor_name() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()
