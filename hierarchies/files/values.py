"""Values as TOML spells them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import inf, nextafter
from typing import Any


def quote(text: str) -> str:
    """A TOML basic string: JSON's, whose escapes it shares."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def spell_value(value: Any) -> str:
    """A text, truth, number, list or mapping on one line; a number reads back to the last bit."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return quote(value)
        case list() | tuple():
            return f"[{', '.join(map(spell_value, value))}]"
        case dict():
            return (
                f"{{ {', '.join(f'{quote(key)} = {spell_value(v)}' for key, v in value.items())} }}"
            )
        case _:
            return repr(value)


def spell_pairs(table: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a table; what is None is left out."""
    return (f"{key} = {spell_value(value)}" for key, value in table.items() if value is not None)


def scale_exactly(number: float, unit: float) -> float:
    """A number of units that gives the same float again when multiplied by the unit."""
    guess = number / unit
    tried = (round(guess, 6), guess, nextafter(guess, inf), nextafter(guess, -inf))
    return next((each for each in tried if each * unit == number), guess)
