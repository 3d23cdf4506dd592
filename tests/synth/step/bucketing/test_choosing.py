"""Buckets that end first: beside all ways to cut, and DDP's own beside torch's."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.step.bucketing.choosing import (
    CAPS_MIB,
    MIB,
    best_cap,
    bound_buckets,
    fill_buckets,
    fill_by_default,
    find_buckets,
    find_contended_buckets,
)
from synth.step.bucketing.clock import Ends, simulate_buckets
from synth.step.bucketing.gradients import BackwardPass, Gradient


@st.composite
def backwards(draw: st.DrawFn) -> BackwardPass:
    """At most ten gradients, of which several may be made at once."""
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=10))
    gaps = draw(st.lists(st.integers(0, 9), min_size=len(sizes), max_size=len(sizes)))
    ready, made = 0.0, []
    for at, (size, gap) in enumerate(zip(sizes, gaps, strict=True)):
        ready += gap
        made.append(Gradient(f"g{at}", -1, size, 4 * size, ready))
    more = draw(st.integers(0, 5))
    return BackwardPass("f32", tuple(made), ready + more, draw(st.integers(0, 3)))


SUMS = st.sampled_from(
    [
        lambda size: 3 + size / 16,
        lambda size: 0.5 + size / 64,
        lambda size: size / 10,
        lambda size: min(1 + size / 8, 9 + size / 40),
        lambda size: 8.0 if 50 < size < 100 else 2 + size / 20,  # neither rises nor is concave
    ]
)


def every(count: int) -> list[Ends]:
    inner = range(1, count)
    return [(*some, count) for many in range(count) for some in combinations(inner, many)]


def ended(backward: BackwardPass, ends: Ends, summing) -> float:
    """The clock once more, gradient by gradient: who waits, and when the stream is free."""
    free = 0.0
    for first, last in pairwise((0, *ends)):
        inside = backward.gradients[first:last]
        full = max(one.ready_seconds for one in inside)
        free = max(full, free) + summing(sum(one.size_bytes for one in inside))
    return max(free, backward.compute_seconds) + backward.update_seconds


@given(backwards(), SUMS)
def test_no_other_buckets_end_before(backward: BackwardPass, summing) -> None:
    found = simulate_buckets(backward, find_buckets(backward, summing, within=0.0), summing).seconds
    ways = every(len(backward.gradients))
    best = min(ended(backward, ends, summing) for ends in ways)
    assert found == pytest.approx(best)
    bound = bound_buckets(backward, summing)
    assert bound.seconds <= best + 1e-9
    for ends in ways[:: max(1, len(ways) // 16)]:
        assert simulate_buckets(backward, ends, summing).seconds == pytest.approx(
            ended(backward, ends, summing)
        )


def slowed(backward: BackwardPass, ends: Ends, summing, taken: float) -> float:
    """Likewise where sums take a part of what computes: what is computed by a moment is the time
    until then without that part of each sum; so the moment by which enough is, by halving.
    """
    sums: list[tuple[float, float]] = []

    def when(enough: float) -> float:
        low, high = enough, enough / (1 - taken)
        for _ in range(60):
            now = (low + high) / 2
            beside = sum(max(0.0, min(now, end) - begin) for begin, end in sums)
            low, high = (low, now) if now - taken * beside >= enough else (now, high)
        return high

    for first, last in pairwise((0, *ends)):
        inside = backward.gradients[first:last]
        full = when(max(one.ready_seconds for one in inside))
        begin = max([full, *(end for _, end in sums)])
        sums.append((begin, begin + summing(sum(one.size_bytes for one in inside))))
    return max(sums[-1][1], when(backward.compute_seconds)) + backward.update_seconds


@given(backwards(), SUMS, st.sampled_from([0.1, 0.5, 0.75]))
def test_no_other_buckets_end_before_where_sums_take_a_part(
    backward: BackwardPass, summing, taken: float
) -> None:
    found = find_contended_buckets(backward, summing, taken)
    ways = every(len(backward.gradients))[-64:]
    for ends in (found, *ways[::8]):
        own = simulate_buckets(backward, ends, summing, taken).seconds
        assert own == pytest.approx(slowed(backward, ends, summing, taken))
    best = min(
        simulate_buckets(backward, ends, summing, taken).seconds
        for ends in every(len(backward.gradients))
    )
    assert simulate_buckets(backward, found, summing, taken).seconds == pytest.approx(best)


@given(backwards(), SUMS)
def test_where_sums_take_nothing_both_searches_find_the_same(
    backward: BackwardPass, summing
) -> None:
    either = (
        find_buckets(backward, summing, within=0.0),
        find_contended_buckets(backward, summing, 0.0),
    )
    first, second = (simulate_buckets(backward, ends, summing).seconds for ends in either)
    assert first == pytest.approx(second)


@given(backwards(), SUMS, st.sampled_from([0.001, 0.03, 0.2]))
def test_no_fewer_buckets_are_as_fast(backward: BackwardPass, summing, within: float) -> None:
    found = find_buckets(backward, summing, within)
    ways = {ends: ended(backward, ends, summing) for ends in every(len(backward.gradients))}
    enough = (1 + within) * min(ways.values())
    assert ways[found] <= enough * (1 + 1e-9)
    fewer = [seconds for ends, seconds in ways.items() if len(ends) < len(found)]
    assert all(seconds > enough * (1 - 1e-9) for seconds in fewer)


@given(backwards(), SUMS)
def test_a_step_is_computing_and_what_is_exposed(backward: BackwardPass, summing) -> None:
    for ends in (
        find_buckets(backward, summing),
        fill_buckets(backward, (0,)),
        fill_by_default(backward),
    ):
        found = simulate_buckets(backward, ends, summing)
        assert found.exposed_seconds >= 0
        parts = found.exposed_seconds + backward.compute_seconds + backward.update_seconds
        assert found.seconds == pytest.approx(parts)
        assert found.exposed_seconds <= found.summing_seconds + 1e-9
        assert sum(one.size_bytes for one in found.buckets) == backward.upto_bytes[-1]


def test_where_messages_cost_nothing_but_bytes_small_buckets_are_best() -> None:
    made = tuple(Gradient(name, -1, 8, 32, at) for at, name in enumerate("abc"))
    backward = BackwardPass("f32", made, 2.0, 0.0)
    assert find_buckets(backward, lambda size: size / 32) == (1, 2, 3)
    assert find_buckets(backward, lambda size: 100 + size / 32) == (3,)


def test_the_best_cap_is_the_largest_of_equal_ones() -> None:
    made = tuple(Gradient(str(at), -1, MIB // 4, MIB, float(at)) for at in range(4))
    backward = BackwardPass("f32", made, 3.0, 0.0)
    assert best_cap(backward, lambda size: 0.0) == (CAPS_MIB[-1], (4,))
    assert best_cap(backward, lambda size: size / MIB)[0] == 1


def test_ddp_s_buckets_are_those_that_torch_assigns() -> None:
    torch = pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")
    dist = pytest.importorskip("torch.distributed")
    sizes = [7, 300_000, 20, 5_000_000, 3_000_000, 70_000, 9_000_000, 1, 64]
    made = tuple(Gradient(str(at), -1, size, 4 * size, float(at)) for at, size in enumerate(sizes))
    tensors = [torch.empty(size, device="meta") for size in sizes]
    for caps in ([MIB, 25 * MIB], [25 * MIB], [0], [2**50], [4 * 7, 4, MIB]):
        assigned, _ = dist._compute_bucket_assignment_by_size(tensors, caps)
        ends = [max(one) + 1 for one in assigned]
        assert fill_buckets(BackwardPass("f32", made, 9.0, 0.0), caps) == tuple(sorted(ends)), caps
    assert fill_by_default(BackwardPass("f32", made, 9.0, 0.0)) == fill_buckets(
        BackwardPass("f32", made, 9.0, 0.0), (MIB, 25 * MIB)
    )
