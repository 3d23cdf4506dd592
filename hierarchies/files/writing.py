"""Write a system as its TOML description."""

from __future__ import annotations

from collections.abc import Iterator

from hierarchies.files.calibration import MICROSECOND, calibration_to_toml
from hierarchies.files.values import scale_exactly, spell_pairs
from hierarchies.system import Link, System

_GIGA, _NOT_STATED = 1e9, "not stated"


def describe_system(system: System, device: str = "") -> str:
    """Return the TOML description of a system, with its faults and calibration.

    The description can be read again. Sources are written unchanged, or as "not stated" if a
    system built in Python has none. Optional keys without a value are omitted, so a description
    that was read is written unchanged. ``device`` names its devices if the system does not.
    """
    return "\n".join(_lines(system, device)) + "\n" + _calibration(system)


def _lines(system: System, device: str) -> Iterator[str]:
    first, *inner = system.hierarchy.levels
    counted = _is_stated(system.links[0], "count")
    usual = None if counted else first.cardinality
    named = {"name": system.name, "title": system.title or None, "default_count": usual}
    yield from spell_pairs(named | {"launches": None if system.launches else False})
    about = {
        "name": system.device or device or "device",
        "memory_GB_per_s": scale_exactly(system.memory_bytes_per_second, _GIGA),
        "source": system.memory_source or _NOT_STATED,
        "unconfirmed": system.unconfirmed or None,
    }
    yield from ("", "[device]", *spell_pairs(about))
    counts = (first.cardinality if counted else None, *(level.cardinality for level in inner))
    for name, count, link in zip(system.hierarchy.names, counts, system.links, strict=True):
        yield from ("", "[[level]]", *spell_pairs({"name": name, "count": count}))
        yield from _link(link, count is not None)
    for fault in system.faults:
        entries = {
            "unit": fault.name(system.hierarchy),
            "missing": fault.missing or None,
            "bandwidth_share": None if fault.missing else fault.share,
            "source": fault.source or _NOT_STATED,
        }
        yield from ("", "[[exception]]", *spell_pairs(entries))


def _is_stated(link: Link, key: str) -> bool:
    return bool(link.source(key)) or key in link.unconfirmed


def _link(link: Link, counted: bool) -> Iterator[str]:
    latencies = {
        "latency_us": link.latency_seconds,
        "ll_latency_us": link.ll_latency_seconds,
        "ll128_latency_us": link.ll128_latency_seconds,
    }
    numbers = {
        "bandwidth_GB_per_s": scale_exactly(link.bandwidth_bytes_per_second, _GIGA),
        **{
            k: scale_exactly(seconds, MICROSECOND)
            for k, seconds in latencies.items()
            if seconds is not None
        },
        **({"ports": link.ports} if link.ports > 1 or _is_stated(link, "ports") else {}),
        **({"reduces": True} if link.reduces else {}),
        **({} if link.wraps and not _is_stated(link, "wraps") else {"wraps": link.wraps}),
    }
    kind = {"domain": link.domain.value, "medium": link.medium or None}
    yield from spell_pairs({**kind, **numbers, "through": link.through})
    yield from spell_pairs({"unconfirmed": link.unconfirmed or None})
    sources = {key: link.source(key, _NOT_STATED) for key in (*["count"] * counted, *numbers)}
    yield from ("", "[level.source]", *spell_pairs(sources))


def _calibration(system: System) -> str:
    if system.calibration is None:
        return ""
    return "\n" + calibration_to_toml(system.calibration, system.hierarchy.names)
