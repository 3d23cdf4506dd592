"""A profile: seconds of the events of a plan, with the machine and the versions they hold for.

It is kept as JSON, and what is read back is refused where its numbers would not hold: on another
machine, in other types, of a framework that files are not written for, or measured while the
machine's speed drifted. Of an event that nobody measured it says nothing.
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
from hierarchies.devices import Device
from synth.calibration.logs.devices import agree, models
from synth.compute import Estimate
from synth.train.profiles.events import Event

FORMAT = "profile of local work, 2"
"""The first had neither a format nor a dtype."""

MOST_DRIFT = 0.10
"""Of the reference: beyond it nothing is called measured."""

MIDDLE_HALF = 1.22
"""Times the width of the middle half of a normal distribution nine of ten are from its middle."""

CPU = "cpu"
"""What runtimes call a device that is none; the processor's name says which it is."""

LEAST_VERSIONS = {"torch": "2.4", "jax": "0.10"}
"""Of the runtimes that files are written for: those of the extras of the package."""

_OF_RUNTIME = {"torch": ("torch",), "jax": ("jax", "jaxlib")}

_TPUS = {"TPU v5 lite": "TPU v5e", "TPU v5": "TPU v5p", "TPU v6 lite": "TPU v6e"}
"""As JAX calls them (``device_kind``), and the catalogue."""

_GIGABYTES = re.compile(r"(\d+) ?GB\b")


@dataclass(frozen=True)
class Where:
    """What the seconds of a profile depend on beside the work."""

    processor: str
    cores: int
    device: str
    runtime: Literal["torch", "jax"]
    versions: dict[str, str]
    threads: int
    processes: int


@dataclass(frozen=True)
class Measured:
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
    """All that was measured at one time. ``drift`` is how far the reference moved, as a share.

    ``dtype`` is the element type in which the step multiplies the most.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)

    format: str
    model: str
    plan: str
    dtype: str
    date: str
    where: Where
    reference_seconds: float
    drift: float
    events: tuple[Measured, ...]

    @cached_property
    def by_key(self) -> dict[str, Measured]:
        return {one.key: one for one in self.events}

    def estimate(self, event: Event) -> Estimate | None:
        """The seconds of an event; None if it was not measured."""
        if (found := self.by_key.get(event.key)) is None:
            return None
        half = min(1.0, MIDDLE_HALF * found.spread) * found.seconds
        return Estimate(found.seconds, found.seconds - half, found.seconds + half, "measured")


_FILE = TypeAdapter(Profile)


def read_profile(text: str, where: str = "profile") -> Profile:
    """What ``profile_text`` wrote.

    Raises InputError for another text, one of another format, and one that drifted.
    """
    try:
        found = _FILE.validate_json(text, strict=False)
    except ValidationError as error:
        [first, *_] = error.errors()
        at = ".".join(map(str, first["loc"])) or "the text"
        raise InputError(f"no profile: {at}: {first['msg']}", where=where, hint=_AGAIN) from None
    if found.format != FORMAT:
        problem = f"a profile of the format {found.format[:40]!r}"
        raise InputError(problem, where=f"{where}, format", hint=f"this reads {FORMAT!r}: {_AGAIN}")
    check_drift(found, where)
    return found


_AGAIN = "'collsynth profile MODEL --plan PLAN -o FILE' makes one"


def profile_text(profile: Profile) -> str:
    """As JSON."""
    return _FILE.dump_json(profile, indent=1).decode() + "\n"


def check_machine(profile: Profile, device: Device, count: int, where: str = "profile") -> None:
    """Refuse a profile that does not hold on ``count`` such devices.

    Raises InputError for one of another accelerator or processor, for one by more processes at
    once than there are devices, and for one of a runtime that files are not written for.
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
    """Raises InputError for a profile of a step that multiplies in another type."""
    if profile.dtype != dtype:
        problem = f"measured in {profile.dtype}, and the step multiplies in {dtype}"
        hint = "measure with the same --dtype"
        raise InputError(problem, where=f"{where}, dtype", hint=hint)


def _is_same(named: str, device: str, *, cpu: bool) -> bool:
    """Whether what a runtime or the system calls a device is that of the catalogue.

    A processor is by its whole name; GPUs by model, form and memory, as far as both say them.
    """
    if cpu or not models(named):
        return _TPUS.get(named, " ".join(named.split())) == device
    sizes = {one[1] for one in map(_GIGABYTES.search, (named, device)) if one}
    same = bool(models(named) & models(device)) and agree(named, device)
    return same and len(sizes) <= 1


def _numbers(text: str) -> tuple[int, ...]:
    """The first two numbers of a version; none of what is no version."""
    found = re.match(r"(\d+)\.(\d+)", text)
    return tuple(map(int, found.groups())) if found else ()


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


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()
