"""Programs as they are printed: one spelling of each, which the parser reads back."""

from __future__ import annotations

from hypothesis import given

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
from strategies import written


@given(written())
def test_printed_text_is_read_back(program: Program) -> None:
    assert parse(str(program)) == program


@given(written())
def test_read_values_print_identically(program: Program) -> None:
    assert str(parse(str(program))) == str(program)


def test_the_spelling() -> None:
    program = Program(
        (
            ProgramInstruction(Collective.REDUCE_SCATTER, "node", InsideGroup()),
            ProgramInstruction(Collective.ALL_REDUCE, "node", Parallel()),
            ProgramInstruction(Collective.REDUCE, "gpu", Master("node")),
            ProgramInstruction(Collective.BROADCAST, "root", Across(("node", "gpu"))),
            ProgramInstruction(Collective.ALL_GATHER, "node", InsideGroup()),
        )
    )
    assert str(program) == (
        "reduce-scatter node inside; all-reduce node parallel(root); reduce gpu master(node); "
        "broadcast root across(node, gpu); all-gather node inside"
    )


def test_no_steps_are_a_program_too() -> None:
    assert str(Program(())) == ""
    assert parse("") == Program(())
