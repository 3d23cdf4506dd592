"""Seconds and bytes with the unit a person would use."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Seconds with the unit a person would use, four digits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.4g} {unit}"
    return f"{seconds / 1e-6:.4g} us" if seconds else "0 s"


def volume(size_bytes: float) -> str:
    """Bytes with a binary unit."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size_bytes >= 1024**power:
            return f"{size_bytes / 1024**power:.4g} {unit}"
    return f"{size_bytes:.4g} B"
