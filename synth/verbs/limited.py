"""Which fields of a question make it large, as the fields declare themselves.

A service limits how much one question may ask for. What is limited must not be found by the name of
a key: a new key would escape. So every field of every question is one of three: its type bounds it
(a switch, one of some names, a list of at most so many), it is ``Limited``, or it is ``Harmless``.
A test goes over all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from pydantic import BaseModel


class Limited(Enum):
    """What grows with a field, as ``k: Annotated[int, Limited.K]``; in the order of checking."""

    K = auto()
    """How many answers are told."""
    MAX_STEPS = auto()
    """How long programs may be that are searched."""
    DIGITS = auto()
    """How deep the tree is on which they are."""
    TREE = auto()
    """The sizes of a tree: their product is its devices."""
    SYSTEMS = auto()
    """Several systems, each of them described by a text."""
    SYSTEM = auto()
    """A system by its name or its text: the length of that, and its devices."""
    ANSWER = auto()
    """An answer of before, with the system it is about."""
    TEXT = auto()
    """Texts that only whoever works the question out reads: as long as a whole question may be."""


@dataclass(frozen=True)
class Harmless:
    """Why a number needs no limit."""

    why: str


def limited_fields(question: BaseModel) -> Iterator[tuple[Limited, str, Any]]:
    """What is limited of a question and given in it, with its key and value; first what is cheap
    to check.
    """
    found = [
        (mark, field.alias or name, getattr(question, name))
        for name, field in type(question).model_fields.items()
        for mark in field.metadata
        if isinstance(mark, Limited)
    ]
    order = list(Limited)
    for mark, key, given in sorted(found, key=lambda one: order.index(one[0])):
        if given is not None:
            yield mark, key, given
