"""The rules against the oracle, which has real sizes, explicit groups and no bit tricks."""

from __future__ import annotations

from collections.abc import Collection
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from exhaustive import a_few
from grammar import (
    Collective,
    Goal,
    Groups,
    Instruction,
    Program,
    instructions,
    list_instructions,
    parse,
)
from hierarchies import Digit, InputError, Tree
from strategies import all_valid, programs, spelled, trees, unword, valid_programs, word
from synth.collective.semantics.rules import (
    Demand,
    DemandKind,
    Derivation,
    Refusal,
    Rulebook,
    derive,
)

ALL = oracle.EVERYTHING
SOUND, REGULAR, PRUNED = oracle.SOUND, oracle.REGULAR, oracle.PRUNED
ASKED = [ALL, (SOUND,), (SOUND, REGULAR), (SOUND, PRUNED), (PRUNED,)]
SMALL = [(2,), (5,), (2, 2), (2, 3), (3, 2)]


def kinds(asked: Collection[str]) -> frozenset[DemandKind]:
    return frozenset(DemandKind(name) for name in asked)


def verdict(found: Derivation | Refusal) -> tuple[int | None, set[str]]:
    """As the oracle tells it."""
    return (found.step, {found.kind.value}) if isinstance(found, Refusal) else (None, set())


def assert_agree(program: Program, tree: Tree, asked: Collection[str]) -> None:
    """The same step is refused, for one of the reasons the oracle has; or both are content."""
    words = [word(meant) for meant in instructions(program, tree)]
    step, classes = oracle.verdict(words, tree.sizes, asked)
    found_step, found = verdict(derive(program, tree, kinds=kinds(asked)))
    assert found_step == step
    assert found <= classes
    assert bool(found) == bool(classes)


def assert_agree_on_all(sizes: oracle.Label, most_steps: int, asked: Collection[str]) -> int:
    """All programs of so many steps; what follows a refused step is not looked at twice."""
    tree, end, known = Tree.of(*sizes), oracle.goal(sizes), oracle.words(len(sizes))

    def continued(state: oracle.State, done: tuple[oracle.Word, ...]) -> int:
        looked_at = 0
        for said in known:
            looked_at += 1
            program = (*done, said)
            text = spelled(tuple(unword(w) for w in program), tree)
            found = verdict(derive(text, tree, kinds=kinds(asked)))
            wrong = oracle.broken(state, said, sizes) & set(asked)
            if wrong:
                assert found[0] == len(done), text
                assert found[1] <= wrong, text
                continue
            then = oracle.after(state, said, sizes)
            assert found == (None, set() if then == end else {SOUND}), text
            if len(program) < most_steps:
                looked_at += continued(then, program)
        return looked_at

    return continued(oracle.start(sizes), ())


@pytest.mark.parametrize("asked", ASKED, ids="+".join)
@pytest.mark.parametrize("sizes", SMALL, ids=str)
def test_all_programs_of_three_steps(sizes: oracle.Label, asked: tuple[str, ...]) -> None:
    assert assert_agree_on_all(sizes, 3, asked) >= 30


TALL = [(2, 2, 2), (3, 2, 2), (2, 3, 2), (2, 2, 3)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "asked"), a_few(list(product(TALL, [ALL, (SOUND,)])), 2, seed=8), ids=str
)
def test_all_programs_of_three_steps_and_digits(
    sizes: oracle.Label, asked: tuple[str, ...]
) -> None:
    assert assert_agree_on_all(sizes, 3, asked) > 9000


def walk_in_step(
    sizes: oracle.Label,
    asked: Collection[str],
    *,
    across: bool = False,
    most: int = 10**9,
    goal: Goal = Goal.ALL_REDUCE,
) -> int:
    """Rules and oracle side by side through all they can reach; how many states that is.

    So programs of any length are compared: what a program does next depends on the state only.
    """
    known = list_instructions(len(sizes), across=across, goal=goal)
    rules = Rulebook(len(sizes), known, kinds(asked), goal)
    pairs = {rules.start: oracle.start(sizes, goal.value)}
    queue = [rules.start]
    for state in queue:
        there = pairs[state]
        assert rules.reached(state) == oracle.reached(there, sizes, goal.value)
        for meant, taken in rules.take(state):
            said = word(meant)
            wrong = oracle.broken(there, said, sizes) & set(asked)
            if isinstance(taken, Demand):
                assert taken.kind.value in wrong
                continue
            assert not wrong
            then = oracle.after(there, said, sizes)
            if taken not in pairs and len(pairs) < most:
                pairs[taken] = then
                queue.append(taken)
            assert pairs.get(taken, then) == then
    return len(pairs)


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("sizes", [(2, 2), (2, 3), (3, 2), (3, 3), (2, 5)], ids=str)
def test_two_digits_agree_for_programs_of_any_length(sizes: oracle.Label, across: bool) -> None:
    assert walk_in_step(sizes, ALL, across=across) == 35
    assert walk_in_step(sizes, (SOUND,), across=across) == 132
    assert walk_in_step(sizes, (SOUND, REGULAR), across=across) == 118


@pytest.mark.parametrize("asked", ASKED, ids="+".join)
@pytest.mark.parametrize("goal", Goal)
def test_every_goal_agrees_for_programs_of_any_length(goal: Goal, asked: tuple[str, ...]) -> None:
    for sizes in ((3,), (2, 2), (2, 3)):
        assert walk_in_step(sizes, asked, across=True, goal=goal, most=300) > 1
    assert walk_in_step((2, 2, 2), asked, across=True, goal=goal, most=60) > 3


@pytest.mark.slow
def test_three_digits_agree_for_programs_of_any_length() -> None:
    assert walk_in_step((2, 2, 2), ALL) == 493
    assert walk_in_step((2, 3, 2), (SOUND,), most=200) == 200


@pytest.mark.slow
@pytest.mark.parametrize("sizes", a_few([(sizes,) for sizes in TALL], 1, seed=9), ids=str)
def test_three_digits_agree_on_soundness_for_long_programs(sizes: oracle.Label) -> None:
    assert walk_in_step(sizes, (SOUND,), most=2000) == 2000
    assert walk_in_step(sizes, ALL) == 493
    assert walk_in_step(sizes, ALL, across=True) > 493


@given(trees(), st.sampled_from(ASKED), st.data())
def test_random_programs(tree: Tree, asked: tuple[str, ...], data: st.DataObject) -> None:
    assert_agree(data.draw(programs(tree, most_steps=6)), tree, asked)


@settings(max_examples=60)
@given(trees(), st.sampled_from(ASKED), st.data())
def test_random_continuations_of_valid_programs(
    tree: Tree, asked: tuple[str, ...], data: st.DataObject
) -> None:
    valid = data.draw(valid_programs(tree)).steps
    cut = data.draw(st.integers(0, len(valid)))
    more = data.draw(programs(tree, most_steps=3)).steps
    assert_agree(Program(valid[:cut] + more + valid[cut:]), tree, asked)


@settings(max_examples=200)
@given(trees(), st.data())
def test_mutants_are_refused_unless_the_oracle_finds_them_valid(
    tree: Tree, data: st.DataObject
) -> None:
    steps = [word(meant) for meant in data.draw(st.sampled_from(all_valid(len(tree.digits))))]
    place = data.draw(st.integers(0, len(steps) - 1))
    match data.draw(st.sampled_from(["drop", "double", "insert", "regroup", "rename", "swap"])):
        case "drop":
            del steps[place]
        case "double":
            steps.insert(place, steps[place])
        case "insert":
            steps.insert(place, oracle.Word("all-reduce", tuple(range(len(tree.digits)))))
        case "regroup":
            other = data.draw(st.sampled_from(oracle.words(len(tree.digits), True)))
            steps[place] = oracle.Word(steps[place].collective, other.free, other.zero)
        case "rename":
            name = data.draw(st.sampled_from(oracle.COLLECTIVES))
            steps[place] = oracle.Word(name, steps[place].free, steps[place].zero)
        case "swap":
            steps[place], steps[-1] = steps[-1], steps[place]
    assert_agree(spelled(tuple(map(unword, steps)), tree), tree, ALL)


@pytest.mark.parametrize("depth", [1, 2])
def test_every_single_mutant_of_a_small_program(depth: int) -> None:
    """A step dropped, done twice, or said of other groups."""
    tree = Tree.of(*(3, 2)[:depth])
    known = set(oracle.programs(tree.sizes, 6))
    groups = {(said.free, said.zero) for said in oracle.words(depth)}
    refused = 0
    for program in (tuple(word(meant) for meant in steps) for steps in all_valid(depth)):
        for place, said in enumerate(program):
            before, after = program[:place], program[place + 1 :]
            mutants = [before + after, (*before, said, said, *after)]
            mutants += [(*before, oracle.Word(said.collective, *g), *after) for g in groups]
            for mutant in mutants:
                found = derive(spelled(tuple(map(unword, mutant)), tree), tree)
                assert isinstance(found, Derivation) == (mutant in known)
                refused += isinstance(found, Refusal)
    assert refused >= 10


@given(trees(), st.data())
def test_a_derivation_has_every_state_from_start_to_goal(tree: Tree, data: st.DataObject) -> None:
    program = data.draw(valid_programs(tree))
    found = derive(program, tree)
    assert isinstance(found, Derivation)
    assert (found.program, found.tree) == (program, tree)
    assert found.instructions == instructions(program, tree)
    assert len(found.states) == len(program.steps) + 1
    rules = Rulebook(len(tree.digits), list_instructions(len(tree.digits)))
    assert (found.states[0], found.states[-1]) == (rules.start, rules.end)
    for meant, before, after in zip(
        found.instructions, found.states, found.states[1:], strict=False
    ):
        assert (meant, after) in rules.moves(before)


@given(trees(most_digits=2), st.data())
def test_states_are_the_oracles_on_the_skeleton(tree: Tree, data: st.DataObject) -> None:
    program = data.draw(valid_programs(tree))
    depth = len(tree.digits)
    skeleton = (2,) * depth
    found = derive(program, tree)
    assert isinstance(found, Derivation)
    state = oracle.start(skeleton)
    for meant, table in zip((None, *found.instructions), found.states, strict=True):
        state = oracle.after(state, word(meant), skeleton) if meant else state
        for bits in product((0, 1), repeat=3 * depth):
            device, chunk, contributor = (bits[i * depth : (i + 1) * depth] for i in range(3))
            has = contributor in state[device].get(chunk, frozenset())
            assert has == bool(table >> sum(bit << i for i, bit in enumerate(bits)) & 1)


@given(trees(most_digits=3), st.data())
def test_names_and_sizes_do_not_identify(tree: Tree, data: st.DataObject) -> None:
    program = data.draw(st.one_of(programs(tree), valid_programs(tree)))
    sizes = data.draw(st.tuples(*[st.integers(2, 10**6)] * len(tree.digits)))
    large = Tree(tuple(Digit(f"level{i}", size) for i, size in enumerate(sizes)))
    found, other = derive(program, tree), derive(program, large)
    if isinstance(found, Derivation):
        assert isinstance(other, Derivation)
        assert other.states == found.states
    else:
        assert other == found


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_at_least_never_promises_too_much(depth: int) -> None:
    rules = Rulebook(depth, list_instructions(depth, across=True))
    after = {rules.start: [s for _, s in rules.moves(rules.start)]}
    queue = [rules.start]
    for state in queue:
        for then in after[state]:
            if then not in after:
                after[then] = [s for _, s in rules.moves(then)]
                queue.append(then)
    left = {rules.end: 0}
    for _ in range(len(after)):
        for state, following in after.items():
            least = min((1 + left[then] for then in following if then in left), default=None)
            if least is not None and least < left.get(state, least + 1):
                left[state] = least
    for state in after:
        if state in left:
            assert rules.at_least(state) <= left[state]
    assert rules.at_least(rules.end) == 0


TREE = Tree((Digit("node", 2), Digit("gpu", 4)))
REFUSALS = [
    ("", None, DemandKind.SOUND, "not every device ends with every contribution"),
    (
        "all-reduce node inside",
        None,
        DemandKind.SOUND,
        "not every device ends with every contribution",
    ),
    ("all-reduce root inside; all-reduce node inside", 1, DemandKind.SOUND, "added twice"),
    ("reduce node inside; all-reduce node inside", 1, DemandKind.SOUND, "different sets of chunks"),
    ("all-gather root inside", 0, DemandKind.SOUND, "two members of a group hold the same chunk"),
    ("reduce root inside; all-gather root inside", 1, DemandKind.REGULAR, "do not fit together"),
    (
        "reduce-scatter node inside; reduce-scatter node inside",
        1,
        DemandKind.SOUND,
        "members of a group hold different sets of chunks",
    ),
    ("reduce root inside; all-reduce gpu parallel(node)", 1, DemandKind.SOUND, "different sets"),
    ("reduce root inside; broadcast node inside", 1, DemandKind.PRUNED, "holds nothing at all"),
    ("broadcast root inside", 0, DemandKind.PRUNED, "the first member lacks something"),
    ("all-reduce root inside; broadcast root inside", 1, DemandKind.PRUNED, "nobody would learn"),
]


@pytest.mark.parametrize(("text", "step", "kind", "reason"), REFUSALS)
def test_invalid_input_is_refused_with_a_reason(
    text: str, step: int | None, kind: DemandKind, reason: str
) -> None:
    found = derive(parse(text), TREE)
    assert isinstance(found, Refusal)
    assert (found.step, found.kind) == (step, kind)
    assert reason in found.reason


def test_reduce_then_gather_is_right_but_irregular() -> None:
    """The example of the language page."""
    program = parse("reduce root inside; all-gather root inside")
    assert isinstance(derive(program, TREE, kinds=kinds((SOUND,))), Derivation)
    assert isinstance(derive(program, TREE, kinds=kinds((SOUND, PRUNED))), Derivation)
    assert isinstance(derive(program, TREE, kinds=kinds((SOUND, REGULAR))), Refusal)


def test_a_scatter_needs_whole_families_of_chunks() -> None:
    """Where nothing else is asked for: the rules for sums alone would refuse this as well."""
    program = parse("reduce-scatter node inside; broadcast node inside; reduce-scatter node inside")
    found = derive(program, TREE, kinds=kinds((REGULAR,)))
    reason = "the chunks held cannot be split evenly among the members"
    assert found == Refusal(2, DemandKind.REGULAR, reason)
    assert verdict(derive(program, TREE, kinds=kinds((SOUND,)))) == (2, {SOUND})


def test_names_the_tree_does_not_have_are_an_input_error() -> None:
    with pytest.raises(InputError, match="step 'reduce pod inside': no level 'pod'"):
        derive(parse("all-reduce root inside; reduce pod inside"), TREE)


def test_nobody_to_talk_to_is_done_at_once() -> None:
    found = derive(Program(()), Tree(()))
    assert isinstance(found, Derivation)
    assert len(found.states) == 1


def test_an_all_to_all_sends_nothing_twice() -> None:
    """No program comes there, as all contributions begin at one device each: a state by hand."""
    everything = Instruction(Collective.ALL_TO_ALL, Groups((0,)))
    rules = Rulebook(1, [everything], goal=Goal.ALL_TO_ALL)
    both_have_the_firsts = rules.space.all_zero([2])
    [(_, refused)] = rules.take(both_have_the_firsts)
    assert isinstance(refused, Demand)
    assert (refused.kind, refused.otherwise) == (
        DemandKind.SOUND,
        "a contribution to a chunk would be sent twice",
    )
    [(_, taken)] = rules.take(rules.start)
    assert taken == rules.end
