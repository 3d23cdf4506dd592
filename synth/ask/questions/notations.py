"""The notations of values in questions: ``data=8,model=4``, ``2,8``, ``node3=0.5``, ``1KiB..4GiB``.

The command line and the page's forms both parse text here: the same text gives the same question,
and a mistake the same error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import inf
from typing import Any

from hierarchies import InputError
from synth.ask.questions.fields import Notation
from synth.ask.questions.plain import LARGEST, show_value
from synth.collective.workload.quantities import UNITS

_SIZE = re.compile(r"(?P<number>[0-9]{1,19}(\.[0-9]{1,18})?) *(?P<unit>[A-Za-z]*)")
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_UNITS = {"": 1, **UNITS}
_WRITTEN_UNITS = ("TiB", "GiB", "MiB", "KiB")


def size_in_bytes(text: str | int, otherwise: str = "") -> int:
    """``1GiB``, ``64M``, ``1.5MB``, ``4096``: a size in bytes.

    KiB, MiB, GiB, TiB and the bare letters K, M, G, T (as in nccl-tests) are powers of 1024; KB,
    MB, GB, TB powers of 1000. Raises InputError for anything else, for less than a byte, and for
    more bytes than a question may name as a number; ``otherwise`` is what else may be given than
    one size, for the hint.
    """
    match = _SIZE.fullmatch(str(text).strip())
    if not match or match["unit"] not in _UNITS:
        hint = "a number of at least 1 and a unit, as in 4096, 64MiB or 1GB"
        raise InputError(f"the size {show_value(str(text))} cannot be read", hint=hint + otherwise)
    size = Fraction(match["number"]) * _UNITS[match["unit"]]
    problem = f"the size {str(text)!r} is {float(size):g} bytes"
    if size < 1 or size.denominator != 1:
        raise InputError(problem, hint="a whole number above 0")
    if size > LARGEST:
        raise InputError(problem, hint=f"at most {LARGEST:.0e}")
    return int(size)


def size_text(size: int) -> str:
    """Return a size in the largest unit that divides it; ``size_in_bytes`` reads it back."""
    unit = next((unit for unit in _WRITTEN_UNITS if size % _UNITS[unit] == 0), "")
    return f"{size // _UNITS[unit]}{unit}"


def sizes_text(sizes: int | Sequence[int]) -> str:
    """Return a size, or a range of sizes by both of its ends."""
    return "..".join(map(size_text, [sizes] if isinstance(sizes, int) else sizes))


A_RANGE_BYTES = 2**10, 2**32
A_RANGE = sizes_text(A_RANGE_BYTES)
"""The range of sizes that examples name, and that a page draws curves over."""


def _parse_axes(text: str) -> dict[str, int]:
    """``data=8,model=4`` to names and sizes."""
    axes: dict[str, int] = {}
    for item in text.split(","):
        name, _, size = (part.strip() for part in item.partition("="))
        if not _WHOLE.fullmatch(size):
            hint = "write names and sizes, as in data=8,model=4"
            raise InputError(f"{item!r} is not an axis", hint=hint)
        if name in axes:
            hint = "every axis needs a name of its own"
            raise InputError(f"axis {name!r} is given twice", hint=hint)
        axes[name] = int(size)
    return axes


def _parse_open_axes(text: str) -> dict[str, str]:
    """``data=any,tensor=1|2|4`` to names and their allowed sizes, as text."""
    axes: dict[str, str] = {}
    for item in text.split(","):
        name, _, sizes = (part.strip() for part in item.partition("="))
        if not sizes or name in axes:
            hint = "write each axis once with its size, sizes or any, as in data=any,tensor=1|2|4"
            raise InputError(f"{item!r} is not an axis", hint=hint)
        axes[name] = sizes
    return axes


def _parse_shares(items: Iterable[str]) -> dict[str, float]:
    """``node3=0.5`` and others to names and shares of bandwidth."""
    found: dict[str, float] = {}
    for item in items:
        name, _, share = (part.strip() for part in item.rpartition("="))
        try:
            number = float(share)
        except ValueError:
            number = -1.0
        if not name or not 0 <= number < inf:
            hint = "write what it is and the share that is left, as in node3/nic2=0.5"
            raise InputError(f"{item!r} is not slow", hint=hint)
        if name in found:
            raise InputError(f"{name!r} is given twice", hint="give it once")
        found[name] = number
    return found


def _axes_text(sizes: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={size}" for name, size in sizes.items())


def _shares_text(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{unit}={share}" for unit, share in shares.items())


def _strip_items(items: Iterable[str]) -> list[str]:
    return [item.strip() for item in items]


def _parse_names(text: str) -> list[str]:
    """``a, b`` to names."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _parse_number(text: str) -> int | float:
    """``160`` or ``0.5``."""
    try:
        return int(text) if _WHOLE.fullmatch(text) else float(text)
    except ValueError:
        raise InputError(f"{text[:40]!r} is no number", hint="write one, as in 160") from None


def _parse_segments(text: str) -> str | int:
    return int(text) if _WHOLE.fullmatch(text) else text


def _parse_matrix(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        hint = "write rows of numbers, as in [[1, 8], [4, 1]]"
        raise InputError(f"{text[:80]!r} is no matrix", hint=hint) from None


def number_notation(wrong: str, hint: str) -> Notation:
    """Return a notation of numbers, as in ``2,8``; for anything else an error says ``wrong``."""

    def read(text: str) -> list[int]:
        items = _strip_items(text.split(","))
        if not all(map(_WHOLE.fullmatch, items)):
            raise InputError(f"{text!r} {wrong}", hint=f"write {hint}, as in 2,8")
        return [int(item) for item in items]

    return Notation(read)


def _parse_swept(words: Sequence[str] | str) -> dict[str, list[str]]:
    """``["batch=256,512", "dtype=float32"]`` to keys and their values."""
    swept: dict[str, list[str]] = {}
    for word in [words] if isinstance(words, str) else words:
        key, equals, values = (part.strip() for part in word.partition("="))
        if not equals:
            hint = "a key and its values, as in batch=256,512"
            raise InputError(f"{word!r} sweeps nothing", hint=hint)
        if key in swept:
            raise InputError(f"{key} is swept twice", hint=f"one flag, as in {key}=A,B")
        swept[key] = [value.strip() for value in values.split(",")] if values else []
        if not all(swept[key]):
            hint = "leave out the extra comma"
            raise InputError(f"{word!r} has an empty value", hint=hint)
    return swept


def _swept_text(swept: Mapping[str, Sequence[str]]) -> str:
    return " ".join(f"{key}={','.join(values)}" for key, values in swept.items())


AXES = Notation(_parse_axes, _axes_text)
OPEN_AXES = Notation(_parse_open_axes)
NAMES = Notation(_parse_names, ", ".join)
SEVERAL_NAMES = Notation(_strip_items, ", ".join)
SWEPT_VALUES = Notation(_parse_swept, _swept_text)
SHARES = Notation(_parse_shares, _shares_text)
SIZES = Notation(str, sizes_text)
"""Read by the question itself: in JSON, too, a size may be a text."""
SEGMENTS = Notation(_parse_segments)
NUMBER = Notation(_parse_number)
MATRIX = Notation(_parse_matrix)
