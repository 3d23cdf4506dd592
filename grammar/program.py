"""What can be said: programs of grouped collectives over the digits of a synthesis tree."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

MOST_STEPS = 64

ROOT = "root"


class Collective(Enum):
    """The collectives of the language, by the names the field gives them."""

    ALL_REDUCE = "all-reduce"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_GATHER = "all-gather"
    REDUCE = "reduce"
    BROADCAST = "broadcast"
    ALL_TO_ALL = "all-to-all"


class Goal(Enum):
    """What is requested of a program, by the names the field gives it.

    The payload is the largest buffer of a device: what each holds before (all-reduce,
    reduce-scatter, reduce, all-to-all) or after (all-reduce, all-gather, broadcast). Pieces are
    numbered as the members of the reduction group are; its first member is the root.
    """

    ALL_REDUCE = "all-reduce"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_GATHER = "all-gather"
    REDUCE = "reduce"
    BROADCAST = "broadcast"
    ALL_TO_ALL = "all-to-all"

    @property
    def alphabet(self) -> tuple[Collective, ...]:
        """The collectives a program may use, in a stable order.

        An all-to-all keeps apart what the others add or pass on whole, so neither can stand in for
        the other.
        """
        if self is Goal.ALL_TO_ALL:
            return (Collective.ALL_TO_ALL,)
        return tuple(c for c in Collective if c is not Collective.ALL_TO_ALL)

    @property
    def in_pieces(self) -> bool:
        """Whether the caller gives or gets the payload in pieces, one a member, in their order."""
        return self in (Goal.REDUCE_SCATTER, Goal.ALL_GATHER, Goal.ALL_TO_ALL)


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


def at_once(goal: Goal) -> Program:
    """The plain one-step program for a goal, the same on every tree that has a digit."""
    return Program((Step(Collective(goal.value), ROOT, InsideGroup()),))


ALL_AT_ONCE = at_once(Goal.ALL_REDUCE)
"""The plain one-step all-reduce, the same on every tree that has a digit."""
