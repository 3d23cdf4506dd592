"""Proof with z3 that two expressions are equal, on every device and for dimensions of every size.

What a device holds at an index is written as a sum of products: inputs are unknown functions of
indices and coordinates, functions of elements are unknown, and products are distributed over sums,
so that all sums stand outside. A sum over blocks is one over the blocks of those in them, a sum
over one after the other is two, and a sum over a coordinate that must be one is what is there. A
sum over an index of any size is an unknown functional of what is summed: z3 is asked whether two
can differ. No size occurs anywhere.

The numbers are reals. ``bitwise`` knows less: additions and products are unknown functions, too,
and a sum is one of its own for every dimension, so that what is proved rounds alike in floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, permutations, product
from typing import Any, assert_never

import z3

from synth.train.substitutions.expressions import (
    Add,
    Atom,
    Concatenate,
    Dim,
    Expression,
    Gather,
    Input,
    Map,
    Merge,
    Plus,
    Product,
    Reduce,
    Slice,
    Sum,
    Take,
    Times,
    Transpose,
    Unmerge,
    Widen,
    axes_of,
    dims_of,
    parts_of,
)
from synth.verify.verdict import Proved, Unknown

Formula = Any  # z3 has no types that a checker could see

EFFORT = 10_000
"""In z3's resource units: proofs need few, and what cannot be proved would never end."""

MOST_BOUND = 5
"""Sums over more indices at once are not looked at: their orders are tried."""


@dataclass(frozen=True)
class Var:
    """An index: of a device, of the result, or bound by a sum."""

    atom: Atom
    number: int


Index = Var | tuple["Index", "Index"] | tuple[bool, "Index"]
"""Of ``Times`` a pair, of ``Plus`` which of the two and where in it."""

Devices = Mapping[Atom, Var]


@dataclass(frozen=True)
class Read:
    """An input at an index; ``cases`` says of every ``Plus`` which of the two it is."""

    name: str
    cases: tuple[bool, ...]
    at: tuple[Var, ...]


@dataclass(frozen=True)
class Applied:
    """A function of elements."""

    function: str
    of: tuple[Terms, ...]


@dataclass(frozen=True)
class Total:
    """A sum that is not looked into: over which dimension, and of each case what is summed."""

    over: str
    cases: tuple[tuple[tuple[Var, ...], Terms], ...]


Factor = Read | Applied | Total


@dataclass(frozen=True)
class Term:
    """A sum over all values of some variables of a product."""

    bound: tuple[Var, ...]
    factors: tuple[Factor, ...]
    equal: tuple[tuple[Var, Var], ...] = ()


Terms = tuple[Term, ...]


def prove(
    left: Expression, right: Expression, *, bitwise: bool = False, effort: int = EFFORT
) -> Proved | Unknown:
    """Decide whether all devices then hold the same. Not being proved is no refutation.

    ``bitwise``: in floats, too, if one runtime adds up one sum in one order.

    Raises InputError for expressions whose dimensions do not fit.
    """
    dims = dims_of(left)
    if dims != dims_of(right):
        return Unknown("the two sides have other dimensions")
    fresh = _Fresh()
    axes = {one for side in (left, right) for part in parts_of(side) for one in axes_of(part)}
    devices = {axis: fresh.var(axis) for axis in axes}
    for index in product(*(fresh.indices(one) for one in dims)):
        sides = [_Holds(fresh, bitwise).terms(one, devices, tuple(index)) for one in (left, right)]
        found = _equal(sides[0], sides[1], effort)
        if not isinstance(found, Proved):
            return found
    return Proved()


@dataclass
class _Fresh:
    """Variables that are unlike all before."""

    numbers: Iterator[int] = field(default_factory=count)

    def var(self, atom: Atom) -> Var:
        return Var(atom, next(self.numbers))

    def indices(self, dim: Dim) -> Iterator[Index]:
        """A variable for each atom; of ``Plus`` each case."""
        match dim:
            case Atom():
                yield self.var(dim)
            case Times(block, inner):
                for one, other in product(self.indices(block), self.indices(inner)):
                    yield (one, other)
            case Plus(first, second):
                for one in self.indices(first):
                    yield (False, one)
                for one in self.indices(second):
                    yield (True, one)
            case _:
                assert_never(dim)


def _vars(index: Index) -> tuple[Var, ...]:
    if isinstance(index, Var):
        return (index,)
    first, second = index
    return (*(() if isinstance(first, bool) else _vars(first)), *_vars(second))


def _cases(index: Index) -> tuple[bool, ...]:
    if isinstance(index, Var):
        return ()
    first, second = index
    return (*((first,) if isinstance(first, bool) else _cases(first)), *_cases(second))


@dataclass(frozen=True)
class _Holds:
    """What a device holds at an index."""

    fresh: _Fresh
    bitwise: bool

    def terms(self, one: Expression, at: Devices, index: tuple[Index, ...]) -> Terms:
        match one:
            case Input(name, _, differs):
                own = tuple(at[axis] for axis in differs)
                read = tuple(var for each in index for var in _vars(each))
                cases = tuple(case for each in index for case in _cases(each))
                return (Term((), (Read(name, cases, (*own, *read)),)),)
            case Add(left, right):
                both = self.terms(left, at, index), self.terms(right, at, index)
                if self.bitwise:
                    return (Term((), (Applied("add", both),)),)
                return (*both[0], *both[1])
            case Map(function, operand):
                inside = self.terms(operand, at, index)
                return (Term((), (Applied(function, (inside,)),)),)
            case Product():
                return self._product(one, at, index)
            case Sum(place, operand):
                dim = dims_of(operand)[place]
                return self._summed(
                    dim, lambda i: self.terms(operand, at, (*index[:place], i, *index[place:]))
                )
            case Reduce(axis, operand):
                return self._summed(
                    axis, lambda i: self.terms(operand, {**at, axis: _var(i)}, index)
                )
            case _:
                return self._moved(one, at, index)

    def _moved(self, one: Expression, at: Devices, index: tuple[Index, ...]) -> Terms:
        """What only reads elsewhere."""
        match one:
            case Transpose(order, operand):
                back = tuple(index[order.index(place)] for place in range(len(order)))
                return self.terms(operand, at, back)
            case Merge(place, operand):
                first, second = _pair(index[place])
                return self.terms(operand, at, (*index[:place], first, second, *index[place + 1 :]))
            case Unmerge(place, operand):
                both = (index[place], index[place + 1])
                return self.terms(operand, at, (*index[:place], both, *index[place + 2 :]))
            case Concatenate(place, left, right):
                which, inside = index[place]  # type: ignore[misc]
                assert isinstance(which, bool)
                return self.terms(right if which else left, at, _put(index, place, inside))
            case Take(place, second, operand):
                return self.terms(operand, at, _put(index, place, (second, index[place])))
            case Slice(place, axis, operand):
                return self.terms(operand, at, _put(index, place, (at[axis], index[place])))
            case Gather(place, axis, operand):
                device, inside = _pair(index[place])
                there = {**at, axis: _var(device)}
                return self.terms(operand, there, _put(index, place, inside))
            case Widen(place, axis, operand):
                device, inside = _pair(index[place])
                own = self.terms(operand, at, _put(index, place, inside))
                same = (_var(device), at[axis])
                return tuple(Term(t.bound, t.factors, (*t.equal, same)) for t in own)
        raise AssertionError(one)

    def _product(self, one: Product, at: Devices, index: tuple[Index, ...]) -> Terms:
        read, _, made = one.letters.partition("->")
        names = read.split(",")
        dims = dict(
            pair
            for letters, side in zip(names, (one.left, one.right), strict=True)
            for pair in zip(letters, dims_of(side), strict=True)
        )
        known = dict(zip(made, index, strict=True))

        def over(left: Sequence[str], known: Mapping[str, Index]) -> Terms:
            if left:
                name, *rest = left
                return self._summed(dims[name], lambda i: over(rest, {**known, name: i}))
            sides = [
                self.terms(side, at, tuple(known[name] for name in letters))
                for letters, side in zip(names, (one.left, one.right), strict=True)
            ]
            if self.bitwise:
                return (Term((), (Applied("times", tuple(sides)),)),)
            return tuple(
                Term((*a.bound, *b.bound), (*a.factors, *b.factors), (*a.equal, *b.equal))
                for a, b in product(*sides)
            )

        return over(sorted(set(dims) - set(made)), known)

    def _summed(self, dim: Dim, inside: Callable[[Index], Terms]) -> Terms:
        """The sum over an index: of each of its cases, over all that it is made of."""
        if self.bitwise:
            each = tuple((_vars(i), inside(i)) for i in self.fresh.indices(dim))
            return (Term((), (Total(str(dim), each),)),)
        return tuple(
            _settled(Term((*_vars(index), *term.bound), term.factors, term.equal))
            for index in self.fresh.indices(dim)
            for term in inside(index)
        )


def _pair(index: Index) -> tuple[Index, Index]:
    assert isinstance(index, tuple)
    first, second = index
    assert not isinstance(first, bool)
    return first, second


def _var(index: Index) -> Var:
    assert isinstance(index, Var), "an axis is an atom"
    return index


def _put(index: tuple[Index, ...], place: int, one: Index) -> tuple[Index, ...]:
    return (*index[:place], one, *index[place + 1 :])


def _settled(term: Term) -> Term:
    """A sum over what must equal something else is what is there."""
    for one, other in term.equal:
        for bound, instead in ((one, other), (other, one)):
            if bound in term.bound and bound != instead:
                rest = tuple(pair for pair in term.equal if pair != (one, other))
                left = tuple(each for each in term.bound if each != bound)
                return _settled(_replaced(Term(left, term.factors, rest), bound, instead))
    return term


def _replaced(term: Term, old: Var, new: Var) -> Term:
    def of(one: Var) -> Var:
        return new if one == old else one

    def factor(one: Factor) -> Factor:
        if isinstance(one, Read):
            return Read(one.name, one.cases, tuple(map(of, one.at)))
        if isinstance(one, Total):
            return Total(one.over, tuple((bound, terms(inside)) for bound, inside in one.cases))
        return Applied(one.function, tuple(map(terms, one.of)))

    def terms(several: Terms) -> Terms:
        return tuple(_replaced(each, old, new) for each in several)

    equal = tuple((of(a), of(b)) for a, b in term.equal)
    return Term(tuple(map(of, term.bound)), tuple(map(factor, term.factors)), equal)


def _equal(left: Terms, right: Terms, effort: int) -> Proved | Unknown:
    """Ask z3; sums over several indices of one kind are tried in every order on the right."""
    if any(len(term.bound) > MOST_BOUND for term in (*left, *right)):
        return Unknown(f"a sum over more than {MOST_BOUND} indices")
    context = z3.Context()
    writer = _Writer(context)
    one = writer.sum(left)
    orders = [list(_orders(term)) for term in right]
    for chosen in product(*orders):
        solver = z3.Solver(ctx=context)
        solver.set("ctrl_c", False)
        solver.set("rlimit", min(effort, 2**32 - 1))
        solver.add(one != writer.sum(chosen))
        if solver.check() == z3.unsat:
            return Proved()
    return Unknown("z3 found no proof that the sides are equal")


def _orders(term: Term) -> Iterator[Term]:
    """The same sum; which of several indices of one kind comes first does not matter."""
    for bound in permutations(sorted(term.bound, key=lambda one: (one.atom.name, one.number))):
        names = [one.atom.name for one in bound]
        if names == sorted(names):
            yield Term(bound, term.factors, term.equal)


@dataclass(frozen=True)
class _Writer:
    """Terms as formulas: inputs and functions are unknown, sums are unknown functionals."""

    context: Any

    def sum(self, terms: Sequence[Term], depth: int = 0) -> Formula:
        found = z3.RealVal(0, self.context)
        for one in terms:
            found = found + self.term(one, depth)
        return found

    def term(self, term: Term, depth: int = 0) -> Formula:
        ordered = sorted(term.bound, key=lambda one: one.atom.name)  # stable: orders stay
        names = {var: self.bound(var, depth + at) for at, var in enumerate(ordered)}
        for var, named in names.items():
            term = _replaced(Term((), term.factors, term.equal), var, named)
        found = z3.RealVal(1, self.context)
        for factor in term.factors:
            found = found * self.factor(factor, depth + len(names))
        for one, other in term.equal:
            same = self.var(one) == self.var(other)
            found = z3.If(same, found, z3.RealVal(0, self.context))
        for var in reversed(names.values()):
            found = self.total(f"sum over {var.atom.name}", [self.over((var,), found)])
        return found

    def bound(self, var: Var, depth: int) -> Var:
        """Bound variables are named by how deep they stand: equal sums are spelled alike."""
        return Var(var.atom, -1 - depth)

    def over(self, bound: Sequence[Var], body: Formula) -> Formula:
        return z3.Lambda([self.var(one) for one in bound], body) if bound else body

    def total(self, name: str, of: Sequence[Formula]) -> Formula:
        real = z3.RealSort(self.context)
        return z3.Function(name, *(one.sort() for one in of), real)(*of)

    def factor(self, factor: Factor, depth: int) -> Formula:
        real = z3.RealSort(self.context)
        match factor:
            case Read(name, cases, at):
                words = "".join(str(int(case)) for case in cases)
                sorts = [self.sort(one.atom) for one in at]
                return z3.Function(f"{name} {words}", *sorts, real)(*map(self.var, at))
            case Applied(function, of):
                return self.total(f"function {function}", [self.sum(one, depth) for one in of])
            case Total(name, several):
                return self.total(
                    f"total over {name}", [self.case(bound, of, depth) for bound, of in several]
                )
        assert_never(factor)

    def case(self, bound: tuple[Var, ...], of: Terms, depth: int) -> Formula:
        names = [self.bound(var, depth + at) for at, var in enumerate(bound)]
        for var, named in zip(bound, names, strict=True):
            of = tuple(_replaced(one, var, named) for one in of)
        return self.over(names, self.sum(of, depth + len(names)))

    def sort(self, atom: Atom) -> Any:
        return z3.DeclareSort(atom.name, self.context)

    def var(self, one: Var) -> Formula:
        return z3.Const(f"{one.atom.name} {one.number}", self.sort(one.atom))
