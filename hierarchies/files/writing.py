"""Write a system as its TOML description."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from hierarchies.files.calibration import CalibrationPart
from hierarchies.files.schema import (
    NO_NUMBERS,
    DevicePart,
    LevelInFull,
    MachineException,
    MachinePart,
)
from hierarchies.files.values import spell_pairs
from hierarchies.system import System

_NOT_STATED = "not stated"


def describe_system(system: System, device: str = "") -> str:
    """Return the TOML description of a system, with its faults and calibration.

    The description can be read again. Sources are written unchanged, or as "not stated" if a
    system built in Python has none. Optional keys without a value are omitted, so a description
    that was read is written unchanged. ``device`` names its devices if the system does not.
    """
    return "\n".join(_lines(system, device)) + "\n"


def _lines(system: System, device: str) -> Iterator[str]:
    first, *inner = LevelInFull.of_all(system)
    counted = "count" in (*first.sources, *first.unconfirmed)
    usual = None if counted else first.count
    named = {"name": system.name, "title": system.title or None, "default_count": usual}
    yield from spell_pairs(named | {"launches": None if system.launches else False})
    yield from ("", "[device]", *spell_pairs({"name": system.device or device or "device"}))
    yield from spell_pairs(unusual_keys(DevicePart.of(system)))
    yield from _level(first, set() if counted else {"count"})
    for level in inner:
        yield from _level(level, set())
    for exception in MachineException.all_of(system):
        yield from ("", "[[exception]]", *spell_pairs(unusual_keys(exception)))
    if system.calibration is not None:
        yield from ("", *CalibrationPart.of(system.calibration, system.hierarchy.names).lines())


def unusual_keys(part: MachinePart, stated: Collection[str] = ()) -> dict[str, Any]:
    """Return the keys of a part that its file cannot omit, with a source."""
    keys = part.model_dump(mode="json")
    if "source" in keys:
        keys["source"] = keys["source"] or _NOT_STATED
    usual = part.usual
    return {k: v for k, v in keys.items() if k in stated or k not in usual or v != usual[k]}


def _level(level: LevelInFull, omitted: set[str]) -> Iterator[str]:
    keys = unusual_keys(level, (*level.sources, *level.unconfirmed))
    keys = {key: value for key, value in keys.items() if key not in {"sources", *omitted}}
    yield from ("", "[[level]]", *spell_pairs(keys))
    numbers = [key for key, value in keys.items() if key not in NO_NUMBERS and value is not None]
    sources = {key: level.sources.get(key, _NOT_STATED) for key in numbers}
    yield from ("", "[level.source]", *spell_pairs(sources))
