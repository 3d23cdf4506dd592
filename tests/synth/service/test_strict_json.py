"""JSON of strangers: what is JSON in one way only is read as Python reads it, the rest refused."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.service.errors import RefusalError
from synth.service.strict_json import DEEPEST, MOST_VALUES, json_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(10**99), 10**99)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def refused(raw: bytes) -> str:
    with pytest.raises(RefusalError) as caught:
        json_of(raw)
    assert caught.value.status == 400
    assert len(str(caught.value)) < 600
    return str(caught.value)


@given(VALUES, st.booleans())
def test_values_written_by_python_are_read_back(value: Any, ascii_only: bool) -> None:
    assert json_of(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    found: Any = None
    with suppress(RefusalError):
        found = json_of(raw)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


@given(st.dictionaries(TEXTS, LEAVES, min_size=1, max_size=5), st.data())
def test_a_key_that_is_given_twice_is_refused(value: dict[str, Any], data: st.DataObject) -> None:
    twice = data.draw(st.sampled_from([*value]))
    body = json.dumps(value)[:-1] + f", {json.dumps(twice)}: 1}}"
    assert "is given twice" in refused(f'{{"deeper": [{body}]}}'.encode())


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_many_bytes_of_nesting_are_refused(opening: str) -> None:
    assert "nested" in refused((opening * (2**17 // len(opening))).encode())


@pytest.mark.parametrize("depth", [DEEPEST, DEEPEST + 1, 5000, 200_000])
def test_nesting_is_bounded(depth: int) -> None:
    raw = ("[" * depth + "]" * depth).encode()
    if depth <= DEEPEST:
        assert json.dumps(json_of(raw)) == raw.decode()
    else:
        assert "nested" in refused(raw)


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "not JSON"),
        (b"{", "line 1, column 2"),
        (b'{"k": NaN}', "NaN is not JSON"),
        (b'{"k": -Infinity}', "-Infinity is not JSON"),
        (b'{"k": 1e999}', "cannot be represented"),
        (b'{"k": ' + b"9" * 101 + b"}", "101 digits"),
        (b'{"k": ' + b"9" * 1_000_000 + b"}", "1000000 digits"),
        (b'{"k": 0.' + b"9" * 1_000_000 + b"}", "cannot be represented"),
        (b'{"k": "\xff"}', "not UTF-8: byte 0xff at 7"),
        (b'{"k": "\xed\xa0\x80"}', "not UTF-8"),
        (b'{"k": "\\ud800"}', "one half of a surrogate pair"),
        (b'{"\\udc00": 1}', "one half of a surrogate pair"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b"{} {}", "Extra data"),
        (b"{'k': 1}", "not JSON"),
        (b'{"k": 01}', "not JSON"),
        ('{"k": "a'.encode("utf-16"), "not UTF-8"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_invalid_json_is_refused_with_a_reason(raw: bytes, told: str) -> None:
    assert told in refused(raw)


@pytest.mark.parametrize("value", ["{}", "[]", "0", "null", '""'])
def test_values_are_counted_before_they_are_read(value: str) -> None:
    """A body costs what its values cost: 16 MiB of empty objects were 25 s and 440 MB."""
    most = (MOST_VALUES - 1) // (2 if value in ("{}", "[]") else 1)
    assert len(json_of(f"[{','.join([value] * most)}]".encode())) == most
    with pytest.raises(RefusalError, match="more than 250000 values"):
        json_of(f"[{','.join([value] * (MOST_VALUES + 2))}]".encode())


def test_text_inside_strings_is_not_a_value() -> None:
    odd = 'a, [b], {c} \\ "quoted, [" \\" , \n'
    text = odd * 100_000
    assert json_of(json.dumps({"text": text}).encode()) == {"text": text}


@given(VALUES)
def test_no_more_values_are_counted_than_there_are(value: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("synth.service.strict_json.MOST_VALUES", 2 * _values(value))
        assert json_of(json.dumps(value).encode()) == value


def _values(value: Any) -> int:
    """How many values there are in a value, itself and its keys among them."""
    if isinstance(value, dict):
        return 1 + len(value) + sum(map(_values, value.values()))
    return 1 + (sum(map(_values, value)) if isinstance(value, list) else 0)
