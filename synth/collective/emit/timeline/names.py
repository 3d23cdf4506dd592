"""The names of bars, written on the bars that have room for them, and the ticks of axes.

A page with zoom writes them again, by the same rule, from ``bar_name_attributes``; so the rule is
in its ``timeline.js``, too.

>>> write_bar_name("all-gather", 0, 0, 80, 16)
'<text class="name" x="3" y="12" font-size="10" fill="#000" pointer-events="none">all-gather</text>'
>>> fit_name("all-gather", 45), fit_name("all-gather", 20)
('all-g…', '')
"""

from __future__ import annotations

from html import escape
from math import floor, log10

LOWEST = 11
"""Bars below this height have no names."""
_LETTER, _MARGIN, _FEWEST = 6.0, 3, 4
_DARK = ("#0072b2",)
"""Bar colours on which white text is more readable."""


def fit_name(name: str, wide: float) -> str:
    """Returns as much of a name as there is room for; empty if too little would be readable."""
    letters = int((wide - 2 * _MARGIN) / _LETTER)
    if letters >= len(name):
        return name
    return f"{name[: letters - 1]}…" if letters >= _FEWEST else ""


def bar_name_attributes(name: str, fill: str) -> str:
    """Returns the attributes by which a page can name a bar; empty without a name."""
    if not name:
        return ""
    light = ' data-ink="#fff"' if fill in _DARK else ""
    return f' data-name="{escape(name)}"{light}'


def write_bar_name(name: str, x: float, y: float, wide: float, tall: float, fill: str = "") -> str:
    """Returns a bar's name as SVG text; empty if there is no room for it."""
    text = fit_name(name, wide) if tall >= LOWEST else ""
    ink = "#fff" if fill in _DARK else "#000"
    return text and (
        f'<text class="name" x="{round(x + _MARGIN, 2):g}" y="{y + tall / 2 + 4:g}" '
        f'font-size="10" fill="{ink}" pointer-events="none">{escape(text)}</text>'
    )


def ticks(seconds: float) -> list[float]:
    """Returns four to nine round moments from 0 on; only 0 if nothing takes time."""
    if seconds <= 0:
        return [0.0]
    raw = seconds / 5
    power = 10.0 ** floor(log10(raw))
    # The 0.999 keeps a rounding error from skipping to the next step.
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    return [float(f"{number * step:.6g}") for number in range(int(seconds / step + 1e-9) + 1)]
