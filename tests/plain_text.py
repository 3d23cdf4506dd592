"""What a table would print, as plain text."""

from __future__ import annotations

from io import StringIO

from rich.console import Console, RenderableType


def printed(what: RenderableType, width: int = 120) -> str:
    """In so many columns, as many as a pipe has; without spaces at the ends of lines."""
    out = StringIO()
    plain = Console(file=out, width=width, color_system=None, force_terminal=False, highlight=False)
    plain.print(what, markup=False)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())
