"""What is promised of the service, and whether a measurement holds it."""

from __future__ import annotations

from typing import Any

Told = dict[str, Any]
MOST_CACHED_MS, MOST_BEYOND_SECONDS, MOST_JOBS = 20.0, 1.0, 1000


def met(entry: Told) -> bool:
    """Whether a measurement holds what is promised."""
    match entry["name"]:
        case "cached":
            return bool(entry["p99_ms"] <= MOST_CACHED_MS and not entry["errors"])
        case "uncached":
            in_time = entry["difference_max_s"] <= MOST_BEYOND_SECONDS
            return bool(in_time and entry["same_bytes"])
        case "jobs":
            done = entry["statuses"] == {"done": MOST_JOBS}
            return done and not any(entry[key] for key in ("lost", "twice", "logged_twice"))
    done = entry["statuses"] == {"done": entry["accepted"]}
    return done and not any(entry[key] for key in ("lost", "unended", "twice", "undone", "wrong"))
