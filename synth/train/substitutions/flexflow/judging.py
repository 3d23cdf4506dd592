"""Whether the two graphs of a rule make the same tensors, of every size, and cut them alike.

A tensor has three dimensions: copies, samples (of a weight: what is made), channels (what is summed
up), each cut into so many parts. ``OP_PARTITION`` and ``OP_COMBINE`` change no value: a dimension
is cut into twice or half as many parts. ``OP_REPLICATE`` puts a tensor behind itself, and there are
twice as many parts; ``OP_REDUCE`` adds its second half to its first, and there are half as many.
``OP_CONCAT`` and ``OP_SPLIT`` want a dimension that is not cut. ``OP_LINEAR`` reads the first of
alike copies; in as many parts as the channels are cut, it makes parts of a sum, and in as many as
there were copies, channels. (So FlexFlow 23.8: src/parallel_ops, the shapes of src/ops/linear.cc,
concat.cc and split.cc, and ``Graph::check_correctness``, which refuses what is cut otherwise.)

The second graph must make the same, cut alike, wherever the first can be carried out. That it does
is proved; that it does not is shown with tensors on which it is so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from synth.train.substitutions.expressions import (
    Add,
    Concatenate,
    Dim,
    Expression,
    Input,
    Map,
    Plus,
    Product,
    Take,
    dims_of,
)
from synth.train.substitutions.flexflow.arrays import Witness, witness
from synth.train.substitutions.flexflow.reading import Operator, Rule, Tensor, given, multiplied
from synth.train.substitutions.flexflow.shapes import (
    DIMENSIONS,
    ONE,
    Cuts,
    ImpossibleError,
    Shapes,
    atom_of,
)
from synth.train.substitutions.proof import prove
from synth.verify.verdict import Proved

T = TypeVar("T")


@dataclass(frozen=True)
class Outside:
    """Not judged: what is said here does not reach it."""

    because: str


@dataclass(frozen=True)
class Refuted:
    """The second graph may not stand for the first: why, and tensors on which it is so.

    ``elsewhere``: wherever both can be carried out they leave the same, which was proved.
    """

    because: str
    witness: Witness | None = None
    elsewhere: bool = False


@dataclass(frozen=True)
class Held:
    """A tensor: the sizes of a part, how it is cut, and its values, once all that is known.

    ``mixed``: the channels were replicated or reduced, which neighbours then share otherwise.
    """

    part: tuple[Dim, ...]
    cut: tuple[Cuts, ...]
    value: Callable[[], Expression]
    mixed: bool = False

    def cut_more(self, dimension: int, by: int) -> Held:
        cuts = self.cut[dimension]
        return replace(self, cut=_put(self.cut, dimension, Cuts(cuts.of, cuts.more + by)))


class UnknownOperatorError(Exception):
    """An operator that is not looked into; says what ``Outside`` then says."""


def judged(rule: Rule) -> Proved | Refuted | Outside:
    """Whether the second graph makes what the first does, wherever that can be carried out."""
    shapes = Shapes()
    read, alike = given(rule.source), multiplied(rule.source)
    source, target = _Graph(shapes, alike), _Graph(shapes, alike)
    try:
        source.carry_out(rule.source)
    except UnknownOperatorError as unknown:
        return Outside(str(unknown))
    except ImpossibleError as impossible:
        return Outside(f"the first graph can be carried out on nothing: {impossible}")
    exact, domain, same = not shapes.unlike, shapes.copy(), False
    try:
        target.carry_out(rule.target)
        same = not shapes.unlike and _same(rule, source, target)
    except UnknownOperatorError as unknown:
        return Outside(str(unknown))
    except ImpossibleError:
        pass
    if not set(given(rule.target)) <= set(read):
        return Refuted("it reads an input that the first graph has not", None, same)
    if same and exact and shapes.known(read) == domain.known(read):
        return Proved()
    found = witness(rule, domain)
    if found is None:
        return Outside("neither a proof nor tensors that differ were found")
    return Refuted(found.what, found, same)


def _same(rule: Rule, source: _Graph, target: _Graph) -> bool:
    """Whether all results are proved to be alike on all tensors that both can be carried out on."""
    shapes = source.shapes
    for one, other in rule.outputs:
        left, right = source.held[one], target.held[other]
        if [*map(shapes.cuts, left.cut)] != [*map(shapes.cuts, right.cut)]:
            return False
        if not _equal(left.value(), right.value()):
            return False
    return all(_equal(*both) for graph in (source, target) for both in graph.copies())


def _equal(one: Expression, other: Expression) -> bool:
    """Proved of all pieces that were put together, in whatever order that was done."""
    pieces, others = list(_pieces(one)), list(_pieces(other))
    return len(pieces) == len(others) and all(
        isinstance(prove(*both), Proved) for both in zip(pieces, others, strict=True)
    )


def _pieces(one: Expression, dimension: int = 0) -> Iterator[Expression]:
    if dimension == DIMENSIONS:
        yield one
    elif isinstance(dims_of(one)[dimension], Plus):
        for second in (False, True):
            yield from _pieces(Take(dimension, second, one), dimension)
    else:
        yield from _pieces(one, dimension + 1)


@dataclass
class _Graph:
    """What each operator makes; what it asks of the inputs is noted.

    ``alike``: inputs whose copies are, as the first graph multiplies them. Of a dimension as many
    cuts are looked into as any operator takes away; in what is cut otherwise, all do the same.
    """

    shapes: Shapes
    alike: frozenset[Tensor]
    held: dict[Tensor, Held] = field(default_factory=dict)
    multiplied: list[Held] = field(default_factory=list)

    def carry_out(self, operators: Iterable[Operator]) -> None:
        """Raises UnknownOperatorError, and ImpossibleError where no tensors are such."""
        for at, operator in enumerate(operators):
            made = self.made(operator, [self.read(one) for one in operator.inputs])
            self.held |= {(at, which): one for which, one in enumerate(made)}

    def copies(self) -> list[tuple[Expression, Expression]]:
        """Pairs of copies, which must be alike."""
        return [
            (Take(0, False, value), Take(0, True, value))
            for one in self.multiplied
            if self.depth(one.cut[0])
            for value in (one.value(),)
        ]

    def depth(self, cut: Cuts) -> int:
        return self.shapes.cuts(cut).more - self.shapes.least(cut)

    def read(self, tensor: Tensor) -> Held:
        if tensor[0] >= 0:
            if tensor not in self.held:
                raise UnknownOperatorError(f"there is no result {tensor[1]} of an operator")
            return self.held[tensor]
        part = tuple(atom_of(tensor, dimension) for dimension in range(DIMENSIONS))
        cut = tuple(Cuts((tensor, dimension), 0) for dimension in range(DIMENSIONS))

        def value() -> Expression:
            depths = [*map(self.depth, cut)]
            copies = depths[0] if tensor in self.alike else 0
            depths[0] -= copies
            dims = map(self.whole, part, depths)
            return _copied(Input(f"input {tensor[0]} {tensor[1]}", tuple(dims)), copies)

        return Held(part, cut, value)

    def whole(self, part: Dim, depth: int) -> Dim:
        half = self.shapes.part(part) if not depth else self.whole(part, depth - 1)
        return Plus(half, half) if depth else half

    def made(self, operator: Operator, read: list[Held]) -> tuple[Held, ...]:
        told = dict(operator.parameters)
        match operator.type, read, told:
            case "OP_IDENTITY", [one], {}:
                return (one,)
            case "OP_RELU", [one], {}:
                return (self.relu(one),)
            case "OP_EW_ADD" | "OP_EW_MUL" as kind, [one, other], {}:
                return (self.together(kind, one, other),)
            case "OP_LINEAR", [one, other], {"PM_ACTI": 0}:
                return (self.linear(one, other),)
            case "OP_LINEAR", [one, other], {"PM_ACTI": 2}:
                return (self.relu(self.linear(one, other)),)
            case "OP_CONCAT", [one, other], {"PM_AXIS": at} if 0 <= at < DIMENSIONS:
                return (self.concatenated(one, other, at),)
            case "OP_SPLIT", [one], {"PM_AXIS": at} if 0 <= at < DIMENSIONS:
                return self.split(one, at)
            case kind, [one], {"PM_PARALLEL_DIM": at, "PM_PARALLEL_DEGREE": 2} if (
                kind in MOVES and 0 <= at < DIMENSIONS
            ):
                return (MOVES[kind](self, one, at),)
        spelled = ", ".join(f"{key} {value}" for key, value in operator.parameters)
        raise UnknownOperatorError(f"{operator.type} of {len(read)} is not looked into ({spelled})")

    def relu(self, one: Held) -> Held:
        return replace(one, value=lambda: Map("relu", one.value()))

    def partition(self, one: Held, dimension: int) -> Held:
        half = self.shapes.halved(one.part[dimension])
        return replace(one.cut_more(dimension, 1), part=_put(one.part, dimension, half))

    def combine(self, one: Held, dimension: int) -> Held:
        part = one.part[dimension]
        return replace(self.fewer(one, dimension), part=_put(one.part, dimension, Plus(part, part)))

    def replicate(self, one: Held, dimension: int) -> Held:
        def value() -> Expression:
            return Concatenate(dimension, one.value(), one.value())

        return replace(one.cut_more(dimension, 1), value=value, mixed=one.mixed or dimension == 2)

    def reduce(self, one: Held, dimension: int) -> Held:
        def value() -> Expression:
            whole = one.value()
            return Add(Take(dimension, False, whole), Take(dimension, True, whole))

        return replace(self.fewer(one, dimension), value=value, mixed=one.mixed or dimension == 2)

    def fewer(self, one: Held, dimension: int) -> Held:
        found = one.cut_more(dimension, -1)
        self.shapes.reach(found.cut[dimension])
        return found

    def together(self, kind: str, one: Held, other: Held) -> Held:
        for dimension in range(DIMENSIONS):
            self.equal(one, dimension, other, dimension)

        def value() -> Expression:
            if kind == "OP_EW_ADD":
                return Add(one.value(), other.value())
            return Product("abc,abc->abc", one.value(), other.value())

        return replace(one, value=value, mixed=one.mixed or other.mixed)

    def equal(self, one: Held, dimension: int, other: Held, its: int) -> None:
        self.shapes.equal(one.part[dimension], other.part[its])
        self.shapes.alike(one.cut[dimension], other.cut[its])

    def concatenated(self, one: Held, other: Held, along: int) -> Held:
        for dimension in range(DIMENSIONS):
            if dimension != along:
                self.equal(one, dimension, other, dimension)
        self.shapes.whole(one.cut[along])
        self.shapes.whole(other.cut[along])
        self.shapes.alike(one.cut[along], other.cut[along])
        return Held(
            _put(one.part, along, Plus(one.part[along], other.part[along])),
            one.cut,
            lambda: Concatenate(along, one.value(), other.value()),
            one.mixed or other.mixed,
        )

    def split(self, one: Held, along: int) -> tuple[Held, ...]:
        self.shapes.whole(one.cut[along])
        part = _put(one.part, along, self.shapes.halved(one.part[along]))
        return (
            Held(part, one.cut, lambda: Take(along, False, one.value()), one.mixed),
            Held(part, one.cut, lambda: Take(along, True, one.value()), one.mixed),
        )

    def linear(self, one: Held, weight: Held) -> Held:
        if one.mixed or weight.mixed:
            raise UnknownOperatorError("a sum over channels that were replicated or reduced")
        self.shapes.equal(one.part[2], weight.part[2])
        for dimension, its in ((0, 1), (1, 0), (2, 2)):
            self.shapes.alike(one.cut[dimension], weight.cut[its])
        self.multiplied += (one, weight)

        def value() -> Expression:
            first = _first(one.value()), _first(weight.value())
            return _sums(*first, self.depth(one.cut[2]))

        cut = (one.cut[2], one.cut[1], one.cut[0])
        return Held((ONE, one.part[1], weight.part[1]), cut, value)


MOVES: dict[str, Callable[[_Graph, Held, int], Held]] = {
    "OP_PARTITION": _Graph.partition,
    "OP_COMBINE": _Graph.combine,
    "OP_REPLICATE": _Graph.replicate,
    "OP_REDUCE": _Graph.reduce,
}


def _copied(one: Expression, times: int) -> Expression:
    return _copied(Concatenate(0, one, one), times - 1) if times else one


def _first(one: Expression) -> Expression:
    """The first of what was put together along the dimension of copies."""
    return _first(Take(0, False, one)) if isinstance(dims_of(one)[0], Plus) else one


def _sums(one: Expression, weight: Expression, depth: int) -> Expression:
    """A sum over the channels of each part of them."""
    if not depth:
        return Product("aik,ajk->aij", one, weight)
    halves = (
        _sums(Take(2, second, one), Take(2, second, weight), depth - 1) for second in (False, True)
    )
    return Concatenate(0, *halves)


def _put(several: tuple[T, ...], at: int, one: T) -> tuple[T, ...]:
    return (*several[:at], one, *several[at + 1 :])
