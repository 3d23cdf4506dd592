"""The text of a recipe: ``data=8 tensor=4; batch over data; weights over tensor as Megatron``."""

from __future__ import annotations

import re

from hierarchies import InputError
from synth.train.plans.recipes import Recipe

SAYS = (
    "axes first (data=8 tensor=4), then 'batch over AXIS', 'weights over AXIS as Megatron',"
    " 'zero=1'"
)
_AXIS = re.compile(r"([A-Za-z_]\w*)=([1-9]\d*)")


def parse_recipe(text: str) -> Recipe:
    """The recipe that a text says. Raises InputError at the part that is not understood."""
    axes, *rest = (part.strip() for part in text.split(";"))
    found = [_AXIS.fullmatch(word) for word in axes.split()]
    if not found or None in found:
        raise InputError(f"no axes in {axes!r}", where="plan", hint=SAYS)
    sizes = [(one[1], int(one[2])) for one in found if one is not None]
    if len(dict(sizes)) < len(sizes):
        raise InputError(f"an axis is said twice in {axes!r}", where="plan")
    said: dict[str, str] = {}
    for part in rest:
        match part.split():
            case ["batch", "over", axis]:
                _once(said, "batch", axis, part)
            case ["weights", "over", axis, "as", "Megatron"]:
                _once(said, "megatron", axis, part)
            case [word] if re.fullmatch(r"zero=\d", word):
                _once(said, "zero", word[-1], part)
            case _:
                raise InputError(f"not understood: {part!r}", where="plan", hint=SAYS)
    zero = int(said.get("zero", 0))
    return Recipe(tuple(sizes), said.get("batch", ""), said.get("megatron", ""), zero)


def _once(said: dict[str, str], key: str, value: str, part: str) -> None:
    if key in said:
        raise InputError(f"said twice: {part!r}", where="plan", hint=SAYS)
    said[key] = value
