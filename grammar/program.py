"""What can be said: programs of grouped collectives over the digits of a synthesis tree."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

ROOT = "root"


class Collective(Enum):
    """The collectives of the language, by the names the field gives them."""

    ALL_REDUCE = "all-reduce"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_GATHER = "all-gather"
    REDUCE = "reduce"
    BROADCAST = "broadcast"


@dataclass(frozen=True)
class InsideGroup:
    """Everything below the slice varies inside a group; all devices take part."""

    def __str__(self) -> str:
        return "inside"


@dataclass(frozen=True)
class Parallel:
    """The digits from below ``ancestor`` down to the slice vary; all devices take part."""

    ancestor: str = ROOT

    def __str__(self) -> str:
        return f"parallel({self.ancestor})"


@dataclass(frozen=True)
class Master:
    """As Parallel, but only devices whose digits below the slice are all 0 take part."""

    ancestor: str = ROOT

    def __str__(self) -> str:
        return f"master({self.ancestor})"


@dataclass(frozen=True)
class Across:
    """Any non-empty set of digits varies; all devices take part. An extension to P²'s forms.

    Its slice is always the root.
    """

    digits: tuple[str, ...]

    def __str__(self) -> str:
        return f"across({', '.join(self.digits)})"


Form = InsideGroup | Parallel | Master | Across


@dataclass(frozen=True)
class Step:
    """One instruction as written: a collective over the groups that a slice and a form name."""

    collective: Collective
    slice: str
    form: Form

    def __str__(self) -> str:
        return f"{self.collective.value} {self.slice} {self.form}"


@dataclass(frozen=True)
class Program:
    """Steps, first to last. ``parse(str(program)) == program``; no steps is a program too."""

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return "; ".join(str(step) for step in self.steps)


ALL_AT_ONCE = Program((Step(Collective.ALL_REDUCE, ROOT, InsideGroup()),))
"""The plain one-step all-reduce, the same on every tree that has a digit."""
