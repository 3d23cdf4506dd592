"""Proof with z3 at one size: for programs of explicit groups, which exist at that size only.

Devices are concrete ids, chunks 0, 1, ...; the chunk is the one unknown of z3, and a device's
contents of it are a bit-vector with one bit per contributor. Written independently of the proof for
all sizes, so that the two can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from grammar import Goal, Instruction
from hierarchies import InputError, Tree
from synth.collective.verify.bitvectors import ENDS, Payload, SymbolicMachine, ViolationPlace
from synth.collective.verify.bitvectors import GroupStep as GroupStep
from synth.collective.verify.verdict import EFFORT, Proved, Refuted, Unknown, Verdict, share_effort


def prove_groups(
    steps: Sequence[GroupStep],
    devices: int,
    goal: Goal = Goal.ALL_REDUCE,
    *,
    chunks: int | None = None,
    effort: int = EFFORT,
) -> Verdict:
    """Decides whether steps over explicit groups are sound and reach a goal for all the devices.

    The payload is cut in ``chunks``, by default as many as devices. Groups may be uneven and need
    not cover all devices; devices outside keep what they have. In a refutation devices and chunks
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
    checks = len(ENDS[payload.goal]) + 2 * len(steps)
    part = share_effort(effort, checks)
    if part is None:
        return Unknown(f"an effort of {effort} is too little to ask z3 up to {checks} times")
    machine = SymbolicMachine(payload, part)
    for number, step in enumerate(steps):
        match machine.take(step):
            case ViolationPlace() as wrong:
                return _refutation(wrong, number, _spell_step(step), payload)
            case Unknown(reason):
                return Unknown(f"step {number + 1}: {reason}")
            case None:
                continue
    match machine.goal():
        case ViolationPlace() as wrong:
            return _refutation(wrong, None, "", payload)
        case Unknown(reason):
            return Unknown(f"the goal: {reason}")
        case None:
            return Proved((payload.devices,))


def _refutation(
    wrong: ViolationPlace, step: int | None, instruction: str, payload: Payload
) -> Refuted:
    def digits(number: int | None) -> tuple[int, ...] | None:
        return None if number is None else (number,)

    return Refuted(
        violation=wrong.violation,
        step=step,
        instruction=instruction,
        names=("",),
        sizes=(payload.devices,),
        device=(wrong.device,),
        other=digits(wrong.other),
        chunk=digits(wrong.chunk),
        contributor=digits(wrong.contributor),
        goal=payload.goal,
    )
