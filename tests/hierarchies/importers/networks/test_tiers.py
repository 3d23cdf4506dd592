"""Tiers of hosts: counts, uneven units, even parts and groups laid beside them."""

from __future__ import annotations

from itertools import combinations, product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import InputError
from hierarchies.importers.networks.tiers import (
    Host,
    Tiers,
    add_groups,
    check_nested,
    largest_even_part,
)


def even(*counts: int) -> Tiers:
    names = tuple(f"t{i}" for i in range(len(counts) - 1))
    places = product(*(range(count) for count in counts))
    return Tiers(
        names,
        tuple(
            Host("h" + ".".join(map(str, place)), tuple(f"u{p}" for p in place[:-1]))
            for place in places
        ),
    )


def ragged(shape: list[list[int]]) -> Tiers:
    """Racks of leaves of hosts."""
    return Tiers(
        ("rack", "leaf"),
        tuple(
            Host(f"{r}-{leaf}-{h}", (f"r{r}", f"l{leaf}"))
            for r, leaves in enumerate(shape)
            for leaf, count in enumerate(leaves)
            for h in range(count)
        ),
    )


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_even_tiers_are_as_they_were_made(counts: list[int]) -> None:
    tiers = even(*counts)
    assert tiers.full() == tuple(counts) == largest_even_part(tiers)
    assert not tiers.uneven
    trimmed = tiers.trimmed()
    assert trimmed.full() == (*(c for c in counts[:-1] if c > 1), counts[-1])


@given(st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=3), min_size=1, max_size=3))
def test_the_largest_even_part_is_the_largest(shape: list[list[int]]) -> None:
    """An oracle that tries every choice of racks, leaves and hosts."""
    best = 0
    for racks in range(1, len(shape) + 1):
        for chosen in combinations(shape, racks):
            for hosts in (1, 2, 3):
                leaves = min(sum(count >= hosts for count in rack) for rack in chosen)
                best = max(best, racks * leaves * hosts)
    assert prod(largest_even_part(ragged(shape))) == best


def test_short_units_are_seen() -> None:
    tiers = ragged([[2, 2], [2, 1], [2]])
    assert tiers.full() == (3, 2, 2)
    assert tiers.uneven
    assert tiers.children(1) == {("r0",): 2, ("r1",): 2, ("r2",): 1}
    assert list(tiers.switches().values()) == [3, 5]
    assert tiers.missing() == [(2, 1), (1, 1, 1)]
    assert tiers.numbers()["r1", "l1", "1-1-0"] == (1, 1, 0)
    assert len(tiers.without_hosts().hosts) == 5


@pytest.mark.parametrize(
    ("of", "names", "tier", "note"),
    [
        (lambda h: h.path[0], ("rack", "leaf"), 0, "each is one rack"),
        (lambda h: "/".join(h.path), ("rack", "leaf"), 1, "each is one leaf"),
        (lambda h: h.name, ("rack", "leaf"), None, "each is one node"),
        (lambda h: "all", ("rack", "leaf"), None, "one holds all"),
        (lambda h: str(int(h.path[0][1]) // 2), ("g", "rack", "leaf"), 0, "separate"),
        (
            lambda h: "/".join(h.path) + h.name[-1:] * 0 + str(int(h.name[-1]) // 2),
            ("rack", "leaf", "g"),
            2,
            "separate",
        ),
        (lambda h: h.name[-1], ("rack", "leaf"), None, "overlap"),
    ],
)
def test_groups_beside_tiers(of, names, tier, note) -> None:  # type: ignore[no-untyped-def]
    tiers = ragged([[4, 4]] * 4)
    grouped = add_groups(tiers, "g", {host.name: of(host) for host in tiers.hosts})
    assert (grouped.tiers.names, grouped.tier) == (names, tier)
    assert note in grouped.note
    assert [host.name for host in grouped.tiers.hosts] == [host.name for host in tiers.hosts]


def test_groups_that_leave_hosts_out_are_no_level() -> None:
    grouped = add_groups(even(2, 2), "g", {"h0.0": "a"})
    assert grouped.tier is None
    assert "h0.1" in grouped.note


def test_the_wrong_order_is_seen() -> None:
    right = [("a", "x"), ("a", "y"), ("b", "z")]
    check_nested(_pairs(right), "outermost first")
    with pytest.raises(InputError, match="opposite order fits"):
        check_nested(_pairs([(inner, outer) for outer, inner in right]), "outermost first")
    check_nested(_pairs([("a", "x"), ("b", "x"), ("b", "y")]), "names that repeat are two units")


def _pairs(pairs: list[tuple[str, str]]) -> Tiers:
    return Tiers(("o", "i"), tuple(Host(str(i), pair) for i, pair in enumerate(pairs)))


@pytest.mark.parametrize(
    ("hosts", "problem"),
    [
        ([], "no hosts"),
        ([Host("a", ("x",)), Host("b", ())], "same depth"),
        ([Host("a", ("x",)), Host("a", ("y",))], "more than once"),
    ],
)
def test_what_are_no_tiers(hosts: list[Host], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        Tiers(("t",), tuple(hosts))


def test_units_are_counted_in_the_order_of_the_hosts() -> None:
    hosts = tuple(
        Host(f"h{i}{j}", (f"rack{i}", f"shelf{i}{j}")) for i in range(9) for j in range(2)
    )
    tiers = Tiers(("rack", "shelf"), hosts[:-1])
    assert list(tiers.children(1)) == [(f"rack{i}",) for i in range(9)]
