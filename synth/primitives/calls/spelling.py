"""Spells numbers, parameters and tuples of a call as Python."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from grammar.tensors.operations import Literal, Parameter


def spell_number(number: Literal, infinite: str) -> str:
    """Spells a number without its type; ``infinite``: the module of ``inf`` and ``nan``."""
    if isinstance(number.value, float) and not math.isfinite(number.value):
        sign = "-" if number.value < 0 else ""
        return f"{infinite}.nan" if math.isnan(number.value) else f"{sign}{infinite}.inf"
    return repr(number.value)


def spell_parameter(value: Parameter, dtypes: Mapping[str, str]) -> str:
    """Spells a parameter as Python.

    Numbers and lists are spelled as they are, element types as the runtime's, named entries as
    keywords, other words in quotes.
    """
    if isinstance(value, str):
        return dtypes.get(value, f'"{value}"')
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if not isinstance(value, tuple):
        return repr(value)
    if value and all(
        isinstance(item, tuple) and item and isinstance(item[0], str) for item in value
    ):
        return ", ".join(
            f"{name}={spell_parameter(entry, dtypes)}"
            for name, entry in parse_entries(value).items()
        )
    return spell_tuple(spell_parameter(item, dtypes) for item in value)


def parse_entries(value: Parameter) -> dict[str, Parameter]:
    """Returns named entries as a mapping."""
    assert isinstance(value, tuple), value
    return {str(entry[0]): entry[1] for entry in value if isinstance(entry, tuple)}


def spell_tuple(items: Iterable[str]) -> str:
    """Spells a tuple: ``(a, b)``, ``(a,)``, ``()``."""
    spelled = list(items)
    return f"({spelled[0]},)" if len(spelled) == 1 else f"({', '.join(spelled)})"


def spell_words(names: Iterable[str]) -> str:
    """Spells a tuple of strings."""
    return spell_tuple(f'"{name}"' for name in names)
