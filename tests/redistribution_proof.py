"""Proof with z3 that a path of moves gives the type that it should, for axes of every size.

No arithmetic: a coordinate along an axis is an element of a set of its own, and which block of a
dimension an element of the value lies in is an unknown function for each dimension, axis and set
of axes that are major to it: the same for ``[a]`` and the first axis of ``[a,b]``, another for the
second of ``[b,a]``. (It is the element's place times the product of all these sizes over that of
the dimension, modulo the axis's own, so the order of the major ones does not matter.) Which piece
of the flattened block it lies in, along a flat axis, is another for each way to cut. The state is
a formula has(device, element, contributor), "what the device holds for this element contains what
the contributor had"; a move says that some member of the group had it. A judge of its own: it
reads moves as data and shares no code with the rules or with ``replicas``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import z3

from grammar.tensors.sharding import ReductionKind, Sharding
from synth.collective.verify.verdict import EFFORT, Proved, Unknown, share_effort
from synth.step.redistribution.moves import MoveKind, RedistributionPath, ShardingMove

Formula = Any  # z3 has no types that a checker could see
At = Mapping[str, Any]


@dataclass(frozen=True)
class Wrong:
    """A path that does not give its target: which move (None: the end) goes wrong, and how."""

    move: ShardingMove | None
    reason: str


Verdict = Proved | Wrong | Unknown


def prove(
    path: RedistributionPath,
    target: Sharding | None = None,
    *,
    effort: int = EFFORT,
    axes: Sequence[str] = (),
) -> Verdict:
    """Decide for all sizes at once whether a path makes of its source what ``target`` says.

    The target is the path's own unless another is given, as a test does. ``axes`` are those of
    the placement, where it has more than occur. Asked are, before each move, that nothing is
    added or gathered twice; and at the end that every device holds just its block, that along
    partial axes every contribution occurs once, and that replicas hold the same. Two axes that a
    permute exchanges are taken to be of one size. What shape a buffer has is the types' business:
    a block is not told from the same block with zeros around it.
    """
    target = path.target if target is None else target
    named = dict.fromkeys((*axes, *path.source.axes, *target.axes))
    named |= dict.fromkeys(axis for move in path.moves for axis in move.axes)
    world = _World.of(tuple(named), _one_size(path))
    questions = tuple(_questions(world, path, target))
    part = share_effort(effort, len(questions))
    if part is None:
        return Unknown(f"an effort of {effort} is too little for {len(questions)} questions")
    for question in questions:
        solver = z3.Solver(ctx=world.context)
        solver.set("ctrl_c", False)
        solver.set("rlimit", part)
        solver.add(question.wrong)
        verdict = solver.check()
        if verdict == z3.unknown:
            return Unknown(f"{question.reason}: z3 gave up: {solver.reason_unknown()}")
        if verdict == z3.sat:
            return Wrong(question.move, question.reason)
    return Proved()


@dataclass(frozen=True)
class _Question:
    """A formula that is satisfiable just if the move (None: the end) goes wrong in this way."""

    move: ShardingMove | None
    reason: str
    wrong: Formula


@dataclass(frozen=True)
class _World:
    """The unknowns: an element, the coordinates of two devices and of a contributor.

    ``sets`` has for each axis the set of its coordinates; axes of one size share theirs.
    """

    context: Any
    elements: Any
    element: Formula
    sets: Mapping[str, Any]
    device: At
    other: At
    contributor: At

    @classmethod
    def of(cls, axes: tuple[str, ...], one_size: Mapping[str, str]) -> _World:
        context = z3.Context()
        elements = z3.DeclareSort("element", context)
        sets = {a: z3.DeclareSort(f"set of {one_size.get(a, a)}", context) for a in axes}
        kinds = ({axis: z3.Const(f"{kind} {axis}", sets[axis]) for axis in axes} for kind in "deq")
        return cls(context, elements, z3.Const("element", elements), sets, *kinds)

    def all_of(self, formulas: Iterator[Formula] | list[Formula]) -> Formula:
        return z3.And(*formulas, z3.BoolVal(True, self.context))

    def block(self, dimension: int, axes: Sequence[str]) -> Formula:
        """The coordinate, along the last of these axes, of the block that the element lies in.

        The order of those before it does not matter: they cut into as many parts either way.
        """
        *before, last = (str(self.sets[axis]) for axis in axes)
        name = f"block of {dimension} by {sorted(before)} and {last}"
        return z3.Function(name, self.elements, self.sets[axes[-1]])(self.element)

    def inside(self, sharding: Sharding, among: Sequence[str] | None = None) -> Formula:
        """The element lies in the device's block, as far as these axes (all) say."""
        blocks = {
            axis: self.block(dimension, axes[: place + 1])
            for dimension, axes in enumerate(sharding.dimensions)
            for place, axis in enumerate(axes)
        }
        blocks |= {axis: self.piece(sharding, axis) for axis in sharding.flat}
        return self.all_of(
            self.device[axis] == block
            for axis, block in blocks.items()
            if among is None or axis in among
        )

    def piece(self, sharding: Sharding, axis: str) -> Formula:
        """The coordinate, along a flat axis, of the piece that the element lies in.

        How much of a block is padding depends on all of these axes, so that none of them stands
        for itself.
        """
        cut = [sorted(str(self.sets[one]) for one in axes) for axes in sharding.dimensions]
        flat = [str(self.sets[one]) for one in sharding.flat]
        name = f"piece along {axis} of {flat} behind {sharding.lead} of {cut}"
        return z3.Function(name, self.elements, self.sets[axis])(self.element)

    def some(self, axes: Sequence[str], body: Formula) -> Formula:
        """Some member of the group over these axes makes it true."""
        bound = [self.device[axis] for axis in axes]
        return z3.Exists(bound, body) if bound else body

    def at_other(self, axes: Sequence[str], body: Formula) -> Formula:
        """The same of the device that has the other's coordinates on these axes."""
        return z3.substitute(body, *((self.device[a], self.other[a]) for a in axes))

    def differ(self, axes: Sequence[str]) -> Formula:
        return z3.Or(
            z3.BoolVal(False, self.context), *(self.device[a] != self.other[a] for a in axes)
        )

    def any_contributor(self, body: Formula) -> Formula:
        return z3.Exists(list(self.contributor.values()), body) if self.contributor else body


def _one_size(path: RedistributionPath) -> dict[str, str]:
    """Axes that a permute exchanges are of one size: each stands for its class."""
    found: dict[str, str] = {}
    for move in path.moves:
        if move.how is MoveKind.PERMUTE and not _reorders(move):
            one, other = (found.get(axis, axis) for axis in move.axes)
            found = {axis: one if of == other else of for axis, of in found.items()}
            found |= dict.fromkeys(move.axes, one)
    return found


def _reorders(move: ShardingMove) -> bool:
    """Whether every dimension is cut by the axes that it was cut by."""
    cuts = zip(move.before.dimensions, move.after.dimensions, strict=True)
    return all(set(one) == set(other) for one, other in cuts)


def _questions(world: _World, path: RedistributionPath, target: Sharding) -> Iterator[_Question]:
    has = _at_start(world, path.source)
    for move in path.moves:
        yield from _unsound(world, has, move)
        has = _after(world, has, move)
    yield from _missed(world, has, target)


def _at_start(world: _World, source: Sharding) -> Formula:
    """A device has its block, and along partial axes what it contributes itself."""
    own = [world.device[axis] == world.contributor[axis] for _, axis in source.partial]
    return world.all_of([world.inside(source), *own])


def _unsound(world: _World, has: Formula, move: ShardingMove) -> Iterator[_Question]:
    """Two members of a group hold what may be held once only."""
    theirs = world.at_other(move.axes, has)
    match move.how:
        case MoveKind.ALL_REDUCE | MoveKind.REDUCE_SCATTER:
            if move.kind is not ReductionKind.SUM:
                return  # the larger of a number and itself is that number
            wrong, reason = z3.And(has, theirs), "a contribution would be added twice"
        case MoveKind.ALL_GATHER | MoveKind.ALL_TO_ALL:
            wrong = z3.And(world.any_contributor(has), world.any_contributor(theirs))
            reason = "an element would be gathered twice"
        case MoveKind.SLICE | MoveKind.MASK | MoveKind.WIDEN | MoveKind.PERMUTE:
            return
        case _:
            assert_never(move.how)
    yield _Question(move, f"{move}: {reason}", z3.And(world.differ(move.axes), wrong))


def _after(world: _World, has: Formula, move: ShardingMove) -> Formula:
    match move.how:
        case MoveKind.SLICE:
            return z3.And(has, world.inside(move.after, move.axes))
        case MoveKind.MASK:
            if move.kind is not ReductionKind.SUM:
                return has  # nothing is done
            first = (z3.Const(f"first of {world.sets[a]}", world.sets[a]) for a in move.axes)
            here = (world.device[a] == one for a, one in zip(move.axes, first, strict=True))
            return world.all_of([has, *here])
        case MoveKind.WIDEN:
            return has
        case MoveKind.ALL_GATHER | MoveKind.ALL_REDUCE:
            return world.some(move.axes, has)
        case MoveKind.ALL_TO_ALL | MoveKind.REDUCE_SCATTER | MoveKind.PERMUTE:
            return z3.And(world.some(move.axes, has), world.inside(move.after, move.axes))
        case _:
            assert_never(move.how)


def _missed(world: _World, has: Formula, target: Sharding) -> Iterator[_Question]:
    partial = [axis for _, axis in target.partial]
    rest = [axis for axis in world.sets if axis not in target.axes]
    inside = world.inside(target)
    theirs = world.at_other(partial, has)
    yield _Question(None, "a device holds what is outside its block", z3.And(has, z3.Not(inside)))
    yield _Question(
        None, "a contribution is missing", z3.And(inside, z3.Not(world.some(partial, has)))
    )
    if any(kind is ReductionKind.SUM for kind, _ in target.partial):
        twice = z3.And(has, theirs, world.differ(partial))
        yield _Question(None, "a contribution is there twice", twice)
    yield _Question(None, "replicas differ", z3.And(has, z3.Not(world.at_other(rest, has))))
