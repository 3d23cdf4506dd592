"""YAML as others write it: the plain values that a full loader gives, and bounded work."""

from __future__ import annotations

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import InputError
from hierarchies.importers.structured import MOST_EVENTS, parse_yaml

NAMES = st.text("abc01 :#-[]{}'\"\n", max_size=6)
VALUES = st.recursive(
    st.none() | NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.booleans())
def test_what_a_library_writes_is_read_back_as_text(value: object, flow: bool) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow, default_style=None)
    assert parse_yaml(text) == yaml.load(text, Loader=yaml.BaseLoader) or None in _leaves(value)
    if None not in _leaves(value):
        assert parse_yaml(text) == value


def _leaves(value: object) -> list[object]:
    if isinstance(value, dict):
        return [leaf for each in (*value, *value.values()) for leaf in _leaves(each)]
    if isinstance(value, list):
        return [leaf for each in value for leaf in _leaves(each)]
    return [value]


def test_a_host_keeps_its_zeros_and_an_empty_value_is_none() -> None:
    assert parse_yaml("{a: 0010, b: , c: ~, d: 'null', e: yes}") == {
        "a": "0010",
        "b": None,
        "c": None,
        "d": "null",
        "e": "yes",
    }
    assert parse_yaml("# nothing\n") is None


@pytest.mark.parametrize("unit", ["1,", "{},", "[1],", "[[[1]]],"])
def test_more_values_than_any_cluster_has_are_refused_at_a_line(unit: str) -> None:
    few, many = (f"[{unit * (events // 4)}]" for events in (1000, 5 * MOST_EVENTS))
    assert len(parse_yaml(few)) == 250
    with pytest.raises(InputError, match="line 1: YAML of more than 400,000 values"):
        parse_yaml(many)
