"""A profile: seconds of a plan's events, and the machine and versions for which they are valid.

It is stored as JSON. Reading it back fails if its numbers do not apply: to a different machine,
different types, or a framework version that files are not written for, or if the machine's speed
drifted during the measurement. It does not cover events that were not measured.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from hierarchies import InputError
from hierarchies.devices import Device, is_same_device, model_words
from synth.compute import Estimate
from synth.step.profiles.events import ProfileEvent

FORMAT = "profile of local work, 2"
"""Format 1 had neither a format field nor a dtype."""

MOST_DRIFT = 0.10
"""The largest drift of the reference; beyond it nothing counts as measured."""

MIDDLE_HALF = 1.22
"""From the interquartile range of a normal distribution to the half-width of its central 90 %."""

CPU = "cpu"
"""The runtimes' name for a device that is no accelerator; the processor's name identifies it."""

LEAST_VERSIONS = {"torch": "2.4", "jax": "0.10"}
"""The oldest runtime versions that files are written for, as in the package's extras."""

_OF_RUNTIME = {"torch": ("torch",), "jax": ("jax", "jaxlib")}

_TPUS = {"TPU v5 lite": "TPU v5e", "TPU v5": "TPU v5p", "TPU v6 lite": "TPU v6e"}
"""JAX's names (``device_kind``) to the catalogue's names."""

_GIGABYTES = re.compile(r"(\d+) ?GB\b")


@dataclass(frozen=True)
class ProfileConditions:
    """The conditions on which the seconds of a profile depend, in addition to the work."""

    processor: str
    cores: int
    device: str
    runtime: Literal["torch", "jax"]
    versions: dict[str, str]
    threads: int
    processes: int


@dataclass(frozen=True)
class MeasuredEvent:
    """An event and its median seconds.

    ``spread`` is the interquartile range of its samples as a share of the seconds.
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
    """All measurements of one run. ``drift``: how far the reference moved, as a share.

    ``dtype`` is the element type of most of the step's multiplications.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)

    format: str
    model: str
    plan: str
    dtype: str
    date: str
    where: ProfileConditions
    reference_seconds: float
    drift: float
    events: tuple[MeasuredEvent, ...]

    @cached_property
    def by_key(self) -> dict[str, MeasuredEvent]:
        return {event.key: event for event in self.events}

    def estimate(self, event: ProfileEvent) -> Estimate | None:
        """Returns the seconds of an event, or None if it was not measured."""
        if (found := self.by_key.get(event.key)) is None:
            return None
        half = min(1.0, MIDDLE_HALF * found.spread) * found.seconds
        return Estimate(found.seconds, found.seconds - half, found.seconds + half, "measured")


_FILE = TypeAdapter(Profile)


def read_profile(text: str, where: str = "profile") -> Profile:
    """Reads a profile that ``profile_text`` wrote.

    Raises InputError for other text, another format, and for a profile that drifted.
    """
    try:
        found = _FILE.validate_json(text, strict=False)
    except ValidationError as error:
        [first, *_] = error.errors()
        at = ".".join(map(str, first["loc"])) or "the text"
        raise InputError(f"not a profile: {at}: {first['msg']}", where=where, hint=_AGAIN) from None
    if found.format != FORMAT:
        problem = f"a profile of the format {found.format[:40]!r}"
        raise InputError(problem, where=f"{where}, format", hint=f"this reads {FORMAT!r}: {_AGAIN}")
    check_drift(found, where)
    return found


_AGAIN = "'collsynth profile MODEL --plan PLAN -o FILE' makes one"


def profile_text(profile: Profile) -> str:
    """Returns a profile as JSON."""
    return _FILE.dump_json(profile, indent=1).decode() + "\n"


def check_machine(profile: Profile, device: Device, count: int, where: str = "profile") -> None:
    """Checks that a profile is valid on ``count`` devices of this kind.

    Raises InputError for a different accelerator or processor, for more processes than devices, and
    for a runtime version that files are not written for.
    """
    there = profile.where
    named, field = there.device, "device"
    if there.device == CPU:
        named, field = there.processor, "processor"
    if not _is_same(named, device.name, cpu=there.device == CPU):
        hint = f"measure on {device.name}, or give the machine that was measured"
        problem = f"measured on {named}, and the machine has {device.name}"
        raise InputError(problem, where=f"{where}, where.{field}", hint=hint)
    if there.processes > count:
        problem = f"{there.processes} processes measured at once, on {count} devices"
        hint = f"measure with --processes {count}, or fewer"
        raise InputError(problem, where=f"{where}, where.processes", hint=hint)
    found, least = there.versions.get(there.runtime, "none"), LEAST_VERSIONS[there.runtime]
    if _numbers(found) < _numbers(least):
        problem = f"measured with {there.runtime} {found}"
        hint = f"files are written for {there.runtime} {least} or later: measure again"
        raise InputError(problem, where=f"{where}, where.versions.{there.runtime}", hint=hint)


def check_dtype(profile: Profile, dtype: str, where: str = "profile") -> None:
    """Raises InputError for a profile of a step that multiplies in a different type."""
    if profile.dtype != dtype:
        problem = f"measured in {profile.dtype}, and the step multiplies in {dtype}"
        hint = "measure with the same --dtype"
        raise InputError(problem, where=f"{where}, dtype", hint=hint)


def _is_same(named: str, device: str, *, cpu: bool) -> bool:
    """Returns whether a name from a runtime or the system is the catalogue's name of a device.

    A processor is identified by its whole name; GPUs by model, form and memory, if both names state
    them.
    """
    if cpu or not model_words(named):
        return _TPUS.get(named, " ".join(named.split())) == device
    sizes = {found[1] for found in map(_GIGABYTES.search, (named, device)) if found}
    same = bool(model_words(named) & model_words(device)) and is_same_device(named, device)
    return same and len(sizes) <= 1


def _numbers(text: str) -> tuple[int, ...]:
    """Returns the first two numbers of a version; empty if it is not a version."""
    found = re.match(r"(\d+)\.(\d+)", text)
    return tuple(map(int, found.groups())) if found else ()


def check_drift(profile: Profile, where: str = "profile") -> None:
    """Raises InputError if the reference drifted by more than MOST_DRIFT."""
    if profile.drift > MOST_DRIFT:
        raise InputError(
            f"the machine drifted by {profile.drift:.0%} while it was measured",
            where=where,
            hint=f"at most {MOST_DRIFT:.0%} may be called measured: let nothing else run, and "
            "measure again",
        )


def drift_of(reference: Sequence[float]) -> float:
    """Returns how far the medians of the reference's thirds differ, as a share of its median.

    A single disturbed sample does not matter; a slower third does.
    """
    third = max(1, len(reference) // 3)
    parts = [reference[:third], reference[third:-third] or reference, reference[-third:]]
    medians = [median(part) for part in parts]
    return (max(medians) - min(medians)) / median(reference)


def versions_of(runtime: str) -> dict[str, str]:
    """Returns the installed versions, by name."""
    found = {"python": platform.python_version()}
    for name in _OF_RUNTIME[runtime]:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def processor_name() -> str:
    """Returns the processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()
