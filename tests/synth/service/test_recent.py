"""What was used last is held, and never more than there is room for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from synth.service.recent import LruCache

KEYS = st.integers(0, 6)
STEPS = st.lists(
    st.tuples(st.just("put"), KEYS, st.integers(0, 12))
    | st.tuples(st.sampled_from(["get", "drop"]), KEYS, st.just(0))
)


@given(STEPS, st.integers(0, 30))
def test_it_holds_what_a_list_in_order_of_use_would(
    steps: list[tuple[str, int, int]], most: int
) -> None:
    held: list[tuple[int, int]] = []  # the last used at the end
    recent: LruCache[int, int] = LruCache(most)
    for what, key, weight in steps:
        mine = [one for one in held if one[0] == key]
        others = [one for one in held if one[0] != key]
        if what == "get":
            assert recent.get(key) == (mine[0][1] if mine else None)
            held = others + mine
        elif what == "drop":
            recent.drop(key)
            held = others
        else:
            recent.put(key, weight, weight)
            held = others + ([(key, weight)] if weight <= most else [])
            while sum(one[1] for one in held) > most:
                held.pop(0)
        assert len(recent) == len(held)
        assert recent.held_bytes == sum(one[1] for one in held) <= most
