"""Buckets: redistributions of gradients that go together as one, to send fewer and larger ones.

They change no value: a bucket is sent when its last member is made, before the first of them is
read, so no member is made of the sum of another. Members go end to end in one request, of the same
kind over the same axes. Of layers in a loop the members are stacks, a slice of
each layer; as slices are sent when their layer has made them, those of a layer go together, or of
as many layers as a bucket has room for.
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
    keys_made_by,
    keys_read_by,
)

Alike = tuple[object, ...]

FLAT = (
    MoveKind.ALL_REDUCE,
    MoveKind.REDUCE_SCATTER,
    MoveKind.ALL_GATHER,
    MoveKind.SLICE,
    MoveKind.MASK,
)
"""What may be done with values put end to end, as with each."""

WHOLE = Fraction(1)


def flatten_bucket(
    several: Sequence[RedistributedValue], sizes: Mapping[str, int], share: Fraction = WHOLE
) -> tuple[Type, RedistributionPath]:
    """The members of a bucket end to end, of one dimension: its type, and move for move its path.

    A device has as many elements of it as of all members, or of a ``share`` of their layers. Those
    of members that are cut flat are counted with their padding.
    """
    several = [_pad_blocks(one, sizes) for one in several]
    first, elements = several[0], sum(one.value.type.elements for one in several)
    kind = Type(first.value.type.dtype, (int(share * elements),))
    at = _flat_sharding(first.path.source.splitting, first.path.source)
    moves, source = [], at
    for move in first.path.moves:
        [before] = at.dimensions
        stay = tuple(axis for axis in before if axis in move.after.splitting)
        new = move.entering if move.how in (MoveKind.REDUCE_SCATTER, MoveKind.SLICE) else ()
        after = _flat_sharding((*stay, *new), move.after)
        moves.append(ShardingMove(move.how, move.axes, at, after))
        at = after
    return kind, RedistributionPath(source, at, tuple(moves))


def _pad_blocks(one: RedistributedValue, sizes: Mapping[str, int]) -> RedistributedValue:
    """The same of the padded blocks of what is cut flat, whose last dimension the axes cut."""
    ends = (one.path.source, *(move.after for move in one.path.moves))
    cut = next((end for end in ends if end.flat), None)
    if cut is None:
        return one
    *lead, each = part_shape(one.value.type, cut, sizes)
    length = each * prod(sizes[axis] for axis in cut.cutting)

    def along(end: Sharding) -> Sharding:
        return Sharding(((),) * cut.lead + ((*end.splitting, *end.flat),), end.partial)

    moves = (
        replace(move, before=along(move.before), after=along(move.after)) for move in one.path.moves
    )
    path = RedistributionPath(along(one.path.source), along(one.path.target), tuple(moves))
    kind = Type(one.value.type.dtype, (*lead, length))
    return RedistributedValue(replace(one.value, type=kind), path)


def _flat_sharding(axes: Iterable[str], like: Sharding) -> Sharding:
    return Sharding((tuple(axes),), like.partial)


def buckets_of(
    step: Step, program: StepProgram, sizes: Mapping[str, int], most_bytes: int
) -> tuple[tuple[str, ...], ...]:
    """Gradients in the order of the program, in buckets of at most so many bytes on a device.

    One that is larger goes alone, and alone is no bucket. Of stacks those of one layer count, as
    long as a bucket has no room for all layers. Gradients that are made of sums of gradients are in
    other buckets than these, so that no buckets wait for each other.
    """
    layers = _layers(step, program, sizes)
    depths = _depths(program, {at for at, _ in _find_sums(step, program, sizes)})
    of_layer = _layer_bytes(program, sizes, layers)
    filled: dict[Alike, list[list[str]]] = {}
    room: dict[Alike, int] = {}
    for at, one in _find_sums(step, program, sizes):
        slices = layers.get(at, 1)
        if slices * of_layer[_place_of(program, at)] <= most_bytes:
            slices = 1
        size, key = _bytes(one, sizes) // slices, (slices, depths[at], _key(program, at))
        if room.get(key, 0) < size:
            filled.setdefault(key, []).append([])
            room[key] = most_bytes
        filled[key][-1].append(one.value.name)
        room[key] -= size
    return tuple(tuple(one) for some in filled.values() for one in some if len(one) > 1)


def _depths(program: StepProgram, sums: Collection[int]) -> Mapping[int, int]:
    """How many other sums precede each sum on the longest chain of sums that it is made of."""
    below: dict[Key, int] = {}
    found: dict[int, int] = {}
    for at, one in enumerate(program.instructions):
        depth = max((below.get(key, 0) for key in keys_read_by(one)), default=0)
        if at in sums:
            found[at], depth = depth, depth + 1
        for key in _brings(one):
            below[key] = max(below.get(key, 0), depth)
    return found


def count_bucket_layers(
    step: Step, program: StepProgram, sizes: Mapping[str, int], most_bytes: int
) -> int:
    """Of how many layers such buckets are: one, unless all gradients of several fit."""
    layers = _layers(step, program, sizes)
    of_layer = _layer_bytes(program, sizes, layers)
    fit = most_bytes // max(of_layer.values(), default=most_bytes)
    return max(1, min(fit, max(layers.values(), default=1)))


def _layers(step: Step, program: StepProgram, sizes: Mapping[str, int]) -> Mapping[int, int]:
    """How many layers there are of each sum of a stack, by its place in the program."""
    stacked = find_stacks(step)
    return {
        at: one.value.type.shape[0]
        for at, one in _find_sums(step, program, sizes)
        if one.value.name in stacked
        and slices_alike(one.path.source)
        and slices_alike(one.path.target)
    }


def _layer_bytes(
    program: StepProgram, sizes: Mapping[str, int], layers: Mapping[int, int]
) -> Counter[InstructionPlace | None]:
    """Bytes of the gradients of a layer, by where they are summed."""
    found = Counter[InstructionPlace | None]()
    for at, several in layers.items():
        one = program.instructions[at]
        assert isinstance(one, RedistributedValue), one
        found[_place_of(program, at)] += _bytes(one, sizes) // several
    return found


def _bytes(one: RedistributedValue, sizes: Mapping[str, int]) -> int:
    """What a device has of it before it is sent."""
    shape = part_shape(one.value.type, one.path.source, sizes)
    return Type(one.value.type.dtype, shape).bytes


def _find_sums(
    step: Step, program: StepProgram, sizes: Mapping[str, int]
) -> Iterator[tuple[int, RedistributedValue]]:
    """The sums of gradients that may go together, each with its place in the program.

    Of a gradient that is sent several times the first counts, which its name stands for in a plan.
    """
    changed = find_updated(step)
    for at, one in enumerate(program.instructions):
        if not isinstance(one, RedistributedValue) or one.value.name not in changed:
            continue
        if not one.path.requests(sizes):
            continue
        changed.remove(one.value.name)
        if ReductionKind.SUM in [kind for kind, _ in one.path.source.partial] and _is_flat(one):
            yield at, one


def group_buckets(program: StepProgram, plan: Plan) -> StepProgram:
    """The program with the members of each bucket side by side, where the first of them was.

    What the others are made of is done before. Raises InputError for members that are not
    redistributed, or not alike, and for one that is made of the sum of another.
    """
    for names in plan.buckets:
        program = _group_members(program, names, plan.sizes)
    return program


def _group_members(
    program: StepProgram, names: tuple[str, ...], sizes: Mapping[str, int]
) -> StepProgram:
    places = [_place(program, name, sizes) for name in names]
    keys = {_key(program, at) for at in places}
    if len(keys) > 1:
        problem = f"{', '.join(names)} are not redistributed alike"
        hint = "members of a bucket have one element type, one kind of request and the same axes"
        raise InputError(problem, where="plan", hint=hint)
    if not all(_is_flat(program.instructions[at]) for at in places):
        problem = f"{names[0]} goes from device to device in pieces of several dimensions"
        raise InputError(problem, where="plan", hint="leave it out of the bucket")
    before = _made_of(program, places)
    for name, at in zip(names, places, strict=True):
        if at in before:
            problem = f"others of its bucket are made of the sum of {name}: {', '.join(names)}"
            raise InputError(problem, where="plan", hint="put it in an earlier bucket")
    before.update(range(min(places)))
    rest = {*range(len(program.instructions))} - before - {*places}
    order = [*sorted(before), *sorted(places), *sorted(rest)]
    new = {old: at for at, old in enumerate(order)}
    spots = tuple(program.places[at] for at in order) if program.places else ()
    moved = tuple(tuple(new[at] for at in bucket) for bucket in program.buckets)
    return replace(
        program,
        instructions=tuple(program.instructions[at] for at in order),
        places=spots,
        buckets=(*moved, tuple(new[at] for at in sorted(places))),
    )


def _place(program: StepProgram, name: str, sizes: Mapping[str, int]) -> int:
    for at, one in enumerate(program.instructions):
        if (
            isinstance(one, RedistributedValue)
            and one.value.name == name
            and one.path.requests(sizes)
        ):
            return at
    problem = f"{name} is in a bucket and not redistributed"
    raise InputError(problem, where="plan", hint="buckets are of gradients that are sent")


def _key(program: StepProgram, at: int) -> Alike:
    """Alike are redistributions of one element type, by the same moves, at one place."""
    one = program.instructions[at]
    assert isinstance(one, RedistributedValue), one
    place = _place_of(program, at)
    asked = tuple((move.how, move.axes) for move in one.path.moves)
    return (one.value.type.dtype, asked, frozenset(one.path.source.splitting), place)


def _place_of(program: StepProgram, at: int) -> InstructionPlace | None:
    return program.places[at] if program.places else None


def _is_flat(one: LocalOperation | RedistributedValue | SentValue) -> bool:
    if not isinstance(one, RedistributedValue) or any(
        move.how not in FLAT for move in one.path.moves
    ):
        return False
    ends = (one.path.source, *(move.after for move in one.path.moves))
    cuts = {end.dimensions for end in ends}
    return len(cuts) == 1 or not any(end.flat for end in ends)


def _made_of(program: StepProgram, places: Collection[int]) -> set[int]:
    """What of the instructions between members they are made of, each with all of its bucket."""
    of_bucket = {at: bucket for bucket in program.buckets for at in bucket}
    needed = {key for at in places for key in keys_read_by(program.instructions[at])}
    found: set[int] = set()
    for at in reversed(range(min(places), max(places))):
        if not needed.isdisjoint(_brings(program.instructions[at])):
            for each in of_bucket.get(at, (at,)):
                found.add(each)
                needed.update(keys_read_by(program.instructions[each]))
    return found


def _brings(one: LocalOperation | RedistributedValue | SentValue) -> list[Key]:
    """What is there by an instruction, on any stage."""
    return keys_read_by(one) if isinstance(one, SentValue) else keys_made_by(one)
