"""Schedules for every request: what they move, and that they give what plain numpy gives."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from math import ceil, prod

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracle
from each import each
from exhaustive import Sample, examples, sampled
from goal_schedules import OTHERS, derived, made, scheduled
from grammar import Collective, Goal, Instruction, Program, instructions, parse
from hierarchies import InputError, Reduction, Tree
from strategies import all_valid, programs, reductions, spelled, trees, valid_programs
from strategies import word as said
from synth.collective.emit.source import CannotExpressError
from synth.collective.emit.targets import emit, runnable_targets
from synth.collective.run.backends import TrialRequest, run
from synth.collective.semantics.layout import Shuffle, kinds
from synth.collective.semantics.lowering import lower, moves
from synth.collective.semantics.programs import Language, explore_moves
from synth.collective.semantics.rules import DemandKind, Derivation, Refusal, derive
from synth.collective.semantics.schedule import Exchange, Transpose
from synth.collective.semantics.truth_tables import truth_tables
from synth.collective.verify.replay import (
    Failure,
    compare,
    compare_stripes,
    expected_multiplicities,
    multiplicities,
    plain_result,
    replay,
    replay_stripes,
)

IN_PIECES = tuple(goal for goal in Goal if goal.in_pieces)
LENGTHS = (1, 7, 30)


def assert_right(steps: tuple[Instruction, ...], reduction: Reduction, goal: Goal) -> None:
    program = spelled(steps, reduction.tree)
    for number, elements in enumerate(LENGTHS):
        schedule = scheduled(program, reduction, goal, elements, 1 + 2 * (number % 2))
        assert schedule.goal is goal
        assert compare(schedule, elements) is None, program


@given(reductions(), st.sampled_from(Goal), st.data(), st.integers(1, 60), st.integers(2, 4))
@examples(15, 100)
def test_stripes_give_the_same_results(
    reduction: Reduction, goal: Goal, data: st.DataObject, elements: int, many: int
) -> None:
    """Of every piece a slice where the goal is in pieces, some of them empty, for any programs."""
    assume(len(reduction.tree.digits) <= 3)
    stripes = [
        scheduled(
            data.draw(valid_programs(reduction.tree, goal)),
            reduction,
            goal,
            data.draw(st.integers(1, 9)),
            data.draw(st.integers(1, 3)),
        )
        for _ in range(many)
    ]
    assert compare_stripes(stripes, elements) is None


def test_the_second_stripe_of_an_all_gather_has_the_rest_of_every_piece() -> None:
    reduction, goal = Reduction.plain(3), Goal.ALL_GATHER
    first, second = (scheduled("all-gather root inside", reduction, goal, n) for n in (2, 4))
    held = np.arange(9).reshape(3, 3)
    assert np.array_equal(replay_stripes([first, second], held), [range(9)] * 3)
    failure = compare_stripes([first, replace(second, phases=())], 9)
    assert isinstance(failure, Failure)


# What is right, said once more without arrays of pieces.


def plain(reduction: Reduction, payloads: list[list[int]], goal: Goal) -> list[list[int]]:
    """Device by device and element by element."""
    found = [[0] * len(payloads[0]) for _ in payloads]
    for group in reduction.grid().tolist():
        k = len(group)
        total = [sum(column) for column in zip(*(payloads[d] for d in group), strict=True)]
        size = ceil(len(total) / k)
        for number, device in enumerate(group):
            match goal:
                case Goal.ALL_REDUCE:
                    found[device] = total
                case Goal.REDUCE:
                    found[device] = [0] * len(total) if number else total
                case Goal.BROADCAST:
                    found[device] = payloads[group[0]]
                case Goal.ALL_GATHER:
                    found[device] = [x for other in group for x in payloads[other]]
                case Goal.REDUCE_SCATTER:
                    found[device] = cut(total, number, size)
                case Goal.ALL_TO_ALL:
                    found[device] = [x for o in group for x in cut(payloads[o], number, size)]
    return found


def cut(row: list[int], number: int, size: int) -> list[int]:
    """A piece, the caller's own, filled up with zeros."""
    piece = row[number * size : (number + 1) * size]
    return piece + [0] * (size - len(piece))


@given(reductions(), st.sampled_from(Goal), st.integers(1, 20))
def test_the_plain_result_is_what_is_requested(
    reduction: Reduction, goal: Goal, elements: int
) -> None:
    devices = reduction.placement.hierarchy.devices
    payloads = np.arange(devices * elements, dtype=np.int64).reshape(devices, elements) ** 2 + 1
    assert plain_result(reduction, payloads, goal).tolist() == plain(
        reduction, payloads.tolist(), goal
    )


@settings(max_examples=100)
@given(reductions(), st.sampled_from(Goal), st.data(), st.integers(1, 20), st.integers(1, 5))
def test_replay_gives_the_caller_its_pieces_however_many_segments(
    reduction: Reduction, goal: Goal, data: st.DataObject, elements: int, segments: int
) -> None:
    """The result does not depend on the segments, nor on the pieces that the program makes."""
    assume(len(reduction.tree.digits) <= 3)
    program = data.draw(valid_programs(reduction.tree, goal))
    schedule = scheduled(program, reduction, goal, elements, segments)
    payloads = np.arange(schedule.devices * elements, dtype=np.int64)
    payloads = (payloads**2 + 1).reshape(schedule.devices, elements)
    before = payloads.copy()
    result = replay(schedule, payloads)
    assert not isinstance(result, Failure)
    assert (payloads == before).all()
    assert result.tolist() == plain(reduction, before.tolist(), goal)


# All valid programs.


@pytest.mark.parametrize("goal", OTHERS)
@each("across", [False, True])
@each("sizes", [(2,), (3,), *product((2, 3), repeat=2), (5, 2)])
def test_every_valid_program_is_right(goal: Goal, sizes: tuple[int, ...], across: bool) -> None:
    for steps in all_valid(len(sizes), Language(5, across, goal)):
        assert_right(steps, Reduction.plain(*sizes), goal)


@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 3, 3), (2, 3, 5)], ids=str)
@pytest.mark.parametrize("goal", OTHERS)
def test_every_program_of_three_digits_is_right(goal: Goal, sizes: tuple[int, ...]) -> None:
    """Of reduces, which are many, those of up to three steps and some of the others."""
    found = all_valid(3, Language(5, across=True, goal=goal))
    for number, steps in enumerate(found):
        if len(found) < 200 or len(steps) < 3 or number % 13 == sum(sizes) % 13:
            assert_right(steps, Reduction.plain(*sizes), goal)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", list(product((2, 3), repeat=3)), ids=str)
@sampled(200, seed=6)
def test_every_reduce_of_three_digits_is_right(sizes: tuple[int, ...], sample: Sample) -> None:
    for steps in sample(all_valid(3, Language(5, across=True, goal=Goal.REDUCE))):
        assert_right(steps, Reduction.plain(*sizes), Goal.REDUCE)


@pytest.mark.parametrize("goal", [Goal.ALL_TO_ALL, Goal.ALL_GATHER, Goal.BROADCAST])
def test_every_program_of_four_digits_is_right(goal: Goal) -> None:
    for steps in all_valid(4, Language(5, goal=goal)):
        assert_right(steps, Reduction.plain(2, 3, 2, 2), goal)


@settings(max_examples=150)
@given(reductions(), st.sampled_from(OTHERS), st.data(), st.integers(1, 60), st.integers(1, 4))
def test_every_replica_of_a_placement_gets_its_own_result(
    reduction: Reduction, goal: Goal, data: st.DataObject, elements: int, segments: int
) -> None:
    assume(len(reduction.tree.digits) <= 3)
    program = data.draw(valid_programs(reduction.tree, goal))
    assert compare(scheduled(program, reduction, goal, elements, segments), elements) is None


# What is wrong is caught.


@pytest.mark.parametrize("goal", OTHERS)
def test_no_transpose_can_be_left_out(goal: Goal) -> None:
    found = 0
    for sizes in ((2, 3), (2, 3, 2)):
        reduction = Reduction.plain(*sizes)
        elements = 2 * prod(sizes)
        for steps in all_valid(len(sizes), Language(3, True, goal)):
            schedule = scheduled(spelled(steps, reduction.tree), reduction, goal, elements)
            for place, phase in enumerate(schedule.phases):
                if isinstance(phase, Transpose):
                    found += 1
                    phases = schedule.phases[:place] + schedule.phases[place + 1 :]
                    assert compare(replace(schedule, phases=phases), elements) is not None
    assert (found > 0) == (goal is not Goal.BROADCAST)


def needless(steps: tuple[Instruction, ...], sizes: tuple[int, ...], goal: Goal) -> bool:
    """Whether the rest is sound and reaches the goal, by the oracle."""
    words = [said(meant) for meant in steps]
    return oracle.verdict(words, sizes, [oracle.SOUND], goal.value) == (None, set())


@pytest.mark.parametrize("goal", OTHERS)
def test_without_an_exchange_a_program_is_caught_unless_it_can_do_without(goal: Goal) -> None:
    reduction = Reduction.plain(2, 3)
    caught = 0
    for steps in all_valid(2, Language(3, goal=goal)):
        schedule = scheduled(spelled(steps, reduction.tree), reduction, goal, 12)
        exchanges = [n for n, p in enumerate(schedule.phases) if isinstance(p, Exchange)]
        for number, place in enumerate(exchanges):
            phases = schedule.phases[:place] + schedule.phases[place + 1 :]
            failure = compare(replace(schedule, phases=phases), 12)
            rest = steps[:number] + steps[number + 1 :]
            assert failure is not None or needless(rest, (2, 3), goal), (steps, number)
            caught += failure is not None
    assert caught >= 3


@pytest.mark.parametrize("goal", [Goal.REDUCE_SCATTER, Goal.ALL_GATHER, Goal.ALL_TO_ALL])
def test_swapped_members_of_a_group_are_caught(goal: Goal) -> None:
    reduction = Reduction.plain(2, 3)
    for steps in all_valid(2, Language(3, goal=goal)):
        schedule = scheduled(spelled(steps, reduction.tree), reduction, goal, 12)
        for place, phase in enumerate(schedule.phases):
            if isinstance(phase, Exchange) and phase.collective is not Collective.BROADCAST:
                swapped = replace(phase, among=phase.groups[:, ::-1])
                phases = (*schedule.phases[:place], swapped, *schedule.phases[place + 1 :])
                assert compare(replace(schedule, phases=phases), 12) is not None


@pytest.mark.parametrize(
    ("goal", "reason"),
    [
        (Goal.REDUCE_SCATTER, "not every device ends with one piece"),
        (Goal.ALL_GATHER, "not every device ends with the whole payload"),
        (Goal.BROADCAST, "not every device ends with the whole payload"),
        (Goal.ALL_TO_ALL, "device 0, element 3 differs from what all have for it"),
        (Goal.REDUCE, "device 0, element 0 differs from the plain sum"),
    ],
)
def test_doing_nothing_is_not_enough(goal: Goal, reason: str) -> None:
    reduction = Reduction.plain(2)
    schedule = scheduled(f"{goal.value} root inside", reduction, goal, 6)
    failure = compare(replace(schedule, phases=()), 6)
    assert isinstance(failure, Failure)
    assert failure.phase is None
    assert reason in failure.reason


def test_a_first_member_with_a_part_only_is_caught() -> None:
    reduction = Reduction.plain(2)
    schedule = scheduled(
        "reduce-scatter root inside; all-gather root inside", reduction, Goal.REDUCE
    )
    failure = compare(replace(schedule, phases=schedule.phases[:1]), 6)
    assert failure == Failure(
        None, "not the first member of every group ends with the whole payload"
    )


# Unverified programs, by counting.


@pytest.mark.parametrize("goal", Goal)
@examples(10, 60)
@given(trees(), st.data())
def test_counting_agrees_with_the_oracle(goal: Goal, tree: Tree, data: st.DataObject) -> None:
    """Up to the first unsound step; a correct program has what is wanted, and no other has."""
    known = programs(tree, goal=goal) if data.draw(st.booleans()) else valid_programs(tree, goal)
    program = data.draw(known)
    refusal = derive(program, tree, goal, kinds=frozenset({DemandKind.SOUND}))
    state = oracle.start(tree.sizes, goal.value)
    names = oracle.labels(tree.sizes)
    for step, meant in enumerate(instructions(program, tree)):
        counts = multiplicities(Program(program.steps[: step + 1]), tree, goal)
        if isinstance(refusal, Refusal) and refusal.step == step:
            assert isinstance(counts, Failure) or (counts > 1).any()
            return
        assert not isinstance(counts, Failure)
        state = oracle.after(state, said(meant), tree.sizes)
        assert counts.tolist() == [
            [[int(q in state[d].get(c, ())) for q in names] for c in names] for d in names
        ]
    counts = multiplicities(program, tree, goal)
    assert not isinstance(counts, Failure)
    assert bool((counts == expected_multiplicities(counts, goal)).all()) == isinstance(
        refusal, Derivation
    )


@pytest.mark.parametrize("goal", OTHERS)
def test_collectives_of_other_goals_are_not_counted(goal: Goal) -> None:
    strange = "all-reduce" if goal is Goal.ALL_TO_ALL else "all-to-all"
    with pytest.raises(InputError, match=f"no program for {goal.value} has such a step"):
        multiplicities(parse(f"{strange} root inside"), Tree.of(2), goal)


# Sizes and orders.


@given(reductions(), st.sampled_from(OTHERS), st.data(), st.integers(1, 10**6), st.integers(1, 4))
def test_bytes_are_of_the_larger_buffer_before_or_after(
    reduction: Reduction, goal: Goal, data: st.DataObject, payload: int, segments: int
) -> None:
    """By what the oracle's devices hold; in an all-to-all a piece from each contributor."""
    assume(len(reduction.tree.digits) <= 3)
    program = data.draw(valid_programs(reduction.tree, goal))
    derivation = derived(program, reduction.tree, goal)
    schedule = lower(derivation, reduction, payload, segments)
    sizes, apart = reduction.tree.sizes, goal is Goal.ALL_TO_ALL

    def held(rows: oracle.Rows) -> int:
        return sum(map(len, rows.values())) if apart else len(rows)

    told = [oracle.start(sizes, goal.value)]
    for meant in derivation.instructions:
        told.append(oracle.after(told[-1], said(meant), sizes))
    exchanges = [phase for phase in schedule.phases if isinstance(phase, Exchange)]
    for phase, meant, states in zip(
        exchanges, derivation.instructions, pairwise(told), strict=True
    ):
        players = [device for group in oracle.members(said(meant), sizes) for device in group]
        most = max(held(state[device]) for state in states for device in players)
        assert phase.size_bytes * prod(sizes) == schedule.segment_bytes * most
        assert phase.collective is meant.collective
    if goal.in_pieces:
        assert schedule.pieces == prod(sizes)
        piece_bytes = ceil(payload / prod(sizes))
        assert schedule.padded_bytes == prod(sizes) * segments * ceil(piece_bytes / segments)


@pytest.mark.parametrize("goal", Goal)
def test_a_buffer_holds_values_of_its_kind(goal: Goal) -> None:
    sizes = (2, 3)
    apart = goal is Goal.ALL_TO_ALL
    for steps in all_valid(2, Language(5, goal=goal)):
        derivation = derived(spelled(steps, Tree.of(*sizes)), Tree.of(*sizes), goal)
        state = oracle.start(sizes, goal.value)
        for meant, table in zip((None, *steps), derivation.states, strict=True):
            state = oracle.after(state, said(meant), sizes) if meant else state
            found = kinds(truth_tables(2), table, goal)
            for device, rows in state.items():
                kind = found[sum((value > 0) << digit for digit, value in enumerate(device))]
                count = sum(map(len, rows.values())) if apart else len(rows)
                assert count * prod(sizes[d] for d in kind or ()) == (0 if kind is None else 6)


def shuffles(text: str, goal: Goal) -> list[tuple[int, str, Shuffle]]:
    """Each with the number of its step, from 1, and whether it comes before or after it."""
    found = []
    for number, move in enumerate(moves(derived(text, Tree.of(2, 4), goal)), 1):
        found += [(number, "before", shuffle) for shuffle in move.before]
        found += [(number, "after", shuffle) for shuffle in move.after]
    return found


INNER_FIRST = "{0} d0 inside; {0} d0 parallel"
OUTER_FIRST = "{0} d0 parallel; {0} d0 inside"


@pytest.mark.parametrize("goal", IN_PIECES)
def test_one_step_leaves_the_pieces_in_order(goal: Goal) -> None:
    assert shuffles(f"{goal.value} root inside", goal) == []


def test_an_all_to_all_in_two_levels_is_shuffled_twice() -> None:
    told = shuffles(INNER_FIRST.format("all-to-all"), Goal.ALL_TO_ALL)
    back = Shuffle((), (1, 0), (0, 1))
    there = Shuffle((), (0, 1), (1, 0))
    assert told == [(1, "before", there), (2, "before", back)]
    told = shuffles(OUTER_FIRST.format("all-to-all"), Goal.ALL_TO_ALL)
    assert told == [(2, "before", there), (2, "after", back)]


def test_a_reduce_scatter_outermost_first_and_an_all_gather_innermost_first_stay_in_order() -> None:
    assert shuffles(OUTER_FIRST.format("reduce-scatter"), Goal.REDUCE_SCATTER) == []
    assert shuffles(INNER_FIRST.format("all-gather"), Goal.ALL_GATHER) == []
    told = shuffles(INNER_FIRST.format("reduce-scatter"), Goal.REDUCE_SCATTER)
    assert told == [(1, "before", Shuffle((), (0, 1), (1, 0)))]
    told = shuffles(OUTER_FIRST.format("all-gather"), Goal.ALL_GATHER)
    assert told == [(2, "after", Shuffle((), (1, 0), (0, 1)))]


def test_a_reduce_scatter_backwards_moves_as_much_as_an_all_gather() -> None:
    reduction = Reduction.plain(2, 3, 5)
    for steps in all_valid(3, Language(3, across=True, goal=Goal.REDUCE_SCATTER)):
        back = tuple(Instruction(Collective.ALL_GATHER, s.groups) for s in reversed(steps))
        sizes = []
        for goal, done in ((Goal.REDUCE_SCATTER, steps), (Goal.ALL_GATHER, back)):
            schedule = scheduled(spelled(done, reduction.tree), reduction, goal, 60)
            exchanges = [p for p in schedule.phases if isinstance(p, Exchange)]
            sizes.append([(p.size_bytes, p.groups.tolist()) for p in exchanges])
        assert sizes[0] == sizes[1][::-1]


def test_only_the_first_member_mends_the_order_of_a_reduce() -> None:
    text = "reduce-scatter root inside; all-gather d0 parallel; all-gather d0 inside"
    assert shuffles(text, Goal.REDUCE) == [(3, "after", Shuffle((), (1, 0), (0, 1), (0, 1)))]
    schedule = scheduled(text, Reduction.plain(2, 4), Goal.REDUCE, 8)
    last = schedule.phases[-1]
    assert isinstance(last, Transpose)
    assert last.devices.tolist() == [0]


@pytest.mark.parametrize("goal", OTHERS)
def test_priced_moves_are_those_of_lowering(goal: Goal) -> None:
    for depth in (1, 2, 3):
        language = Language(3, across=True, goal=goal)
        graph = explore_moves(depth, language)
        labels, tree = range(len(graph.alphabet)), Tree.of(*[2] * depth)
        found = set()
        for path in graph.cheapest([0] * len(labels), labels):
            taken = tuple(graph.alphabet[label] for label in path.labels)
            steps = tuple(move.instruction for move in taken)
            assert moves(derived(spelled(steps, tree), tree, goal)) == taken
            found.add(steps)
        assert found == set(all_valid(depth, language))


# Who can take what.


@pytest.mark.parametrize("goal", OTHERS)
def test_other_collectives_are_refused_by_targets_for_all_reduce(goal: Goal) -> None:
    source = made(goal)
    runs = ("torch", "jax", "jax-flat", "mpi")
    if not (goal.from_first or goal.to_first):
        runs += ("mscclpp",)
    assert runnable_targets(source) == runs
    for name in (*runs, "json", "trace", "svg"):
        assert emit(name, source)
    if "mscclpp" not in runs:
        with pytest.raises(CannotExpressError) as caught:
            emit("mscclpp", source)
        assert f"mscclpp cannot express a program for {goal.value}: " in str(caught.value)
        assert caught.value.hint == f"these can: {', '.join(runs)}"
    assert run("numpy", source, TrialRequest(16)).equal


def test_the_order_of_ranks_is_reported_for_every_goal() -> None:
    for goal in Goal:
        assert emit("torchrun", made(goal))
