"""The substitutions: what may stand for what in a sharded step, whatever the sizes.

After Unity (Unger et al., OSDI 2022), whose search changes computation and communication by rules
that are proved. Each is certified when it is asked for: z3 proves it, or it is refused with a
device and a place where the two sides differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from synth.train.substitutions.execution import Differs, differs
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
    Product,
    Reduce,
    Slice,
    Sum,
    Take,
    Times,
    Transpose,
    Unmerge,
    Widen,
    exchange,
    scatter,
)
from synth.train.substitutions.proof import EFFORT, prove
from synth.verify.verdict import Proved


@dataclass(frozen=True)
class Substitution:
    """Two sides, each of which may stand for the other."""

    left: Expression
    right: Expression


@dataclass(frozen=True)
class Certified:
    """Proved for every size. ``bitwise``: floats round alike, too; else sums are regrouped."""

    bitwise: bool


@dataclass(frozen=True)
class Refused:
    """Not proved; ``witness`` is where the sides differ, if that was found."""

    because: str
    witness: Differs | None


def certified(rule: Substitution, *, effort: int = EFFORT) -> Certified | Refused:
    """Prove a substitution, or say why not. Raises InputError where dimensions do not fit."""
    found = prove(rule.left, rule.right, effort=effort)
    if isinstance(found, Proved):
        exact = prove(rule.left, rule.right, bitwise=True, effort=effort)
        return Certified(isinstance(exact, Proved))
    witness = differs(rule.left, rule.right)
    return Refused(found.reason if witness is None else f"the sides differ: {witness}", witness)


A, B = Atom("a"), Atom("b")
N, J, K, L, M = map(Atom, "njklm")


def _in(name: str, *dims: Dim, differs: tuple[Atom, ...] = ()) -> Input:
    return Input(name, dims, differs)


def _dot(left: Expression, right: Expression) -> Product:
    return Product("ik,kj->ij", left, right)


def _rules() -> dict[str, tuple[Expression, Expression]]:
    cut = Times(A, N)  # a dimension that axis a cuts
    x, y = _in("x", N, K), _in("y", N, K)
    w, v = _in("w", K, J), _in("v", K, J)
    sums, others = _in("p", N, K, differs=(A,)), _in("q", N, K, differs=(A,))
    blocks = _in("x", cut, K)
    summed = _in("p", cut, K, differs=(A,))
    wide, back = _in("w1", K, Times(A, J)), _in("w2", Times(A, J), L)
    deep, low = _in("x", N, Times(A, K)), _in("w", Times(A, K), J)
    both = _in("p", N, K, differs=(A, B))
    mine = _in("x", N, K, differs=(A,))
    swapped = Times(A, J)
    table = _in("t", cut, swapped)
    half = Slice(0, A, table)
    return {
        "slice before a function": (Slice(0, A, Map("f", blocks)), Map("f", Slice(0, A, blocks))),
        "gather after a function": (Gather(0, A, Map("f", mine)), Map("f", Gather(0, A, mine))),
        "one all-reduce for two": (
            Add(Reduce(A, sums), Reduce(A, others)),
            Reduce(A, Add(sums, others)),
        ),
        "all-reduce after a product": (_dot(Reduce(A, sums), w), Reduce(A, _dot(sums, w))),
        "all-reduce as reduce-scatter and all-gather": (
            Reduce(A, summed),
            Gather(0, A, scatter(0, A, summed)),
        ),
        "all-gather as late as can be": (
            Map("f", Reduce(A, summed)),
            Gather(0, A, Map("f", scatter(0, A, summed))),
        ),
        "reduce-scatter after a product": (
            _dot(scatter(0, A, summed), w),
            scatter(0, A, _dot(summed, w)),
        ),
        "gradient of a cut batch": (
            Product("nk,nj->kj", _in("x", cut, K), _in("g", cut, J)),
            Reduce(
                A,
                Product("nk,nj->kj", Slice(0, A, _in("x", cut, K)), Slice(0, A, _in("g", cut, J))),
            ),
        ),
        "product cut by rows": (_dot(blocks, w), Gather(0, A, _dot(Slice(0, A, blocks), w))),
        "product cut by columns": (_dot(x, wide), Gather(1, A, _dot(x, Slice(1, A, wide)))),
        "product cut by what is summed": (
            _dot(deep, low),
            Reduce(A, _dot(Slice(1, A, deep), Slice(0, A, low))),
        ),
        "two products as Megatron": (
            _dot(Map("f", _dot(x, wide)), back),
            Reduce(A, _dot(Map("f", _dot(x, Slice(1, A, wide))), Slice(0, A, back))),
        ),
        "two products as one": (
            Concatenate(1, _dot(x, w), _dot(x, _in("u", K, L))),
            _dot(x, Concatenate(1, w, _in("u", K, L))),
        ),
        "a product split by what is summed": (
            _dot(Concatenate(1, x, _in("z", N, L)), Concatenate(0, w, _in("u", L, J))),
            Add(_dot(x, w), _dot(_in("z", N, L), _in("u", L, J))),
        ),
        "a product of sums": (_dot(Add(x, y), w), Add(_dot(x, w), _dot(y, w))),
        "sums of weights": (Add(_dot(x, w), _dot(x, v)), _dot(x, Add(w, v))),
        "three products": (
            _dot(_dot(x, w), _in("u", J, L)),
            _dot(x, _dot(w, _in("u", J, L))),
        ),
        "transpose of a product": (
            Transpose((1, 0), _dot(x, w)),
            _dot(Transpose((1, 0), w), Transpose((1, 0), x)),
        ),
        "two transposes": (
            Transpose((1, 2, 0), Transpose((1, 2, 0), _in("x", N, J, K))),
            Transpose((2, 0, 1), _in("x", N, J, K)),
        ),
        "transpose after a function": (
            Transpose((1, 0), Map("f", x)),
            Map("f", Transpose((1, 0), x)),
        ),
        "sum of a transpose": (Sum(0, Transpose((1, 0), x)), Sum(1, x)),
        "slice of a transpose": (
            Slice(1, A, Transpose((1, 0), blocks)),
            Transpose((1, 0), Slice(0, A, blocks)),
        ),
        "reshape and back": (Unmerge(1, Merge(1, _in("x", N, J, K))), _in("x", N, J, K)),
        "sum of a reshape": (Sum(0, Merge(0, x)), Sum(0, Sum(1, x))),
        "function of a reshape": (Map("f", Merge(0, x)), Merge(0, Map("f", x))),
        "gather and slice": (Slice(0, A, Gather(0, A, mine)), mine),
        "gather as widen and all-reduce": (Gather(0, A, mine), Reduce(A, Widen(0, A, mine))),
        "all-to-all and back": (
            exchange(1, 0, A, exchange(0, 1, A, half)),
            half,
        ),
        "all-to-all after a function": (
            exchange(0, 1, A, Map("f", half)),
            Map("f", exchange(0, 1, A, half)),
        ),
        "all-to-all instead of gather and slice": (
            Slice(1, A, table),
            exchange(0, 1, A, half),
        ),
        "all-reduce over two axes in either order": (
            Reduce(A, Reduce(B, both)),
            Reduce(B, Reduce(A, both)),
        ),
        "halves of what was put together": (
            Take(1, True, Concatenate(1, x, _in("z", N, L))),
            _in("z", N, L),
        ),
        "sum of what is put together": (
            Sum(1, Concatenate(1, x, _in("z", N, L))),
            Add(Sum(1, x), Sum(1, _in("z", N, L))),
        ),
        "sum of a gather": (Sum(0, Gather(0, A, mine)), Reduce(A, Sum(0, mine))),
        "sum before all-reduce": (Sum(1, Reduce(A, sums)), Reduce(A, Sum(1, sums))),
        "bias after all-reduce": (Add(Reduce(A, sums), y), Add(y, Reduce(A, sums))),
        "function of what is put together": (
            Map("f", Concatenate(1, x, _in("z", N, L))),
            Concatenate(1, Map("f", x), Map("f", _in("z", N, L))),
        ),
        "experts cut by tokens": (
            Product("nek,ekj->nej", _in("x", cut, M, K), _in("w", M, K, J)),
            Gather(
                0,
                A,
                Product("nek,ekj->nej", Slice(0, A, _in("x", cut, M, K)), _in("w", M, K, J)),
            ),
        ),
    }


RULES: Mapping[str, Substitution] = {name: Substitution(*both) for name, both in _rules().items()}

TEMPTING: Mapping[str, Substitution] = {
    "a cast before an all-reduce": Substitution(
        Map("cast", Reduce(A, _in("p", N, differs=(A,)))),
        Reduce(A, Map("cast", _in("p", N, differs=(A,)))),
    ),
    "a bias before an all-reduce": Substitution(
        Add(Reduce(A, _in("p", N, differs=(A,))), _in("b", N)),
        Reduce(A, Add(_in("p", N, differs=(A,)), _in("b", N))),
    ),
    "an all-reduce of what is whole": Substitution(
        Reduce(A, _in("x", N)),
        _in("x", N),
    ),
    "a function before a sum": Substitution(
        Map("f", Sum(0, _in("x", N, K))),
        Sum(0, Map("f", _in("x", N, K))),
    ),
    "an all-reduce between two partial factors": Substitution(
        Product("i,i->i", *(Reduce(A, _in(name, N, differs=(A,))) for name in "pq")),
        Reduce(A, Product("i,i->i", *(_in(name, N, differs=(A,)) for name in "pq"))),
    ),
}
"""What looks right and is refused; a cast may move in exact arithmetic of no float."""
