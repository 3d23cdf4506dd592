"""The schedules known by name: their published times, bubbles and activations."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import InputError
from synth.step.schedules import (
    SCHEDULES,
    V_SHAPED,
    Action,
    Durations,
    Pass,
    PipelineSchedule,
    ScheduleTimeline,
    TransferProtocol,
    Transfers,
    gpipe,
    interleaved,
    looped_bfs,
    one_f_one_b,
    parse_schedule,
    time_schedule,
    zero_bubble,
    zero_bubble_h1,
)

SECONDS = st.integers(1, 16).map(lambda n: n / 4)
UNBLOCKED = (TransferProtocol.EAGER, TransferProtocol.RENDEZVOUS)
STAGES, MICROBATCHES, CHUNKS = st.integers(1, 6), st.integers(1, 12), st.integers(1, 4)


def seconds_of(
    order: PipelineSchedule, f: float, b: float, w: float | None = None, c: float = 0
) -> float:
    return time_schedule(order, Durations(f, b, w).on(order), Transfers(c)).seconds


@given(STAGES, MICROBATCHES, SECONDS, SECONDS)
def test_gpipe_and_1f1b(stages: int, m: int, f: float, b: float) -> None:
    """(m + S - 1)(f + b), an idle share of (S - 1) / (m + S - 1); GPipe holds m, 1F1B fewer."""
    for order in (gpipe(stages, m), one_f_one_b(stages, m), looped_bfs(stages, m, 1)):
        found = time_schedule(order, Durations(f, b).on(order))
        assert found.seconds == (m + stages - 1) * (f + b)
        assert found.idle_share == pytest.approx((stages - 1) / (m + stages - 1))
    assert gpipe(stages, m).held() == looped_bfs(stages, m, 1).held() == (m,) * stages
    assert one_f_one_b(stages, m).held() == tuple(min(stages - s, m) for s in range(stages))


@given(STAGES, st.integers(1, 4), CHUNKS, SECONDS, SECONDS)
def test_interleaved(stages: int, rounds: int, chunks: int, f: float, b: float) -> None:
    """m(f + b) + (S - 1)(f + b)/V; holds min(2(S - s - 1) + (V - 1)S + 1, mV) chunks."""
    m = rounds * stages
    order = interleaved(stages, m, chunks)
    expected = m * (f + b) + (stages - 1) * (f + b) / chunks
    assert seconds_of(order, f, b) == pytest.approx(expected)
    assert order.held() == tuple(
        min(2 * (stages - s - 1) + (chunks - 1) * stages + 1, m * chunks) for s in range(stages)
    )
    breadth_first = looped_bfs(stages, m, chunks)
    assert seconds_of(breadth_first, f, b) == pytest.approx(expected)
    assert breadth_first.held() == (m * chunks,) * stages


@given(st.sampled_from([*SCHEDULES]), STAGES, st.integers(1, 4), CHUNKS)
def test_a_schedule_is_an_order(name: str, stages: int, rounds: int, chunks: int) -> None:
    order = SCHEDULES[name](stages, rounds * stages * (1 + (name in V_SHAPED)), chunks)
    assert PipelineSchedule(order.ranks) == order  # which is checked


@given(STAGES, st.integers(1, 8), st.floats(0.0, 1.0))
def test_operands_of_weight_gradients_stay_until_those_are_computed(
    stages: int, m: int, kept: float
) -> None:
    whole, halves = one_f_one_b(stages, m), zero_bubble_h1(stages, m)
    assert whole.held_with(kept) == whole.held()
    assert halves.held_with(0.0) == halves.held()
    made = ([{"F": 1, "W": -1}.get(one.kind.value, 0) for one in row] for row in halves.ranks)
    assert halves.held_with(1.0) == tuple(max(accumulate(row)) for row in made)
    for some, least, waiting in zip(
        halves.held_with(kept), halves.held(), halves.waiting(), strict=True
    ):
        assert least <= some <= least + kept * waiting


@given(STAGES, st.integers(0, 8), SECONDS, SECONDS, SECONDS)
def test_zero_bubble_h1(stages: int, more: int, f: float, i: float, w: float) -> None:
    """Its bubble is (S - 1)(T_F + T_B - T_W), where W takes no longer than either of the others.

    Table 2 of "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241), whose B is our I; memory by
    the sentence before it: rank s holds (S - s) M_B + s M_W, all in all never more than S.
    """
    m = stages + more
    order = zero_bubble_h1(stages, m)
    w = min(w, f, i)
    assert seconds_of(order, f, i + w, w) == m * (f + i + w) + (stages - 1) * (f + i - w)
    assert order.held() == tuple(stages - s for s in range(stages))
    assert order.waiting() == tuple(s + 1 for s in range(stages))
    for actions in order.ranks:
        inside = 0
        for action in actions:
            inside += {Pass.FORWARD: 1, Pass.INPUT: 0, Pass.WEIGHT: -1}[action.kind]
            assert inside <= stages


@pytest.mark.parametrize(
    ("name", "eager", "rendezvous"), [("gpipe", 35.4, 41.0), ("1f1b", 39.4, 40.6)]
)
def test_the_protocol_decides_which_is_faster(name: str, eager: float, rendezvous: float) -> None:
    order = SCHEDULES[name](4, 8, 1)
    seconds = Durations(1, 2).on(order)
    for protocol, expected in zip(UNBLOCKED, (eager, rendezvous), strict=True):
        found = time_schedule(order, seconds, Transfers(0.4, protocol))
        assert found.seconds == pytest.approx(expected)


@st.composite
def orders(draw: st.DrawFn) -> PipelineSchedule:
    ranks, rounds, chunks = draw(st.integers(1, 4)), draw(st.integers(1, 2)), draw(CHUNKS)
    name = draw(st.sampled_from(sorted(SCHEDULES)))
    return SCHEDULES[name](ranks, ranks * rounds * (1 + (name in V_SHAPED)), chunks)


def slowly(
    order: PipelineSchedule, seconds: Durations, transfers: Transfers
) -> dict[Action, Fraction]:
    """When each action ends: looked at again and again, in exact numbers, until nothing changes."""
    rank = {action: number for number, row in enumerate(order.ranks) for action in row}
    takes = seconds.on(order)
    ends = dict.fromkeys(order.actions, Fraction(0))
    changed = True
    while changed:
        changed = False
        for row in order.ranks:
            free = Fraction(0)
            for action in row:
                start = free
                for needed in order.needs(action):
                    arrives = ends[needed]
                    if rank[needed] != rank[action]:
                        waits = free if transfers.protocol is TransferProtocol.RENDEZVOUS else 0
                        arrives = max(arrives, waits) + Fraction(transfers.seconds)
                    start = max(start, arrives)
                free = start + Fraction(takes(action))
                changed = changed or free != ends[action]
                ends[action] = free
    return ends


@given(orders(), SECONDS, SECONDS, SECONDS)
def test_the_clock_is_the_slow_one_s(order: PipelineSchedule, f: float, b: float, c: float) -> None:
    for protocol in UNBLOCKED:
        found = time_schedule(order, Durations(f, b).on(order), Transfers(c, protocol))
        expected = slowly(order, Durations(f, b), Transfers(c, protocol))
        for span in (span for row in found.ranks for span in row):
            assert span.end_seconds == pytest.approx(float(expected[span.action]))


def meeting(order: PipelineSchedule, seconds: Durations, c: float) -> dict[Action, float] | None:
    """When each action ends if ranks meet to pass values on; None where they stand still.

    Every rank does one thing after the other: takes what the action reads, does it, hands it on.
    """
    rank = {action: number for number, row in enumerate(order.ranks) for action in row}
    takes = seconds.on(order)
    todo: list[list[tuple[str, Action, Action]]] = [[] for _ in order.ranks]
    pairs = [(a, b) for b in order.actions for a in order.needs(b) if rank[a] != rank[b]]
    for action in order.actions:
        mine = todo[rank[action]]
        mine += [("meet", a, b) for a, b in pairs if b == action]
        mine.append(("do", action, action))
        mine += [("meet", a, b) for a, b in pairs if a == action]
    now, ends = [0.0] * len(todo), dict[Action, float]()
    while any(todo):
        for number, mine in enumerate(todo):
            if not mine:
                continue
            what, a, b = mine[0]
            if what == "do":
                now[number] += takes(a)
                ends[a] = now[number]
                mine.pop(0)
                break
            other = rank[b] if rank[a] == number else rank[a]
            if todo[other] and todo[other][0] == mine[0]:
                now[number] = now[other] = max(now[number], now[other]) + c
                mine.pop(0)
                todo[other].pop(0)
                break
        else:
            return None
    return ends


@given(orders(), SECONDS, SECONDS, SECONDS)
def test_blocking_ranks_meet_or_deadlock(
    order: PipelineSchedule, f: float, b: float, c: float
) -> None:
    expected = meeting(order, Durations(f, b), c)
    blocking = Transfers(c, TransferProtocol.BLOCKING)
    if expected is None:
        with pytest.raises(InputError, match="deadlock"):
            time_schedule(order, Durations(f, b).on(order), blocking)
        return
    found = time_schedule(order, Durations(f, b).on(order), blocking)
    for span in (span for row in found.ranks for span in row):
        assert span.end_seconds == pytest.approx(expected[span.action])


@given(orders(), SECONDS, SECONDS, SECONDS)
def test_laws_of_transfers(order: PipelineSchedule, f: float, b: float, c: float) -> None:
    """Eager is never later than rendezvous, they are equal where transfers are free; and bounds."""
    durations = Durations(f, b)

    def seconds(
        of: Durations, c: float, protocol: TransferProtocol = TransferProtocol.EAGER
    ) -> float:
        return time_schedule(order, of.on(order), Transfers(c, protocol)).seconds

    eager, rendezvous = (seconds(durations, c, protocol) for protocol in UNBLOCKED)
    free = seconds(durations, 0)
    assert eager <= rendezvous + 1e-9
    assert free == seconds(durations, 0, TransferProtocol.RENDEZVOUS) <= eager + 1e-9
    assert eager <= seconds(replace(durations, forward_seconds=f + 1), c) + 1e-9
    assert free >= order.microbatches * (f + b) - 1e-9
    assert time_schedule(order, durations.on(order)).idle_share >= -1e-9


@given(STAGES, MICROBATCHES, SECONDS)
def test_eager_transfers_of_gpipe(stages: int, m: int, c: float) -> None:
    expected = (m + stages - 1) * 3 + 2 * (stages - 1) * c
    assert seconds_of(gpipe(stages, m), 1, 2, c=c) == pytest.approx(expected)


def test_blocking_sends_let_gpipe_end_and_1f1b_deadlock() -> None:
    """GPipe's sends are taken in their order; 1F1B's second rank sends back before it takes more.

    Two ranks, two microbatches, 1 and 2 s, transfers of 0.5 s: forward ends at 1.5 + 1, the second
    is sent from 2.5 to 3 and ends at 4; back at 6, sent to 6.5, and so on.
    """
    blocking = Transfers(0.5, TransferProtocol.BLOCKING)
    order = gpipe(2, 2)
    assert time_schedule(order, Durations(1, 2).on(order), blocking).seconds == 11.0
    order = one_f_one_b(2, 3)
    with pytest.raises(InputError) as error:
        time_schedule(order, Durations(1, 2).on(order), blocking)
    assert str(error.value) == (
        "blocking transfers deadlock: 1B0 to 0B0 waits for 0F1 to 1F1 waits for 1B0 to 0B0; "
        "make them eager, or send and receive at the same time"
    )


def test_nothing_is_transferred_on_one_rank() -> None:
    """A pipeline folded into a V: stages 1 and 2 are both on rank 1."""
    order = parse_schedule("0F0 3F0 3B0 0B0\n1F0 2F0 2B0 1B0")
    seconds = Durations(2, 4).on(order)
    assert time_schedule(order, seconds, Transfers(10)).seconds == 4 * 1 + 4 * 2 + 4 * 10


def test_no_time_at_all_is_not_idle() -> None:
    order = gpipe(2, 2)
    assert time_schedule(order, Durations(0, 0).on(order)).idle_share == 0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: gpipe(0, 1), "0 ranks; at least 1"),
        (lambda: one_f_one_b(2, 0), "0 microbatches; at least 1"),
        (lambda: looped_bfs(2, 2, 0), "0 chunks; at least 1"),
        (
            lambda: interleaved(4, 9, 2),
            "9 microbatches on 4 ranks do not divide into equal rounds; 8 or 12 do",
        ),
        (lambda: Durations(-1, 2), "-1 s; a duration is 0 or more"),
        (lambda: Durations(1, float("inf")), "inf s; a duration is 0 or more"),
        (lambda: Transfers(float("nan")), "nan s; a duration is 0 or more"),
        (
            lambda: Durations(1, 2, 3),
            "3 s of 2 s are the gradients of weights; they are a part of the backward pass",
        ),
    ],
)
def test_input_without_a_schedule_is_refused(make: object, said: str) -> None:
    assert callable(make)
    with pytest.raises(InputError) as error:
        make()
    assert str(error.value) == said


# --- zero bubble by the seconds of its passes ---------------------------------------------------


def rank_seconds(found: ScheduleTimeline) -> tuple[float, ...]:
    """For each rank from its first action until its last has ended."""
    return tuple(row[-1].end_seconds - row[0].begin_seconds for row in found.ranks)


@given(
    st.integers(1, 5),
    st.integers(1, 12),
    st.tuples(SECONDS, SECONDS, SECONDS, SECONDS),
    st.floats(1.0, 10.0),
    st.floats(0.0, 1.0),
)
def test_zero_bubble_keeps_to_its_room_and_is_no_slower_than_one_after_the_other(
    ranks: int, m: int, seconds: tuple[float, ...], room: float, kept: float
) -> None:
    f, i, w, c = seconds
    durations = Durations(f, i + w, w)
    order = zero_bubble(ranks, m, durations, c, room, kept)
    assert (order.stages, order.microbatches) == (ranks, m)
    assert max(order.held_with(kept)) <= room + 1e-6
    found = time_schedule(order, durations.on(order), Transfers(c))
    assert m * (f + i + w) <= min(rank_seconds(found)) + 1e-9
    assert max(rank_seconds(found)) <= found.seconds + 1e-9
    assert found.seconds <= m * ranks * (f + i + w + 2 * c)


@given(st.integers(1, 6), st.integers(0, 12), SECONDS)
def test_with_room_for_two_each_passes_of_one_length_leave_no_bubble(
    ranks: int, more: int, f: float
) -> None:
    """The paper's ZB-H2: every rank works without a pause once it has begun."""
    m = 2 * ranks + more
    durations = Durations(f, 2 * f, f)
    order = zero_bubble(ranks, m, durations)
    found = time_schedule(order, durations.on(order))
    assert rank_seconds(found) == pytest.approx((3 * f * m,) * ranks)
    assert max(order.held()) <= 2 * ranks


def test_more_room_makes_less_bubble_and_nonsense_is_refused() -> None:
    """Profiled passes of a model of 1.5B (its authors' bubbles: 0.1585 and 0.0433)."""
    durations = Durations(18.522, 27.423, 9.337)
    found = []
    for room in (8, 16):
        order = zero_bubble(8, 24, durations, 0.601, room, 0.366)
        times = rank_seconds(time_schedule(order, durations.on(order), Transfers(0.601)))
        found.append(1 - 24 * 45.945 / max(times))
    assert found == pytest.approx([0.1585, 0.0433], abs=0.005)
    for ranks, m, room, kept in ((0, 1, 1, 0), (1, 0, 1, 0), (1, 1, 0.5, 0), (1, 1, 1, 2)):
        with pytest.raises(InputError, match="microbatches, activations of"):
            zero_bubble(ranks, m, durations, 0.0, room, kept)
