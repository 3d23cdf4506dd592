"""Colours that are distinct with every kind of colour blindness, and legible ink on them.

The first eight are Okabe and Ito's. More values get shades from dark blue to yellow (cividis,
Nuñez, Anderton and Renslow 2018), and numbers distinguish them.
"""

from __future__ import annotations

from dataclasses import dataclass

FEW_COLOURS = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#f0e442",
    "#4d4d4d",
)
_MANY_COLOURS = ("#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838")
DARK, LIGHT = "#000000", "#ffffff"
"""One of these has a contrast of at least 4.58 to any colour."""


@dataclass(frozen=True)
class Paint:
    """A fill, and the ink with the higher contrast on it."""

    fill: str
    ink: str


def paints(values: int) -> tuple[Paint, ...]:
    """Return a paint for each of a number of values."""
    fills = (
        FEW_COLOURS[:values]
        if values <= len(FEW_COLOURS)
        else [_shade(i / (values - 1)) for i in range(values)]
    )
    return tuple(Paint(fill, ink_on(fill)) for fill in fills)


def ink_on(fill: str) -> str:
    """Dark or light, whichever has the higher contrast."""
    return max((DARK, LIGHT), key=lambda ink: contrast(fill, ink))


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, from 1 to 21 (WCAG 2.2, relative luminance)."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [value / 255 for value in _parts(colour)]
    red, green, blue = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _parts(colour: str) -> bytes:
    """Red, green and blue."""
    return bytes.fromhex(colour[1:])


def _shade(share: float) -> str:
    """Return the shade at a share of the way through the many."""
    place = share * (len(_MANY_COLOURS) - 1)
    low = min(int(place), len(_MANY_COLOURS) - 2)
    here, there = _parts(_MANY_COLOURS[low]), _parts(_MANY_COLOURS[low + 1])
    mixed = (round(a + (b - a) * (place - low)) for a, b in zip(here, there, strict=True))
    return f"#{bytes(mixed).hex()}"
