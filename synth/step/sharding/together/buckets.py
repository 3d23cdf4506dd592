"""Buckets: redistributions of gradients that are joined into fewer and larger requests.

Buckets do not change values. A bucket is sent when its last member is made, and before any member
is read, so no member may depend on the sum of another. Members are concatenated into one request,
of one kind over the same axes. Members from a loop over layers are stacks, with a slice for each
layer. The slices of a layer are joined when the layer has made them; if slices of several layers
fit into a bucket, these are joined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod

from grammar.tensors.operations import Step
from grammar.tensors.sharding import ReductionKind, Sharding, Type, part_shape
from hierarchies import InputError
from synth.step.redistribution import MoveKind, RedistributionPath, ShardingMove
from synth.step.sharding.layers.apart import find_stacks
from synth.step.sharding.lineage import find_updated
from synth.step.sharding.plan import Plan, slices_alike
from synth.step.sharding.program import (
    InstructionPlace,
    Key,
    LocalOperation,
    RedistributedValue,
    SentValue,
    StepProgram,
)

BucketKey = tuple[object, ...]
"""The properties that redistributions in one bucket must share."""

FLAT = (
    MoveKind.ALL_REDUCE,
    MoveKind.REDUCE_SCATTER,
    MoveKind.ALL_GATHER,
    MoveKind.SLICE,
    MoveKind.MASK,
)
"""Moves with the same effect on concatenated values as on each value alone."""

WHOLE = Fraction(1)


def flatten_bucket(
    members: Sequence[RedistributedValue], sizes: Mapping[str, int], share: Fraction = WHOLE
) -> tuple[Type, RedistributionPath]:
    """Concatenates the members of a bucket in one dimension; returns its type and its path.

    The path has the moves of each member. A device holds its elements of all members, including the
    padding of flat cuts, or the ``share`` of these for the layers that are sent at once.
    """
    members = [_pad_blocks(member, sizes) for member in members]
    first, elements = members[0], sum(member.value.type.elements for member in members)
    kind = Type(first.value.type.dtype, (int(share * elements),))
    source = sharding = _concatenated_sharding(first.path.source.splitting, first.path.source)
    moves = []
    for move in first.path.moves:
        [before] = sharding.dimensions
        kept = tuple(axis for axis in before if axis in move.after.splitting)
        added = move.entering if move.how in (MoveKind.REDUCE_SCATTER, MoveKind.SLICE) else ()
        after = _concatenated_sharding((*kept, *added), move.after)
        moves.append(ShardingMove(move.how, move.axes, sharding, after))
        sharding = after
    return kind, RedistributionPath(source, sharding, tuple(moves))


def _pad_blocks(moved: RedistributedValue, sizes: Mapping[str, int]) -> RedistributedValue:
    """Turns a flat cut into a cut of the last dimension of its padded blocks."""
    value, path = moved.value, moved.path
    ends = (path.source, *(move.after for move in path.moves))
    cut = next((end for end in ends if end.flat), None)
    if cut is None:
        return moved
    *lead, block = part_shape(value.type, cut, sizes)
    length = block * prod(sizes[axis] for axis in cut.cutting)

    def pad(end: Sharding) -> Sharding:
        return Sharding(((),) * cut.lead + ((*end.splitting, *end.flat),), end.partial)

    moves = (replace(move, before=pad(move.before), after=pad(move.after)) for move in path.moves)
    padded = RedistributionPath(pad(path.source), pad(path.target), tuple(moves))
    return RedistributedValue(replace(value, type=Type(value.type.dtype, (*lead, length))), padded)


def _concatenated_sharding(axes: Iterable[str], like: Sharding) -> Sharding:
    return Sharding((tuple(axes),), like.partial)


def buckets_of(
    step: Step, program: StepProgram, sizes: Mapping[str, int], most_bytes: int
) -> tuple[tuple[str, ...], ...]:
    """Returns buckets of at most ``most_bytes`` on a device, in the order of the program.

    A larger gradient is sent alone, without a bucket. The bytes of a stack are those of one layer,
    unless a bucket has room for all layers. A gradient that depends on sums of other gradients is
    not in their bucket, so that no two buckets wait for each other.
    """
    layers = _layers(step, program, sizes)
    depths = _depths(program, {at for at, _ in _find_sums(step, program, sizes)})
    of_layer = _layer_bytes(program, sizes, layers)
    filled: dict[BucketKey, list[list[str]]] = {}
    room: dict[BucketKey, int] = {}
    for at, moved in _find_sums(step, program, sizes):
        slices = layers.get(at, 1)
        if slices * of_layer[_place_of(program, at)] <= most_bytes:
            slices = 1
        size, key = _bytes(moved, sizes) // slices, (slices, depths[at], _key(program, at))
        if room.get(key, 0) < size:
            filled.setdefault(key, []).append([])
            room[key] = most_bytes
        filled[key][-1].append(moved.value.name)
        room[key] -= size
    buckets = (bucket for similar in filled.values() for bucket in similar)
    return tuple(tuple(bucket) for bucket in buckets if len(bucket) > 1)


def _depths(program: StepProgram, sums: Collection[int]) -> Mapping[int, int]:
    """Returns, for each sum, the length of the longest chain of sums on which it depends."""
    below: dict[Key, int] = {}
    depths: dict[int, int] = {}
    for at, instruction in enumerate(program.instructions):
        depth = max((below.get(key, 0) for key in instruction.keys_read), default=0)
        if at in sums:
            depths[at], depth = depth, depth + 1
        for key in _keys_provided_by(instruction):
            below[key] = max(below.get(key, 0), depth)
    return depths


def count_bucket_layers(
    step: Step, program: StepProgram, sizes: Mapping[str, int], most_bytes: int
) -> int:
    """Returns the number of layers in each bucket: 1, unless all gradients of more layers fit."""
    layers = _layers(step, program, sizes)
    of_layer = _layer_bytes(program, sizes, layers)
    fit = most_bytes // max(of_layer.values(), default=most_bytes)
    return max(1, min(fit, max(layers.values(), default=1)))


def _layers(step: Step, program: StepProgram, sizes: Mapping[str, int]) -> Mapping[int, int]:
    """Returns the number of layers of each sum of a stack, by its index in the program."""
    stacked = find_stacks(step)
    return {
        at: moved.value.type.shape[0]
        for at, moved in _find_sums(step, program, sizes)
        if moved.value.name in stacked
        and slices_alike(moved.path.source)
        and slices_alike(moved.path.target)
    }


def _layer_bytes(
    program: StepProgram, sizes: Mapping[str, int], layers: Mapping[int, int]
) -> Counter[InstructionPlace | None]:
    """Returns the bytes of one layer's gradients, by the place where they are summed."""
    totals = Counter[InstructionPlace | None]()
    for at, count in layers.items():
        moved = program.instructions[at]
        assert isinstance(moved, RedistributedValue), moved
        totals[_place_of(program, at)] += _bytes(moved, sizes) // count
    return totals


def _bytes(moved: RedistributedValue, sizes: Mapping[str, int]) -> int:
    """Returns the bytes that a device holds before the redistribution."""
    shape = part_shape(moved.value.type, moved.path.source, sizes)
    return Type(moved.value.type.dtype, shape).bytes


def _find_sums(
    step: Step, program: StepProgram, sizes: Mapping[str, int]
) -> Iterator[tuple[int, RedistributedValue]]:
    """Yields the sums of gradients that can be in buckets, each with its index in the program.

    Only the first redistribution of a gradient counts, because a plan refers to it by the
    gradient's name.
    """
    updated = {*find_updated(step)}
    for at, moved in enumerate(program.instructions):
        if not isinstance(moved, RedistributedValue) or moved.value.name not in updated:
            continue
        if not moved.path.requests(sizes):
            continue
        updated.remove(moved.value.name)
        kinds = [kind for kind, _ in moved.path.source.partial]
        if ReductionKind.SUM in kinds and _can_be_joined(moved):
            yield at, moved


def group_buckets(program: StepProgram, plan: Plan) -> StepProgram:
    """Reorders a program so that the members of each bucket are adjacent, from the first member on.

    Instructions on which members depend come before. Raises InputError for members that are not
    redistributed, that differ in kind, or that depend on the sum of another member.
    """
    for names in plan.buckets:
        program = _group_members(program, names, plan.sizes)
    return program


def _group_members(
    program: StepProgram, names: tuple[str, ...], sizes: Mapping[str, int]
) -> StepProgram:
    places = _find_sent(program, names, sizes)
    keys = {_key(program, at) for at in places}
    if len(keys) > 1:
        problem = f"{', '.join(names)} are not redistributed in the same way"
        hint = "gradients of a bucket need one element type, one kind of request and the same axes"
        raise InputError(problem, where="plan", hint=hint)
    if not all(_can_be_joined(program.instructions[at]) for at in places):
        problem = f"{names[0]} is exchanged in pieces of several dimensions"
        raise InputError(problem, where="plan", hint="remove it from the bucket")
    before = _find_dependencies(program, places)
    for name, at in zip(names, places, strict=True):
        if at in before:
            problem = f"others of its bucket depend on the sum of {name}: {', '.join(names)}"
            raise InputError(problem, where="plan", hint="put it in an earlier bucket")
    before.update(range(min(places)))
    rest = {*range(len(program.instructions))} - before - {*places}
    order = [*sorted(before), *sorted(places), *sorted(rest)]
    new = {old: at for at, old in enumerate(order)}
    earlier = tuple(tuple(new[at] for at in bucket) for bucket in program.buckets)
    return replace(
        program,
        instructions=tuple(program.instructions[at] for at in order),
        places=tuple(program.places[at] for at in order) if program.places else (),
        buckets=(*earlier, tuple(new[at] for at in sorted(places))),
    )


def _find_sent(program: StepProgram, names: Sequence[str], sizes: Mapping[str, int]) -> list[int]:
    """Returns the index of the first instruction that sends each value."""
    found: dict[str, int] = {}
    wanted = frozenset(names)
    for at, instruction in enumerate(program.instructions):
        if (
            isinstance(instruction, RedistributedValue)
            and instruction.value.name in wanted
            and instruction.path.requests(sizes)
        ):
            found.setdefault(instruction.value.name, at)
    if missing := [name for name in names if name not in found]:
        problem = f"{missing[0]} is in a bucket but not redistributed"
        hint = "a bucket contains only gradients that are sent"
        raise InputError(problem, where="plan", hint=hint)
    return [found[name] for name in names]


def _key(program: StepProgram, at: int) -> BucketKey:
    moved = program.instructions[at]
    assert isinstance(moved, RedistributedValue), moved
    place = _place_of(program, at)
    moves = tuple((move.how, move.axes) for move in moved.path.moves)
    return (moved.value.type.dtype, moves, frozenset(moved.path.source.splitting), place)


def _place_of(program: StepProgram, at: int) -> InstructionPlace | None:
    return program.places[at] if program.places else None


def _can_be_joined(moved: LocalOperation | RedistributedValue | SentValue) -> bool:
    if not isinstance(moved, RedistributedValue) or any(
        move.how not in FLAT for move in moved.path.moves
    ):
        return False
    ends = (moved.path.source, *(move.after for move in moved.path.moves))
    cuts = {end.dimensions for end in ends}
    return len(cuts) == 1 or not any(end.flat for end in ends)


def _find_dependencies(program: StepProgram, places: Collection[int]) -> set[int]:
    """Returns the instructions between members on which members depend, with their buckets."""
    of_bucket = {at: bucket for bucket in program.buckets for at in bucket}
    needed = {key for at in places for key in program.instructions[at].keys_read}
    found: set[int] = set()
    for at in reversed(range(min(places), max(places))):
        if not needed.isdisjoint(_keys_provided_by(program.instructions[at])):
            for member in of_bucket.get(at, (at,)):
                found.add(member)
                needed.update(program.instructions[member].keys_read)
    return found


def _keys_provided_by(
    instruction: LocalOperation | RedistributedValue | SentValue,
) -> Sequence[Key]:
    """Returns the keys that an instruction makes available on any stage."""
    is_send = isinstance(instruction, SentValue)
    return instruction.keys_read if is_send else instruction.keys_made
