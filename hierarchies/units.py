"""Seconds and bytes formatted with a readable unit."""

from __future__ import annotations

from collections.abc import Iterable


def format_duration(seconds: float) -> str:
    """Format seconds with a readable unit and three digits, as prices are no more precise.

    >>> format_duration(0.00099951), format_duration(1234.0), format_duration(4.9e-8)
    ('1 ms', '1234 s', '0.049 us')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if float(f"{seconds:.3g}") >= scale or (unit == "us" and seconds):
            value = seconds / scale
            return f"{value:.0f} {unit}" if value >= 999.5 else f"{value:.3g} {unit}"
    return "0 s"


def format_bytes(size_bytes: float) -> str:
    """Format bytes with a binary unit."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size_bytes >= 1024**power:
            return f"{size_bytes / 1024**power:.4g} {unit}"
    return f"{size_bytes:.4g} B"


def describe_total(seconds: Iterable[float]) -> str:
    """Return a total time in words: ``about 23.8 s in all``."""
    return f"about {format_duration(sum(seconds))} in all"
