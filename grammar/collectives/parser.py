"""Parses programs; errors show a caret under the position."""

from __future__ import annotations

from functools import cache
from importlib import resources

from lark import Lark, Token, Transformer, UnexpectedInput

from grammar.carets import describe_unexpected
from grammar.collectives.program import (
    MOST_STEPS,
    ROOT,
    Across,
    Collective,
    Form,
    InsideGroup,
    Master,
    Parallel,
    Program,
    ProgramInstruction,
)
from hierarchies import InputError

_WORDS = {
    "COLLECTIVE": ", ".join(collective.value for collective in Collective),
    "NAME": "the name of a level, or root",
    "_INSIDE": "inside",
    "_PARALLEL": "parallel",
    "_MASTER": "master",
    "_ACROSS": "across",
    "_SEPARATOR": "';' or a new line",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "$END": "the end of the program",
}


def parse(text: str) -> Program:
    """Parse a program. ``parse(str(program)) == program``.

    An instruction is ``collective slice form``; instructions are separated by ``;`` or a new line;
    ``#`` starts a comment. Raises InputError with the line, a caret and what was expected there,
    and for more than ``MOST_STEPS`` instructions.
    """
    try:
        tree = _lark().parse(text)
    except UnexpectedInput as error:
        raise describe_unexpected(text, error, _WORDS, subject="program") from None
    program = _ProgramTransformer().transform(tree)
    if len(program.steps) > MOST_STEPS:
        problem = f"a program of {len(program.steps)} steps"
        raise InputError(problem, hint=f"at most {MOST_STEPS} can be checked")
    return program


@cache
def _lark() -> Lark:
    source = (
        resources.files("grammar.collectives").joinpath("program.lark").read_text(encoding="utf-8")
    )
    return Lark(source, parser="lalr")


class _ProgramTransformer(Transformer[Token, Program]):
    def start(self, steps: list[ProgramInstruction]) -> Program:
        return Program(tuple(steps))

    def inside(self, parts: list[Token]) -> ProgramInstruction:
        return _step(parts[0], parts[1], InsideGroup())

    def parallel(self, parts: list[Token | None]) -> ProgramInstruction:
        return _step(parts[0], parts[1], Parallel(str(parts[2] or ROOT)))

    def master(self, parts: list[Token | None]) -> ProgramInstruction:
        return _step(parts[0], parts[1], Master(str(parts[2] or ROOT)))

    def across(self, parts: list[Token | None]) -> ProgramInstruction:
        return _step(parts[0], parts[1] or ROOT, Across(tuple(str(part) for part in parts[2:])))


def _step(collective: Token | None, slice_: Token | str | None, form: Form) -> ProgramInstruction:
    return ProgramInstruction(Collective(str(collective)), str(slice_), form)
