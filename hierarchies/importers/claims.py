"""Claims of files and options, and the contradictions between them.

An importer records what each table, row or option states about one quantity as a ``Claim``.
``settle`` compares all claims on the same quantity: it refuses two that exclude each other, unless
one of them is known to be the less reliable one (``yields``).

>>> from hierarchies.importers.claims import NumberRange, Claim, settle
>>> row = Claim("NVLinks", "GPU0", "row GPU0", "18 NVLinks", NumberRange(18, 18))
>>> card = Claim("NVLinks", "GPU0", "--gpu v100", "at most 6", NumberRange(0, 6), yields=True)
>>> settle([row, card])
('NVLinks of GPU0: 18 NVLinks by row GPU0, but at most 6 by --gpu v100. Row GPU0 is followed.',)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf

from hierarchies.errors import InputError


@dataclass(frozen=True)
class NumberRange:
    """A number from ``least`` to ``most``, both included."""

    least: float = 0
    most: float = inf


@dataclass(frozen=True)
class Claim:
    """The statement of one place about one quantity.

    ``topic`` is the quantity and ``subject`` the thing that has it ("NVLinks" of "GPU0"; the
    subject may be empty). ``values`` are all values that the statement allows, ``words`` how people
    read it, ``place`` where it is. A claim that ``yields`` is followed only where nothing
    contradicts it.
    """

    topic: str
    subject: str
    place: str
    words: str
    values: NumberRange | frozenset[str]
    yields: bool = False

    def excludes(self, other: Claim) -> bool:
        """Whether no value satisfies both."""
        mine, theirs = self.values, other.values
        if isinstance(mine, NumberRange) and isinstance(theirs, NumberRange):
            return max(mine.least, theirs.least) > min(mine.most, theirs.most)
        if isinstance(mine, frozenset) and isinstance(theirs, frozenset):
            return not mine & theirs
        return False


def settle(claims: Iterable[Claim], hint: str = "") -> tuple[str, ...]:
    """The contradictions that a claim resolves by yielding, one sentence for each two places.

    Raises InputError, with the hint, for two claims of which neither yields.
    """
    found: dict[tuple[str, str, str], list[tuple[Claim, Claim]]] = {}
    for about in _group_by_quantity(claims):
        for first, second in combinations(about, 2):
            if first.excludes(second):
                sides = sorted((first, second), key=lambda claim: claim.yields)
                places = first.topic, sides[0].place, sides[1].place
                found.setdefault(places, []).append((sides[0], sides[1]))
    for pairs in found.values():
        if not pairs[0][1].yields:
            raise InputError(_describe_sides(pairs), hint=hint)
    return tuple(f"{_describe_sides(pairs)}. {_outcome(*pairs[0])}" for pairs in found.values())


def _group_by_quantity(claims: Iterable[Claim]) -> Iterable[list[Claim]]:
    grouped: dict[tuple[str, str], list[Claim]] = {}
    for claim in claims:
        grouped.setdefault((claim.topic, claim.subject), []).append(claim)
    return grouped.values()


def _describe_sides(pairs: Sequence[tuple[Claim, Claim]]) -> str:
    one, other = pairs[0]
    subject = f" of {one.subject}" if one.subject else ""
    more = f" ({len(pairs) - 1} more like this)" if len(pairs) > 1 else ""
    sides = f"{one.words} by {one.place}, but {other.words} by {other.place}"
    return f"{one.topic}{subject}: {sides}{more}"


def _outcome(firm: Claim, other: Claim) -> str:
    if firm.yields:
        return "Neither is followed."
    return f"{firm.place[:1].upper()}{firm.place[1:]} is followed."
