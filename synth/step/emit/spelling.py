"""Values, numbers and parameters of a step, spelled as Python."""

from __future__ import annotations

import builtins
import keyword
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from grammar.tensors.operations import Literal, Parameter
from grammar.tensors.sharding import Sharding

WIDTH = 100
"""Lines of emitted files are no longer where they can be broken at a comma."""


@dataclass
class Identifiers:
    """The identifiers of one function, each given once: of ``layers/up`` it is ``layers_up``."""

    taken: set[str] = field(default_factory=set)

    def made(self, wanted: str) -> str:
        """An identifier as much like what is wanted as is free."""
        plain = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_") or "value"
        plain = f"value_{plain}" if plain[0].isdigit() else plain
        found, number = plain, 1
        while found in self.taken or not _is_free(found):
            number += 1
            found = f"{plain}_{number}"
        self.taken.add(found)
        return found


def _is_free(name: str) -> bool:
    """Whether Python does not mean something by a name, nor the functions of bodies have it."""
    own = keyword.iskeyword(name) or hasattr(builtins, name)
    return not own and not re.fullmatch(r"loop_\d+", name)


def spell_number(one: Literal, infinite: str) -> str:
    """A number without its type; ``infinite`` is the module that has ``inf`` and ``nan``."""
    if isinstance(one.value, float) and not math.isfinite(one.value):
        sign = "-" if one.value < 0 else ""
        return f"{infinite}.nan" if math.isnan(one.value) else f"{sign}{infinite}.inf"
    return repr(one.value)


def spell_parameter(value: Parameter, dtypes: Mapping[str, str]) -> str:
    """A parameter: numbers and lists as they are, element types as the runtime's, named entries as
    keywords, other words in quotes."""
    if isinstance(value, str):
        return dtypes.get(value, f'"{value}"')
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if not isinstance(value, tuple):
        return repr(value)
    if value and all(isinstance(one, tuple) and one and isinstance(one[0], str) for one in value):
        return ", ".join(
            f"{name}={spell_parameter(one, dtypes)}" for name, one in parse_entries(value).items()
        )
    return spell_tuple(spell_parameter(one, dtypes) for one in value)


def parse_entries(value: Parameter) -> dict[str, Parameter]:
    """Named entries by name."""
    assert isinstance(value, tuple), value
    return {str(one[0]): one[1] for one in value if isinstance(one, tuple)}


def spell_tuple(items: Iterable[str]) -> str:
    """A tuple: ``(a, b)``, ``(a,)``, ``()``."""
    found = list(items)
    return f"({found[0]},)" if len(found) == 1 else f"({', '.join(found)})"


def spell_words(names: Iterable[str]) -> str:
    """A tuple of words."""
    return spell_tuple(f'"{name}"' for name in names)


def trim_uncut(sharding: Sharding) -> tuple[tuple[str, ...], ...]:
    """The axes of each dimension up to the last that is cut, as an array has them.

    Of what is flat the dimension behind the leading ones has the axes of all others, too.
    """
    if sharding.flat:
        return ((),) * sharding.lead + (sharding.cutting,)
    cut = [at for at, axes in enumerate(sharding.dimensions, 1) if axes]
    return sharding.dimensions[: max(cut, default=0)]


def spell_statement(text: str, comment: str = "", indent: str = "    ") -> list[str]:
    """A statement as lines: the comment behind it, or above it where both are too long."""
    beside = f"{indent}{text}  # {comment}" if comment else f"{indent}{text}"
    if len(beside) <= WIDTH:
        return [beside]
    above = [f"{indent}# {comment}"] if comment else []
    return above + _break_text(text, indent)


def spell_unpacking(names: Mapping[str, str], source: str, indent: str = "    ") -> list[str]:
    """Names given to the items of a tuple, each with what it is."""
    line = f"{indent}{spell_tuple(names)} = {source}  # {', '.join(names.values())}"
    if len(line) <= WIDTH:
        return [line]
    each = (f"{indent}    {name},  # {what}" for name, what in names.items())
    return [f"{indent}(", *each, f"{indent}) = {source}"]


def _break_text(text: str, indent: str) -> list[str]:
    """Broken once at the commas of its last bracket that reaches the end, and again if need be."""
    inner = text[:-1].rstrip(",")
    begin = _find_opening(text)
    if len(indent) + len(text) <= WIDTH or begin is None:
        return [indent + text]
    found = [indent + text[: begin + 1]]
    for part in _split_at_commas(inner[begin + 1 :]):
        found += _break_part(part, indent + "    ")
    return [*found, indent + text[-1]]


def _break_part(part: str, indent: str) -> list[str]:
    *lines, last = _break_text(part, indent)
    return [*lines, f"{last},"]


def _find_opening(text: str) -> int | None:
    """Where the bracket begins that the last character closes; None without one, or if empty."""
    if not text.endswith((")", "]", "}")):
        return None
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] in ")]}") - (text[at] in "([{")
        if depth == 0:
            return at if at < len(text) - 2 else None
    return None


def _split_at_commas(text: str) -> list[str]:
    """What stands between the commas outside of brackets."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip() for one in found if one.strip()]
