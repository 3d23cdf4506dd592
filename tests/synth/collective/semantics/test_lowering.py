"""Schedules: the groups of real devices, the bytes they hold, and what cannot be lowered."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracle
from grammar import Program, parse
from hierarchies import Axis, Hierarchy, InputError, Placement, Reduction, Tree
from located import located
from strategies import reductions, valid_programs, word
from synth.collective.semantics.layout import Shuffle
from synth.collective.semantics.lowering import buffer_fraction, lower, moves
from synth.collective.semantics.rules import Derivation, derive
from synth.collective.semantics.schedule import Exchange, Phase, Schedule, Transpose, pad_length

SMALL_ENOUGH = settings(max_examples=60)


@st.composite
def lowered(draw: st.DrawFn) -> tuple[Reduction, Derivation, Schedule]:
    """A valid program on a real placement, lowered for some payload."""
    reduction = draw(reductions())
    assume(len(reduction.tree.digits) <= 4)
    program = draw(valid_programs(reduction.tree))
    derivation = derive(program, reduction.tree)
    assert isinstance(derivation, Derivation)
    payload = draw(st.one_of(st.integers(1, 200), st.sampled_from([997, 2**30, 2**40 + 1])))
    return reduction, derivation, lower(derivation, reduction, payload)


def states(derivation: Derivation) -> list[oracle.State]:
    """The oracle's states at the real size."""
    found = [oracle.start(derivation.tree.sizes)]
    for meant in derivation.instructions:
        found.append(oracle.after(found[-1], word(meant), derivation.tree.sizes))
    return found


def exchanges(schedule: Schedule) -> list[Exchange]:
    return [phase for phase in schedule.phases if isinstance(phase, Exchange)]


@SMALL_ENOUGH
@given(lowered())
def test_there_is_one_exchange_a_step(
    case: tuple[Reduction, Derivation, Schedule],
) -> None:
    reduction, derivation, schedule = case
    found = [phase.collective for phase in exchanges(schedule)]
    assert found == [meant.collective for meant in derivation.instructions]
    assert schedule.devices == reduction.placement.hierarchy.devices


@SMALL_ENOUGH
@given(lowered())
def test_groups_are_the_oracles_in_every_replica(
    case: tuple[Reduction, Derivation, Schedule],
) -> None:
    """In member order: so the first member is the root of a rooted collective."""
    reduction, derivation, schedule = case
    sizes = derivation.tree.sizes
    number = {label: i for i, label in enumerate(oracle.labels(sizes))}
    grid = reduction.grid()
    for phase, meant in zip(exchanges(schedule), derivation.instructions, strict=True):
        wanted = {
            tuple(int(replica[number[label]]) for label in group)
            for group in oracle.members(word(meant), sizes)
            for replica in grid
        }
        assert phase.groups.shape == (len(wanted), prod(sizes[d] for d in meant.groups.free))
        assert {tuple(group) for group in phase.groups.tolist()} == wanted


@SMALL_ENOUGH
@given(lowered())
def test_groups_partition_the_participants(
    case: tuple[Reduction, Derivation, Schedule],
) -> None:
    reduction, derivation, schedule = case
    labels = oracle.labels(derivation.tree.sizes)
    for phase, meant in zip(exchanges(schedule), derivation.instructions, strict=True):
        everyone = sorted(phase.groups.reshape(-1).tolist())
        assert everyone == [
            device
            for device in range(schedule.devices)
            if not any(oracle.only(labels[located(reduction, device)[1]], meant.groups.zero))
        ]


@SMALL_ENOUGH
@given(lowered())
def test_bytes_are_of_the_larger_buffer_before_or_after(
    case: tuple[Reduction, Derivation, Schedule],
) -> None:
    _, derivation, schedule = case
    sizes = derivation.tree.sizes
    told = states(derivation)
    for step, (phase, meant) in enumerate(
        zip(exchanges(schedule), derivation.instructions, strict=True)
    ):
        players = [device for group in oracle.members(word(meant), sizes) for device in group]
        most = max(len(told[i][device]) for i in (step, step + 1) for device in players)
        assert phase.size_bytes * derivation.tree.devices == schedule.padded_bytes * most


@SMALL_ENOUGH
@given(lowered())
def test_a_transpose_is_of_the_buffers_that_its_shuffle_means(
    case: tuple[Reduction, Derivation, Schedule],
) -> None:
    reduction, derivation, schedule = case
    sizes, told = derivation.tree.sizes, states(derivation)
    phases = iter(schedule.phases)
    for step, move in enumerate(moves(derivation)):
        for shuffle in move.before:
            assert_shuffled(next(phases), shuffle, told[step], reduction, schedule)
        assert isinstance(next(phases), Exchange)
        for shuffle in move.after:
            assert_shuffled(next(phases), shuffle, told[step + 1], reduction, schedule)
    assert next(phases, None) is None
    assert schedule.pieces == prod(sizes[digit] for digit in ever_scattered(told))


def assert_shuffled(
    phase: Phase, shuffle: Shuffle, state: oracle.State, reduction: Reduction, schedule: Schedule
) -> None:
    """By the devices that take part and hold such a buffer, in every replica."""
    assert isinstance(phase, Transpose)
    labels, sizes = oracle.labels(reduction.tree.sizes), reduction.tree.sizes
    wanted = [
        device
        for device in range(schedule.devices)
        for label in [labels[located(reduction, device)[1]]]
        if not any(oracle.only(label, shuffle.zero)) and state[label]
        if scattered(state[label]) == set(shuffle.scattered)
    ]
    assert sorted(phase.devices.tolist()) == wanted
    assert wanted
    assert phase.shape == tuple(sizes[digit] for digit in shuffle.before)
    assert tuple(shuffle.before[axis] for axis in phase.axes) == shuffle.after
    assert phase.size_bytes == schedule.padded_bytes // prod(sizes[d] for d in shuffle.scattered)
    assert phase.size_bytes % prod(phase.shape) == 0


def scattered(rows: oracle.Rows) -> set[int]:
    """The digits in which all chunks held are alike."""
    values = [set(digit) for digit in zip(*rows, strict=True)]
    return {digit for digit, alike in enumerate(values) if len(alike) == 1}


def ever_scattered(told: list[oracle.State]) -> set[int]:
    return set().union(*(scattered(rows) for state in told for rows in state.values() if rows))


@SMALL_ENOUGH
@given(lowered())
def test_the_payload_is_padded_to_whole_pieces(
    case: tuple[Reduction, Derivation, Schedule],
) -> None:
    _, derivation, schedule = case
    assert derivation.tree.devices % schedule.pieces == 0
    assert schedule.padded_bytes % schedule.pieces == 0
    assert 0 <= schedule.padded_bytes - schedule.payload_bytes < schedule.pieces
    assert all(phase.size_bytes > 0 for phase in schedule.phases)


@given(st.integers(1, 10**6), st.integers(1, 10**4))
def test_padded_is_the_next_multiple(length: int, pieces: int) -> None:
    assert pad_length(length, pieces) in range(length, length + pieces)
    assert pad_length(length, pieces) % pieces == 0


def test_the_canonical_program_on_a_real_placement() -> None:
    """Data parallelism over nodes and half of each node's GPUs; two replicas."""
    machine = Hierarchy.of(node=2, gpu=4)
    placement = Placement(machine, (Axis("data", 4), Axis("model", 2)), ((2, 2), (1, 2)))
    reduction = Reduction(placement, ("data",))
    text = "reduce-scatter node inside; all-reduce node parallel; all-gather node inside"
    derivation = derive(parse(text), reduction.tree)
    assert isinstance(derivation, Derivation)
    schedule = lower(derivation, reduction, 7)
    assert (schedule.pieces, schedule.padded_bytes) == (2, 8)
    first, second, third = exchanges(schedule)
    inside = [[0, 2], [4, 6], [1, 3], [5, 7]]
    assert first.groups.tolist() == third.groups.tolist() == inside
    assert second.groups.tolist() == [[0, 4], [2, 6], [1, 5], [3, 7]]
    assert [phase.size_bytes for phase in schedule.phases] == [8, 4, 8]


def test_an_out_of_order_gather_is_followed_by_a_transpose() -> None:
    reduction = Reduction.plain(2, 3)
    text = "reduce-scatter root inside; all-gather d0 parallel; all-gather d0 inside"
    derivation = derive(parse(text), reduction.tree)
    assert isinstance(derivation, Derivation)
    last = lower(derivation, reduction, 60).phases[-1]
    assert isinstance(last, Transpose)
    assert (last.shape, last.axes, last.size_bytes) == ((3, 2), (1, 0), 60)
    assert last.devices.tolist() == list(range(6))


@given(st.lists(st.integers(2, 9), min_size=1, max_size=4), st.data())
def test_a_buffer_is_one_part_of_the_payload(sizes: list[int], data: st.DataObject) -> None:
    digits = data.draw(st.sets(st.integers(0, len(sizes) - 1)))
    fraction = buffer_fraction(tuple(sorted(digits)), Tree.of(*sizes))
    assert fraction == prod(sizes[digit] for digit in digits)


@pytest.mark.parametrize("payload", [0, -1])
def test_there_is_something_to_reduce(payload: int) -> None:
    reduction = Reduction.plain(2)
    derivation = derive(parse("all-reduce root inside"), reduction.tree)
    assert isinstance(derivation, Derivation)
    with pytest.raises(InputError, match=f"the payload is {payload} bytes; at least 1"):
        lower(derivation, reduction, payload)


@pytest.mark.parametrize("sizes", [(3,), (2, 2), (4, 2)])
def test_another_tree_is_refused(sizes: tuple[int, ...]) -> None:
    derivation = derive(parse("all-reduce root inside"), Tree.of(*sizes))
    assert isinstance(derivation, Derivation)
    with pytest.raises(InputError) as caught:
        lower(derivation, Reduction.plain(2, 4), 8)
    assert f"derived on the tree {Tree.of(*sizes)}" in str(caught.value)
    assert "the reduction's tree is 2 level0 x 4 level1" in str(caught.value)


def test_a_tree_with_other_names_is_refused_by_its_names() -> None:
    """The same sizes twice would not tell what is wrong."""
    derivation = derive(parse("all-reduce root inside"), Tree.of(2, 4))
    assert isinstance(derivation, Derivation)
    with pytest.raises(InputError) as caught:
        lower(derivation, Reduction.plain(2, 4), 8)
    assert "d0" in str(caught.value)
    assert "level0" in str(caught.value)


def test_nothing_to_do_is_the_empty_schedule() -> None:
    placement = Placement(Hierarchy.of(gpu=4), (Axis("data", 4), Axis("model", 1)), ((4,), (1,)))
    reduction = Reduction(placement, ("model",))
    derivation = derive(Program(()), reduction.tree)
    assert isinstance(derivation, Derivation)
    schedule = lower(derivation, reduction, 5)
    assert (schedule.devices, schedule.phases) == (4, ())
    assert (schedule.pieces, schedule.padded_bytes) == (1, 5)
