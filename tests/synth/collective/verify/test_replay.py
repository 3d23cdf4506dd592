"""Running schedules: every valid one gives the plain sum, and everything else is caught."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracle
from exhaustive import Sample, examples, sampled
from grammar import Collective, Instruction, Program, instructions, parse
from hierarchies import InputError, Reduction, Tree
from located import located
from strategies import (
    all_valid,
    programs,
    reductions,
    spelled,
    trees,
    unword,
    valid_programs,
    word,
)
from synth.collective.semantics.lowering import lower
from synth.collective.semantics.programs import Language
from synth.collective.semantics.rules import DemandKind, Derivation, Refusal, derive
from synth.collective.semantics.schedule import Schedule, Transpose, slice_ends
from synth.collective.verify.rehearsal import derive_valid
from synth.collective.verify.replay import (
    Failure,
    compare,
    compare_stripes,
    multiplicities,
    plain_sum,
    replay,
)

SOUND = frozenset({DemandKind.SOUND})
ODD_LENGTHS = (1, 2, 7, 31)


def scheduled(program: Program, reduction: Reduction, elements: int = 7) -> Schedule:
    derivation = derive(program, reduction.tree)
    assert isinstance(derivation, Derivation)
    return lower(derivation, reduction, elements)


def assert_sums(steps: tuple[Instruction, ...], reduction: Reduction, elements: int) -> None:
    program = spelled(steps, reduction.tree)
    assert compare(scheduled(program, reduction, elements), elements) is None, program


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("sizes", [(2,), (3,), (5,), *product((2, 3, 5), repeat=2)], ids=str)
def test_every_valid_program_gives_the_plain_sum(sizes: tuple[int, ...], across: bool) -> None:
    reduction = Reduction.plain(*sizes)
    for steps in all_valid(len(sizes), Language(5, across)):
        for elements in (*ODD_LENGTHS, 2 * reduction.tree.devices):
            assert_sums(steps, reduction, elements)


@pytest.mark.parametrize("sizes", [(2, 2, 2), (2, 3, 5), (5, 3, 2), (3, 2, 3)], ids=str)
def test_programs_of_three_digits_give_the_plain_sum(sizes: tuple[int, ...]) -> None:
    reduction = Reduction.plain(*sizes)
    for number, steps in enumerate(all_valid(3)):
        if len(steps) < 4 or number % 9 == sum(sizes) % 9:
            assert_sums(steps, reduction, ODD_LENGTHS[number % 4])


@pytest.mark.slow
@pytest.mark.parametrize("sizes", list(product((2, 3), repeat=3)), ids=str)
@sampled(400, seed=5)
def test_all_programs_of_three_digits_give_the_plain_sum(
    sizes: tuple[int, ...], sample: Sample
) -> None:
    reduction = Reduction.plain(*sizes)
    for steps in sample([*all_valid(3), *all_valid(3, Language(5, across=True))]):
        assert_sums(steps, reduction, 7)
        assert_sums(steps, reduction, reduction.tree.devices)


@examples(20, 150)
@given(st.tuples(*[st.sampled_from((2, 3))] * 4), st.data(), st.integers(1, 50))
def test_programs_of_four_digits_give_the_plain_sum(
    sizes: tuple[int, ...], data: st.DataObject, elements: int
) -> None:
    assert_sums(data.draw(st.sampled_from(all_valid(4))), Reduction.plain(*sizes), elements)


@pytest.mark.slow
@sampled(1000, seed=4)
def test_all_programs_of_four_digits_give_the_plain_sum(sample: Sample) -> None:
    reduction = Reduction.plain(2, 3, 2, 2)
    for steps in sample(all_valid(4)):
        assert_sums(steps, reduction, 29)


@examples(25, 200)
@given(reductions(), st.data(), st.integers(1, 60))
def test_every_replica_of_a_placement_gets_its_own_sum(
    reduction: Reduction, data: st.DataObject, elements: int
) -> None:
    assume(len(reduction.tree.digits) <= 4)
    program = data.draw(valid_programs(reduction.tree))
    assert compare(scheduled(program, reduction, elements), elements) is None


@given(reductions(), st.data(), st.integers(1, 60), st.integers(2, 7))
def test_segments_give_the_same_sums(
    reduction: Reduction, data: st.DataObject, elements: int, segments: int
) -> None:
    assume(len(reduction.tree.digits) <= 3)
    program = data.draw(valid_programs(reduction.tree))
    schedule = lower(derive_valid(program, reduction.tree), reduction, elements, segments)
    assert schedule.padded_bytes == schedule.segments * schedule.segment_bytes
    assert schedule.padded_bytes - elements < schedule.pieces * segments
    whole = lower(derive_valid(program, reduction.tree), reduction, schedule.segment_bytes)
    assert [p.size_bytes for p in schedule.phases] == [p.size_bytes for p in whole.phases]
    assert compare(schedule, elements) is None


@given(reductions(), st.data(), st.integers(1, 60), st.integers(1, 4))
@examples(15, 100)
def test_stripes_give_the_same_sums(
    reduction: Reduction, data: st.DataObject, elements: int, many: int
) -> None:
    """Slices of unlike shares, some of them empty, padded each for its own program."""
    assume(len(reduction.tree.digits) <= 3)
    stripes = [
        lower(
            derive_valid(data.draw(valid_programs(reduction.tree)), reduction.tree),
            reduction,
            data.draw(st.integers(1, 9)),
            data.draw(st.integers(1, 3)),
        )
        for _ in range(many)
    ]
    assert compare_stripes(stripes, elements) is None


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=5), st.integers(0, 10**9))
def test_slices_are_as_large_as_their_share(sizes: list[int], elements: int) -> None:
    cuts = (0, *slice_ends(sizes, elements))
    assert cuts[-1] == elements
    for size, begin, end in zip(sizes, cuts[:-1], cuts[1:], strict=True):
        assert abs((end - begin) * sum(sizes) - size * elements) < sum(sizes)
    assert slice_ends(sizes, sum(sizes)) == tuple(accumulate(sizes))


def test_a_stripe_that_does_not_sum_is_found() -> None:
    reduction = Reduction.plain(2, 2)
    right = scheduled(parse("all-reduce root inside"), reduction, 4)
    wrong = replace(right, phases=())
    failure = compare_stripes([right, wrong], 8)
    assert failure == Failure(None, "device 0, element 4 differs from the plain sum")


@given(reductions(), st.integers(1, 9))
def test_the_plain_sum_is_over_devices_that_agree_on_the_other_axes(
    reduction: Reduction, elements: int
) -> None:
    devices = reduction.placement.hierarchy.devices
    payloads = np.arange(devices * elements, dtype=np.int64).reshape(devices, elements) ** 2
    summed = plain_sum(reduction, payloads)
    replica = [located(reduction, device)[0] for device in range(devices)]
    for device in range(devices):
        fellows = [other for other in range(devices) if replica[other] == replica[device]]
        assert summed[device].tolist() == sum(payloads[fellow] for fellow in fellows).tolist()


@given(trees(), st.data(), st.integers(1, 20))
@examples(15, 100)
def test_replay_gives_the_sum_of_any_payloads(
    tree: Tree, data: st.DataObject, elements: int
) -> None:
    reduction = Reduction.plain(*tree.sizes)
    steps = data.draw(st.sampled_from(all_valid(len(tree.digits))))
    numbers = st.lists(st.integers(-(10**9), 10**9), min_size=elements, max_size=elements)
    rows = data.draw(st.lists(numbers, min_size=tree.devices, max_size=tree.devices))
    payloads = np.array(rows, dtype=np.int64)
    before = payloads.copy()
    result = replay(scheduled(spelled(steps, reduction.tree), reduction, elements), payloads)
    assert not isinstance(result, Failure)
    assert (result == before.sum(axis=0)).all()
    assert result.shape == payloads.shape
    assert (payloads == before).all()


OUT_OF_ORDER = [
    "reduce-scatter root inside; all-gather d0 parallel; all-gather d0 inside",
    "reduce-scatter d0 inside; reduce-scatter d0 parallel; all-gather root inside",
    (
        "reduce-scatter d0 inside; reduce-scatter d0 parallel; all-gather d0 inside; "
        "all-gather d0 parallel"
    ),
    (
        "reduce-scatter d0 inside; reduce-scatter d0 parallel; all-gather d0 inside; "
        "all-gather d0 master; broadcast root inside"
    ),
]


@pytest.mark.parametrize("text", OUT_OF_ORDER)
@pytest.mark.parametrize("sizes", [(2, 2), (2, 3), (5, 3)], ids=str)
def test_without_its_transposes_a_program_is_caught(text: str, sizes: tuple[int, ...]) -> None:
    reduction = Reduction.plain(*sizes)
    schedule = scheduled(parse(text), reduction, 7 * reduction.tree.devices)
    elements = schedule.payload_bytes
    assert compare(schedule, elements) is None
    kept = tuple(phase for phase in schedule.phases if not isinstance(phase, Transpose))
    assert len(kept) < len(schedule.phases)
    failure = compare(replace(schedule, phases=kept), elements)
    assert isinstance(failure, Failure)
    assert failure.phase is None
    assert "differs from the plain sum" in failure.reason


@pytest.mark.parametrize("across", [False, True])
def test_no_transpose_of_two_digits_can_be_left_out(across: bool) -> None:
    reduction = Reduction.plain(2, 3)
    found = 0
    for steps in all_valid(2, Language(5, across)):
        schedule = scheduled(spelled(steps, reduction.tree), reduction, 42)
        for place, phase in enumerate(schedule.phases):
            if isinstance(phase, Transpose):
                found += 1
                phases = schedule.phases[:place] + schedule.phases[place + 1 :]
                assert compare(replace(schedule, phases=phases), 42) is not None
    assert found >= len(OUT_OF_ORDER)


@given(trees(), st.data())
def test_without_its_padding_a_program_is_caught(tree: Tree, data: st.DataObject) -> None:
    """Seven elements cannot be cut in two or three."""
    reduction = Reduction.plain(*tree.sizes)
    scattering = [
        steps
        for steps in all_valid(len(tree.digits))
        if any(step.collective is Collective.REDUCE_SCATTER for step in steps)
    ]
    program = spelled(data.draw(st.sampled_from(scattering)), reduction.tree)
    schedule = scheduled(program, reduction)
    assert schedule.pieces > 1
    assert compare(schedule, 7) is None
    failure = compare(replace(schedule, pieces=1), 7)
    assert isinstance(failure, Failure)
    assert failure.phase is not None


@given(trees(), st.data())
def test_without_an_exchange_a_program_is_caught_unless_it_can_do_without(
    tree: Tree, data: st.DataObject
) -> None:
    """It can do without one of several broadcasts only."""
    reduction = Reduction.plain(*tree.sizes)
    steps = data.draw(st.sampled_from(all_valid(len(tree.digits))))
    schedule = scheduled(spelled(steps, reduction.tree), reduction)
    exchanges = [i for i, p in enumerate(schedule.phases) if not isinstance(p, Transpose)]
    place = data.draw(st.integers(0, len(steps) - 1))
    phases = schedule.phases[: exchanges[place]] + schedule.phases[exchanges[place] + 1 :]
    failure = compare(replace(schedule, phases=phases), 7)
    if steps[place].collective is Collective.BROADCAST:
        rest = [word(meant) for meant in steps[:place] + steps[place + 1 :]]
        needless = oracle.verdict(rest, tree.sizes, [oracle.SOUND]) == (None, set())
        assert (failure is None) == needless
    else:
        assert isinstance(failure, Failure)


@given(trees(), st.data())
def test_an_exchange_done_twice_is_caught_or_was_a_broadcast(
    tree: Tree, data: st.DataObject
) -> None:
    reduction = Reduction.plain(*tree.sizes)
    steps = data.draw(st.sampled_from(all_valid(len(tree.digits))))
    schedule = scheduled(spelled(steps, reduction.tree), reduction, 30)
    exchanges = [i for i, p in enumerate(schedule.phases) if not isinstance(p, Transpose)]
    place = data.draw(st.integers(0, len(steps) - 1))
    twice = exchanges[place]
    phases = (*schedule.phases[: twice + 1], *schedule.phases[twice:])
    failure = compare(replace(schedule, phases=phases), 30)
    assert (failure is None) == (steps[place].collective is Collective.BROADCAST)


def test_swapped_members_of_a_group_are_caught() -> None:
    reduction = Reduction.plain(2, 2)
    schedule = scheduled(parse("reduce-scatter root inside; all-gather root inside"), reduction)
    first, second = schedule.phases
    assert not isinstance(first, Transpose)
    swapped = replace(first, among=first.groups[:, ::-1])
    assert compare(replace(schedule, phases=(swapped, second)), 7) is not None


def test_one_replica_too_few_is_caught() -> None:
    reduction = Reduction.plain(2, 2)
    schedule = scheduled(parse("all-reduce d0 inside; all-reduce d0 parallel"), reduction)
    first, second = schedule.phases
    assert not isinstance(second, Transpose)
    short = replace(second, among=second.groups[:1])
    failure = compare(replace(schedule, phases=(first, short)), 7)
    assert failure == Failure(None, "device 1, element 0 differs from the plain sum")


def test_an_empty_end_state_is_detected() -> None:
    reduction = Reduction.plain(2)
    schedule = scheduled(parse("reduce root inside; broadcast root inside"), reduction)
    failure = compare(replace(schedule, phases=schedule.phases[:1]), 7)
    assert failure == Failure(None, "not every device ends with the whole payload")


@pytest.mark.parametrize("elements", [1, 5])
def test_nothing_to_do_returns_the_payload(elements: int) -> None:
    reduction = Reduction.plain()
    schedule = scheduled(Program(()), reduction, elements)
    payloads = np.arange(elements).reshape(1, elements)
    result = replay(schedule, payloads)
    assert not isinstance(result, Failure)
    assert (result == payloads).all()
    assert compare(schedule, elements) is None


# Programs that nobody has verified, by counting how often each contribution was added.


def counted(state: oracle.State, sizes: oracle.Label) -> list[list[list[int]]]:
    labels = oracle.labels(sizes)
    return [[[int(q in state[d].get(c, ())) for q in labels] for c in labels] for d in labels]


def assert_judges_agree(program: Program, tree: Tree) -> bool:
    """Counting finds a step unsound where the rules do; else it counts what the oracle holds.

    A step is unsound if it cannot be carried out, or adds a contribution twice: later steps may
    throw the wrong values away, so every beginning of the program is looked at.
    """
    refusal = derive(program, tree, kinds=SOUND)
    state = oracle.start(tree.sizes)
    for step, meant in enumerate(instructions(program, tree)):
        counts = multiplicities(Program(program.steps[: step + 1]), tree)
        broken = isinstance(counts, Failure) or bool((counts > 1).any())
        if isinstance(counts, Failure):
            assert counts.phase == step
        if isinstance(refusal, Refusal) and refusal.step == step:
            assert broken, program
            return False
        assert not broken, program
        assert not isinstance(counts, Failure)
        state = oracle.after(state, word(meant), tree.sizes)
        assert counts.tolist() == counted(state, tree.sizes)
    counts = multiplicities(program, tree)
    right = not isinstance(counts, Failure) and bool((counts == 1).all())
    assert right == isinstance(refusal, Derivation), program
    return True


@pytest.mark.parametrize(
    "sizes",
    [(2,), (3,), (3, 2), *(pytest.param(s, marks=pytest.mark.slow) for s in [(2, 2), (2, 3)])],
    ids=str,
)
def test_counting_finds_unsound_what_the_rules_refuse(sizes: tuple[int, ...]) -> None:
    """All programs of three steps; what follows an unsound step is not looked at."""
    tree = Tree.of(*sizes)
    known = [unword(said) for said in oracle.words(len(sizes))]
    live: list[tuple[Instruction, ...]] = [()]
    for _ in range(3):
        longer = [(*done, meant) for done in live for meant in known]
        live = [steps for steps in longer if assert_judges_agree(spelled(steps, tree), tree)]
    assert live


@settings(max_examples=150)
@given(trees(), st.data())
def test_counting_agrees_on_random_programs(tree: Tree, data: st.DataObject) -> None:
    assert_judges_agree(data.draw(programs(tree, most_steps=6)), tree)


@examples(20, 150)
@given(trees(), st.data())
def test_counting_agrees_on_meddled_programs(tree: Tree, data: st.DataObject) -> None:
    valid = data.draw(valid_programs(tree)).steps
    cut = data.draw(st.integers(0, len(valid)))
    more = data.draw(programs(tree, most_steps=2)).steps
    assert_judges_agree(Program(valid[:cut] + more + valid[cut:]), tree)


@given(trees(), st.data())
def test_valid_programs_count_one_everywhere(tree: Tree, data: st.DataObject) -> None:
    counts = multiplicities(data.draw(valid_programs(tree)), tree)
    assert not isinstance(counts, Failure)
    assert counts.shape == (tree.devices,) * 3
    assert (counts == 1).all()


@pytest.mark.parametrize("sizes", [(2,), (2, 2), (2, 3)], ids=str)
def test_programs_the_rules_refuse_are_wrong_irregular_or_pointless(sizes: tuple[int, ...]) -> None:
    """All programs of three steps, the steps after the refused one carried out as well."""
    tree = Tree.of(*sizes)
    known = [unword(said) for said in oracle.words(len(sizes))]
    told = dict.fromkeys(DemandKind, 0)
    for length in (0, 1, 2, 3):
        for steps in product(known, repeat=length):
            program = spelled(steps, tree)
            found = derive(program, tree)
            if isinstance(found, Derivation):
                continue
            told[found.kind] += 1
            if found.kind is DemandKind.SOUND:
                upto = program.steps if found.step is None else program.steps[: found.step + 1]
                counts = multiplicities(Program(upto), tree)
                assert isinstance(counts, Failure) or (counts != 1).any(), program
    assert told[DemandKind.SOUND]
    assert told[DemandKind.PRUNED]
    assert bool(told[DemandKind.REGULAR])


def test_right_numbers_of_an_irregular_program() -> None:
    """The example of the language page: no runtime has the call, but the sums would be right."""
    program = parse("reduce root inside; all-gather root inside")
    tree = Tree.of(2, 3)
    counts = multiplicities(program, tree)
    assert not isinstance(counts, Failure)
    assert (counts == 1).all()
    found = derive(program, tree)
    assert isinstance(found, Refusal)
    assert found.kind is DemandKind.REGULAR


@pytest.mark.parametrize(
    ("text", "phase", "reason"),
    [
        ("reduce d0 inside; all-reduce d0 inside", 1, "members hold different chunks"),
        ("reduce-scatter d0 inside; reduce d0 inside", 1, "members hold different chunks"),
        ("all-gather root inside", 0, "two members hold one chunk"),
    ],
)
def test_impossible_runs_are_refused_with_a_reason(text: str, phase: int, reason: str) -> None:
    assert multiplicities(parse(text), Tree.of(2, 3)) == Failure(phase, reason)


def test_adding_twice_is_counted() -> None:
    counts = multiplicities(parse("all-reduce root inside; all-reduce d0 inside"), Tree.of(2, 3))
    assert not isinstance(counts, Failure)
    assert (counts == 3).all()


def test_names_the_tree_does_not_have_are_an_input_error() -> None:
    with pytest.raises(InputError, match="no level 'pod'"):
        multiplicities(parse("reduce pod inside"), Tree.of(2))
