"""All valid programs of a tree's depth: counted, listed, and as a graph to be priced.

The programs depend only on the number of digits, so one graph serves every tree of that depth,
every placement that gives it and every size of machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from grammar import MOST_STEPS, Goal, Instruction, list_instructions
from hierarchies import InputError
from synth.collective.semantics.layout import Bookkeeper, Layout, Move
from synth.collective.semantics.rules import Rulebook, State
from synth.collective.semantics.truth_tables import truth_tables
from synth.search.best_first import PathGraph, Puzzle, explore

Vertex = tuple[State, Layout]
ShouldContinue = Callable[[int], bool]


@dataclass(frozen=True)
class Language:
    """The programs to search: at most ``max_steps`` steps, with or without ``across``.

    ``goal`` is what the programs achieve. Raises InputError for fewer than one step, and for more
    than a program may have.
    """

    max_steps: int = 5
    across: bool = False
    goal: Goal = Goal.ALL_REDUCE

    def __post_init__(self) -> None:
        if self.max_steps < 1:
            raise InputError(f"max-steps is {self.max_steps}", hint="at least 1 is needed")
        if self.max_steps > MOST_STEPS:
            raise InputError(f"max-steps is {self.max_steps}", hint=f"at most {MOST_STEPS}")


def never_stop(expanded: int) -> bool:
    """Returns True: for a search that is never stopped."""
    return True


def explore_states(
    depth: int, language: Language, go_on: ShouldContinue = never_stop
) -> PathGraph[State, Instruction]:
    """Every valid program on a tree of ``depth`` digits, as paths from state to state."""
    goal = language.goal
    # Refuses a tree that is too deep before all instructions on it are listed.
    truth_tables(depth)
    rules = Rulebook(depth, list_instructions(depth, across=language.across, goal=goal), goal=goal)
    puzzle = Puzzle(rules.start, rules.moves, rules.reached, rules.at_least)
    return explore(puzzle, language.max_steps, go_on=go_on)


def explore_moves(
    depth: int, language: Language, go_on: ShouldContinue = never_stop
) -> PathGraph[Vertex, Move]:
    """The same programs as paths over (state, layout), labelled with all inputs of a price."""
    states = explore_states(depth, language, go_on)
    rules = Rulebook(depth, (), goal=language.goal)
    bookkeeper = Bookkeeper(rules.space, language.goal)
    steps: dict[State, list[tuple[Instruction, State]]] = {}
    for source, label, target in zip(states.sources, states.labels, states.targets, strict=True):
        taken = (states.alphabet[label], states.vertices[target])
        steps.setdefault(states.vertices[source], []).append(taken)
    distance, too_far = states.distances(), language.max_steps + 1

    def moves(vertex: Vertex) -> list[tuple[Move, Vertex]]:
        state, layout = vertex
        successors = []
        for instruction, after in steps.get(state, ()):
            move, next_layout = bookkeeper.advance(layout, instruction, state, after)
            successors.append((move, (after, next_layout)))
        return successors

    puzzle = Puzzle(
        (rules.start, bookkeeper.start),
        moves,
        lambda vertex: rules.reached(vertex[0]),
        lambda vertex: distance.get(vertex[0], too_far),
    )
    graph = explore(puzzle, language.max_steps, go_on=go_on)
    return replace(graph, complete=states.complete and graph.complete)
