"""The parts of answers as JSON; docs/json.md describes them key by key."""

from __future__ import annotations

from typing import Any

from hierarchies import System, table_of
from synth.price.defaults import Defaults
from synth.price.intervals import Interval
from synth.price.steps import StepPrice
from synth.verify.symbolic import Proved, Refuted, Unknown, Verdict

Json = dict[str, Any]


def machine_json(system: System) -> Json:
    """A machine in a few words: name, title, devices, levels."""
    return {
        "name": system.name,
        "title": system.title,
        "devices": system.devices,
        "levels": [
            {"name": level.name, "count": level.cardinality} for level in system.hierarchy.levels
        ],
    }


def machine_in_full_json(system: System) -> Json:
    """A machine with every number of its links, and who says so."""
    levels = []
    for level, link in zip(system.hierarchy.levels, system.links, strict=True):
        levels.append(
            {
                "name": level.name,
                "count": level.cardinality,
                "domain": link.domain.value,
                "bandwidth_GB_per_s": link.bandwidth_bytes_per_second / 1e9,
                "latency_us": link.latency_seconds * 1e6,
                "ll_latency_us": _microseconds(link.ll_latency_seconds),
                "ll128_latency_us": _microseconds(link.ll128_latency_seconds),
                "reduces": link.reduces,
                "ports": link.ports,
                "through": list(link.through),
                "sources": dict(link.sources or {}),
                "unconfirmed": list(link.unconfirmed),
            }
        )
    return {
        **machine_json(system),
        "levels": levels,
        "exceptions": exceptions_json(system),
        "device": {
            "memory_GB_per_s": system.memory_bytes_per_second / 1e9,
            "source": system.memory_source,
            "unconfirmed": list(system.unconfirmed),
        },
        "calibration": system.calibration and table_of(system.calibration, system.hierarchy.names),
    }


def exceptions_json(system: System) -> list[Json]:
    """What of a machine is missing or slower."""
    return [
        {
            "unit": fault.name(system.hierarchy),
            "missing": fault.missing,
            "bandwidth_share": None if fault.missing else fault.share,
            "source": fault.source,
        }
        for fault in system.faults
    ]


def _microseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e6


def defaults_json(told: Defaults) -> Json:
    """The runtime's options for the plain collective by name, and which it would choose."""
    chosen = {"name": told.chosen, "protocol": told.protocol.value}
    return {"defaults": told.seconds, "default": chosen}


def interval_json(interval: Interval | None) -> list[float] | None:
    """Its two ends in seconds."""
    return None if interval is None else [interval.low_seconds, interval.high_seconds]


def step_json(price: StepPrice) -> Json:
    """What one phase costs and why."""
    return {
        "collective": price.what,
        "algorithm": price.algorithm.value if price.algorithm else None,
        "protocol": price.protocol.value if price.algorithm else None,
        "bytes": price.size_bytes,
        "seconds": price.seconds,
        "latency_seconds": price.latency_seconds,
        "limited_by": price.limited_by,
        "bytes_per_port": dict(price.bytes_per_port),
    }


def proof_json(verdict: Verdict) -> Json:
    """z3's verdict, with the counterexample or the reason it does not know."""
    match verdict:
        case Proved():
            return {"proof": "proved", "counterexample": None}
        case Refuted():
            return {
                "proof": "refuted",
                "counterexample": {
                    "step": verdict.step,
                    "violation": verdict.violation.value,
                    "sizes": list(verdict.sizes),
                    "device": list(verdict.device),
                    "other": _digits(verdict.other),
                    "chunk": _digits(verdict.chunk),
                    "contributor": _digits(verdict.contributor),
                    "reason": verdict.reason,
                },
            }
        case Unknown():
            return {"proof": "unknown", "counterexample": None, "proof_reason": verdict.reason}


def _digits(values: tuple[int, ...] | None) -> list[int] | None:
    return None if values is None else list(values)
