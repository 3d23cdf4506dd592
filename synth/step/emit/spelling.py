"""Spells identifiers and statements of an emitted file."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from grammar.tensors.sharding import Sharding
from synth.primitives.calls.spelling import spell_tuple

WIDTH = 100
"""The longest line of emitted files, if lines can be broken at a comma."""


@dataclass
class Identifiers:
    """The identifiers of one function, each assigned once: ``layers/up`` becomes ``layers_up``."""

    taken: set[str] = field(default_factory=set)

    def made(self, wanted: str) -> str:
        """Returns the free identifier closest to ``wanted``."""
        plain = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_") or "value"
        plain = f"value_{plain}" if plain[0].isdigit() else plain
        identifier, number = plain, 1
        while identifier in self.taken or not _is_free(identifier):
            number += 1
            identifier = f"{plain}_{number}"
        self.taken.add(identifier)
        return identifier


def _is_free(name: str) -> bool:
    """Returns whether a name is no keyword or builtin, and not the name of a loop's function."""
    reserved = keyword.iskeyword(name) or hasattr(builtins, name)
    return not reserved and not re.fullmatch(r"loop_\d+", name)


def trim_uncut(sharding: Sharding) -> tuple[tuple[str, ...], ...]:
    """Returns the axes of each dimension up to the last cut dimension, as an array has them.

    In a flat sharding, the dimension after the leading dimensions also has the axes of all others.
    """
    if sharding.flat:
        return ((),) * sharding.lead + (sharding.cutting,)
    cut = [at for at, axes in enumerate(sharding.dimensions, 1) if axes]
    return sharding.dimensions[: max(cut, default=0)]


def spell_statement(text: str, comment: str = "", indent: str = "    ") -> list[str]:
    """Spells a statement as lines, with the comment after it, or above if the line is too long."""
    one_line = f"{indent}{text}  # {comment}" if comment else f"{indent}{text}"
    if len(one_line) <= WIDTH:
        return [one_line]
    above = [f"{indent}# {comment}"] if comment else []
    return above + _break_text(text, indent)


def spell_unpacking(names: Mapping[str, str], source: str, indent: str = "    ") -> list[str]:
    """Spells an assignment to the items of a tuple, each with its type."""
    line = f"{indent}{spell_tuple(names)} = {source}  # {', '.join(names.values())}"
    if len(line) <= WIDTH:
        return [line]
    lines = (f"{indent}    {name},  # {what}" for name, what in names.items())
    return [f"{indent}(", *lines, f"{indent}) = {source}"]


def _break_text(text: str, indent: str) -> list[str]:
    """Breaks a line at the commas of the last bracket that reaches the end, then its parts."""
    inner = text[:-1].rstrip(",")
    begin = _find_opening(text)
    if len(indent) + len(text) <= WIDTH or begin is None:
        return [indent + text]
    lines = [indent + text[: begin + 1]]
    for part in _split_at_commas(inner[begin + 1 :]):
        lines += _break_part(part, indent + "    ")
    return [*lines, indent + text[-1]]


def _break_part(part: str, indent: str) -> list[str]:
    *lines, last = _break_text(part, indent)
    return [*lines, f"{last},"]


def _find_opening(text: str) -> int | None:
    """Returns the index of the bracket that the last character closes; None if absent or empty."""
    if not text.endswith((")", "]", "}")):
        return None
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] in ")]}") - (text[at] in "([{")
        if depth == 0:
            return at if at < len(text) - 2 else None
    return None


def _split_at_commas(text: str) -> list[str]:
    """Splits at the commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]
