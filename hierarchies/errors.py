"""The error for all mistakes of a caller, so that every front end shows it in the same way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial

LONGEST = 100


class InputError(ValueError):
    """An input that cannot be used.

    ``problem`` states the input and what is wrong with it, ``where`` its location (a file and key,
    an option, a position in a text), and ``hint`` what would be valid. The error's text joins the
    location, the problem and the hint.
    """

    def __init__(self, problem: str, *, where: str = "", hint: str = "") -> None:
        self.problem = problem
        self.where = where
        self.hint = hint
        super().__init__(problem, where, hint)

    def __reduce__(self) -> tuple[object, ...]:
        """Support pickling: processes exchange these errors."""
        # Exceptions are unpickled from positional ``args``; ``where`` and ``hint`` need keywords.
        return partial(type(self), self.problem, where=self.where, hint=self.hint), ()

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        joint = "\n" if "\n" in self.problem else "; "
        advice = f"{joint}{self.hint}" if self.hint else ""
        return f"{place}{self.problem}{advice}"

    def at(self, where: str) -> InputError:
        """Return the error after an outer place: ``line 3`` becomes ``a.toml, line 3``."""
        inner = f"{where}, {self.where}" if self.where else where
        return InputError(self.problem, where=inner, hint=self.hint)


@contextmanager
def error_context(where: str) -> Iterator[None]:
    """Put an outer place first in each InputError raised inside, as ``InputError.at`` does.

    Do not use it for each line of a long file: it is slower than ``try`` and always builds
    ``where``.
    """
    try:
        yield
    except InputError as error:
        raise error.at(where) from None


def suggest_nearest(given: str, known: Iterable[str]) -> str:
    """Return a hint with the known names closest to ``given``, or with all if none is close."""
    names = list(known)
    close = get_close_matches(given[:LONGEST].lower(), names, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"known are: {', '.join(names)}" if names else "there are none"
