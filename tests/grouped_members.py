"""The answers among members that are all known: what a search must come to, bounds or none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from synth.collective.ranking.distinct import AnswerGrouping, DistinctAnswer, Member

T = TypeVar("T")


def distinct(members: Iterable[Member[T]], count: int) -> list[DistinctAnswer[T]]:
    """The first ``count`` of them."""
    grouping: AnswerGrouping[T] = AnswerGrouping()
    for member in members:
        grouping.add(member)
    while len(grouping) < count and grouping.settle(float("inf")):
        pass
    return grouping.answers()
