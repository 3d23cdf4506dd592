"""Syntax errors: the offending line, with a caret under the position."""

from __future__ import annotations

from collections.abc import Mapping

from lark import UnexpectedInput

from hierarchies import InputError


def draw_caret(text: str, line: int, column: int) -> str:
    """Return a line of the text with a caret below it; line and column are counted from 1."""
    content = text.split("\n")[line - 1].rstrip("\r")
    margin = "".join("\t" if letter == "\t" else " " for letter in content[: column - 1])
    return f"\n  {content}\n  {margin}^"


def describe_unexpected(
    text: str, error: UnexpectedInput, words: Mapping[str, str], *, subject: str
) -> InputError:
    """Return the error for unexpected input; ``words`` describes terminals for the hint.

    ``subject``: the kind of text, such as a program.
    """
    lines = text.split("\n")
    token = getattr(error, "token", None)
    at_end = error.line < 1 or (token is not None and token.type == "$END")
    line = len(lines) if at_end else min(error.line, len(lines))
    column = len(lines[line - 1]) + 1 if at_end else error.column
    # Lark names the expected terminals differently in each of its errors.
    accepted = getattr(error, "accepts", None) or getattr(error, "expected", None)
    accepted = accepted or getattr(error, "allowed", None) or set()
    expected = dict.fromkeys(words[name] for name in words if name in accepted)
    return InputError(
        f"cannot be read from the caret on{draw_caret(text, line, column)}",
        where=f"{subject}, line {line}, column {column}",
        hint=f"expected one of: {'; '.join(expected)}",
    )
