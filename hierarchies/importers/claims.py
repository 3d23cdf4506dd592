"""Claims of files and options, and the contradictions between them.

An importer records the statement of each table, row or option about a quantity as a ``Claim``.
``settle`` compares all claims about the same quantity. It refuses two claims that exclude each
other, unless one is known to be less reliable (``yields``).

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
    """A statement about one quantity, made at one place.

    ``topic`` is the quantity and ``subject`` its owner ("NVLinks" of "GPU0"; the subject may be
    empty). ``values`` are all values that the statement allows, ``words`` its wording, ``place``
    its location. A claim that ``yields`` is followed only if no other claim contradicts it.
    """

    topic: str
    subject: str
    place: str
    words: str
    values: NumberRange | frozenset[str]
    yields: bool = False

    def excludes(self, other: Claim) -> bool:
        """Whether no value satisfies both."""
        own, others = self.values, other.values
        if isinstance(own, NumberRange) and isinstance(others, NumberRange):
            return max(own.least, others.least) > min(own.most, others.most)
        if isinstance(own, frozenset) and isinstance(others, frozenset):
            return not own & others
        return False


def exact_claim(
    topic: str, subject: str, place: str, number: float, words: str = "", yields: bool = False
) -> Claim:
    """Return the claim that a quantity is this number."""
    words = words or f"{number:.12g}"
    return Claim(topic, subject, place, words, NumberRange(number, number), yields)


def settle(claims: Iterable[Claim], hint: str = "") -> tuple[str, ...]:
    """Return contradictions resolved by a claim that yields, as a sentence for each pair of places.

    Raises InputError, with the hint, for two contradicting claims that do not yield.
    """
    conflicts: dict[tuple[str, str, str], list[tuple[Claim, Claim]]] = {}
    for group in _group_by_quantity(claims):
        for first, second in combinations(group, 2):
            if first.excludes(second):
                firm, other = sorted((first, second), key=lambda claim: claim.yields)
                key = first.topic, firm.place, other.place
                conflicts.setdefault(key, []).append((firm, other))
    for pairs in conflicts.values():
        if not pairs[0][1].yields:
            raise InputError(_describe_sides(pairs), hint=hint)
    return tuple(
        f"{_describe_sides(pairs)}. {_outcome(pairs[0][0])}" for pairs in conflicts.values()
    )


def _group_by_quantity(claims: Iterable[Claim]) -> Iterable[list[Claim]]:
    grouped: dict[tuple[str, str], list[Claim]] = {}
    for claim in claims:
        grouped.setdefault((claim.topic, claim.subject), []).append(claim)
    return grouped.values()


def _describe_sides(pairs: Sequence[tuple[Claim, Claim]]) -> str:
    firm, other = pairs[0]
    subject = f" of {firm.subject}" if firm.subject else ""
    more = f" ({len(pairs) - 1} more like this)" if len(pairs) > 1 else ""
    sides = f"{firm.words} by {firm.place}, but {other.words} by {other.place}"
    return f"{firm.topic}{subject}: {sides}{more}"


def _outcome(firm: Claim) -> str:
    if firm.yields:
        return "Neither is followed."
    return f"{firm.place[:1].upper()}{firm.place[1:]} is followed."
