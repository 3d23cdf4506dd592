"""The JSON that questions may contain: only values that can be written again unchanged.

Python's JSON parser accepts more: halves of surrogate pairs, NaN, numbers of thousands of digits,
deep nesting. Each of these causes errors far from its origin.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import isfinite
from reprlib import Repr
from typing import Any

from pydantic import ValidationError

from hierarchies import InputError

MOST_DEEP = 64
LARGEST = 10**18
_FEW = 24
_OBJECT = "give an object, as in the examples"
_HINTS = {"model_type": _OBJECT, "dict_type": _OBJECT}
"""Where pydantic's words name a class of ours, or a type of Python."""
_SHORT = Repr()
_SHORT.maxlevel, _SHORT.maxdict, _SHORT.maxlist, _SHORT.maxtuple = 4, 12, 24, 24
_SHORT.maxstring, _SHORT.maxother, _SHORT.maxlong = 120, 120, 60


def show_value(value: object) -> str:
    """Returns a value as errors show it: in full if it is short."""
    return _SHORT.repr(value)


def shorten_value(value: Any) -> Any:
    """Returns a value with only the first few members of long containers."""
    if isinstance(value, dict):
        return {key: shorten_value(part) for key, part in islice(value.items(), _FEW)}
    if isinstance(value, list):
        return [shorten_value(part) for part in value[:_FEW]]
    return value


def check_plain(value: Any, deep: int = 0) -> None:
    """Raises InputError, with the outermost key, for values no question may hold, such as NaN."""
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, float):
        if not isfinite(value):
            raise InputError(f"{value} cannot be used", hint="give a number that is finite")
    elif isinstance(value, int):
        if abs(value) > LARGEST:
            raise InputError("a number of so many digits", hint=f"at most {LARGEST:.0e}")
    elif isinstance(value, (dict, list, tuple)):
        if deep > MOST_DEEP:
            raise InputError("brackets in brackets in brackets", hint=f"at most {MOST_DEEP}")
        _check_parts(value, deep)


def _check_parts(value: dict[Any, Any] | list[Any] | tuple[Any, ...], deep: int) -> None:
    if not isinstance(value, dict):
        for part in value:
            check_plain(part, deep + 1)
        return
    for key, part in value.items():
        check_plain(key, deep + 1)
        try:
            check_plain(part, deep + 1)
        except InputError as error:
            raise (error if deep else error.at(place_of((key,)))) from None


def _check_text(text: str) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        what = f"U+{ord(text[error.start]):04X} at character {error.start + 1}"
        raise InputError(f"{what} is half a character", hint="give text in UTF-8") from None


def place_of(keys: tuple[object, ...]) -> str:
    """Returns the keys that lead to a value, joined by dots: ``levels.0.name``."""
    parts = [str(key)[:80] for key in keys]
    return ".".join(part if part.isprintable() else repr(part) for part in parts)


def input_error_of(error: ValidationError, given: object) -> InputError:
    """Returns pydantic's first error about an input, in our words, with its key."""
    found = error.errors(include_url=False)[0]
    place = place_of(tuple(_keys(found["loc"], given, lacks=found["type"] == "missing")))
    own = found.get("ctx", {}).get("error")
    if isinstance(own, InputError):
        return own.at(place) if place else own
    hint = _HINTS.get(found["type"]) or found["msg"][0].lower() + found["msg"][1:]
    value = "null" if found["input"] is None else show_value(found["input"])
    return InputError(f"{value} cannot be used", where=place, hint=hint)


def _keys(loc: tuple[int | str, ...], given: Any, *, lacks: bool) -> Iterator[int | str]:
    """Yields the keys that lead to a value, which is one that it ``lacks`` or is given.

    Pydantic names validators of its own among them, as those of unions.
    """
    for key in loc:
        if key in given if isinstance(given, dict) else _is_member_number(given, key):
            given = given[key]
        elif not (lacks and key == loc[-1]):
            continue
        yield key


def _is_member_number(given: object, key: int | str) -> bool:
    """Whether a key is the number of a member of a list."""
    return isinstance(given, list) and isinstance(key, int) and key < len(given)
