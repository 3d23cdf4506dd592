"""A strict JSON parser: it refuses input that two parsers might read differently.

RFC 8259 leaves duplicate keys, huge numbers and lone surrogates undefined; NaN and Infinity are
not JSON at all, though Python accepts them. None of these reaches a question.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NoReturn

from synth.service.errors import RefusalError, not_json

DEEPEST = 64
MOST_VALUES = 250_000
"""More values than any question needs: two answers of 1000 rows have 200,000."""
MOST_KEYS = 10_000
"""Most keys of one object. Objects in questions map axes, links and faults."""
_MOST_DIGITS = 100
_MOST_SHOWN = 40


def json_of(raw: bytes) -> Any:
    """Parse a body. Raises RefusalError with the problem and its position.

    The cost of parsing depends on the number of values rather than of bytes, so values are counted
    first.
    """
    _check_values(raw)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = f"the body is not UTF-8: byte {raw[error.start]:#04x} at {error.start}"
        raise not_json(problem, "send JSON in UTF-8") from None
    if text.startswith("\ufeff"):
        raise not_json("the body begins with a byte order mark", "send JSON in UTF-8 without it")
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise _refuse_depth() from None
    except json.JSONDecodeError as error:
        problem = f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise not_json(
            problem, "send one JSON object, as in the examples of /openapi.json"
        ) from None
    _check_depth(value)
    if "\\u" in text:
        _check_characters(value)
    return value


def _check_values(raw: bytes) -> None:
    """Count characters that begin or separate values outside strings, at memory speed.

    Once escaped backslashes and quotes are removed, every quote begins or ends a string.
    """
    plain = raw.replace(rb"\\", b"").replace(rb"\"", b"")
    few_texts = plain.count(b'"') <= 2 * MOST_VALUES
    outside = b"".join(plain.split(b'"')[::2]) if few_texts else b""
    if not few_texts or sum(map(outside.count, (b",", b"{", b"["))) > MOST_VALUES:
        hint = "no question needs that many"
        raise not_json(f"the body has more than {MOST_VALUES} values", hint)


def _refuse_depth() -> RefusalError:
    return not_json(f"the body is nested more than {DEEPEST} deep", "no question needs that")


def _check_depth(value: Any) -> None:
    layer = [value]
    for _ in range(DEEPEST + 1):
        if not layer:
            return
        layer = [
            inner
            for container in layer
            if isinstance(container, (dict, list))
            for inner in (container.values() if isinstance(container, dict) else container)
            if isinstance(inner, (dict, list))
        ]
    raise _refuse_depth()


def _check_characters(value: Any) -> None:
    """Refuse a lone surrogate, which UTF-8 cannot encode."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        problem = f"the body has {half}, one half of a surrogate pair"
        raise not_json(problem, "write the whole character") from None


def _parse_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MOST_KEYS:
        raise not_json(f"an object has {len(pairs)} keys", f"none needs more than {MOST_KEYS}")
    parsed = dict(pairs)
    if len(parsed) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise not_json(f"the key {twice[:_MOST_SHOWN]!r} is given twice", "give it once")
    return parsed


def _parse_integer(digits: str) -> int:
    count = len(digits.lstrip("-"))
    if count > _MOST_DIGITS:
        problem = f"the number {digits[:12]}... has {count} digits"
        raise not_json(problem, f"no number needs more than {_MOST_DIGITS}")
    return int(digits)


def _parse_real(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")) or len(digits) > _MOST_DIGITS:
        problem = f"the number {digits[:_MOST_SHOWN]} cannot be represented"
        raise not_json(problem, "no number is above 1.7e308, or needs more than 100 digits")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise not_json(f"{name} is not JSON", "give a number, or leave the key out")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_parse_object,
    parse_int=_parse_integer,
    parse_float=_parse_real,
    parse_constant=_refuse_constant,
)
