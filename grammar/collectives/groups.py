"""The groups of devices that forms name, and all instructions that are possible on a tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, combinations
from typing import assert_never

from grammar.collectives.program import (
    ROOT,
    Across,
    Collective,
    Form,
    Goal,
    InsideGroup,
    Master,
    Parallel,
    Program,
    ProgramInstruction,
)
from hierarchies import InputError, Tree


@dataclass(frozen=True)
class Groups:
    """The groups of one instruction, on a tree of any sizes.

    On digits (node, gpu) the GPUs of each node are free (1,); the first GPUs of all nodes are free
    (0,) with zero (1,).

    Devices that agree on every digit outside ``free`` form a group. Only devices whose digits in
    ``zero`` are all 0 take part; the two sets are disjoint. Digits are numbered from 0, outermost
    first, and sorted.
    """

    free: tuple[int, ...]
    zero: tuple[int, ...] = ()


@dataclass(frozen=True)
class Instruction:
    """A collective over groups: an instruction with its names resolved on a tree."""

    collective: Collective
    groups: Groups


def instruction(step: ProgramInstruction, tree: Tree) -> Instruction:
    """Resolve an instruction on a tree. Raises InputError for names and slices that do not fit."""
    try:
        return Instruction(step.collective, _groups(step, tree))
    except InputError as error:
        raise error.at(f"step {str(step)!r}") from None


def instructions(program: Program, tree: Tree, goal: Goal | None = None) -> tuple[Instruction, ...]:
    """Resolve the instructions of a program on a tree. Raises InputError, naming the instruction.

    With a ``goal``, collectives outside its alphabet are also refused. On a tree without digits
    (groups of one device) instructions ``root inside`` are dropped, because they do nothing.
    """
    for step in program.steps:
        if goal is not None and step.collective not in goal.alphabet:
            known = ", ".join(collective.value for collective in goal.alphabet)
            raise InputError(
                f"no program for {goal.value} has such a step",
                where=f"step {str(step)!r}",
                hint=f"its collectives are: {known}",
            )
    idle = [s for s in program.steps if isinstance(s.form, InsideGroup) and s.slice == ROOT]
    steps = program.steps if tree.digits else [s for s in program.steps if s not in idle]
    return tuple(instruction(step, tree) for step in steps)


def _groups(step: ProgramInstruction, tree: Tree) -> Groups:
    depth = len(tree.digits)
    at = _position(step.slice, tree)
    match step.form:
        case InsideGroup():
            return _check_nonempty(Groups(tuple(range(at + 1, depth))), step, tree)
        case Parallel(ancestor):
            return Groups(_digits_between(ancestor, at, step, tree))
        case Master(ancestor):
            return Groups(_digits_between(ancestor, at, step, tree), tuple(range(at + 1, depth)))
        case Across(names):
            if at != -1:
                raise InputError(f"'across' at slice {step.slice!r}", hint="its slice is root")
            digits = [tree.index(name) for name in names]
            if len(set(digits)) != len(digits):
                raise InputError("'across' names a digit twice", hint="name each digit once")
            return Groups(tuple(sorted(digits)))
        case _:
            assert_never(step.form)


def _position(name: str, tree: Tree) -> int:
    return -1 if name == ROOT else tree.index(name)


def _check_nonempty(groups: Groups, step: ProgramInstruction, tree: Tree) -> Groups:
    if not groups.free:
        outer = (ROOT, *tree.names)[:-1]
        raise InputError(
            f"nothing is inside slice {step.slice!r}",
            hint=f"a slice with something inside: {', '.join(outer) or 'none in this tree'}",
        )
    return groups


def _digits_between(
    ancestor: str, at: int, step: ProgramInstruction, tree: Tree
) -> tuple[int, ...]:
    above = _position(ancestor, tree)
    if above >= at:
        proper = (ROOT, *tree.names[: max(at, 0)]) if at >= 0 else ()
        raise InputError(
            f"{ancestor!r} is not an ancestor of slice {step.slice!r}",
            hint=f"its ancestors are: {', '.join(proper) or 'none'}",
        )
    return tuple(range(above + 1, at + 1))


def spell(meant: Instruction, tree: Tree) -> ProgramInstruction:
    """Return the canonical spelling of an instruction: ``instruction(spell(i, t), t) == i``.

    Groups that several forms name are spelled ``inside`` if they reach the innermost digit, else
    ``parallel`` or ``master``; ``across`` is left to sets of digits with gaps.
    """
    return ProgramInstruction(meant.collective, *_spell_groups(meant.groups, tree))


def _spell_groups(groups: Groups, tree: Tree) -> tuple[str, Form]:
    names = (ROOT, *tree.names)
    first, last = groups.free[0], groups.free[-1]
    if len(groups.free) != last - first + 1:
        return ROOT, Across(tuple(tree.names[digit] for digit in groups.free))
    if last == len(tree.digits) - 1:
        return names[first], InsideGroup()
    if groups.zero:
        return names[last + 1], Master(names[first])
    return names[last + 1], Parallel(names[first])


def canonicalize(program: Program, tree: Tree) -> Program:
    """Return the program with canonically spelled instructions. Raises like ``instructions``."""
    return Program(tuple(spell(resolved, tree) for resolved in instructions(program, tree)))


@cache
def list_instructions(
    depth: int, *, across: bool = False, goal: Goal = Goal.ALL_REDUCE
) -> tuple[Instruction, ...]:
    """Return all instructions on a tree of ``depth`` digits, each once, in a stable order.

    P²'s three forms give 5, 20, 45, 80, ... instructions for 1, 2, 3, 4, ... digits, and 1, 4, 9,
    16, ... for an all-to-all; ``across`` adds every other non-empty set of digits.
    """
    return tuple(
        Instruction(collective, groups)
        for groups in _list_groups(depth, across)
        for collective in goal.alphabet
    )


def _list_groups(depth: int, across: bool) -> Iterator[Groups]:
    ranges = [tuple(range(a, e + 1)) for e in range(depth) for a in range(e + 1)]
    if across:
        sizes = range(1, depth + 1)
        subsets = chain.from_iterable(combinations(range(depth), size) for size in sizes)
        yield from (Groups(free) for free in subsets)
    else:
        yield from (Groups(free) for free in ranges)
    for free in ranges:
        below = tuple(range(free[-1] + 1, depth))
        if below:
            yield Groups(free, below)
