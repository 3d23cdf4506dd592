"""The names of bars, written upon those that have room for them.

A page on which one looks closer writes them anew, by the same rule, from what
``bar_name_attributes`` says of a bar; so the rule is in its ``timeline.js``, too.

>>> written("all-gather", 0, 0, 80, 16)
'<text class="name" x="3" y="12" font-size="10" fill="#000" pointer-events="none">all-gather</text>'
>>> fitted("all-gather", 45), fitted("all-gather", 20)
('all-g…', '')
"""

from __future__ import annotations

from html import escape

LOWEST = 11
"""Bars that are less tall have no names."""
_LETTER, _MARGIN, _FEWEST = 6.0, 3, 4
_DARK = ("#0072b2",)
"""Of the colours of bars those on which white is read best."""


def fit_name(name: str, wide: float) -> str:
    """As much of a name as there is room for; nothing where that is too little to be read."""
    letters = int((wide - 2 * _MARGIN) / _LETTER)
    if letters >= len(name):
        return name
    return f"{name[: letters - 1]}…" if letters >= _FEWEST else ""


def bar_name_attributes(name: str, fill: str) -> str:
    """The attributes by which a page knows how to name a bar; none of one without a name."""
    if not name:
        return ""
    light = ' data-ink="#fff"' if fill in _DARK else ""
    return f' data-name="{escape(name)}"{light}'


def write_bar_name(name: str, x: float, y: float, wide: float, tall: float, fill: str = "") -> str:
    """The name upon a bar, as text of SVG; nothing where there is no room for it."""
    text = fit_name(name, wide) if tall >= LOWEST else ""
    ink = "#fff" if fill in _DARK else "#000"
    return text and (
        f'<text class="name" x="{round(x + _MARGIN, 2):g}" y="{y + tall / 2 + 4:g}" '
        f'font-size="10" fill="{ink}" pointer-events="none">{escape(text)}</text>'
    )
