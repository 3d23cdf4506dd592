"""A system as the TOML description it would be read from."""

from __future__ import annotations

from collections.abc import Iterator

from hierarchies.files.calibration import MICROSECOND, quoted, scaled, written
from hierarchies.system import Link, System

_GIGA = 1e9


def described(system: System, device: str = "device") -> str:
    """The description of a system, with what it lacks and its calibration, to be read again.

    Sources are written as they are; "not stated" where a system made by hand has none. A ``System``
    does not keep the name of its device, so it is given as ``device``.
    """
    return "\n".join(_lines(system, device)) + "\n" + _calibration(system)


def _lines(system: System, device: str) -> Iterator[str]:
    yield f"name = {quoted(system.name)}"
    if system.title:
        yield f"title = {quoted(system.title)}"
    yield ""
    yield "[device]"
    yield f"name = {quoted(device)}"
    yield f"memory_GB_per_s = {scaled(system.memory_bytes_per_second, _GIGA)}"
    yield f"source = {quoted(system.memory_source or 'not stated')}"
    if system.unconfirmed:
        yield f"unconfirmed = {_strings(system.unconfirmed)}"
    for level, link in zip(system.hierarchy.levels, system.links, strict=True):
        yield ""
        yield "[[level]]"
        yield f"name = {quoted(level.name)}"
        yield f"count = {level.cardinality}"
        yield from _link(link)
    for fault in system.faults:
        yield ""
        yield "[[exception]]"
        yield f"unit = {quoted(fault.name(system.hierarchy))}"
        yield "missing = true" if fault.missing else f"bandwidth_share = {fault.share!r}"
        yield f"source = {quoted(fault.source or 'not stated')}"


def _link(link: Link) -> Iterator[str]:
    numbers = {
        "bandwidth_GB_per_s": scaled(link.bandwidth_bytes_per_second, _GIGA),
        "latency_us": scaled(link.latency_seconds, MICROSECOND),
    }
    for key, seconds in (
        ("ll_latency_us", link.ll_latency_seconds),
        ("ll128_latency_us", link.ll128_latency_seconds),
    ):
        if seconds is not None:
            numbers[key] = scaled(seconds, MICROSECOND)
    numbers["ports"] = str(link.ports)
    if link.reduces:
        numbers["reduces"] = "true"
    yield f"domain = {quoted(link.domain.value)}"
    yield from (f"{key} = {number}" for key, number in numbers.items())
    yield f"through = {_strings(link.through)}"
    if link.unconfirmed:
        yield f"unconfirmed = {_strings(link.unconfirmed)}"
    yield ""
    yield "[level.source]"
    known = link.sources or {}
    for key in ("count", *numbers):
        yield f"{key} = {quoted(known.get(key, 'not stated'))}"


def _strings(texts: tuple[str, ...]) -> str:
    return f"[{', '.join(quoted(text) for text in texts)}]"


def _calibration(system: System) -> str:
    if system.calibration is None:
        return ""
    return "\n" + written(system.calibration, system.hierarchy.names)
