"""Proof with z3 at one size: for a tree's real sizes and for programs of explicit groups.

Devices are concrete ids, chunks 0, 1, ...; one unknown, the chunk, is left to z3, and what a
device holds of it is a bit-vector with one bit per contributor. Written apart from the proof for
all sizes, so that the two can be held against each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import permutations, product
from operator import or_
from typing import Any, assert_never

import z3

from grammar import Collective, Instruction, Program, instructions
from hierarchies import InputError, Tree
from synth.verdict import EFFORT, Proved, Refuted, Unknown, Verdict, Violation, share

Held = Any  # a z3 bit-vector over the unknown chunk: the contributors of a device's value of it
Pieces = tuple[tuple[frozenset[int], ...], ...]


@dataclass(frozen=True)
class GroupStep:
    """One collective over explicit groups of device ids, members in order.

    ``pieces`` says for a reduce-scatter which chunks each member of each group keeps. Without it
    the chunks that the group holds, in ascending order, are shared out in equal contiguous parts,
    the first part to the first member.
    """

    collective: Collective
    groups: tuple[tuple[int, ...], ...]
    pieces: Pieces | None = None


def prove_at(program: Program, tree: Tree, *, effort: int = EFFORT) -> Verdict:
    """Decide for a tree's own sizes whether a program is sound and all-reduces.

    Chunks are numbered like devices. Proved(sizes) holds for these sizes only. Raises
    InputError for a program that does not fit the tree.
    """
    steps = [_grouped(meant, tree) for meant in instructions(program, tree)]
    naming = _Naming(tuple(str(step) for step in program.steps), tree.names, tree.sizes)
    return _decide(steps, _Payload(tree.devices, tree.devices), naming, effort)


def prove_groups(
    steps: Sequence[GroupStep],
    devices: int,
    *,
    chunks: int | None = None,
    effort: int = EFFORT,
) -> Verdict:
    """Decide whether steps over explicit groups are sound and all-reduce over all the devices.

    The payload is cut in ``chunks``, by default as many as devices. Groups may be uneven and need
    not cover all devices; devices outside keep what they have. In a refutation devices and
    chunks are plain numbers. Raises InputError for a device that does not exist or is in two
    groups of one step, for an empty group, and for pieces that do not match the groups.
    """
    payload = _Payload(devices, devices if chunks is None else chunks)
    if min(payload.devices, payload.chunks) < 1:
        raise InputError(f"{devices} devices, {chunks} chunks", hint="one at least of each")
    for number, step in enumerate(steps, start=1):
        _check(step, payload, f"step {number}, {step.collective.value}")
    naming = _Naming(tuple(_spelled(step) for step in steps), ("",), (devices,))
    return _decide(steps, payload, naming, effort)


def _check(step: GroupStep, payload: _Payload, where: str) -> None:
    members = [device for group in step.groups for device in group]
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


def _spelled(step: GroupStep) -> str:
    return f"{step.collective.value} over {', '.join(str(list(group)) for group in step.groups)}"


def _grouped(meant: Instruction, tree: Tree) -> GroupStep:
    """The groups and pieces that an instruction means at the tree's sizes."""
    numbered = list(product(*(range(size) for size in tree.sizes)))
    free = meant.groups.free
    groups: dict[tuple[int, ...], list[int]] = {}
    keepers: dict[tuple[int, ...], list[int]] = {}
    for device, digits in enumerate(numbered):
        keepers.setdefault(tuple(digits[i] for i in free), []).append(device)
        if all(digits[i] == 0 for i in meant.groups.zero):
            outside = tuple(digit for i, digit in enumerate(digits) if i not in free)
            groups.setdefault(outside, []).append(device)
    # Members of a group, in the order of their ids, have the free digits in counting order.
    piece = tuple(frozenset(keepers[values]) for values in sorted(keepers))
    return GroupStep(
        meant.collective,
        tuple(tuple(group) for group in groups.values()),
        tuple(piece for _ in groups),
    )


@dataclass(frozen=True)
class _Payload:
    devices: int
    chunks: int


@dataclass(frozen=True)
class _Naming:
    """How steps, digits and sizes are called when a refutation is told."""

    steps: tuple[str, ...]
    names: tuple[str, ...]
    sizes: tuple[int, ...]

    def digits(self, number: int) -> tuple[int, ...]:
        if len(self.sizes) == 1:  # explicit groups may have more chunks than devices
            return (number,)
        values = []
        for size in reversed(self.sizes):
            number, value = divmod(number, size)
            values.append(value)
        return tuple(reversed(values))


@dataclass(frozen=True)
class _Wrong:
    """A place where a step or the goal goes wrong."""

    violation: Violation
    device: int
    other: int | None = None
    chunk: int | None = None
    contributor: int | None = None


def _decide(steps: Sequence[GroupStep], payload: _Payload, naming: _Naming, effort: int) -> Verdict:
    checks = 1 + 2 * len(steps)
    part = share(effort, checks)
    if part is None:
        return Unknown(f"an effort of {effort} is too little to ask z3 up to {checks} times")
    machine = _Machine(payload, part)
    for number, step in enumerate(steps):
        match machine.take(step):
            case _Wrong() as wrong:
                return _told(wrong, number, naming)
            case Unknown(reason):
                return Unknown(f"step {number + 1}: {reason}")
            case None:
                continue
    match machine.goal():
        case _Wrong() as wrong:
            return _told(wrong, None, naming)
        case Unknown(reason):
            return Unknown(f"the goal: {reason}")
        case None:
            return Proved(naming.sizes)


def _told(wrong: _Wrong, step: int | None, naming: _Naming) -> Refuted:
    def digits(number: int | None) -> tuple[int, ...] | None:
        return None if number is None else naming.digits(number)

    return Refuted(
        violation=wrong.violation,
        step=step,
        instruction="" if step is None else naming.steps[step],
        names=naming.names,
        sizes=naming.sizes,
        device=naming.digits(wrong.device),
        other=digits(wrong.other),
        chunk=digits(wrong.chunk),
        contributor=digits(wrong.contributor),
    )


_DEMANDS: dict[Collective, tuple[Violation, ...]] = {
    Collective.ALL_REDUCE: (Violation.UNEQUAL_ROWS, Violation.ADDED_TWICE),
    Collective.REDUCE: (Violation.UNEQUAL_ROWS, Violation.ADDED_TWICE),
    Collective.REDUCE_SCATTER: (Violation.UNEQUAL_ROWS, Violation.ADDED_TWICE),
    Collective.ALL_GATHER: (Violation.HELD_TWICE,),
    Collective.BROADCAST: (),
}


class _Machine:
    """What every device holds of the unknown chunk, step after step. Mutable, private, one use."""

    def __init__(self, payload: _Payload, effort: int) -> None:
        context = z3.Context()
        self._payload = payload
        self._chunk = z3.BitVec("chunk", max(1, (payload.chunks - 1).bit_length()), context)
        self._nothing = z3.BitVecVal(0, payload.devices, context)
        self._held: list[Held] = [
            z3.BitVecVal(1 << device, payload.devices, context) for device in range(payload.devices)
        ]
        self._context = context
        self._effort = effort

    def take(self, step: GroupStep) -> _Wrong | Unknown | None:
        """Take a step if it is sound; None says that it was taken."""
        for violation in _DEMANDS[step.collective]:
            wrong = self._ask([self._broken(violation, group) for group in step.groups])
            if isinstance(wrong, Unknown):
                return wrong
            if wrong is not None:
                return self._located(violation, step.groups, wrong)
        after: dict[int, Held] = {}
        for number, group in enumerate(step.groups):
            pieces = None if step.pieces is None else step.pieces[number]
            if step.collective is Collective.REDUCE_SCATTER and pieces is None:
                pieces = self._even_pieces(group)
                if pieces is None:
                    return _Wrong(Violation.UNEVEN, group[0])
            after.update(zip(group, self._results(step.collective, group, pieces), strict=True))
        self._held = [after.get(device, held) for device, held in enumerate(self._held)]
        return None

    def goal(self) -> _Wrong | Unknown | None:
        """None if every device holds every contribution to every chunk."""
        everyone = (1 << self._payload.devices) - 1
        model = self._ask([held != everyone for held in self._held])
        if model is None or isinstance(model, Unknown):
            return model
        chunk, values = self._read(model, range(self._payload.devices))
        device = next(device for device, value in values.items() if value != everyone)
        missing = everyone & ~values[device]
        return _Wrong(Violation.GOAL_MISSED, device, None, chunk, _lowest(missing))

    def _ask(self, wrongs: Sequence[Any]) -> Any:
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

    def _broken(self, violation: Violation, group: Sequence[int]) -> Any:
        """Two members of the group break the precondition."""
        first, *rest = (self._held[member] for member in group)
        wrongs, seen = [], first
        for held in rest:
            match violation:
                case Violation.UNEQUAL_ROWS:
                    wrongs.append((first == 0) != (held == 0))
                case Violation.ADDED_TWICE:
                    wrongs.append(seen & held != 0)
                case _:
                    wrongs.append(z3.And(seen != 0, held != 0))
            seen = seen | held
        return self._any(wrongs)

    def _located(self, violation: Violation, groups: Sequence[Sequence[int]], model: Any) -> _Wrong:
        for group in groups:
            chunk, values = self._read(model, group)
            for one, other in permutations(group, 2):
                guilty = _guilty(violation, values[one], values[other])
                if guilty:
                    return _Wrong(violation, one, other, chunk, _lowest(guilty))
        raise AssertionError("z3's counterexample breaks no precondition")

    def _read(self, model: Any, devices: Iterable[int]) -> tuple[int, dict[int, int]]:
        def value(term: Any) -> int:
            return int(model.eval(term, model_completion=True).as_long())

        return value(self._chunk), {device: value(self._held[device]) for device in devices}

    def _united(self, group: Sequence[int]) -> Held:
        return z3.simplify(reduce(or_, (self._held[member] for member in group)))

    def _even_pieces(self, group: Sequence[int]) -> tuple[frozenset[int], ...] | None:
        united = self._united(group)
        width = self._chunk.size()
        rows = [
            chunk
            for chunk in range(self._payload.chunks)
            for at in [z3.BitVecVal(chunk, width, self._context)]
            if z3.simplify(z3.substitute(united, (self._chunk, at))).as_long() != 0
        ]
        each, left = divmod(len(rows), len(group))
        if left:
            return None
        return tuple(frozenset(rows[i * each : (i + 1) * each]) for i in range(len(group)))

    def _results(
        self,
        collective: Collective,
        group: Sequence[int],
        pieces: tuple[frozenset[int], ...] | None,
    ) -> list[Held]:
        """What the members hold afterwards, in their order."""
        united = self._united(group)
        match collective:
            case Collective.ALL_REDUCE | Collective.ALL_GATHER:
                return [united for _ in group]
            case Collective.REDUCE:
                return [united, *(self._nothing for _ in group[1:])]
            case Collective.REDUCE_SCATTER:
                return [self._only(piece, united) for piece in pieces or ()]
            case Collective.BROADCAST:
                return [self._held[group[0]] for _ in group]
            case _:
                assert_never(collective)

    def _only(self, piece: frozenset[int], held: Held) -> Held:
        inside = self._any(self._chunk == chunk for chunk in sorted(piece))
        return z3.If(inside, held, self._nothing)


def _guilty(violation: Violation, one: int, other: int) -> int:
    """The contributions, as bits, by which two members' values of a chunk break a precondition."""
    match violation:
        case Violation.UNEQUAL_ROWS:
            return 0 if other else one
        case Violation.ADDED_TWICE:
            return one & other
        case _:
            return one if other else 0


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1
