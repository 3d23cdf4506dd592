"""Quick checks of a long step before it is parsed: its number of lines, names and beginning.

Parsing a step of some MiB takes minutes; scanning its lines takes less than a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import StringIO

from grammar.carets import draw_caret
from hierarchies import InputError

LONGEST_LINE = 2**20
"""In characters; a loop over a model's parameters has all of them in one line."""
MOST_LINES = 500_000
_NAMED = re.compile(r"([A-Za-z_][\w./-]*)[ \t]*:[ \t]*[a-z]\w*\[")
_INPUT = re.compile(r"[ \t]*in[ \t]+([A-Za-z_][\w./-]*)[ \t]*:")
_TEXT = re.compile(r'"(\\.|[^"\\\n])*"')


def check_length(text: str, where: str) -> None:
    """Raise InputError for a text with more than ``MOST_LINES`` lines."""
    if (count := text.count("\n")) > MOST_LINES:
        raise InputError(f"{count} lines", where=where, hint=f"a step has at most {MOST_LINES}")


def check_names(text: str, where: str) -> None:
    """Raise InputError for the first name that denotes two values, and for a line that is too long.

    ``parse_step`` would report the same error, but later. Bodies have their own names, so only
    names and the beginnings and ends of bodies are scanned.
    """
    known: list[set[str]] = [set()]
    for number, line in enumerate(StringIO(text), start=1):
        if len(line) > LONGEST_LINE:
            raise InputError(f"a line of {len(line)} characters", where=f"{where}, line {number}")
        content = line.lstrip(" \t")
        if content.startswith("}") and len(known) > 1:
            known.pop()
        for name, column in _find_named_values(line):
            if name in known[-1]:
                problem = f"{name} is already the name of a value{draw_caret(text, number, column)}"
                raise InputError(problem, where=f"{where}, line {number}, column {column}")
            known[-1].add(name)
        if "{" in content and _strip_comment(content).endswith("{"):
            known.append(set())


def _find_named_values(line: str) -> Iterator[tuple[str, int]]:
    """Yield the names of values that a line defines, with their columns."""
    if match := _INPUT.match(line):
        yield match[1], match.start(1) + 1
        return
    values, equal, _ = line.partition("=")
    if equal and "#" not in values:
        for match in _NAMED.finditer(values):
            yield match[1], match.start() + 1


def _strip_comment(line: str) -> str:
    return _TEXT.sub("", line).partition("#")[0].rstrip()
