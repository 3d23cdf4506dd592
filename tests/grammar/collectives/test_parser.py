"""Text to program: the corpus, layouts of the same text, and carets under mistakes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from each import each
from grammar import (
    Across,
    Collective,
    InsideGroup,
    Master,
    Parallel,
    Program,
    ProgramInstruction,
    parse,
)
from hierarchies import InputError
from places import TESTS
from strategies import written

CORPUS = (TESTS / "programs.txt").read_text(encoding="utf-8").splitlines()
SCRAPS = (
    *("all-reduce", "reduce", "broadcast", "root", "node", "d0", "inside", "parallel", "master"),
    *("across", "(", ")", ",", ";", "\n", "\r\n", " ", "\t", "# c", "?", "é", "-", ".", "7"),
)


@each("line", CORPUS)
def test_a_line_of_the_corpus_is_printed_unchanged(line: str) -> None:
    program = parse(line)
    assert str(program) == line
    assert len(program.steps) == line.count(";") + 1


@each("line", CORPUS)
@each(
    "separator",
    ["\n", "\r\n", ";", " ;; ", ";\n", " # why\n", "\n\n# a line of its own; really\n\t"],
)
def test_layout_and_comments_do_not_matter(line: str, separator: str) -> None:
    text = separator.join(line.split("; "))
    assert parse(text) == parse(line)
    assert parse(f"\n# first\n  {text} ;\n# last") == parse(line)


@given(written(), st.sampled_from([" ", "\t", "   "]))
def test_blanks_do_not_matter(program: Program, blank: str) -> None:
    text = str(program)
    for mark in "(),;":
        text = text.replace(mark, f" {mark} ")
    assert parse(text.replace(" ", blank)) == program


def test_the_root_goes_without_saying() -> None:
    step = Collective.ALL_REDUCE
    assert parse("all-reduce node parallel").steps == (
        ProgramInstruction(step, "node", Parallel("root")),
    )
    assert parse("all-reduce node master").steps == (
        ProgramInstruction(step, "node", Master("root")),
    )
    assert parse("all-reduce across(node)").steps == (
        ProgramInstruction(step, "root", Across(("node",))),
    )


def test_a_group_may_be_a_level_on_another_machine() -> None:
    assert parse("reduce pod inside").steps == (
        ProgramInstruction(Collective.REDUCE, "pod", InsideGroup()),
    )


@pytest.mark.parametrize("text", ["", " ", "\n", ";", " ;\n;; ", "# nothing", "# a\n\n# b\n"])
def test_nothing_is_the_empty_program(text: str) -> None:
    assert parse(text) == Program(())


NEXT_STEP = "';' or a new line; the end of the program"
FORMS = "inside; parallel; master; across"
MISTAKES = [
    ("all-reduce", 1, 11, "the name of a level, or root; across"),
    ("all-reduce root", 1, 16, FORMS),
    ("all-reduce root insid", 1, 17, FORMS),
    ("all-reduce inside", 1, 18, FORMS),
    ("all-reduce root # inside", 1, 25, FORMS),
    ("all-reduce root ?", 1, 17, FORMS),
    ("all-reduce 7 inside", 1, 12, "the name of a level, or root"),
    ("all-reduce a.b.c inside", 1, 15, FORMS),
    ("all-reduced root inside", 1, 1, "all-reduce, reduce-scatter, all-gather, reduce, broadcast"),
    ("all-to-al root inside", 1, 1, "reduce, broadcast, all-to-all"),
    ("All-reduce root inside", 1, 1, "all-reduce, reduce-scatter"),
    ("all-reduce root inside, reduce root inside", 1, 23, NEXT_STEP),
    ("all-reduce root inside reduce root inside", 1, 24, NEXT_STEP),
    ("all-reduce node parallel(", 1, 26, "the name of a level, or root"),
    ("all-reduce node parallel()", 1, 26, "the name of a level, or root"),
    ("all-reduce node parallel(root", 1, 30, "')'"),
    ("all-reduce across", 1, 18, "'('"),
    ("all-reduce across()", 1, 19, "the name of a level, or root"),
    ("all-reduce across(node,)", 1, 24, "the name of a level, or root"),
    ("all-reduce across(node gpu)", 1, 24, "')'; ','"),
    ("all-reduce\nroot inside", 1, 11, "the name of a level, or root"),
    ("all-reduce root inside\nreduce node\nbroadcast root inside", 2, 12, FORMS),
    ("# one\n\nall-reduce root inside;\n  reduce ! inside", 4, 10, "the name of a level, or root"),
    ("all-reduce root inside\r\nreduce root\r\n", 2, 12, FORMS),
    ("all-reduce root inside # fine\nreduce root", 2, 12, FORMS),
]


@pytest.mark.parametrize(("text", "line", "column", "wanted"), MISTAKES)
def test_a_mistake_is_pointed_at(text: str, line: int, column: int, wanted: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text)
    assert caught.value.where == f"program, line {line}, column {column}"
    shown, caret = caught.value.problem.splitlines()[1:3]
    assert shown == "  " + text.split("\n")[line - 1].rstrip("\r")
    assert caret == " " * (column + 1) + "^"
    assert wanted in caught.value.hint


@pytest.mark.parametrize("odd", ["\x0b", "\x0c", "\x85", "\u2028", "\r"])
def test_only_a_line_feed_ends_a_line(odd: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(f"all-reduce root inside # one{odd}line\nreduce ! inside\nbroadcast root inside")
    assert caught.value.where == "program, line 2, column 8"
    assert "\n  reduce ! inside\n" in caught.value.problem


@given(st.lists(st.sampled_from(SCRAPS), max_size=12).map("".join))
def test_any_text_is_a_program_or_pointed_at(text: str) -> None:
    read = attempted(text)
    if isinstance(read, Program):
        assert parse(str(read)) == read
    else:
        line, column = [int(part.split()[-1]) for part in read.where.split(",")[1:]]
        told = text.split("\n")[line - 1].rstrip("\r")
        assert 1 <= column <= len(told) + 1
        assert f"\n  {told}\n  " in read.problem
        assert read.hint.removeprefix("expected one of: ")


def attempted(text: str) -> Program | InputError:
    try:
        return parse(text)
    except InputError as error:
        return error


def test_the_caret_is_under_the_mistake_with_tabs() -> None:
    with pytest.raises(InputError) as caught:
        parse("all-reduce root inside;\treduce\troot ?")
    shown, caret = caught.value.problem.splitlines()[1:3]
    assert caret.expandtabs().index("^") == shown.expandtabs().index("?")
