"""Which digits a buffer is scattered over, and where memory has to be shuffled."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from grammar import Goal, Program, parse
from hierarchies import Tree
from strategies import all_valid, spelled, trees, valid_programs, word
from synth.collective.semantics.layout import Move, Shuffle, kinds
from synth.collective.semantics.lowering import moves
from synth.collective.semantics.programs import Language
from synth.collective.semantics.rules import Derivation, derive
from synth.collective.semantics.truth_tables import truth_tables

TREE = Tree.of(2, 4)


def derived(program: Program, tree: Tree) -> Derivation:
    found = derive(program, tree)
    assert isinstance(found, Derivation)
    return found


def shuffles(text: str) -> list[tuple[int, Shuffle]]:
    """The shuffles of a program on two digits, each with the number of its step, from 1."""
    told: list[tuple[int, Shuffle]] = []
    for number, move in enumerate(moves(derived(parse(text), TREE)), 1):
        told += [(number, shuffle) for shuffle in move.before + move.after]
    return told


@given(trees(), st.data())
def test_a_buffer_holds_the_rows_that_its_digits_leave(tree: Tree, data: st.DataObject) -> None:
    """Devices of the real tree are as their fellows on the skeleton: 0 or not."""
    derivation = derived(data.draw(valid_programs(tree)), tree)
    state = oracle.start(tree.sizes)
    depth = len(tree.digits)
    for number, table in enumerate(derivation.states):
        if number:
            state = oracle.after(state, word(derivation.instructions[number - 1]), tree.sizes)
        found = kinds(truth_tables(depth), table)
        assert len(found) == 2**depth
        for device, rows in state.items():
            kind = found[sum((value > 0) << digit for digit, value in enumerate(device))]
            if kind is None:
                assert not rows
            else:
                assert len(rows) * prod(tree.sizes[digit] for digit in kind) == tree.devices


@given(trees(), st.data())
def test_a_move_has_the_largest_buffers_of_its_members(tree: Tree, data: st.DataObject) -> None:
    derivation = derived(data.draw(valid_programs(tree)), tree)
    depth = len(tree.digits)
    for move, states in zip(moves(derivation), pairwise(derivation.states), strict=True):
        zero = move.instruction.groups.zero
        held = {
            kind
            for state in states
            for device, kind in enumerate(kinds(truth_tables(depth), state))
            if kind is not None and not any(device >> digit & 1 for digit in zero)
        }
        assert set(move.buffers) <= held
        assert all(any(set(large) <= set(kind) for large in move.buffers) for kind in held)
        assert not any(set(a) < set(b) for a in move.buffers for b in move.buffers)


@given(trees(), st.data())
def test_a_shuffle_really_reorders_what_is_there(tree: Tree, data: st.DataObject) -> None:
    derivation = derived(data.draw(valid_programs(tree)), tree)
    for move in moves(derivation):
        for shuffle in move.before + move.after:
            assert shuffle.before != shuffle.after
            assert sorted(shuffle.before) == sorted(set(shuffle.after))
            assert not set(shuffle.before) & set(shuffle.scattered)
            assert shuffle.zero == move.instruction.groups.zero or not shuffle.scattered


def test_moves_do_not_depend_on_sizes() -> None:
    for steps in all_valid(3, Language(3)):
        small, large = Tree.of(2, 2, 2), Tree.of(3, 7, 10**4)
        found = moves(derived(spelled(steps, small), small))
        assert moves(derived(spelled(steps, large), large)) == found
        assert tuple(move.instruction for move in found) == steps


@pytest.mark.parametrize(
    "text",
    [
        "all-reduce root inside",
        "reduce node inside; all-reduce node master; broadcast node inside",
        "reduce-scatter root inside; all-gather root inside",
        "reduce-scatter node inside; all-reduce node parallel; all-gather node inside",
        (
            "reduce-scatter node parallel; reduce-scatter node inside; all-gather node inside; "
            "all-gather node parallel"
        ),
        "reduce-scatter node parallel; reduce-scatter node inside; all-gather root inside",
        "reduce-scatter root inside; all-gather node inside; all-gather node parallel",
    ],
)
def test_gathering_in_the_order_of_scattering_keeps_the_order(text: str) -> None:
    assert shuffles(text.replace("node", "d0")) == []


@pytest.mark.parametrize(
    ("text", "step", "before", "after"),
    [
        (
            (
                "reduce-scatter d0 inside; reduce-scatter d0 parallel; all-gather d0 inside; "
                "all-gather d0 parallel"
            ),
            4,
            (0, 1),
            (1, 0),
        ),
        (
            "reduce-scatter root inside; all-gather d0 parallel; all-gather d0 inside",
            3,
            (1, 0),
            (0, 1),
        ),
        (
            "reduce-scatter d0 inside; reduce-scatter d0 parallel; all-gather root inside",
            3,
            (0, 1),
            (1, 0),
        ),
    ],
)
def test_an_out_of_order_gather_is_mended_at_the_end(
    text: str, step: int, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    assert shuffles(text) == [(step, Shuffle((), before, after))]


@pytest.mark.parametrize(
    ("goal", "text", "expected"),
    [
        (
            Goal.REDUCE_SCATTER,
            "reduce-scatter d1 inside; reduce-scatter d1 parallel",
            [(Shuffle((), (0, 1, 2), (2, 0, 1)),), ()],
        ),
        (
            Goal.ALL_REDUCE,
            (
                "reduce-scatter d1 parallel; all-gather d0 parallel; "
                "reduce-scatter d1 inside; all-gather d0 inside"
            ),
            [(), (), (Shuffle((1,), (0, 2), (2, 0)),), ()],
        ),
        # Only the masters scatter, so only theirs are touched.
        (
            Goal.REDUCE,
            (
                "reduce-scatter d0 parallel; reduce-scatter d1 inside; all-gather d1 inside; "
                "reduce-scatter d1 master(d0); all-gather d1 master"
            ),
            [(), (), (), (Shuffle((0,), (2, 1), (1, 2), zero=(2,)),), ()],
        ),
        (
            Goal.ALL_TO_ALL,
            "all-to-all d1 inside; all-to-all d1 parallel",
            [(Shuffle((), (0, 1, 2), (2, 0, 1)),), (Shuffle((), (2, 0, 1), (0, 1, 2)),)],
        ),
    ],
)
def test_scattered_dimensions_are_moved_to_the_front(
    goal: Goal, text: str, expected: list[tuple[Shuffle, ...]]
) -> None:
    found = derive(parse(text), Tree.of(2, 4, 2), goal)
    assert isinstance(found, Derivation)
    assert [move.before for move in moves(found)] == expected


def test_gathering_restores_the_order_of_uninvolved_ranks() -> None:
    """Half of the devices have both digits still in order, and one order serves everybody."""
    program = parse(
        "reduce-scatter d0 parallel; all-reduce d1 inside; reduce-scatter d1 master(d0); "
        "all-gather d0 parallel; all-gather d1 master(d0); broadcast root inside"
    )
    found = moves(derived(program, Tree.of(2, 2, 2)))
    assert [move.after for move in found] == [
        *[()] * 4,
        (Shuffle((), (1, 0), (0, 1), zero=(2,)),),
        (),
    ]


@pytest.mark.parametrize(
    "text",
    [
        # The payload is whole and in order again before it is cut along other digits.
        (
            "reduce-scatter d0 parallel; all-gather d0 parallel; "
            "reduce-scatter d0 inside; all-gather d0 inside"
        ),
        # The masters gather what is in order; the others hold only their part of it.
        (
            "reduce-scatter root inside; all-gather d0 inside; all-gather d0 master; "
            "broadcast root inside"
        ),
    ],
)
def test_memory_that_is_in_order_is_not_shuffled(text: str) -> None:
    assert shuffles(text) == []


def test_the_buffers_of_a_move() -> None:
    program = parse("reduce-scatter d0 inside; all-reduce d0 parallel; all-gather d0 inside")
    found: list[Move] = list(moves(derived(program, TREE)))
    assert [move.buffers for move in found] == [((),), ((1,),), ((),)]


def test_only_the_first_device_puts_a_reduced_payload_in_order() -> None:
    """What the others hold in the end nobody looks at."""
    text = "reduce-scatter root inside; all-gather d0 parallel(root); all-gather d0 inside"
    derivation = derive(parse(text), TREE, Goal.REDUCE)
    assert isinstance(derivation, Derivation)
    *_, last = moves(derivation)
    assert last.after == (Shuffle((), (1, 0), (0, 1), zero=(0, 1)),)
