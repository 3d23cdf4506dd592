"""The names of bars, written on the bars that have room for them.

A page with zoom writes them again, by the same rule, from ``bar_name_attributes``; so the rule is
in its ``timeline.js``, too.

>>> write_bar_name("all-gather", 0, 0, 80, 16)
'<text class="name" x="3" y="12" font-size="10" fill="#000" pointer-events="none">all-gather</text>'
>>> fit_name("all-gather", 45), fit_name("all-gather", 20)
('all-g…', '')
"""

from __future__ import annotations

from html import escape

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
