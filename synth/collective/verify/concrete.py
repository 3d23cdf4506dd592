"""Proof with z3 at one size: for programs of explicit groups, which exist at that size only.

Devices are concrete ids, chunks 0, 1, ...; the chunk is the only unknown for z3, and a device's
value of it is a bit-vector with one bit per contributor. Written independently of the proof for all
sizes, so that the two can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import permutations, product
from operator import or_
from typing import Any, assert_never

from grammar import Collective, Goal, Instruction
from hierarchies import InputError, Tree
from synth.collective.verify.solver import z3
from synth.collective.verify.verdict import (
    EFFORT,
    Proved,
    Refuted,
    Unknown,
    Verdict,
    Violation,
    share_effort,
)

Holdings = Any  # a z3 bit-vector over the unknown chunk: the contributors of a device's value of it
Pieces = tuple[tuple[frozenset[int], ...], ...]


@dataclass(frozen=True)
class GroupStep:
    """One collective over explicit groups of device ids, members in order.

    ``pieces`` says for a reduce-scatter or an all-to-all which chunks each member of each group
    keeps. Without it the chunks that the group holds, in ascending order, are divided into equal
    contiguous parts, the first part for the first member.
    """

    collective: Collective
    groups: tuple[tuple[int, ...], ...]
    pieces: Pieces | None = None


@dataclass(frozen=True)
class Payload:
    """The number of devices and chunks, and the goal for them."""

    devices: int
    chunks: int
    goal: Goal


_DEMANDS: dict[Collective, tuple[Violation, ...]] = {
    Collective.ALL_REDUCE: (Violation.UNEQUAL_ROWS, Violation.ADDED_TWICE),
    Collective.REDUCE: (Violation.UNEQUAL_ROWS, Violation.ADDED_TWICE),
    Collective.REDUCE_SCATTER: (Violation.UNEQUAL_ROWS, Violation.ADDED_TWICE),
    Collective.ALL_GATHER: (Violation.HELD_TWICE,),
    Collective.BROADCAST: (),
    Collective.ALL_TO_ALL: (Violation.UNEQUAL_ROWS, Violation.SENT_TWICE),
}
_ENDS: dict[Goal, tuple[Violation, ...]] = {
    Goal.ALL_REDUCE: (Violation.GOAL_MISSED,),
    Goal.REDUCE_SCATTER: (Violation.GOAL_MISSED, Violation.GOAL_EXCEEDED),
    Goal.ALL_GATHER: (Violation.GOAL_MISSED,),
    Goal.REDUCE: (Violation.GOAL_MISSED,),
    Goal.BROADCAST: (Violation.GOAL_MISSED,),
    Goal.ALL_TO_ALL: (Violation.GOAL_MISSED, Violation.GOAL_EXCEEDED),
}
"""The possible violations after all steps, by goal."""
_SPLITTING = (Collective.REDUCE_SCATTER, Collective.ALL_TO_ALL)


def prove_groups(
    steps: Sequence[GroupStep],
    devices: int,
    goal: Goal = Goal.ALL_REDUCE,
    *,
    chunks: int | None = None,
    effort: int = EFFORT,
) -> Verdict:
    """Decides whether steps over explicit groups are sound and reach a goal for all the devices.

    The payload is cut in ``chunks``, by default one chunk per device. Groups may be uneven and need
    not cover all devices; devices outside keep their contents. In a refutation devices and chunks
    are plain numbers. Raises InputError for a device that does not exist or is in two groups of one
    step, an empty group, pieces that do not match the groups, a collective that is not one of the
    goal's, and a goal in pieces without exactly one chunk per device.
    """
    payload = Payload(devices, devices if chunks is None else chunks, goal)
    if min(payload.devices, payload.chunks) < 1:
        raise InputError(f"{devices} devices, {chunks} chunks", hint="one at least of each")
    if goal.in_pieces and payload.chunks != devices:
        raise InputError(
            f"{devices} devices, {payload.chunks} chunks", hint=f"{goal.value} has as many of both"
        )
    for number, step in enumerate(steps, start=1):
        _check(step, payload, f"step {number}, {step.collective.value}")
    return _decide(steps, payload, effort)


def _check(step: GroupStep, payload: Payload, where: str) -> None:
    members = [device for group in step.groups for device in group]
    if step.collective not in payload.goal.alphabet:
        known = ", ".join(collective.value for collective in payload.goal.alphabet)
        goal = payload.goal.value
        raise InputError(f"no step of a program for {goal}", where=where, hint=f"those: {known}")
    if not all(step.groups):
        raise InputError("an empty group", where=where, hint="one member at least")
    outside = [device for device in members if not 0 <= device < payload.devices]
    if outside:
        hint = f"devices are 0 to {payload.devices - 1}"
        raise InputError(f"no device {outside[0]}", where=where, hint=hint)
    if len(set(members)) != len(members):
        raise InputError("a device is named twice", where=where, hint="once in all groups")
    if step.pieces is None:
        return
    if [len(pieces) for pieces in step.pieces] != [len(group) for group in step.groups]:
        raise InputError("pieces do not match the groups", where=where, hint="one per member")
    kept = [chunk for pieces in step.pieces for piece in pieces for chunk in piece]
    if not all(0 <= chunk < payload.chunks for chunk in kept):
        hint = f"chunks are 0 to {payload.chunks - 1}"
        raise InputError("a piece names a chunk that does not exist", where=where, hint=hint)


def _spell_step(step: GroupStep) -> str:
    return f"{step.collective.value} over {', '.join(str(list(group)) for group in step.groups)}"


def group_step_of(instruction: Instruction, tree: Tree) -> GroupStep:
    """The groups and pieces of an instruction at the tree's sizes."""
    numbered = list(product(*(range(size) for size in tree.sizes)))
    free = instruction.groups.free
    groups: dict[tuple[int, ...], list[int]] = {}
    keepers: dict[tuple[int, ...], list[int]] = {}
    for device, digits in enumerate(numbered):
        keepers.setdefault(tuple(digits[i] for i in free), []).append(device)
        if all(digits[i] == 0 for i in instruction.groups.zero):
            outside = tuple(digit for i, digit in enumerate(digits) if i not in free)
            groups.setdefault(outside, []).append(device)
    # Members of a group, in the order of their ids, have the free digits in counting order.
    piece = tuple(frozenset(keepers[values]) for values in sorted(keepers))
    return GroupStep(
        instruction.collective,
        tuple(tuple(group) for group in groups.values()),
        tuple(piece for _ in groups),
    )


def _decide(steps: Sequence[GroupStep], payload: Payload, effort: int) -> Verdict:
    checks = len(_ENDS[payload.goal]) + 2 * len(steps)
    part = share_effort(effort, checks)
    if part is None:
        return Unknown(f"an effort of {effort} is too little to ask z3 up to {checks} times")
    machine = SymbolicMachine(payload, part)
    for number, step in enumerate(steps):
        match machine.take(step):
            case Refuted() as wrong:
                return replace(wrong, step=number, instruction=_spell_step(step))
            case Unknown(reason):
                return Unknown(f"step {number + 1}: {reason}")
            case None:
                continue
    match machine.goal():
        case Refuted() as wrong:
            return wrong
        case Unknown(reason):
            return Unknown(f"the goal: {reason}")
        case None:
            return Proved((payload.devices,))


class SymbolicMachine:
    """The value of the unknown chunk on every device, step by step. Mutable, private, one use."""

    def __init__(self, payload: Payload, effort: int) -> None:
        context = z3.Context()
        self._payload = payload
        self._chunk = z3.BitVec("chunk", max(1, (payload.chunks - 1).bit_length()), context)
        self._context = context
        self._nothing = self._constant(0)
        self._held: list[Holdings] = [
            self._initial_holdings(device) for device in range(payload.devices)
        ]
        self._effort = effort

    def take(self, step: GroupStep) -> Refuted | Unknown | None:
        """Executes a step and returns None if the step is sound; else a refutation, or Unknown."""
        for violation in _DEMANDS[step.collective]:
            wrong = self._solve(
                [self._broken_precondition(violation, group) for group in step.groups]
            )
            if isinstance(wrong, Unknown):
                return wrong
            if wrong is not None:
                return self._locate(violation, step.groups, wrong)
        after: dict[int, Holdings] = {}
        for index, group in enumerate(step.groups):
            pieces = None if step.pieces is None else step.pieces[index]
            if step.collective in _SPLITTING and pieces is None:
                pieces = self._even_pieces(group)
                if pieces is None:
                    return self._refuted(Violation.UNEVEN, group[0])
            after.update(zip(group, self._results(step.collective, group, pieces), strict=True))
        self._held = [after.get(device, held) for device, held in enumerate(self._held)]
        return None

    def goal(self) -> Refuted | Unknown | None:
        """None if every relevant device ends with exactly the required contents."""
        for violation in _ENDS[self._payload.goal]:
            wrong = self._check_end(violation)
            if wrong is not None:
                return wrong
        return None

    def _check_end(self, violation: Violation) -> Refuted | Unknown | None:
        """A device that ends with too little or, for ``GOAL_EXCEEDED``, with too much."""
        rooted = self._payload.goal is Goal.REDUCE
        differences = {}
        for device in range(1 if rooted else self._payload.devices):
            held, required = self._held[device], self._required_holdings(device)
            lacks = violation is Violation.GOAL_MISSED
            differences[device] = required & ~held if lacks else held & ~required
        model = self._solve([bits != 0 for bits in differences.values()])
        if model is None or isinstance(model, Unknown):
            return model
        values = {device: self._value(model, bits) for device, bits in differences.items()}
        device = next(device for device, bits in values.items() if bits)
        chunk = self._value(model, self._chunk)
        return self._refuted(violation, device, None, chunk, _lowest_bit(values[device]))

    def _refuted(
        self,
        violation: Violation,
        device: int,
        other: int | None = None,
        chunk: int | None = None,
        contributor: int | None = None,
    ) -> Refuted:
        """The refutation of a goal; for a step its number and text are added."""
        at = [None if number is None else (number,) for number in (other, chunk, contributor)]
        place = (self._payload.devices,), (device,), at[0], at[1], at[2]
        return Refuted(violation, None, "", ("",), *place, self._payload.goal)

    def _initial_holdings(self, device: int) -> Holdings:
        match self._payload.goal:
            case Goal.ALL_REDUCE | Goal.REDUCE_SCATTER | Goal.REDUCE | Goal.ALL_TO_ALL:
                return self._constant(1 << device)
            case Goal.ALL_GATHER:
                return self._restrict(frozenset({device}), self._everything)
            case Goal.BROADCAST:
                return self._nothing if device else self._everything
            case _:
                assert_never(self._payload.goal)

    def _required_holdings(self, device: int) -> Holdings:
        pieces = self._payload.goal in (Goal.REDUCE_SCATTER, Goal.ALL_TO_ALL)
        own = frozenset({device})
        return self._restrict(own, self._everything) if pieces else self._everything

    @property
    def _everything(self) -> Holdings:
        return self._constant((1 << self._payload.devices) - 1)

    def _constant(self, bits: int) -> Holdings:
        return z3.BitVecVal(bits, self._payload.devices, self._context)

    def _solve(self, wrongs: Sequence[Any]) -> Any:
        """A model in which something is wrong, None if there is none, or Unknown."""
        solver = z3.SolverFor("QF_BV", ctx=self._context)
        solver.set("ctrl_c", False)  # an interrupt is the caller's, not an "unknown"
        solver.set("rlimit", self._effort)
        solver.add(z3.ULE(self._chunk, self._payload.chunks - 1), self._any(wrongs))
        verdict = solver.check()
        if verdict == z3.unsat:
            return None
        if verdict == z3.unknown:
            return Unknown(f"z3 gave up: {solver.reason_unknown()}")
        return solver.model()

    def _any(self, formulas: Iterable[Any]) -> Any:
        return z3.Or(*formulas, z3.BoolVal(False, self._context))

    def _broken_precondition(self, violation: Violation, group: Sequence[int]) -> Any:
        """The formula that two members of the group break the precondition."""
        first, *rest = (self._held[member] for member in group)
        wrongs, seen = [], first
        for held in rest:
            match violation:
                case Violation.UNEQUAL_ROWS:
                    wrongs.append((first == 0) != (held == 0))
                case Violation.ADDED_TWICE | Violation.SENT_TWICE:
                    wrongs.append(seen & held != 0)
                case _:
                    wrongs.append(z3.And(seen != 0, held != 0))
            seen = seen | held
        return self._any(wrongs)

    def _locate(self, violation: Violation, groups: Sequence[Sequence[int]], model: Any) -> Refuted:
        for group in groups:
            chunk, values = self._read(model, group)
            for device, other in permutations(group, 2):
                guilty = _guilty_contributions(violation, values[device], values[other])
                if guilty:
                    return self._refuted(violation, device, other, chunk, _lowest_bit(guilty))
        raise AssertionError("z3's counterexample breaks no precondition")

    def _read(self, model: Any, devices: Iterable[int]) -> tuple[int, dict[int, int]]:
        held = {device: self._value(model, self._held[device]) for device in devices}
        return self._value(model, self._chunk), held

    def _value(self, model: Any, term: Any) -> int:
        return int(model.eval(term, model_completion=True).as_long())

    def _union(self, group: Sequence[int]) -> Holdings:
        return z3.simplify(reduce(or_, (self._held[member] for member in group)))

    def _even_pieces(self, group: Sequence[int]) -> tuple[frozenset[int], ...] | None:
        united = self._union(group)
        width = self._chunk.size()
        rows = [
            chunk
            for chunk in range(self._payload.chunks)
            for at in [z3.BitVecVal(chunk, width, self._context)]
            if z3.simplify(z3.substitute(united, (self._chunk, at))).as_long() != 0
        ]
        share, left = divmod(len(rows), len(group))
        if left:
            return None
        return tuple(frozenset(rows[i * share : (i + 1) * share]) for i in range(len(group)))

    def _results(
        self,
        collective: Collective,
        group: Sequence[int],
        pieces: tuple[frozenset[int], ...] | None,
    ) -> list[Holdings]:
        """The contents of the members after the step, in their order."""
        united = self._union(group)
        match collective:
            case Collective.ALL_REDUCE | Collective.ALL_GATHER:
                return [united for _ in group]
            case Collective.REDUCE:
                return [united, *(self._nothing for _ in group[1:])]
            case Collective.REDUCE_SCATTER | Collective.ALL_TO_ALL:
                return [self._restrict(piece, united) for piece in pieces or ()]
            case Collective.BROADCAST:
                return [self._held[group[0]] for _ in group]
            case _:
                assert_never(collective)

    def _restrict(self, piece: frozenset[int], held: Holdings) -> Holdings:
        inside = self._any(self._chunk == chunk for chunk in sorted(piece))
        return z3.If(inside, held, self._nothing)


def _guilty_contributions(violation: Violation, bits: int, other: int) -> int:
    """The contributions, as bits, by which two members' values of a chunk break a precondition."""
    match violation:
        case Violation.UNEQUAL_ROWS:
            return 0 if other else bits
        case Violation.ADDED_TWICE | Violation.SENT_TWICE:
            return bits & other
        case _:
            return bits if other else 0


def _lowest_bit(bits: int) -> int:
    return (bits & -bits).bit_length() - 1
