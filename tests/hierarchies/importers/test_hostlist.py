"""Hostlists: against an odometer written apart, and every way of writing one wrong."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import InputError
from hierarchies.importers.hostlist import MOST_HOSTS, HostlistExpander, expand, shorten_list

PLAIN = st.text("abz-._", min_size=1, max_size=4)
SPAN = st.tuples(st.integers(0, 120), st.integers(0, 4), st.integers(0, 5))


def spelled(first: int, more: int, width: int) -> str:
    return f"{first:0{width}d}" + (f"-{first + more:0{width}d}" if more else "")


def numbers(first: int, more: int, width: int) -> list[str]:
    width = len(f"{first:0{width}d}")
    return [str(number).rjust(width, "0") for number in range(first, first + more + 1)]


@given(
    st.lists(
        st.tuples(PLAIN, st.lists(st.lists(SPAN, min_size=1, max_size=3), max_size=2)),
        min_size=1,
        max_size=3,
    )
)
def test_brackets_count_like_an_odometer(
    pieces: list[tuple[str, list[list[tuple[int, int, int]]]]],
) -> None:
    texts, expected = [], []
    for plain, brackets in pieces:
        text, names = plain, [plain]
        for spans in brackets:
            text += "[" + ",".join(spelled(*span) for span in spans) + "]x"
            tails = [number for span in spans for number in numbers(*span)]
            names = [f"{name}{tail}x" for name in names for tail in tails]
        texts.append(text)
        expected += names
    assert expand(",".join(texts)) == tuple(expected)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("dev[0-2,9]", "dev0 dev1 dev2 dev9"),
        ("gpu-a[1-2]b[3-4]", "gpu-a1b3 gpu-a1b4 gpu-a2b3 gpu-a2b4"),
        ("n[08-11]", "n08 n09 n10 n11"),
        ("[1101-1102]", "1101 1102"),
        ("switch.2.[1-2]", "switch.2.1 switch.2.2"),
        ("a, b[1],a", "a b1 a"),
        ("n[98-101]-ib0", "n98-ib0 n99-ib0 n100-ib0 n101-ib0"),
    ],
)
def test_as_slurm_writes_them(text: str, names: str) -> None:
    assert expand(text) == tuple(names.split())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("dev[0-5", "open bracket"),
        ("dev0-5]", "unbalanced"),
        ("a[1[2]]", "unbalanced"),
        ("a[]", "not a range"),
        ("a[x-y]", "not a range"),
        ("a[5-3]", "backwards"),
        ("a,,b", "not a host name"),
        ("", "not a host name"),
        ("a b", "not a host name"),
        ("a\tb", "not a host name"),
        ("a[1-999999999999999999]", "too many"),
        ("a[1-1000][1-1000]", "too many"),
        ("a[" + "9" * 5000 + "]", "not a range"),
        ("a[٣-٥]", "not a range"),
    ],
)
def test_invalid_input_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        expand(text)
    assert len(str(caught.value)) < 300


@given(st.text("ab[]0123456789-, ", max_size=30))
def test_any_text_is_names_or_an_error(text: str) -> None:
    try:
        names = expand(text, most=1000)
    except InputError:
        return
    assert 1 <= len(names) <= 1000
    assert all(re.fullmatch(r"[^\s,\[\]]+", name) for name in names)


def test_many_lists_share_one_limit() -> None:
    names = HostlistExpander(10)
    assert len(names.of("a[1-6]")) == 6
    with pytest.raises(InputError, match="at most 4"):
        names.of("b[1-6]")
    assert len(expand(f"a[1-{MOST_HOSTS}]")) == MOST_HOSTS


def test_long_lists_are_shortened_to_their_first_entries() -> None:
    assert shorten_list(["a", "b"]) == "a, b"
    assert shorten_list((f"n{i}" for i in range(9)), 2) == "n0, n1 and 7 more"
