"""P²'s four synthesis hierarchies, counted: over which tree should programs be written?

A placement's factors above 1 are the finest digits a device's id can be read in. Each variant
makes the digits of its tree from them and knows P²'s three forms over that tree:

* system: the machine's levels as they are; a group cannot split a level;
* columns: every factor, level by level, within a level in axis order;
* rows: every factor, axis by axis, within an axis outermost level first;
* reduction: the factors of the reduced axes only, those of one level made one digit (collapsed);
* reduction-uncollapsed: the same, one digit for each factor.

Programs of the first three act on all devices: "inside" frees and "master" zeroes digits of other
axes too. The goal is the same for all: every device has every chunk, summed over its own reduction
group and nothing else. The rules are the house's, on the skeleton of all factors, so that
programs of different variants can be compared by the groups they mean. The paper's text was not
at hand: this is a reconstruction of what its variants (a) to (d) are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from grammar import Groups, Instruction, list_instructions
from hierarchies import Axis, Hierarchy, Level, Placement
from synth.collective.semantics.rules import Rulebook, State
from synth.collective.semantics.truth_tables import TruthTables, truth_tables
from synth.search.best_first import PathGraph, Puzzle, explore

Digit = tuple[int, ...]
Steps = tuple[Instruction, ...]
HOPELESS = 1 << 20


@dataclass(frozen=True)
class Factor:
    """One factor above 1 of a parallelism matrix."""

    level: int
    axis: int


@dataclass(frozen=True)
class Request:
    """A placement and the axes (by position) to reduce over, seen as factors in column order."""

    placement: Placement
    over: frozenset[int]
    factors: tuple[Factor, ...] = field(init=False)

    def __post_init__(self) -> None:
        found = [
            Factor(level, axis)
            for level in range(len(self.placement.hierarchy.levels))
            for axis, row in enumerate(self.placement.matrix)
            if row[level] > 1
        ]
        object.__setattr__(self, "factors", tuple(found))

    @property
    def replicating(self) -> tuple[int, ...]:
        """The factors that tell reduction groups apart."""
        return tuple(i for i, factor in enumerate(self.factors) if factor.axis not in self.over)

    @property
    def reduced(self) -> tuple[int, ...]:
        return tuple(i for i, factor in enumerate(self.factors) if factor.axis in self.over)


def _by_level(request: Request, chosen: tuple[int, ...]) -> tuple[Digit, ...]:
    levels = sorted({request.factors[i].level for i in chosen})
    return tuple(tuple(i for i in chosen if request.factors[i].level == at) for at in levels)


def _system(request: Request) -> tuple[Digit, ...]:
    return _by_level(request, tuple(range(len(request.factors))))


def _columns(request: Request) -> tuple[Digit, ...]:
    return tuple((i,) for i in range(len(request.factors)))


def _rows(request: Request) -> tuple[Digit, ...]:
    factors = request.factors
    return tuple((i,) for i in sorted(range(len(factors)), key=lambda i: (factors[i].axis, i)))


def _reduction(request: Request) -> tuple[Digit, ...]:
    return _by_level(request, request.reduced)


def _uncollapsed(request: Request) -> tuple[Digit, ...]:
    return tuple((i,) for i in request.reduced)


VARIANTS: dict[str, Callable[[Request], tuple[Digit, ...]]] = {
    "system": _system,
    "columns": _columns,
    "rows": _rows,
    "reduction": _reduction,
    "reduction-uncollapsed": _uncollapsed,
}


def alphabet(digits: tuple[Digit, ...], *, across: bool = False) -> tuple[Instruction, ...]:
    """What a tree of these digits admits, each digit spelled out in factors."""

    def spread(chosen: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(factor for digit in chosen for factor in digits[digit]))

    return tuple(
        Instruction(said.collective, Groups(spread(said.groups.free), spread(said.groups.zero)))
        for said in list_instructions(len(digits), across=across)
    )


class Goal:
    """Every device ends with every chunk, summed over its own reduction group."""

    def __init__(self, request: Request) -> None:
        self._space: TruthTables = truth_tables(len(request.factors))
        self._request = request
        self.state: State = self._space.full
        for factor in request.replicating:
            apart = self._space.zero[factor] ^ self._space.zero[self._contributor(factor)]
            self.state &= ~apart

    def at_least(self, state: State) -> int:
        """0 at the goal, 1 where one step may reach it, 2 where none can; or it is hopeless.

        The last step can only free reduced factors, as all members of a group then hold the same.
        A last all-reduce needs every chunk on every device; a last all-gather, that every chunk
        held is finished; a last broadcast, that the first of each reduction group has finished.
        """
        if state == self.state:
            return 0
        if not self._possible(state):
            return HOPELESS
        tables, depth = self._space, self._space.depth
        every = tables.drop(tables.full, 2 * depth)
        rows = tables.drop(state, 2 * depth)
        finished = every & ~tables.drop(self.state ^ state, 2 * depth)
        first = tables.all_zero(self._request.reduced) & every
        return 1 if rows in (every, finished) or not first & ~finished else 2

    def _possible(self, state: State) -> bool:
        """Contributions only ever come together, never apart: somewhere must be a clean copy.

        For every contributor and chunk some device must hold a sum that contains the contribution
        and none of another reduction group.
        """
        tables, mixed = self._space, 0
        for factor in self._request.replicating:
            where = tables.zero[self._contributor(factor)]
            mixed |= self._somewhere(state & where) & self._somewhere(state & ~where)
        return tables.some(state & ~mixed, tables.devices) == tables.full

    def _somewhere(self, table: int) -> int:
        """Where a sum has a contribution of the table, for all contributors."""
        contributors = range(2 * self._space.depth, 3 * self._space.depth)
        return self._space.some(table, contributors)

    def _contributor(self, factor: int) -> int:
        return 2 * self._space.depth + factor


@dataclass(frozen=True)
class Found:
    """What one variant can say for one request."""

    digits: tuple[Digit, ...]
    instructions: int
    expanded: int
    programs: frozenset[Steps]

    def by_length(self, max_steps: int) -> list[int]:
        lengths = [len(program) for program in self.programs]
        return [lengths.count(length) for length in range(1, max_steps + 1)]


def search(request: Request, variant: str, max_steps: int) -> Found:
    """Every valid program of a variant; ``expanded`` states were looked into for that."""
    digits = VARIANTS[variant](request)
    choices = alphabet(digits)
    rules = Rulebook(len(request.factors), choices)
    goal = Goal(request)
    expanded = 0

    def moves(state: State) -> list[tuple[Instruction, State]]:
        nonlocal expanded
        expanded += 1
        return rules.moves(state)

    puzzle = Puzzle(rules.start, moves, lambda state: state == goal.state, goal.at_least)
    graph = explore(puzzle, max_steps)
    return Found(digits, len(choices), expanded, frozenset(_paths(graph)))


def _paths(graph: PathGraph[State, Instruction]) -> Iterator[Steps]:
    """Every path to a goal, written out."""
    following: dict[int, list[tuple[int, int]]] = {}
    for source, label, target in zip(graph.sources, graph.labels, graph.targets, strict=True):
        following.setdefault(int(source), []).append((int(label), int(target)))
    goals = {int(goal) for goal in graph.goals}
    stack: list[tuple[int, Steps]] = [(0, ())]
    while stack:
        vertex, steps = stack.pop()
        if vertex in goals:
            yield steps
        elif len(steps) < graph.max_moves:
            for label, target in following.get(vertex, ()):
                stack.append((target, (*steps, graph.alphabet[label])))


def compared(request: Request, max_steps: int) -> dict[str, dict[str, Any]]:
    """What each variant can say, and how much of it the reduction variants do not say.

    Programs are the same if their steps mean the same groups of devices. ``beyond`` counts those
    that neither reduction variant has; among them ``beyond_symmetric`` those in which all
    reduction groups do the same, and ``beyond_across`` those that the extension ``across`` (not
    collapsed) cannot say either. All variants have the same rules, so a program belongs to a
    variant if its instructions do.
    """
    found = {variant: search(request, variant, max_steps) for variant in VARIANTS}
    known = found["reduction"].programs | found["reduction-uncollapsed"].programs
    across = frozenset(alphabet(_uncollapsed(request), across=True))
    told = {}
    for variant, what in found.items():
        beyond = what.programs - known
        told[variant] = {
            "tree": [_size(request, digit) for digit in what.digits],
            "instructions": what.instructions,
            "states": what.expanded,
            "by_length": what.by_length(max_steps),
            "programs": len(what.programs),
            "beyond": len(beyond),
            "beyond_symmetric": sum(_symmetric(program, request) for program in beyond),
            "beyond_across": sum(not across.issuperset(program) for program in beyond),
        }
    return told


def _symmetric(program: Steps, request: Request) -> bool:
    """All reduction groups take part in every step alike."""
    replicating = set(request.replicating)
    return all(replicating.isdisjoint({*s.groups.free, *s.groups.zero}) for s in program)


def _size(request: Request, digit: Digit) -> int:
    size = 1
    for i in digit:
        factor = request.factors[i]
        size *= request.placement.matrix[factor.axis][factor.level]
    return size


def request_of(example: dict[str, Any]) -> Request:
    """A request as ``claims.toml`` writes it."""
    names = [f"axis{i}" for i in range(len(example["axes"]))]
    levels = zip(example["levels"], example["cardinalities"], strict=True)
    axes = tuple(Axis(name, size) for name, size in zip(names, example["axes"], strict=True))
    placement = Placement(
        Hierarchy(tuple(Level(name, count) for name, count in levels)),
        axes,
        tuple(tuple(row) for row in example["matrix"]),
    )
    return Request(placement, frozenset(example["reduce"]))
