"""What z3 says about programs for all sizes, and whether its counterexamples really go wrong."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from exhaustive import examples
from grammar import Collective, Groups, Instruction, Program, instructions, parse, spell
from hierarchies import Digit, InputError, Tree
from strategies import programs, trees
from synth.collective.verify.symbolic import Proved, Refuted, Unknown, Violation, prove

VALID = (
    (1, "all-reduce root inside"),
    (1, "reduce-scatter root inside; all-gather root inside"),
    (1, "reduce root inside; broadcast root inside"),
    (2, "reduce-scatter d0 inside; all-reduce d0 parallel(root); all-gather d0 inside"),
    (2, "reduce d0 inside; all-reduce d0 master(root); broadcast d0 inside"),
    (
        2,
        "reduce-scatter d0 inside; reduce d0 parallel; broadcast d0 parallel; all-gather d0 inside",
    ),
    (2, "reduce-scatter root across(d0); all-reduce d0 inside; all-gather root across(d0)"),
    (
        3,
        """reduce-scatter d1 inside; reduce-scatter d1 parallel(d0); all-reduce d0 parallel(root)
        all-gather d1 parallel(d0); all-gather d1 inside""",
    ),
    (
        3,
        """reduce d1 inside; reduce d1 master(d0); all-reduce d0 master(root)
        broadcast d1 master(d0); broadcast d1 inside""",
    ),
    (
        3,
        "reduce-scatter root across(d0, d2); all-reduce d1 parallel(d0); all-gather across(d0, d2)",
    ),
    (
        4,
        """reduce-scatter d1 inside; all-reduce d0 parallel(root); all-reduce d1 parallel(d0)
        all-gather d1 inside""",
    ),
    (
        4,
        """all-reduce d1 parallel(root); all-reduce d2 inside; reduce d2 parallel(d1)
        broadcast d2 master(root); broadcast d1 inside""",
    ),
    (
        5,
        """reduce d3 inside; reduce d3 master(d1); all-reduce d1 master(root)
        broadcast d3 master(d1); broadcast d3 inside""",
    ),
    (
        5,
        """reduce-scatter d3 inside; reduce-scatter d3 parallel(d1); all-reduce d1 parallel(root)
        all-gather d3 parallel(d1); all-gather d3 inside""",
    ),
)

WRONG = (
    # A step dropped.
    (2, "", None, Violation.GOAL_MISSED),
    (2, "reduce-scatter d0 inside; all-gather d0 inside", None, Violation.GOAL_MISSED),
    (2, "reduce-scatter d0 inside; all-reduce d0 parallel", None, Violation.GOAL_MISSED),
    (2, "reduce d0 inside; broadcast d0 inside", None, Violation.GOAL_MISSED),
    # Contributions added twice.
    (1, "all-reduce root inside; all-reduce root inside", 1, Violation.ADDED_TWICE),
    (2, "all-reduce d0 inside; all-reduce root inside", 1, Violation.ADDED_TWICE),
    (
        3,
        "reduce-scatter d1 inside; all-gather d1 inside; reduce d0 inside",
        2,
        Violation.ADDED_TWICE,
    ),
    # A broadcast from the wrong place.
    (1, "broadcast root inside", None, Violation.GOAL_MISSED),
    (2, "reduce d0 inside; broadcast d0 parallel(root)", None, Violation.GOAL_MISSED),
    (2, "broadcast d0 inside; all-reduce root inside", 1, Violation.ADDED_TWICE),
    # Groups swapped.
    (
        2,
        "reduce-scatter d0 inside; all-reduce d0 inside; all-gather d0 parallel(root)",
        1,
        Violation.UNEQUAL_ROWS,
    ),
    (
        3,
        "reduce-scatter d1 inside; all-reduce d1 parallel; all-gather d1 parallel(d0)",
        2,
        Violation.HELD_TWICE,
    ),
    (2, "reduce d0 inside; all-reduce d0 inside", 1, Violation.UNEQUAL_ROWS),
    (2, "all-gather d0 inside", 0, Violation.HELD_TWICE),
    # Asked for any sizes z3 finds larger ones first.
    (2, "broadcast d0 master; all-gather root inside", 1, Violation.HELD_TWICE),
    (2, "broadcast d0 master; all-reduce root inside", 1, Violation.ADDED_TWICE),
    (3, "reduce d1 master; all-reduce root inside", 1, Violation.UNEQUAL_ROWS),
    (3, "reduce-scatter d0 master", None, Violation.GOAL_MISSED),
    (
        5,
        "all-reduce d3 inside; all-reduce d1 master; broadcast root inside",
        None,
        Violation.GOAL_MISSED,
    ),
)


def device_labels(sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(product(*(range(size) for size in sizes)))


class Replay:
    """What every device holds of every chunk: how often each contribution is in it."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.labels = device_labels(sizes)
        self.holds = {d: {c: Counter([d]) for c in self.labels} for d in self.labels}

    def group(self, step: Instruction, device: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The members of the device's group in order; none if it takes no part."""
        fixed = [i for i in range(len(device)) if i not in step.groups.free]
        return [
            other
            for other in self.labels
            if all(other[i] == device[i] for i in fixed)
            and all(device[i] == 0 for i in step.groups.zero)
        ]

    def take(self, step: Instruction) -> None:
        self.holds = {
            device: {chunk: self._after(step, device, chunk) for chunk in self.labels}
            for device in self.labels
        }

    def _after(
        self, step: Instruction, device: tuple[int, ...], chunk: tuple[int, ...]
    ) -> Counter[tuple[int, ...]]:
        group = self.group(step, device)
        if not group:
            return self.holds[device][chunk]
        total: Counter[tuple[int, ...]] = sum((self.holds[m][chunk] for m in group), Counter())
        match step.collective:
            case Collective.REDUCE if device != group[0]:
                return Counter()
            case Collective.REDUCE_SCATTER:
                own = all(chunk[i] == device[i] for i in step.groups.free)
                return total if own else Counter()
            case Collective.BROADCAST:
                return self.holds[group[0]][chunk]
            case _:
                return total


def confirm(program: Program, tree: Tree, told: Refuted) -> None:
    """The counterexample goes wrong where it says, and nothing is added twice before."""
    steps = instructions(program, tree)
    replay = Replay(told.sizes)
    for step in steps[: told.step]:
        replay.take(step)
    for held in replay.holds.values():
        assert all(count == 1 for row in held.values() for count in row.values())
    assert told.chunk is not None
    mine = replay.holds[told.device][told.chunk]
    if told.step is None:
        assert told.violation is Violation.GOAL_MISSED
        assert told.other is None
        assert told.contributor is not None
        assert mine[told.contributor] == 0
        return
    assert told.other is not None
    assert told.other != told.device
    assert told.other in replay.group(steps[told.step], told.device)
    theirs = replay.holds[told.other][told.chunk]
    match told.violation:
        case Violation.UNEQUAL_ROWS:
            assert mine
            assert not theirs
        case Violation.HELD_TWICE:
            assert mine
            assert theirs
        case Violation.ADDED_TWICE:
            assert told.contributor is not None
            assert (mine + theirs)[told.contributor] == 2
        case _:
            pytest.fail(f"{told.violation} is not about soundness")


@pytest.mark.parametrize(("depth", "text"), VALID)
def test_right_programs_are_proved_for_every_size(depth: int, text: str) -> None:
    assert prove(parse(text), Tree.of(*[2] * depth)) == Proved(sizes=None)


@pytest.mark.parametrize(("depth", "text"), VALID)
def test_right_programs_are_regular_too(depth: int, text: str) -> None:
    assert prove(parse(text), Tree.of(*[2] * depth), regular=True) == Proved()


def test_an_empty_program_is_right_where_nothing_is_to_be_reduced() -> None:
    assert prove(Program(()), Tree(())) == Proved()


@pytest.mark.parametrize(("depth", "text", "step", "violation"), WRONG)
def test_wrong_programs_are_refuted_where_they_go_wrong(
    depth: int, text: str, step: int | None, violation: Violation
) -> None:
    tree = Tree.of(*[3] * depth)
    program = parse(text) if text else Program(())
    told = prove(program, tree)
    assert isinstance(told, Refuted)
    assert told.sizes == (2,) * depth
    assert (told.step, told.violation) == (step, violation)
    confirm(program, tree, told)


@pytest.mark.parametrize(("depth", "text"), VALID)
def test_neither_the_first_nor_the_last_step_can_be_dropped(depth: int, text: str) -> None:
    tree, steps = Tree.of(*[2] * depth), parse(text).steps
    for program in (Program(steps[1:]), Program(steps[:-1])):
        told = prove(program, tree)
        assert isinstance(told, Refuted)
        confirm(program, tree, told)


@examples(20, 150)
@given(st.data())
def test_counterexamples_replay_and_steps_agree_with_the_oracle(data: st.DataObject) -> None:
    tree = data.draw(trees())
    program = data.draw(programs(tree))
    words = [
        oracle.Word(step.collective.value, step.groups.free, step.groups.zero)
        for step in instructions(program, tree)
    ]
    match prove(program, tree):
        case Refuted() as told:
            confirm(program, tree, told)
            at_size = oracle.verdict(words, told.sizes, [oracle.SOUND])
            assert at_size == (told.step, {oracle.SOUND})
        case Proved():
            for sizes in {tree.sizes, (2,) * len(tree.digits)}:
                assert oracle.verdict(words, sizes, [oracle.SOUND]) == (None, set())
        case Unknown(reason):
            pytest.fail(reason)


@examples(15, 100)
@given(st.data())
def test_regularity_agrees_with_the_oracle(data: st.DataObject) -> None:
    tree = Tree.of(*[2] * data.draw(st.integers(1, 3)))
    program = data.draw(programs(tree))
    words = [
        oracle.Word(step.collective.value, step.groups.free, step.groups.zero)
        for step in instructions(program, tree)
    ]
    asked = [oracle.SOUND, oracle.REGULAR]
    match prove(program, tree, regular=True):
        case Refuted(step=step, sizes=sizes):
            found, classes = oracle.verdict(words, sizes, asked)
            assert found == step
            assert classes
        case Proved():
            assert oracle.verdict(words, tree.sizes, asked) == (None, set())
        case Unknown(reason):
            pytest.fail(reason)


@pytest.mark.parametrize("depth", [1, 2])
def test_all_short_programs_are_proved(depth: int) -> None:
    tree = Tree.of(*[2] * depth)
    found = list(oracle.programs(tree.sizes, 3))
    assert len(found) == {1: 3, 2: 29}[depth]
    for words in found:
        assert prove(program_of(words, tree), tree, regular=True) == Proved()


def test_all_programs_of_three_steps_on_three_digits_are_proved() -> None:
    tree = Tree.of(2, 2, 2)
    found = list(oracle.programs(tree.sizes, 3))
    assert len(found) == 66
    for words in found:
        assert prove(program_of(words, tree), tree, regular=True) == Proved()


def program_of(words: tuple[oracle.Word, ...], tree: Tree) -> Program:
    meant = (Instruction(Collective(w.collective), Groups(w.free, w.zero)) for w in words)
    return Program(tuple(spell(step, tree) for step in meant))


def test_right_numbers_in_irregular_pieces_are_refuted_only_when_asked() -> None:
    program, tree = parse("reduce root inside; all-gather root inside"), Tree.of(2, 2)
    assert prove(program, tree) == Proved()
    told = prove(program, tree, regular=True)
    assert isinstance(told, Refuted)
    assert (told.step, told.violation) == (1, Violation.UNLIKE_PIECES)


def test_a_scatter_of_rows_that_are_not_closed_is_irregular() -> None:
    program = parse("reduce-scatter root inside; reduce-scatter root inside")
    told = prove(program, Tree.of(2), regular=True)
    assert isinstance(told, Refuted)
    assert told.violation is Violation.UNEQUAL_ROWS
    program = parse(
        "reduce-scatter d1 parallel; reduce-scatter d1 inside; reduce-scatter d1 inside"
    )
    told = prove(program, Tree.of(2, 2, 2), regular=True)
    assert isinstance(told, Refuted)
    assert told.step == 2


def test_the_reason_names_step_digits_and_sizes() -> None:
    tree = Tree((Digit("node", 4), Digit("gpu", 8)))
    told = prove(parse("all-reduce node inside; all-reduce root inside"), tree)
    assert isinstance(told, Refuted)
    assert told.reason.startswith("step 2, all-reduce root inside: device (node ")
    assert "which would be added twice" in told.reason
    assert told.reason.endswith("(sizes: node 2, gpu 2)")
    missed = prove(parse("all-reduce node inside"), tree)
    assert isinstance(missed, Refuted)
    assert missed.reason.startswith("at the end: device (node ")
    assert "lacks the contribution of device (node " in missed.reason


def test_too_little_effort_is_unknown_and_neither_proof_nor_refutation() -> None:
    right, wrong = "all-reduce root inside", "all-reduce d0 inside"
    for text in (right, wrong):
        for effort in (0, 3):
            told = prove(parse(text), Tree.of(2, 2), effort=effort)
            assert isinstance(told, Unknown)
            assert "too little" in told.reason


@pytest.mark.parametrize("effort", [100, 1_000, 10_000, 30_000, 100_000, 300_000])
def test_little_effort_never_turns_one_answer_into_another(effort: int) -> None:
    depth, text = VALID[-1]
    tree, program = Tree.of(*[2] * depth), parse(text)
    assert isinstance(prove(program, tree, effort=effort), Proved | Unknown)
    dropped = Program(program.steps[:-1])
    assert isinstance(prove(dropped, tree, effort=effort), Refuted | Unknown)


def test_programs_that_do_not_fit_the_tree_are_the_callers_mistake() -> None:
    with pytest.raises(InputError, match="no level 'rack'"):
        prove(parse("all-reduce rack inside"), Tree.of(2))
