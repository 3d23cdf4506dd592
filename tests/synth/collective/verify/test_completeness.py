"""Whether z3 finds programs that an enumeration lacks, and finds none where none is lacking."""

from __future__ import annotations

import ast

import pytest

import completeness
import oracle
from completeness import Complete, Missing, missing_program
from grammar import Collective, Groups, Instruction, Program, parse, spell
from hierarchies import InputError, Tree
from synth.collective.verify.symbolic import Proved, Unknown, prove


def enumerated(depth: int, length: int) -> list[Program]:
    tree = Tree.of(*[2] * depth)
    return [
        Program(
            tuple(
                spell(Instruction(Collective(w.collective), Groups(w.free, w.zero)), tree)
                for w in words
            )
        )
        for words in oracle.programs(tree.sizes, length)
    ]


@pytest.mark.parametrize(
    ("depth", "length", "count"),
    [(1, 1, 1), (1, 2, 2), (1, 3, 0), (1, 4, 0), (2, 1, 1), (2, 2, 4), (2, 3, 24), (2, 4, 42)],
)
def test_nothing_is_missing_from_the_enumeration(depth: int, length: int, count: int) -> None:
    known = enumerated(depth, length)
    assert missing_program(depth, length, known) == Complete(depth, length, count)


@pytest.mark.slow
@pytest.mark.parametrize(("length", "count"), [(1, 1), (2, 6), (3, 59)])
def test_nothing_is_missing_on_three_digits(length: int, count: int) -> None:
    known = enumerated(3, length)
    assert missing_program(3, length, known) == Complete(3, length, count)


@pytest.mark.parametrize("left_out", [0, 7, 23])
def test_a_program_left_out_is_found(left_out: int) -> None:
    known = [program for program in enumerated(2, 3) if len(program.steps) == 3]
    lacking = known.pop(left_out)
    assert missing_program(2, 3, known) == Missing(lacking)


def test_all_programs_can_be_found_without_knowing_any() -> None:
    found: list[Program] = []
    while isinstance(answer := missing_program(2, 2, found), Missing):
        assert prove(answer.program, Tree.of(2, 2)) == Proved()
        found.append(answer.program)
    assert answer == Complete(2, 2, 4)
    assert {str(program) for program in found} == {
        str(program) for program in enumerated(2, 2) if len(program.steps) == 2
    }


def test_spelling_does_not_matter() -> None:
    known = [parse("all-reduce d1 parallel(root)")]
    assert missing_program(2, 1, known) == Complete(2, 1, 1)


def test_too_little_effort_is_unknown() -> None:
    answer = missing_program(3, 3, [], effort=0)
    assert isinstance(answer, Unknown)


@pytest.mark.parametrize(("depth", "length"), [(0, 1), (1, 0)])
def test_no_digits_or_no_steps_is_the_callers_mistake(depth: int, length: int) -> None:
    with pytest.raises(InputError, match="depth"):
        missing_program(depth, length)


def test_known_programs_must_be_in_the_forms_searched() -> None:
    with pytest.raises(InputError, match="not one of"):
        missing_program(3, 1, [parse("all-reduce across(d0, d2)")])


def test_the_judge_shares_nothing_with_the_rules() -> None:
    with open(completeness.__file__, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    known = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [name for name in known if name and name.startswith(("synth", "results"))]
    assert ours == ["synth.collective.verify.verdict"]
