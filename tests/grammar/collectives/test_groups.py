"""Forms, groups and instructions: how many there are, and one spelling for each."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from grammar import (
    ROOT,
    Across,
    Collective,
    Form,
    Groups,
    InsideGroup,
    Instruction,
    Master,
    Parallel,
    ProgramInstruction,
    canonicalize,
    instruction,
    instructions,
    list_instructions,
    parse,
    spell,
)
from hierarchies import Digit, InputError, Tree
from strategies import programs, trees, word

TREE = Tree((Digit("rack", 2), Digit("node", 3), Digit("gpu", 4)))


def spellings(tree: Tree) -> list[tuple[str, Form]]:
    """Every slice and form that can be written with the tree's names, sensible or not."""
    names = (ROOT, *tree.names)
    forms: list[Form] = [InsideGroup()]
    forms += [form(name) for form in (Parallel, Master) for name in names]
    forms += [Across(chosen) for size in (1, 2, 3) for chosen in product(tree.names, repeat=size)]
    return list(product(names, forms))


def expected(slice_: str, form: Form, tree: Tree) -> tuple[oracle.Label, oracle.Label] | None:
    """Free and zero digits by the definition's table; None if there are no such groups."""
    names = (ROOT, *tree.names)
    e, last = names.index(slice_) - 1, len(tree.digits) - 1
    match form:
        case InsideGroup():
            free, zero = range(e + 1, last + 1), range(0)
        case Parallel(name) | Master(name):
            free = range(names.index(name), e + 1)
            zero = range(e + 1, last + 1) if isinstance(form, Master) else range(0)
        case Across(chosen):
            fits = slice_ == ROOT and len(set(chosen)) == len(chosen)
            return (tuple(sorted(map(tree.index, chosen))), ()) if fits else None
    return (tuple(free), tuple(zero)) if free else None


@pytest.mark.parametrize(("depth", "count"), [(0, 0), (1, 5), (2, 20), (3, 45), (4, 80)])
def test_the_counts_of_the_language_page(depth: int, count: int) -> None:
    assert len(list_instructions(depth)) == len(set(list_instructions(depth))) == count


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("depth", range(5))
def test_admitted_programs_are_those_of_the_oracle(depth: int, across: bool) -> None:
    found = [word(meant) for meant in list_instructions(depth, across=across)]
    assert len(found) == len(set(found))
    assert set(found) == set(oracle.words(depth, across))


@pytest.mark.parametrize("depth", range(1, 6))
def test_across_adds_the_sets_with_gaps(depth: int) -> None:
    extra = set(list_instructions(depth, across=True)) - set(list_instructions(depth))
    ranges = depth * (depth + 1) // 2
    assert len(extra) == 5 * (2**depth - 1 - ranges)
    assert not any(meant.groups.zero for meant in extra)


@given(trees(most_digits=5), st.data())
def test_a_spelling_means_what_it_spells(tree: Tree, data: st.DataObject) -> None:
    meant = data.draw(st.sampled_from(list_instructions(len(tree.digits), across=True)))
    assert instruction(spell(meant, tree), tree) == meant
    [step] = parse(str(spell(meant, tree))).steps
    assert instruction(step, tree) == meant


@pytest.mark.parametrize("collective", Collective)
def test_every_form_at_every_slice_frees_the_digits_of_the_table(collective: Collective) -> None:
    for slice_, form in spellings(TREE):
        step = ProgramInstruction(collective, slice_, form)
        wanted = expected(slice_, form, TREE)
        if wanted is None:
            with pytest.raises(InputError, match=r"^step '"):
                instruction(step, TREE)
        else:
            assert instruction(step, TREE) == Instruction(collective, Groups(*wanted))


def test_spellings_of_the_same_groups_become_one() -> None:
    kept: dict[tuple[oracle.Label, oracle.Label], set[str]] = {}
    for slice_, form in spellings(TREE):
        wanted = expected(slice_, form, TREE)
        if wanted is not None:
            program = parse(f"reduce {slice_} {form}")
            kept.setdefault(wanted, set()).add(str(canonicalize(program, TREE)))
    assert all(len(texts) == 1 for texts in kept.values())
    assert len({text for [text] in kept.values()}) == len(kept)


@given(trees(), st.data())
def test_the_canonical_text_is_equivalent_and_idempotent(tree: Tree, data: st.DataObject) -> None:
    program = data.draw(programs(tree))
    once = canonicalize(program, tree)
    assert instructions(once, tree) == instructions(program, tree)
    assert canonicalize(once, tree) == once


@pytest.mark.parametrize(
    ("text", "spelling"),
    [
        ("all-reduce gpu parallel(node)", "all-reduce node inside"),
        ("all-reduce gpu master(node)", "all-reduce node inside"),
        ("all-reduce gpu parallel", "all-reduce root inside"),
        ("all-reduce across(gpu)", "all-reduce node inside"),
        ("all-reduce across(gpu, rack, node)", "all-reduce root inside"),
        ("all-reduce across(node)", "all-reduce node parallel(rack)"),
        ("all-reduce across(gpu, rack)", "all-reduce root across(rack, gpu)"),
        ("all-reduce d1 master", "all-reduce node master(root)"),
    ],
)
def test_canonical_spellings(text: str, spelling: str) -> None:
    assert str(canonicalize(parse(text), TREE)) == spelling


@given(trees(most_digits=3), st.data())
def test_numbers_always_name_the_digits(tree: Tree, data: st.DataObject) -> None:
    named = Tree(tuple(Digit(f"level{i}", size) for i, size in enumerate(tree.sizes)))
    program = data.draw(programs(tree))
    assert instructions(program, named) == instructions(program, tree)
    assert instructions(canonicalize(program, named), named) == instructions(program, tree)


def test_the_plain_all_reduce_frees_everything() -> None:
    for depth in range(1, 5):
        [meant] = instructions(parse("all-reduce root inside"), Tree.of(*[2] * depth))
        assert meant == Instruction(Collective.ALL_REDUCE, Groups(tuple(range(depth))))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "reduce pod inside",
            "step 'reduce pod inside': no level 'pod'; this synthesis tree has: rack, node, gpu",
        ),
        ("reduce node parallel(pod)", "no level 'pod'; this synthesis tree has: rack, node, gpu"),
        ("reduce across(node, d3)", "no level 'd3'; this synthesis tree has: rack, node, gpu"),
        (
            "reduce gpu inside",
            ("nothing is inside slice 'gpu'; a slice with something inside: root, rack, node"),
        ),
        (
            "reduce root parallel",
            ("'root' is not an ancestor of slice 'root'; its ancestors are: none"),
        ),
        (
            "reduce node master(node)",
            ("'node' is not an ancestor of slice 'node'; its ancestors are: root, rack"),
        ),
        (
            "reduce rack parallel(gpu)",
            ("'gpu' is not an ancestor of slice 'rack'; its ancestors are: root"),
        ),
        ("reduce rack across(gpu)", "'across' at slice 'rack'; its slice is root"),
        ("reduce across(gpu, d2)", "'across' names a digit twice; name each digit once"),
    ],
)
def test_groups_that_do_not_fit_the_tree_are_reported(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        instructions(parse(text), TREE)
    assert str(caught.value).endswith(message)


def test_a_tree_without_digits_has_no_instructions() -> None:
    assert instructions(parse(""), Tree(())) == ()
    assert instructions(parse("all-reduce root inside"), Tree(())) == ()
    with pytest.raises(InputError, match="this synthesis tree has: none"):
        instructions(parse("reduce node inside"), Tree(()))
