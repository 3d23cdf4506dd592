"""The text of a recipe: ``data=8 tensor=4; batch over data; weights over tensor as Megatron``."""

from __future__ import annotations

import re

from hierarchies import InputError
from synth.train.plans.recipes import CLAUSES, Recipe

SAYS = (
    "axes first (data=8 tensor=4), then of "
    + ", ".join(repr(said.format("AXIS")) for said, _ in CLAUSES.values())
    + ", 'zero=1'"
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
        for clause, (spelled, _) in CLAUSES.items():
            before, after = spelled.split("{}")
            if found_axis := re.fullmatch(rf"{before}(\w+){after}", " ".join(part.split())):
                _once(said, clause, found_axis[1], part)
                break
        else:
            if not re.fullmatch(r"zero=\d", part):
                raise InputError(f"not understood: {part!r}", where="plan", hint=SAYS)
            _once(said, "zero", part[-1], part)
    zero = int(said.pop("zero", 0))
    return Recipe(tuple(sizes), zero=zero, **said)


def _once(said: dict[str, str], key: str, value: str, part: str) -> None:
    if key in said:
        raise InputError(f"said twice: {part!r}", where="plan", hint=SAYS)
    said[key] = value
