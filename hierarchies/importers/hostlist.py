"""Slurm's hostlists, which abbreviate many names: ``gpu-a[1-2]b[03-04]``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, product
from math import prod

from hierarchies.errors import InputError

MOST_HOSTS = 131_072
_LONGEST_NUMBER = 18
_LONGEST_PIECE = 10_000
_SPAN = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")


def expand(text: str, most: int = MOST_HOSTS) -> tuple[str, ...]:
    """Return the names of a hostlist, in its order, including repeated ones.

    Numbers are as wide as the first number of their range (``[08-10]`` is 08, 09, 10). If there are
    several brackets, the last varies fastest. Raises InputError for an invalid hostlist and, before
    any name is built, for more than ``most`` names. The grammar is that of Slurm's manual page of
    ``scontrol show hostnames``.
    """
    names: list[str] = []
    for piece in _pieces(text):
        parts = _parts(piece)
        count = prod(choices for choices, _ in parts)
        if len(names) + count > most:
            raise InputError(
                f"the hostlist {_shorten(text)} expands to too many names",
                hint=f"at most {most:,} are read",
            )
        names += ("".join(chosen) for chosen in product(*(texts for _, texts in parts)))
    return tuple(names)


@dataclass
class HostlistExpander:
    """Expands many hostlists that together stand for at most ``left`` names."""

    left: int = 2 * MOST_HOSTS

    def of(self, text: str) -> tuple[str, ...]:
        """Return the names of one more hostlist."""
        names = expand(text, self.left)
        self.left -= len(names)
        return names


def shorten_list(names: Iterable[str], most: int = 6) -> str:
    """Return the first of the names, and the number of others: ``a1, a2 and 7 more``."""
    rest = iter(names)
    shown = list(islice(rest, most))
    more = sum(1 for _ in rest)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _pieces(text: str) -> Iterator[str]:
    """Yield the parts between the commas outside brackets."""
    start = depth = 0
    for position, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if depth not in (0, 1):
            raise InputError(
                f"unbalanced brackets in {_shorten(text)}", hint="write ranges as dev[0-5,9]"
            )
        if letter == "," and not depth:
            yield text[start:position]
            start = position + 1
    if depth:
        raise InputError(f"an open bracket in {_shorten(text)}", hint="close it with ']'")
    yield text[start:]


def _parts(piece: str) -> list[tuple[int, Iterable[str]]]:
    """Return for each part of a name: the number of alternatives, and the alternatives."""
    name = piece.strip()
    if not name or not name.isprintable() or len(name) > _LONGEST_PIECE or " " in name:
        raise InputError(
            f"{_shorten(piece)} is not a host name", hint="write them as dev[0-5,9],login1"
        )
    return [
        _numbers(inside, piece) if inside or not plain else (1, [plain])
        for inside, plain in _PART.findall(name)
    ]


def _numbers(inside: str, piece: str) -> tuple[int, Iterable[str]]:
    spans = [_span(span, piece) for span in inside.split(",")]
    texts = (
        f"{number:0{width}d}" for first, last, width in spans for number in range(first, last + 1)
    )
    return sum(last - first + 1 for first, last, _ in spans), texts


def _span(text: str, piece: str) -> tuple[int, int, int]:
    match = _SPAN.fullmatch(text.strip())
    if not match or max(map(len, match.groups(default=""))) > _LONGEST_NUMBER:
        raise InputError(
            f"{_shorten(text)} in {_shorten(piece)} is not a range of numbers",
            hint="write 3, 0-5 or 001-016",
        )
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise InputError(f"the range {text} in {_shorten(piece)} runs backwards")
    return first, last, len(match[1])


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
