"""Contradictions are found whatever states them, in any order, and never where a value fits all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import InputError
from hierarchies.importers.claims import Claim, NumberRange, settle

NUMBERS = range(6)
INTERVALS = st.tuples(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS)).map(sorted)
CLAIMS = st.lists(
    st.tuples(st.sampled_from("ab"), INTERVALS, st.booleans()), min_size=1, max_size=5
)


def made(given: list[tuple[str, list[int], bool]]) -> list[Claim]:
    return [
        Claim(
            "links",
            subject,
            f"place {place}",
            f"{least} to {most}",
            NumberRange(least, most),
            yields,
        )
        for place, (subject, (least, most), yields) in enumerate(given)
    ]


@given(CLAIMS)
def test_two_claims_that_share_no_value_are_refused_or_said(
    given: list[tuple[str, list[int], bool]],
) -> None:
    claims = made(given)
    clashes = [
        (one, other)
        for place, one in enumerate(given)
        for other in given[:place]
        if one[0] == other[0]
        and not any(
            one[1][0] <= n <= one[1][1] and other[1][0] <= n <= other[1][1] for n in NUMBERS
        )
    ]
    if any(not one[2] and not other[2] for one, other in clashes):
        with pytest.raises(InputError, match="but"):
            settle(claims)
        return
    said = settle(claims)
    assert len(said) == len(clashes)
    for sentence in said:
        assert sentence.count("place ") + sentence.count("Place ") in (2, 3)


@given(CLAIMS, st.randoms())
def test_the_order_of_claims_changes_nothing_that_is_found(
    given: list[tuple[str, list[int], bool]], dice: object
) -> None:
    claims = made([(subject, values, True) for subject, values, _ in given])
    shuffled = list(claims)
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    assert len(settle(claims)) == len(settle(shuffled))


def test_a_claim_that_yields_is_named_and_the_other_is_followed() -> None:
    firm = Claim("sockets", "GPU0", "the matrix", "one", frozenset({"one"}))
    other = Claim("sockets", "GPU0", "the table", "two", frozenset({"two"}), yields=True)
    wanted = "sockets of GPU0: one by the matrix, but two by the table. The matrix is followed."
    assert settle([firm, other]) == settle([other, firm]) == (wanted,)
    both = Claim("sockets", "GPU0", "a third", "three", frozenset({"three"}), yields=True)
    assert "Neither is followed" in settle([other, both])[0]


def test_contradictions_of_the_same_places_are_one_sentence() -> None:
    claims = [
        Claim("links", f"GPU{gpu}", place, place, NumberRange(count, count), place == "table")
        for gpu in range(5)
        for place, count in (("matrix", 1), ("table", 2))
    ]
    [sentence] = settle(claims)
    assert sentence.startswith("links of GPU0: ")
    assert "(4 more like this)" in sentence
