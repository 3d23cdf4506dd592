"""A replay of what a step sends, written apart: it imports nothing of the simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod

from byte_oracle import EACH, EVERYWHERE, part_bytes
from grammar.tensors.sharding import Sharding, Type
from synth.step.sharding import LocalOperation, Plan, RedistributedValue, SentValue, StepProgram


def whole_bytes(kind: Type, lies: Sharding, parts: Mapping[str, int]) -> int:
    """Bytes of a flat part's whole block, which goes with its padding; else of a part."""
    return part_bytes(kind, lies, parts) * prod(parts[axis] for axis in lies.flat)


def messages(program: StepProgram, plan: Plan, stage: int) -> Counter[tuple[str, tuple[str, ...]]]:
    """Bytes that a device of a stage sends in a step, by collective and axes.

    Each counts as its largest buffer, as often as it is done: in every pass of every microbatch,
    and in every turn of a loop.
    """
    found: Counter[tuple[str, tuple[str, ...]]] = Counter()
    places = program.places or (None,) * len(program.instructions)

    def count(one: LocalOperation | RedistributedValue | SentValue, times: int) -> None:
        if isinstance(one, LocalOperation) and one.body is not None:
            for each in one.body.instructions:
                count(each, times * int(str(one.operation.parameter["length"])))
        if not isinstance(one, RedistributedValue):
            return
        for move in one.path.moves:
            over = tuple(axis for axis, _ in plan.axes if axis in move.axes)
            members = prod(plan.sizes[axis] for axis in move.axes)
            if members == 1 or move.how.value in ("slice", "mask", "widen", "permute"):
                continue
            ends = (
                whole_bytes(one.value.type, lies, plan.parts) for lies in (move.before, move.after)
            )
            found[move.how.value, over] += times * max(ends)

    for one, place in zip(program.instructions, places, strict=True):
        if place is None or place.stage in (stage, EVERYWHERE):
            passing = place is not None and place.when in EACH
            count(one, plan.microbatches if passing else 1)
    return found
