"""Values in TOML syntax."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from math import inf, nextafter
from typing import Any

from hierarchies.errors import InputError


def check_sources(
    sources: Mapping[str, str], unconfirmed: Sequence[str], numbers: Sequence[str]
) -> None:
    """Raise InputError unless every number has a source, and only numbers are listed."""
    for names, where in ((sources, "source"), (unconfirmed, "unconfirmed")):
        for name in names:
            if name not in numbers:
                hint = f"numbers given here are: {', '.join(numbers)}"
                raise InputError(f"{name!r} in {where} is no number given here", hint=hint)
    for name in numbers:
        if name not in sources:
            raise InputError(f"no source for {name}", hint="say where the number is from")


def quote(text: str) -> str:
    """Return a TOML basic string, whose escapes are those of JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def spell_value(value: Any) -> str:
    """Return a string, boolean, number, list or mapping on one line; numbers read back exactly."""
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
    """Return the lines of a table, without entries that are None."""
    return (f"{key} = {spell_value(value)}" for key, value in table.items() if value is not None)


def scale_exactly(number: float, unit: float) -> float:
    """Return a number of units that gives exactly ``number`` again when multiplied by the unit."""
    guess = number / unit
    # Division rounds, so the exact number may be one float away; a short number is preferred.
    candidates = (round(guess, 6), guess, nextafter(guess, inf), nextafter(guess, -inf))
    return next((candidate for candidate in candidates if candidate * unit == number), guess)
