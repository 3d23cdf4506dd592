"""Programs of grouped collectives over the digits of a synthesis tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

MOST_STEPS = 64

ROOT = "root"


class PayloadShare(Enum):
    """The part of a group's payload that members hold before or after a collective."""

    WHOLE = "every member all of it"
    PIECE = "every member its own piece"
    FIRST = "the first member all of it"


@dataclass(frozen=True)
class CollectiveFacts:
    """The properties of one collective: a row of ``FACTS``.

    ``reducing`` and ``copying``: how often the whole payload is sent to be reduced, and sent
    unchanged. An all-reduce has 1 and 1: it is a reduce-scatter, then an all-gather. ``apart``:
    whether each member has different data for every other member, neither reduced nor copied to
    several members.
    """

    before: PayloadShare
    after: PayloadShare
    reducing: int
    copying: int
    apart: bool = False


FACTS: Mapping[str, CollectiveFacts] = {
    "all-reduce": CollectiveFacts(PayloadShare.WHOLE, PayloadShare.WHOLE, 1, 1),
    "reduce-scatter": CollectiveFacts(PayloadShare.WHOLE, PayloadShare.PIECE, 1, 0),
    "all-gather": CollectiveFacts(PayloadShare.PIECE, PayloadShare.WHOLE, 0, 1),
    "reduce": CollectiveFacts(PayloadShare.WHOLE, PayloadShare.FIRST, 1, 0),
    "broadcast": CollectiveFacts(PayloadShare.FIRST, PayloadShare.WHOLE, 0, 1),
    "all-to-all": CollectiveFacts(PayloadShare.WHOLE, PayloadShare.PIECE, 0, 1, apart=True),
}
"""Keys are the names that instructions and requests share. The judges do not read this table."""


class CollectiveEnum(Enum):
    """A collective, or the request for a collective; facts are found by the shared name.

    A reduce adds data up (``reduces``), and only its first member gets the sum (``to_first``).
    """

    __hash__ = object.__hash__  # Enum.__hash__ is slower: it hashes the name, in Python.

    @property
    def facts(self) -> CollectiveFacts:
        return FACTS[self.value]

    @property
    def reduces(self) -> bool:
        """Whether the members' data is reduced."""
        return self.facts.reducing > 0

    @property
    def copies(self) -> bool:
        """Whether the members' data is forwarded unchanged."""
        return self.facts.copying > 0

    @property
    def rounds(self) -> int:
        """How often the whole payload is sent: an all-reduce reduces it, then copies it."""
        return self.facts.reducing + self.facts.copying

    def busbw_factor(self, ranks: int) -> float:
        """Return nccl-tests' factor from size/time to busbw (their doc/PERFORMANCE.md).

        >>> [Goal(name).busbw_factor(8) for name in ("all-reduce", "all-gather", "broadcast")]
        [1.75, 0.875, 1.0]
        """
        return 1.0 if self.rooted else self.rounds * (ranks - 1) / ranks

    @property
    def from_first(self) -> bool:
        """Whether only the first member's data is read."""
        return self.facts.before is PayloadShare.FIRST

    @property
    def to_first(self) -> bool:
        """Whether only the first member holds the result."""
        return self.facts.after is PayloadShare.FIRST

    @property
    def rooted(self) -> bool:
        """Whether messages go in one direction only, from or to the first member."""
        return self.from_first or self.to_first

    @property
    def gathers(self) -> bool:
        """Whether every member starts with its own piece."""
        return self.facts.before is PayloadShare.PIECE

    @property
    def scatters(self) -> bool:
        """Whether every member ends with its own piece."""
        return self.facts.after is PayloadShare.PIECE

    @property
    def in_pieces(self) -> bool:
        """Whether the caller provides or receives the payload as one piece per member, in order."""
        return self.gathers or self.scatters

    @property
    def apart(self) -> bool:
        """Whether each member has different data for every other member, as in an all-to-all."""
        return self.facts.apart


class Collective(CollectiveEnum):
    """The collectives of the language, by their usual names."""

    ALL_REDUCE = "all-reduce"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_GATHER = "all-gather"
    REDUCE = "reduce"
    BROADCAST = "broadcast"
    ALL_TO_ALL = "all-to-all"


class Goal(CollectiveEnum):
    """The requests that a program can meet, by their usual names.

    The payload is the largest buffer of a device: its buffer before (all-reduce, reduce-scatter,
    reduce, all-to-all) or after (all-reduce, all-gather, broadcast) the program. Pieces are
    numbered like the members of the reduction group; its first member is the root.
    """

    ALL_REDUCE = "all-reduce"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_GATHER = "all-gather"
    REDUCE = "reduce"
    BROADCAST = "broadcast"
    ALL_TO_ALL = "all-to-all"

    @property
    def alphabet(self) -> tuple[Collective, ...]:
        """The collectives that a program may use, in a stable order.

        An all-to-all keeps data apart that the other collectives reduce or forward whole, so
        neither can replace the other.
        """
        return tuple(collective for collective in Collective if collective.apart == self.apart)


@dataclass(frozen=True)
class InsideGroup:
    """All digits below the slice vary inside a group; all devices take part.

    ``node inside``: the GPUs of each node form a group.
    """

    def __str__(self) -> str:
        return "inside"


@dataclass(frozen=True)
class Parallel:
    """The digits below ``ancestor``, down to the slice's, vary; all devices take part.

    ``node parallel(root)``: the GPUs 0 of all nodes form a group, and so do all GPUs 1, and so on.
    """

    ancestor: str = ROOT

    def __str__(self) -> str:
        return f"parallel({self.ancestor})"


@dataclass(frozen=True)
class Master:
    """Like Parallel, but only devices whose digits below the slice are all 0 take part.

    ``node master(root)``: the GPUs 0 of all nodes form a group; the other GPUs are idle.
    """

    ancestor: str = ROOT

    def __str__(self) -> str:
        return f"master({self.ancestor})"


@dataclass(frozen=True)
class Across:
    """Any non-empty set of digits varies; all devices take part. An extension of P²'s forms.

    Its slice is always the root. ``root across(pod, gpu)`` omits the node between the two.
    """

    digits: tuple[str, ...]

    def __str__(self) -> str:
        return f"across({', '.join(self.digits)})"


Form = InsideGroup | Parallel | Master | Across


@dataclass(frozen=True)
class ProgramInstruction:
    """One instruction as written: a collective over the groups that a slice and a form name."""

    collective: Collective
    slice: str
    form: Form

    def __str__(self) -> str:
        return f"{self.collective.value} {self.slice} {self.form}"


@dataclass(frozen=True)
class Program:
    """Instructions, first to last. ``parse(str(program)) == program``. A program may be empty."""

    steps: tuple[ProgramInstruction, ...]

    def __str__(self) -> str:
        return "; ".join(str(step) for step in self.steps)
