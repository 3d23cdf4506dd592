"""Substitutions: proved for all sizes, and what is damaged is refuted with a place that differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

import pytest

from hierarchies import InputError
from synth.train.substitutions import RULES, TEMPTING, Certified, Refused, certified
from synth.train.substitutions.execution import differs
from synth.train.substitutions.expressions import (
    Add,
    Atom,
    Expression,
    Gather,
    Input,
    Map,
    Product,
    Reduce,
    Slice,
    Sum,
    Times,
    Transpose,
    Unmerge,
    Widen,
    dims_of,
    parts_of,
)
from synth.train.substitutions.proof import prove
from synth.verify.verdict import Proved, Unknown

A, N, K = Atom("a"), Atom("n"), Atom("k")

BITWISE = {
    "slice before a function",
    "gather after a function",
    "all-reduce as reduce-scatter and all-gather",
    "all-gather as late as can be",
    "product cut by rows",
    "product cut by columns",
    "two products as one",
    "two transposes",
    "transpose after a function",
    "sum of a transpose",
    "slice of a transpose",
    "reshape and back",
    "function of a reshape",
    "gather and slice",
    "all-to-all and back",
    "all-to-all after a function",
    "all-to-all instead of gather and slice",
    "halves of what was put together",
    "function of what is put together",
    "experts cut by tokens",
}
"""In which nothing is added up in another order."""


@pytest.mark.parametrize("name", RULES)
def test_a_substitution_is_proved_and_arrays_agree(name: str) -> None:
    rule = RULES[name]
    assert certified(rule) == Certified(name in BITWISE)
    assert differs(rule.left, rule.right, seeds=4) is None


@pytest.mark.parametrize("name", TEMPTING)
def test_what_only_looks_right_is_refused_with_a_witness(name: str) -> None:
    found = certified(TEMPTING[name])
    assert isinstance(found, Refused)
    assert found.witness is not None
    assert found.witness.left != found.witness.right
    assert str(found.witness) in found.because


def damages(one: Expression) -> Iterator[Expression]:
    """The same with one mistake somewhere."""
    yield from here(one)
    for each in fields(one):
        inside = getattr(one, each.name)
        if isinstance(inside, Expression):
            for damaged in damages(inside):
                yield replace(one, **{each.name: damaged})


def here(one: Expression) -> Iterator[Expression]:
    """Mistakes of one operation."""
    yield Map("g", one)
    yield Add(one, one)
    match one:
        case Input(name):
            yield replace(one, name=f"other {name}")
        case Add(left, right):
            yield left
            yield right
        case Map(_, operand):
            yield operand
        case Reduce(axis, operand):
            yield operand
            yield Reduce(axis, one)
        case Product(letters, left, right):
            names, _, made = letters.partition("->")
            yield Product(f"{names}->{made[::-1]}", left, right)
            yield Product(letters, right, left)
        case Gather(dimension, axis, operand):
            yield Widen(dimension, axis, operand)
        case Widen(dimension, axis, operand):
            yield Gather(dimension, axis, operand)
        case Transpose(order, operand):
            yield Transpose(order[::-1], operand)
        case _ if hasattr(one, "second"):
            yield replace(one, second=not one.second)


def damaged() -> Iterator[tuple[str, Expression, Expression]]:
    """Rules with a mistake on the right, of which the dimensions still fit."""
    for name, rule in RULES.items():
        for right in damages(rule.right):
            try:
                fits = dims_of(right) == dims_of(rule.left)
                list(map(dims_of, parts_of(right)))
            except InputError:
                continue
            if fits:
                yield name, rule.left, right


def test_mistakes_are_refuted_with_a_witness() -> None:
    """Of two judges just one finds that the sides are equal, or that they differ."""
    refuted, equal = 0, []
    for name, left, right in damaged():
        witness = differs(left, right)
        if witness is None:
            equal.append((name, left, right))
        else:
            refuted += 1
            assert not isinstance(prove(left, right, effort=1000), Proved), (name, right)
    assert refuted >= 100
    assert all(isinstance(prove(*sides), Proved) for _, *sides in equal), equal


def test_sizes_do_not_matter_to_a_proof() -> None:
    """Over axes of one device more would be equal than over all: nothing of it is proved."""
    whole = Input("x", (N,))
    assert isinstance(prove(Reduce(A, whole), whole), Unknown)
    one = Input("x", (N,), (A,))
    assert isinstance(prove(one, Input("y", (N,), (A,))), Unknown)


def test_other_dimensions_are_no_proof_and_what_does_not_fit_is_refused() -> None:
    x = Input("x", (N, K))
    assert prove(Sum(0, x), Sum(1, x)) == Unknown("the two sides have other dimensions")
    with pytest.raises(InputError, match="no block for each device of a"):
        dims_of(Slice(0, A, Input("x", (Times(K, N),))))
    for wrong, said in (
        (Slice(0, A, x), "not made of blocks"),
        (Unmerge(1, x), "not made of blocks"),
        (Sum(2, x), "no dimension 2 of 2"),
        (Add(x, Transpose((1, 0), x)), "added up"),
        (Transpose((0, 0), x), "no order of 2 dimensions"),
        (Product("nk,nj->j", x, Input("y", (K, K))), "both n"),
    ):
        with pytest.raises(InputError, match=said):
            dims_of(wrong)
