"""Completeness with z3: no program of a given length that an enumeration lacks.

The instruction of each step is an unknown choice; z3 looks for choices that make a program. It
looks at the skeleton, the tree with every digit of size 2, where all three classes of
preconditions apply: sound, regular and pruned. A judge of the search that only tests ask; like the
judges in ``synth.collective.verify`` it shares nothing with the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, assert_never

import z3

from grammar import Collective, Instruction, Program, instructions, list_instructions, spell
from hierarchies import InputError, Tree
from synth.collective.verify.verdict import EFFORT, Unknown, share_effort

Bits = Any  # a z3 bit-vector with one bit per (device, chunk, contributor)


@dataclass(frozen=True)
class Complete:
    """The known programs are all there are of this length on trees of this depth."""

    depth: int
    length: int
    known: int


@dataclass(frozen=True)
class Missing:
    """A program of the length asked for that is not among the known ones."""

    program: Program


def missing_program(
    depth: int, length: int, known: Iterable[Program] = (), *, effort: int = 50 * EFFORT
) -> Missing | Complete | Unknown:
    """Look for a program that the known ones lack, on a tree of ``depth`` digits.

    A program has exactly ``length`` steps from P²'s forms, each of which may be taken, and reaches
    the goal of all-reduce at its last step and not before. Known programs are written with
    ``d0``, ``d1``, ...; those of other lengths do not matter. Raises InputError for known
    programs that do not fit such a tree or are not in P²'s forms, and for a depth or length below
    1. Whether the known ones are right is not asked; that is what ``prove`` is for.
    """
    if depth < 1 or length < 1:
        raise InputError(f"depth {depth}, length {length}", hint="1 at least of each")
    tree = Tree.of(*[2] * depth)
    choices = list_instructions(depth)
    numbers = {choice: number for number, choice in enumerate(choices)}
    spoken = {instructions(program, tree) for program in known}
    seen = [steps for steps in sorted(spoken, key=str) if len(steps) == length]
    strange = [meant for steps in seen for meant in steps if meant not in numbers]
    if strange:
        raise InputError(f"{spell(strange[0], tree)} is not one of P²'s forms", where="known")
    part = share_effort(effort, questions=1)
    if part is None:
        return Unknown(f"an effort of {effort} is too little to ask z3")
    skeleton = _Skeleton(depth)
    solver = z3.SolverFor("QF_BV", ctx=skeleton.context)
    solver.set("ctrl_c", False)  # an interrupt is the caller's, not an "unknown"
    solver.set("rlimit", part)
    picked = _programs(skeleton, solver, choices, length)
    for steps in seen:
        same = (pick == numbers[meant] for pick, meant in zip(picked, steps, strict=True))
        solver.add(z3.Not(z3.And(*same)))
    verdict = solver.check()
    if verdict == z3.unsat:
        return Complete(depth, length, len(seen))
    if verdict == z3.unknown:
        return Unknown(f"z3 gave up: {solver.reason_unknown()}")
    model = solver.model()
    found = (choices[model.eval(pick, model_completion=True).as_long()] for pick in picked)
    return Missing(Program(tuple(spell(meant, tree) for meant in found)))


def _programs(
    skeleton: _Skeleton, solver: Any, choices: Sequence[Instruction], length: int
) -> list[Any]:
    """Constrain the solver to programs; returns the unknown choices, one per step."""
    width = len(choices).bit_length()
    picked = [z3.BitVec(f"choice{i}", width, skeleton.context) for i in range(length)]
    state = skeleton.start
    for step, pick in enumerate(picked):
        solver.add(z3.ULT(pick, len(choices)), state != skeleton.full)
        after = z3.BitVec(f"state{step}", skeleton.bits, skeleton.context)
        for number, meant in enumerate(choices):
            allowed, result = skeleton.taken(state, meant)
            solver.add(z3.Implies(pick == number, z3.And(allowed, after == result)))
        solver.add(after != state)
        state = after
    solver.add(state == skeleton.full)
    return picked


class _Skeleton:
    """States over digits of size 2 as bit-vectors, and what an instruction makes of them.

    The number of a bit is written in binary with the digits of device, chunk and contributor.
    """

    def __init__(self, depth: int) -> None:
        self.context = z3.Context()
        self.bits = 8**depth
        self._depth = depth
        self._device = tuple(range(depth))
        self._chunk = tuple(range(depth, 2 * depth))
        self._contributor = tuple(range(2 * depth, 3 * depth))
        own = [
            bit
            for bit in range(self.bits)
            if all(_digit(bit, i) == _digit(bit, i + 2 * depth) for i in range(depth))
        ]
        self.start = self._constant(own)
        self.full = self._constant(range(self.bits))

    def taken(self, state: Bits, meant: Instruction) -> tuple[Any, Bits]:
        """Whether the instruction may be taken in a state, and the state afterwards."""
        free, zero = meant.groups.free, meant.groups.zero
        part = self._constant(
            bit for bit in range(self.bits) if not any(_digit(bit, i) for i in zero)
        )
        ours = state & part
        first = self._constant(
            bit for bit in range(self.bits) if not any(_digit(bit, i) for i in free)
        )
        rows = self._some(ours, self._contributor)
        anyone = self._some(ours, free)
        sent = self._some(ours & first, free)
        match meant.collective:
            case Collective.ALL_REDUCE:
                allowed, result = self._addable(ours, free), anyone
            case Collective.REDUCE:
                allowed, result = self._addable(ours, free), anyone & first
            case Collective.REDUCE_SCATTER:
                closed = rows == self._some(rows, [self._chunk[i] for i in free])
                allowed = z3.And(self._addable(ours, free), closed)
                result = anyone & self._own_piece(free)
            case Collective.ALL_GATHER:
                alike = self._some(rows, [self._chunk[i] for i in free])
                allowed = z3.And(self._disjoint(rows, free), alike == self._some(alike, free))
                result = anyone
            case Collective.BROADCAST:
                gained = self._group_has(sent & ~ours, free)
                allowed = z3.And(ours & ~sent == 0, gained == part)
                result = sent
            case Collective.ALL_TO_ALL:
                raise AssertionError(f"no all-reduce has a step {meant}")
            case _:
                assert_never(meant.collective)
        some_row_everywhere = self._group_has(ours, free) == part
        return z3.And(allowed, some_row_everywhere), result | (state & ~part)

    def _addable(self, ours: Bits, free: Sequence[int]) -> Any:
        """Members of a group hold equal sets of rows, and no contribution twice."""
        rows = self._some(ours, self._contributor)
        return z3.And(rows == self._some(rows, free), self._disjoint(ours, free))

    def _disjoint(self, bits: Bits, free: Sequence[int]) -> Any:
        """No two members of a group have a bit in the same place."""
        checks = []
        for digit in free:
            mirrored = self._flipped(bits, digit)
            checks.append(bits & mirrored == 0)
            bits = bits | mirrored
        return z3.And(*checks)

    def _group_has(self, bits: Bits, free: Sequence[int]) -> Bits:
        """All bits of the devices of each group in which anyone has any bit."""
        return self._some(bits, [*self._contributor, *self._chunk, *free])

    def _own_piece(self, free: Sequence[int]) -> Bits:
        return self._constant(
            bit
            for bit in range(self.bits)
            if all(_digit(bit, i) == _digit(bit, self._chunk[i]) for i in free)
        )

    def _some(self, bits: Bits, digits: Iterable[int]) -> Bits:
        """A bit is set if it was for some values of these digits."""
        for digit in digits:
            bits = bits | self._flipped(bits, digit)
        return bits

    def _flipped(self, bits: Bits, digit: int) -> Bits:
        """Every bit moved to the place where this digit is the other value."""
        low = self._constant(bit for bit in range(self.bits) if not _digit(bit, digit))
        by = 1 << digit
        return ((bits & low) << by) | (z3.LShR(bits, by) & low)

    def _constant(self, bits: Iterable[int]) -> Bits:
        return z3.BitVecVal(reduce(or_, (1 << bit for bit in bits), 0), self.bits, self.context)


def _digit(number: int, position: int) -> int:
    return number >> position & 1
