"""The three answers of a proof: ``Proved``, ``Refuted`` with a counterexample, ``Unknown``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from grammar import Goal

DigitValues = tuple[int, ...]


class Violation(Enum):
    """What goes wrong: the precondition that does not hold, or the goal that is missed."""

    # Unsound: the numbers would be wrong.
    UNEQUAL_ROWS = "unequal rows"
    ADDED_TWICE = "added twice"
    HELD_TWICE = "held twice"
    SENT_TWICE = "sent twice"
    # Irregular: a runtime has no call for it.
    NOT_CLOSED = "rows not closed"
    UNLIKE_PIECES = "unlike pieces"
    UNEVEN = "uneven pieces"
    # Every step is allowed, but the program misses its goal.
    GOAL_MISSED = "goal missed"
    GOAL_EXCEEDED = "goal exceeded"


_SENTENCES = {
    Violation.UNEQUAL_ROWS: "{device} holds {chunk} but {other} of the same group does not",
    Violation.ADDED_TWICE: "{device} and {other} of the same group both hold the contribution of "
    "{contributor} to {chunk}, which would be added twice",
    Violation.HELD_TWICE: "{device} and {other} of the same group both hold {chunk}",
    Violation.SENT_TWICE: "{device} and {other} of the same group both hold what {contributor} has "
    "for {chunk}",
    Violation.NOT_CLOSED: "{device} holds {chunk} but not every chunk that differs from it in the "
    "group's digits only",
    Violation.UNLIKE_PIECES: "{device} holds {chunk} but {other} of the same group holds no chunk "
    "that differs from it in the group's digits only",
    Violation.UNEVEN: "the chunks that the group of {device} holds cannot be shared out equally",
    Violation.GOAL_MISSED: "{device} lacks the contribution of {contributor} to {chunk}",
    Violation.GOAL_EXCEEDED: "{device} still holds the contribution of {contributor} to {chunk}",
}
_LACKED = "{device} lacks {chunk}"
_OTHERWISE = {
    (Goal.ALL_GATHER, Violation.GOAL_MISSED): _LACKED,
    (Goal.BROADCAST, Violation.GOAL_MISSED): _LACKED,
    (Goal.ALL_TO_ALL, Violation.UNEQUAL_ROWS): "{device} holds something for {chunk} but {other} "
    "of the same group does not",
    (Goal.ALL_TO_ALL, Violation.NOT_CLOSED): "{device} holds something for {chunk} but not for "
    "every device that differs from it in the group's digits only",
    (Goal.ALL_TO_ALL, Violation.GOAL_MISSED): "{device} lacks what {contributor} has for it",
    (Goal.ALL_TO_ALL, Violation.GOAL_EXCEEDED): "{device} still holds what {contributor} has for "
    "{chunk}",
}
"""Sentences for goals to which the sentences for sums do not apply."""


@dataclass(frozen=True)
class Proved:
    """The program is right: for these sizes of the digits, or for all sizes if None."""

    sizes: DigitValues | None = None


@dataclass(frozen=True)
class Refuted:
    """The program is wrong; the fields are a counterexample.

    ``step`` is the number, from 0, of the step that is not allowed; None if the goal is missed.
    ``instruction`` is that step as written. ``sizes``, ``device``, ``other``, ``chunk`` and
    ``contributor`` have one value per digit of ``names``; a program of explicit groups has one
    digit without a name, the device id. ``other`` is the second member of the group if two are
    needed to go wrong. In an all-to-all the contributor is the source device, and the chunk the
    destination device.
    """

    violation: Violation
    step: int | None
    instruction: str
    names: tuple[str, ...]
    sizes: DigitValues
    device: DigitValues
    other: DigitValues | None = None
    chunk: DigitValues | None = None
    contributor: DigitValues | None = None
    goal: Goal = Goal.ALL_REDUCE

    @property
    def reason(self) -> str:
        """One sentence in the field's terms, digits by name, steps counted from 1."""
        sentence = _OTHERWISE.get((self.goal, self.violation), _SENTENCES[self.violation])
        text = sentence.format(
            device=self._label("device", self.device),
            other=self._label("device", self.other),
            chunk=self._label("device" if self.goal.apart else "chunk", self.chunk),
            contributor=self._label("device", self.contributor),
        )
        place = "at the end" if self.step is None else f"step {self.step + 1}, {self.instruction}"
        return f"{place}: {text} (sizes: {self._sizes()})"

    def _label(self, kind: str, values: DigitValues | None) -> str:
        if values is None:
            return f"no {kind}"
        if not any(self.names):
            return f"{kind} {', '.join(map(str, values)) or 0}"
        pairs = zip(self.names, values, strict=True)
        return f"{kind} ({', '.join(f'{name} {value}' for name, value in pairs)})"

    def _sizes(self) -> str:
        if not any(self.names):
            return f"{', '.join(map(str, self.sizes)) or 1} devices"
        pairs = zip(self.names, self.sizes, strict=True)
        return ", ".join(f"{name} {size}" for name, size in pairs)


@dataclass(frozen=True)
class Unknown:
    """Neither a proof nor a counterexample was found, because of ``reason``."""

    reason: str


Verdict = Proved | Refuted | Unknown


EFFORT = 20_000_000


def share_effort(effort: int, questions: int) -> int | None:
    """The share of z3's effort that each of several questions may cost; None if below one unit.

    The unit is z3's own resource unit (a proof of a four-step program takes some 60,000): unlike
    seconds it is the same on a slow or busy machine, so verdicts are reproducible. A share of 0 is
    refused because z3 reads 0 as no limit.
    """
    # z3 takes its limit as an unsigned 32-bit number.
    part = min(effort // questions, 2**32 - 1)
    return part if part >= 1 else None
