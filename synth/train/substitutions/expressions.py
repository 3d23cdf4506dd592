"""What both sides of a substitution are made of: operations and redistributions, of any size.

A dimension has no size but a structure: an index of its own (``Atom``), blocks of something
(``Times``: which block, and where in it), or one after the other (``Plus``). To cut a dimension
along an axis is to read of ``Times(axis, rest)`` what is the device's own. So nothing that is said
here depends on a number, and what is proved holds for every size.

An expression is what each device computes; devices have a coordinate along each axis, whose index
is that axis's ``Atom``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import assert_never

from hierarchies import InputError


@dataclass(frozen=True)
class Atom:
    """An index of its own, of any size; the coordinates along an axis are one, too."""

    name: str


@dataclass(frozen=True)
class Times:
    """Blocks: the number of a block, which is the slower one, and the place in it."""

    block: Dim
    inner: Dim


@dataclass(frozen=True)
class Plus:
    """One after the other."""

    first: Dim
    second: Dim


Dim = Atom | Times | Plus


@dataclass(frozen=True)
class Input:
    """A value that is given: equal on all devices, unless it differs along some axes.

    One that is cut is ``Slice`` of an input; a partial sum differs.
    """

    name: str
    dims: tuple[Dim, ...]
    differs: tuple[Atom, ...] = ()


@dataclass(frozen=True)
class Add:
    """Element by element."""

    left: Expression
    right: Expression


@dataclass(frozen=True)
class Product:
    """Dimensions by letters, as einsum: ``ik,kj->ij``; what is not in the result is summed."""

    letters: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Map:
    """Any function of each element, of which nothing is known: ``exp``, or a cast."""

    function: str
    operand: Expression


@dataclass(frozen=True)
class Sum:
    """Over a dimension."""

    dimension: int
    operand: Expression


@dataclass(frozen=True)
class Transpose:
    """Dimension n of the result is dimension ``order[n]`` of the operand."""

    order: tuple[int, ...]
    operand: Expression


@dataclass(frozen=True)
class Merge:
    """A dimension and the next one become one; a reshape."""

    dimension: int
    operand: Expression


@dataclass(frozen=True)
class Unmerge:
    """Blocks become a dimension of their own; a reshape."""

    dimension: int
    operand: Expression


@dataclass(frozen=True)
class Concatenate:
    """Along a dimension."""

    dimension: int
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Take:
    """The first or the second of what was put together: half of a split."""

    dimension: int
    second: bool
    operand: Expression


@dataclass(frozen=True)
class Slice:
    """Each device keeps its own block of a dimension."""

    dimension: int
    axis: Atom
    operand: Expression


@dataclass(frozen=True)
class Gather:
    """The blocks of all devices along an axis, one after the other."""

    dimension: int
    axis: Atom
    operand: Expression


@dataclass(frozen=True)
class Reduce:
    """The sum of what all devices along an axis hold, on each of them."""

    axis: Atom
    operand: Expression


@dataclass(frozen=True)
class Widen:
    """Each device writes its block in its place among zeros."""

    dimension: int
    axis: Atom
    operand: Expression


Expression = (
    Input
    | Add
    | Product
    | Map
    | Sum
    | Transpose
    | Merge
    | Unmerge
    | Concatenate
    | Take
    | Slice
    | Gather
    | Reduce
    | Widen
)


Changing = Sum | Merge | Unmerge | Take | Slice | Gather | Widen


def scatter(dimension: int, axis: Atom, operand: Expression) -> Expression:
    """Reduce-scatter: each device has its block of the sum."""
    return Slice(dimension, axis, Reduce(axis, operand))


def exchange(before: int, after: int, axis: Atom, operand: Expression) -> Expression:
    """All-to-all: cut along another dimension than before."""
    return Slice(after, axis, Gather(before, axis, operand))


def dims_of(one: Expression) -> tuple[Dim, ...]:
    """The dimensions of what a device then holds. Raises InputError for what does not fit."""
    match one:
        case Input(dims=dims):
            return dims
        case Add(left, right):
            return _same(dims_of(left), dims_of(right), "added up")
        case Product(letters, left, right):
            return _product(letters, dims_of(left), dims_of(right))
        case Map(operand=operand) | Reduce(operand=operand):
            return dims_of(operand)
        case Transpose(order, operand):
            dims = dims_of(operand)
            if sorted(order) != list(range(len(dims))):
                raise InputError(f"{order} is no order of {len(dims)} dimensions")
            return tuple(dims[at] for at in order)
        case Concatenate(at, left, right):
            before, after = dims_of(left), dims_of(right)
            whole = Plus(_at(before, at), _at(after, at))
            _same(_with(before, at), _with(after, at), "put together")
            return _with(before, at, whole)
        case _:
            return _changed(one, dims_of(one.operand))


def _changed(one: Changing, dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """What works on one dimension of one operand."""
    at = one.dimension
    match one:
        case Sum():
            _at(dims, at)
            return _with(dims, at)
        case Merge():
            joined = Times(_at(dims, at), _at(dims, at + 1))
            return (*dims[:at], joined, *dims[at + 2 :])
        case Unmerge():
            cut = _blocks(_at(dims, at))
            return _with(dims, at, cut.block, cut.inner)
        case Take(second=second):
            whole = _at(dims, at)
            if not isinstance(whole, Plus):
                raise InputError(f"dimension {at} is not put together of two")
            return _with(dims, at, whole.second if second else whole.first)
        case Slice(axis=axis):
            cut = _blocks(_at(dims, at))
            if cut.block != axis:
                raise InputError(f"dimension {at} has no block for each device of {axis.name}")
            return _with(dims, at, cut.inner)
        case Gather(axis=axis) | Widen(axis=axis):
            return _with(dims, at, Times(axis, _at(dims, at)))
    assert_never(one)


def axes_of(one: Expression) -> tuple[Atom, ...]:
    """The axes that an operation itself speaks of."""
    match one:
        case Input(differs=axes):
            return axes
        case Slice(axis=axis) | Gather(axis=axis) | Reduce(axis=axis) | Widen(axis=axis):
            return (axis,)
    return ()


def parts_of(one: Expression) -> Iterator[Expression]:
    """What an expression is made of, itself first."""
    yield one
    for each in fields(one):
        inside = getattr(one, each.name)
        if isinstance(inside, Expression):
            yield from parts_of(inside)


def _at(dims: tuple[Dim, ...], at: int) -> Dim:
    if not 0 <= at < len(dims):
        raise InputError(f"no dimension {at} of {len(dims)}")
    return dims[at]


def _with(dims: tuple[Dim, ...], at: int, *instead: Dim) -> tuple[Dim, ...]:
    return (*dims[:at], *instead, *dims[at + 1 :])


def _blocks(one: Dim) -> Times:
    if not isinstance(one, Times):
        raise InputError(f"{one} is not made of blocks")
    return one


def _same(one: tuple[Dim, ...], other: tuple[Dim, ...], what: str) -> tuple[Dim, ...]:
    if one != other:
        raise InputError(f"{one} and {other} are {what}")
    return one


def _product(letters: str, left: tuple[Dim, ...], right: tuple[Dim, ...]) -> tuple[Dim, ...]:
    read, _, made = letters.partition("->")
    named: dict[str, Dim] = {}
    for names, dims in zip(read.split(","), (left, right), strict=True):
        if len(names) != len(dims):
            raise InputError(f"{letters} of {len(dims)} dimensions")
        for name, dim in zip(names, dims, strict=True):
            _same((named.setdefault(name, dim),), (dim,), f"both {name} in {letters}")
    if not set(made) <= set(named):
        raise InputError(f"{letters} makes what it does not read")
    return tuple(named[name] for name in made)
