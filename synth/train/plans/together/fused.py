"""Fusion groups: operations that are one kernel, so that what passes between them stays on chip.

``fused v3 v4 again v1``: v3 and v4 are one task, and v1 is done once more inside it, so that v4
need not wait for v1 to be in memory (fusion with duplication, as DisCo has it, arXiv 2209.12769).
A group is one task, so nothing may leave it and come back: v3 -> v9 -> v4 with v9 outside would
wait for itself. No value changes: the program is put in an order in which each group is in one
piece, and what is done again has a name of its own.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from grammar.tensors.operations import Operand, Value
from hierarchies import InputError
from synth.train.plans.plan import Fused
from synth.train.plans.program import Done, Moved, Program, Sent, makes, reads

Instruction = Done | Moved | Sent


def fused(
    program: Program, groups: Sequence[Fused], sizes: Mapping[str, int], outputs: Collection[str]
) -> Program:
    """The program with each group in one piece; ``outputs`` are the names that are read after it.

    What lies otherwise without being sent goes with the group that makes it. Raises InputError for
    a name that no operation has or that is in two groups, for a group on several stages, for what
    is done again and not read, or read by nobody else, and for what leaves a group and comes back.
    """
    if not groups:
        return program
    made = _makers(program)
    unit = _units(program, groups, made, sizes)
    instructions = [*program.instructions]
    copies: dict[int, dict[int, Done]] = {}
    for number, group in enumerate(groups):
        inside = [at for at, one in enumerate(unit) if one == number]
        copies[number] = _again(program, instructions, inside, group, number, made)
    _read_still(instructions, groups, outputs)
    pieces: dict[int, list[int]] = {}
    for at, one in enumerate(unit):
        pieces.setdefault(one, []).append(at)
    order = _order(instructions, unit, pieces, groups, copies)
    return _written(program, instructions, order, pieces, copies)


def _makers(program: Program) -> dict[str, int]:
    return {
        value.name: at
        for at, one in enumerate(program.instructions)
        if isinstance(one, Done)
        for value in one.operation.results
    }


def _units(
    program: Program, groups: Sequence[Fused], made: Mapping[str, int], sizes: Mapping[str, int]
) -> list[int]:
    """Of each instruction the unit that it is in: groups first, then buckets, then all others."""
    unit = _grouped(program, groups, made)
    for number, bucket in enumerate(program.buckets, len(groups)):
        for at in bucket:
            unit[at] = number
    free = len(groups) + len(program.buckets)
    unit = [free + at if one < 0 else one for at, one in enumerate(unit)]
    for at, one in enumerate(program.instructions):
        if isinstance(one, Moved) and not one.path.requests(sizes) and one.value.name in made:
            maker = made[one.value.name]
            near = not program.places or program.places[at] == program.places[maker]
            if unit[at] >= free and unit[maker] < len(groups) and near:
                unit[at] = unit[maker]
    return unit


def _grouped(program: Program, groups: Sequence[Fused], made: Mapping[str, int]) -> list[int]:
    """Of each instruction the group that it is in, or -1."""
    unit = [-1] * len(program.instructions)
    for number, group in enumerate(groups):
        places = set()
        for name in group.members:
            at = _member(program, name, made)
            if unit[at] >= 0:
                hint = "what is needed twice is done 'again'"
                raise InputError(f"{name} is fused twice", where="plan", hint=hint)
            unit[at] = number
            places.add(program.places[at] if program.places else None)
        if len(places) > 1:
            problem = f"{', '.join(group.members)} are not done on one stage, in one pass"
            raise InputError(problem, where="plan", hint="fuse those of each apart")
    return unit


def _member(program: Program, name: str, made: Mapping[str, int]) -> int:
    hint = "operations are named by their first results; a loop is fused inside itself already"
    at = made.get(name)
    one = None if at is None else program.instructions[at]
    if at is None or not isinstance(one, Done):
        raise InputError(f"no operation makes {name}, which is fused", where="plan", hint=hint)
    if one.body is not None or one.operation.results[0].name != name:
        raise InputError(f"{name} cannot be fused", where="plan", hint=hint)
    return at


def _again(
    program: Program,
    instructions: list[Instruction],
    inside: Sequence[int],
    group: Fused,
    number: int,
    made: Mapping[str, int],
) -> dict[int, Done]:
    """Copies of what a group does again, by their places; its members read them from now on.

    They are of the program as it was: what others do again inside is there alone.
    """
    found: dict[int, Done] = {}
    renamed: dict[str, Value] = {}
    for at in sorted(_member(program, name, made) for name in group.again):
        one = program.instructions[at]
        assert isinstance(one, Done)
        name = one.operation.results[0].name
        if at in inside:
            problem = f"{name} is in a group, and done again in the same"
            raise InputError(problem, where="plan", hint="leave out one of the two")
        new = {
            value.name: replace(value, name=f"{value.name}_again{number}")
            for value in one.operation.results
        }
        operands = tuple(_as(operand, renamed) for operand in one.operation.operands)
        results = tuple(new.values())
        operation = replace(one.operation, operands=operands, results=results)
        found[at] = replace(one, operation=operation)
        renamed |= new
    read = {name for one in found.values() for name in map(str, one.operation.operands)}
    for at in inside:
        one = instructions[at]
        if isinstance(one, Moved):
            continue
        assert isinstance(one, Done)
        operands = tuple(_as(operand, renamed) for operand in one.operation.operands)
        read |= {*map(str, operands)}
        instructions[at] = replace(one, operation=replace(one.operation, operands=operands))
    for name in group.again:
        if renamed[name].name not in read:
            problem = f"{name} is done again in a group that does not read it"
            raise InputError(problem, where="plan", hint="leave it out")
    held = {key for one in found.values() for key in makes(one)}
    for one in (*found.values(), *(instructions[at] for at in inside)):
        if any(name in {key[0] for key in held} for name, _ in set(reads(one)) - held):
            problem = f"{', '.join(group.again)} lie otherwise where they are read"
            raise InputError(problem, where="plan", hint="do again what is read as it is made")
    return found


def _as(operand: Operand, renamed: Mapping[str, Value]) -> Operand:
    return renamed.get(operand.name, operand) if isinstance(operand, Value) else operand


def _read_still(
    instructions: Sequence[Instruction], groups: Sequence[Fused], outputs: Collection[str]
) -> None:
    """What is done again is read by somebody else, too: else it would belong in the group."""
    read = {name for one in instructions for name, _ in reads(one)} | set(outputs)
    for group in groups:
        for name in group.again:
            if name not in read:
                problem = f"{name} is done again, and read by no other"
                raise InputError(problem, where="plan", hint="put it in the group itself")


def _order(
    instructions: Sequence[Instruction],
    unit: Sequence[int],
    pieces: Mapping[int, Sequence[int]],
    groups: Sequence[Fused],
    copies: Mapping[int, Mapping[int, Done]],
) -> list[int]:
    """Units one after the other, each when what it reads is there, and else as they were."""
    maker = {key: unit[at] for at, one in enumerate(instructions) for key in makes(one)}
    before: dict[int, set[int]] = {}
    for number, some in pieces.items():
        own = [*copies.get(number, {}).values(), *(instructions[at] for at in some)]
        needed = {maker[key] for one in own for key in reads(one) if key in maker}
        before[number] = needed - {number}
    after: dict[int, list[int]] = {}
    for number, needed in before.items():
        for one in needed:
            after.setdefault(one, []).append(number)
    waits = {number: len(needed) for number, needed in before.items()}
    ready = [(pieces[number][0], number) for number, count in waits.items() if not count]
    heapq.heapify(ready)
    found: list[int] = []
    while ready:
        _, number = heapq.heappop(ready)
        found.append(number)
        for one in after.get(number, ()):
            waits[one] -= 1
            if not waits[one]:
                heapq.heappush(ready, (pieces[one][0], one))
    if len(found) < len(pieces):
        raise _cycle(instructions, before, set(pieces) - set(found), pieces, groups)
    return found


def _cycle(
    instructions: Sequence[Instruction],
    before: Mapping[int, set[int]],
    stuck: set[int],
    pieces: Mapping[int, Sequence[int]],
    groups: Sequence[Fused],
) -> InputError:
    """Walks back from what waits until it is where it was."""
    at = min(stuck)
    walked: list[int] = []
    while at not in walked:
        walked.append(at)
        at = min(before[at] & stuck)
    ring = walked[walked.index(at) :][::-1]

    def called(number: int) -> str:
        if number < len(groups):
            return f"({' '.join(groups[number].members)})"
        one = instructions[pieces[number][0]]
        return one.operation.results[0].name if isinstance(one, Done) else f"{one.value.name} sent"

    path = " -> ".join(map(called, (*ring, ring[0])))
    hint = "a group is one task: put what is between in it, or take out what comes back"
    return InputError(f"fused operations wait for themselves: {path}", where="plan", hint=hint)


def _written(
    program: Program,
    instructions: Sequence[Instruction],
    order: Sequence[int],
    pieces: Mapping[int, Sequence[int]],
    copies: Mapping[int, Mapping[int, Done]],
) -> Program:
    done: list[Instruction] = []
    places = []
    new: dict[int, int] = {}
    groups = []
    for number in order:
        begin = len(done)
        again = copies.get(number, {})
        for at in sorted((*again, *pieces[number])):
            if at not in again:
                new[at] = len(done)
            done.append(again[at] if at in again else instructions[at])
        if program.places:
            places += [program.places[pieces[number][0]]] * (len(done) - begin)
        if number in copies:
            groups.append(tuple(range(begin, len(done))))
    return replace(
        program,
        instructions=tuple(done),
        places=tuple(places),
        buckets=tuple(tuple(new[at] for at in bucket) for bucket in program.buckets),
        fused=tuple(groups),
    )
