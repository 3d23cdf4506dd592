"""A state in words: who holds which part of the payload, and from whom."""

from __future__ import annotations

from dataclasses import dataclass

from grammar import Goal
from hierarchies import Tree
from synth.collective.semantics.layout import Digits, kinds
from synth.collective.semantics.rules import Derivation, State
from synth.collective.semantics.truth_tables import TruthTables, truth_tables


@dataclass(frozen=True)
class Holding:
    """The contents of devices of one kind: their share of the payload, and the digits it is summed
    over.

    In words: "devices with node = 0: its gpu share, summed over gpu". ``zero`` are the digits that
    are 0 on these devices, ``other`` the digits that are not; digits in neither do not matter.
    ``scattered`` are the digits the payload is scattered over; None if they hold nothing.
    ``summed`` are the digits over which contributions are combined: added, or, in an all-to-all,
    side by side. Goals that begin with finished values do not use it.
    """

    zero: tuple[str, ...]
    other: tuple[str, ...]
    scattered: tuple[str, ...] | None
    summed: tuple[str, ...]
    goal: Goal = Goal.ALL_REDUCE

    def __str__(self) -> str:
        conditions = [f"{name} = 0" for name in self.zero] + [f"{name} > 0" for name in self.other]
        who = f"devices with {', '.join(conditions)}" if conditions else "every device"
        if self.scattered is None:
            return f"{who}: nothing"
        share = f"its {' x '.join(self.scattered)} share" if self.scattered else "the whole payload"
        if self.goal.apart and self.scattered:
            return f"{who}: blocks for its {' x '.join(self.scattered)}, from all along these"
        if self.goal.apart:
            return f"{who}: its own blocks, for everybody"
        if not self.goal.reduces:
            return f"{who}: {share}"
        origin = f"summed over {' x '.join(self.summed)}" if self.summed else "its own contribution"
        return f"{who}: {share}, {origin}"


def holdings(derivation: Derivation) -> tuple[tuple[Holding, ...], ...]:
    """The holdings of each kind of device before the first step and after each step."""
    tables = truth_tables(len(derivation.tree.digits))
    return tuple(
        _holdings(tables, state, derivation.tree, derivation.goal) for state in derivation.states
    )


def _holdings(tables: TruthTables, state: State, tree: Tree, goal: Goal) -> tuple[Holding, ...]:
    """One holding for each combination, zero or not, of the digits that make a difference."""
    depth = tables.depth
    scattered = kinds(tables, state)
    summed = _summed_digits(tables, state)
    alike = list(zip(scattered, summed, strict=True))
    relevant = [digit for digit in range(depth) if _is_dependent(alike, digit)]
    lines = []
    for device in range(1 << depth):
        if any(device >> digit & 1 for digit in range(depth) if digit not in relevant):
            continue
        kind = scattered[device]
        lines.append(
            Holding(
                tuple(tree.names[digit] for digit in relevant if not device >> digit & 1),
                tuple(tree.names[digit] for digit in relevant if device >> digit & 1),
                None if kind is None else tuple(tree.names[digit] for digit in kind),
                tuple(tree.names[digit] for digit in summed[device]),
                goal,
            )
        )
    return tuple(lines)


def _is_dependent(alike: list[tuple[Digits | None, Digits]], digit: int) -> bool:
    return any(alike[device] != alike[device ^ (1 << digit)] for device in range(len(alike)))


def _summed_digits(tables: TruthTables, state: State) -> list[Digits]:
    """For every skeleton device, the digits over which its values are sums."""
    depth = tables.depth
    combined = [
        tables.drop(state & tables.flip(state, 2 * depth + digit), depth) for digit in range(depth)
    ]
    return [
        tuple(digit for digit in range(depth) if combined[digit] >> device & 1)
        for device in range(1 << depth)
    ]
