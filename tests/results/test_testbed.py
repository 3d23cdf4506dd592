"""The test network: what it is built of, what runs on it, and the figures that are told of it."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from grammar import Collective
from hierarchies import InputError, load
from patience import PATIENCE_SECONDS
from results import record
from results.testbed import __main__ as campaign
from results.testbed import accuracy, bystanders, cases, judged, measure, prices, repeat, systems
from results.testbed.hosts import crew, engine, network, orders, traffic, wiring
from synth.collective.semantics.lowering import lower
from synth.collective.semantics.schedule import Exchange
from synth.collective.verify.replay import Failure, compare

SHAPES = st.lists(st.integers(2, 4), min_size=1, max_size=3).map(tuple)


# The network, as commands.


def _wiring(shape: tuple[int, ...]) -> Any:
    return wiring.Wiring(systems.built(shape, tuple(1.5 * (i + 1) for i in range(len(shape)))))


@given(SHAPES)
def test_every_child_has_a_cable_shaped_at_both_ends(shape: tuple[int, ...]) -> None:
    wiring = _wiring(shape)
    cables = list(wiring.cables())
    assert len(cables) == sum(prod(shape[: level + 1]) for level in range(len(shape)))
    said = "\n".join(wiring.fabric())
    made = re.findall(r"link add name (\S+) type veth peer name (\S+)", said)
    assert len(made) == len(cables)
    ends = [end for pair in made for end in pair if end != "eth0"]
    shaped = re.findall(r"qdisc add dev (\S+) root", "\n".join(wiring.shaping()))
    assert sorted(ends) == sorted(shaped)
    for device in range(prod(shape)):
        assert [line for line in wiring.host(device)[1] if "dev eth0 root" in line]
    names = re.findall(r"link add name (\S+)", said)
    assert len({*names}) == len(names)
    assert all(len(name) < 16 for name in [*names, *ends])


@given(SHAPES)
def test_every_end_is_a_port_of_the_bridge_it_belongs_to(shape: tuple[int, ...]) -> None:
    """Following masters from any host's port leads to the root through one bridge a level."""
    wiring = _wiring(shape)
    said = "\n".join(wiring.fabric())
    master = dict(re.findall(r"link set (\S+) mtu \d+ master (\S+) up", said))
    peer = dict(re.findall(r"link add name (\S+) type veth peer name (u\S+)", said))
    up = {master[above]: below for below, above in peer.items()}
    for cable in wiring.cables():
        if len(cable.child) == len(shape):
            bridge, climbed = master[wiring.end_above(cable)], 1
            while bridge in up:
                bridge, climbed = master[up[bridge]], climbed + 1
            assert climbed == len(shape)
            assert bridge == "bridge"


@given(SHAPES)
def test_a_subtree_s_cable_has_a_class_for_every_host_below(shape: tuple[int, ...]) -> None:
    wiring = _wiring(shape)
    said = wiring.shaping()
    addresses = [wiring.address(device) for device in range(prod(shape))]
    assert len({*addresses}) == len(addresses)
    for cable in wiring.cables():
        if len(cable.child) == len(shape):
            continue
        down = wiring.end_above(cable)
        for end, way in ((down, "dst"), ("u" + down[1:], "src")):
            mine = [line for line in said if f" dev {end} parent" in line]
            rules = re.findall(rf"match ip {way} (\S+)/32 flowid (1:\w+)", "\n".join(mine))
            assert [address for address, _ in rules] == [addresses[host] for host in cable.hosts]
            classes = [flow for _, flow in rules]
            assert len({*classes}) == len(cable.hosts)
            rates = re.findall(
                r"classid (1:\w+) htb rate (\d+k?)bit ceil (\d+)bit", "\n".join(mine)
            )
            assert {ceil for _, _, ceil in rates} == {f"{cable.bits_per_second:.0f}"}
            own = {rate for flow, rate, _ in rates if flow in classes}
            assert own == {"8k"}


@pytest.mark.parametrize("name", ["dgx-h100:2", "mi300x:1", "tpu-v5e-slice"])
def test_non_tree_switches_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="cannot be built of bridges"):
        wiring.Wiring(load(name))


def test_rates_that_processors_cannot_carry_are_refused() -> None:
    with pytest.raises(InputError, match="Gbit/s together"):
        wiring.Wiring(systems.built((4, 4), (100, 400)))


# The engine, on sockets that are no network.


def _right(shape: tuple[int, ...], tasks: list[Any]) -> list[bool]:
    """Run a task with a thread a host; who ends with the right sum."""
    hosts = prod(shape)
    needed = orders.meetings(task.orders for task in tasks)
    out: dict[int, dict[int, socket.socket]] = {host: {} for host in range(hosts)}
    into: dict[int, dict[int, socket.socket]] = {host: {} for host in range(hosts)}
    for source, target in sorted(needed):
        out[source][target], into[target][source] = socket.socketpair()
    for some in (*out.values(), *into.values()):
        for each in some.values():
            each.setblocking(False)
    elements = max(task.elements for task in tasks)
    found = [True] * hosts

    def work(device: int) -> None:
        host = engine.Host(device, out[device], into[device], elements)
        for task in tasks:
            host.prepare(task.elements)
            host.carry_out(task.orders[device])
            found[device] &= host.right(task.elements, task.groups[device])

    threads = [
        threading.Thread(target=work, args=(device,), daemon=True) for device in range(hosts)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    for some in (*out.values(), *into.values()):
        for each in some.values():
            each.close()
    return found


@pytest.mark.parametrize(
    ("shape", "axes", "over"),
    [
        ((2, 2), (4,), (0,)),
        ((3, 2), (2, 3), (1,)),
        ((2, 4), (2, 4), (1,)),
        ((2, 2, 3), (12,), (0,)),
    ],
)
def test_all_programs_end_with_the_sum(
    shape: tuple[int, ...], axes: tuple[int, ...], over: tuple[int, ...]
) -> None:
    case = cases.Case(shape, (10.0,) * len(shape), axes, over, 4608)
    tasks = [measure.task_of(case.pair(*pair)) for pair in case.all_pairs()]
    assert len(tasks) >= 3
    assert all(_right(shape, tasks))


def test_a_program_that_is_not_the_request_s_ends_with_something_else() -> None:
    case = cases.Case((2, 2), (10.0, 10.0), (4,), (0,), 4096)
    pair = case.pair(next(case.all_pairs())[0], "all-reduce root inside")
    half = Exchange(Collective.ALL_REDUCE, np.array([[0, 1], [2, 3]]), 4096)
    task = crew.Task(orders.by_host([half], 4), 1024, cases.groups(pair.reduction))
    assert not any(_right((2, 2), [task]))


def test_swapped_pieces_are_seen() -> None:
    """A transpose too many leaves the right numbers at the wrong places."""
    case = cases.Case((2, 2), (10.0, 10.0), (4,), (0,), 4096)
    pair = case.pair(next(case.all_pairs())[0], "all-reduce root inside")
    task = measure.task_of(pair)
    turn = orders.Turn((2, 2), (1, 0))
    turned = tuple((*mine, turn) for mine in task.orders)
    assert not any(_right((2, 2), [crew.Task(turned, task.elements, task.groups)]))


# The byte model.


def _walked(part: Any) -> int:
    """The elements a member sends, message by message."""
    k, sizes = (
        len(part.members),
        [len(p) for p in np.array_split(np.arange(part.elements), len(part.members))],
    )
    scatter = [sizes[(part.rank - step) % k] for step in range(1, k)]
    gather = [sizes[(part.rank - step) % k] for step in range(k - 1)]
    return {
        Collective.ALL_REDUCE: sum(scatter) + sum(gather),
        Collective.REDUCE_SCATTER: sum(scatter),
        Collective.ALL_GATHER: sum(gather),
        Collective.REDUCE: part.elements,
        Collective.BROADCAST: part.elements,
    }[part.collective]


@given(
    st.sampled_from([c for c in Collective if c is not Collective.ALL_TO_ALL]),
    st.integers(2, 6),
    st.integers(1, 40),
    st.data(),
)
def test_what_a_member_sends_is_the_sum_of_its_messages(
    collective: Collective, k: int, elements: int, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(0, k - 1))
    part = orders.Part(collective, tuple(range(k)), rank, elements)
    assert traffic.sent_bytes(part) == 4 * _walked(part)


def test_bytes_of_a_ring_on_every_level() -> None:
    """Of 8 hosts in 2 nodes: 14/8 of the payload over every edge, two edges between nodes."""
    wiring = _wiring((2, 4))
    group = Exchange(Collective.ALL_REDUCE, np.arange(8)[None], 4096)
    program = orders.by_host([group], 8)
    edge = 14 * 4096 // 8
    assert traffic.by_level(wiring, [(program, 3)]) == [3 * 2 * edge, 3 * 8 * edge]


@pytest.mark.parametrize("rates", [(50, 100, 200), (100, 200), (100, 100, 200), (200, 50)])
def test_the_simulator_counts_the_bytes_of_every_cable(rates: tuple[int, ...]) -> None:
    """On nominal rates the price of every program is that of its busiest cables, phase by phase."""
    shape = (2,) * (len(rates) - 1) + (4,)
    for axes, over in [((prod(shape),), (0,)), ((2, prod(shape) // 2), (1,))]:
        case = cases.Case(shape, rates, axes, over, 2**18)
        pairs = [case.pair(*pair) for pair in case.all_pairs()]
        plain = prices.nominal(case.system).applied(case.system)
        found, model = prices.prices(plain, pairs), judged.byte_prices(plain, pairs)
        for pair, price, seconds in zip(pairs, found, model, strict=True):
            assert price == pytest.approx(seconds, rel=1e-6), pair.program


# Statistics.

_SECONDS = st.integers(1, 40).map(lambda n: n / 8)


@st.composite
def measured(draw: st.DrawFn) -> list[Any]:
    count = draw(st.integers(2, 14))
    return [
        accuracy.Measured(draw(_SECONDS), draw(st.sampled_from([0.0, 0.1, 0.3])), draw(_SECONDS))
        for _ in range(count)
    ]


@given(measured(), st.integers(1, 12))
def test_a_hit_is_one_of_the_first_that_is_as_fast_as_the_fastest(case: list[Any], k: int) -> None:
    """Tried one by one: no list is sorted here."""
    best = None
    for one in case:
        if best is None or one.seconds < best.seconds:
            best = one
    wins = False
    for i, one in enumerate(case):
        cheaper = sum(
            (other.price_seconds, j) < (one.price_seconds, i) for j, other in enumerate(case)
        )
        close = one.seconds - best.seconds <= one.spread_seconds + best.spread_seconds
        wins = wins or (cheaper < k and close)
    assert accuracy.hit(case, k) is wins
    assert not accuracy.hit(case, k) or accuracy.hit(case, k + 1)


@given(measured())
def test_pairs_apart_are_counted_once(case: list[Any]) -> None:
    right = pairs = 0
    for slow in case:
        for fast in case:
            if slow.seconds > 1.05 * fast.seconds:
                pairs += 1
                right += slow.price_seconds > fast.price_seconds
    assert accuracy.ordered(case) == accuracy.Ordered(right, pairs)


def test_prices_that_are_the_times_make_no_error() -> None:
    case = [accuracy.Measured(n / 7, 0.0, n / 7) for n in range(1, 12)]
    told = accuracy.told([case, case[::-1]])
    assert (told["top1"]["hits"], told["top10"]["of"]) == (2, 2)
    assert told["ordered"]["right"] == told["ordered"]["of"] == 2 * 55
    assert told["spearman"]["least"] == pytest.approx(1)
    assert told["error"]["worst"] == 0
    assert told["tied_share"] == 0


@given(st.integers(1, 60), st.data())
def test_the_interval_is_wilson_s(of: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, of))
    expected = binomtest(hits, of).proportion_ci(method="wilson")
    assert accuracy.wilson(hits, of) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_a_spread_is_half_of_the_middle_half() -> None:
    found = accuracy.summary([5.0, 1.0, 2.0, 9.0, 3.0], 4.0)
    assert (found.seconds, found.spread_seconds, found.error) == (3.0, 2.75, pytest.approx(1 / 3))


# Calibration and prices.


@given(st.floats(0, 1e-3), st.floats(1e6, 1e8))
def test_flows_on_a_line_give_its_latency_and_rate(latency: float, rate: float) -> None:
    flows = [
        {
            "level": level,
            "size_bytes": size,
            "messages": 4,
            "microseconds": [4e6 * (latency + size / rate / (level + 1))] * 5,
        }
        for level in range(2)
        for size in (4, 1024, 65536, 2**20)
    ]
    fit = prices.fitted(flows, 2)
    smallest = tuple(latency + 4 / fast for fast in (rate, 2 * rate))
    assert fit.latency_seconds == pytest.approx(smallest)
    assert fit.bytes_per_second == pytest.approx((rate, 2 * rate), rel=1e-4)


def test_a_flat_ring_is_priced_by_its_uplinks() -> None:
    case = cases.Case((2, 4), (50, 400), (8,), (0,), 2**20)
    pair = case.pair(next(case.all_pairs())[0], "all-reduce root inside")
    [seconds] = prices.prices(prices.nominal(case.system).applied(case.system), [pair])
    assert seconds == pytest.approx(2 * 7 / 8 * 2**20 / (50e6 / 8))


# The campaign.


def test_the_cases_are_as_many_and_as_large_as_promised() -> None:
    listed = cases.cases()
    assert len(listed) >= 40
    assert len({case.name for case in listed}) == len(listed)
    assert {case.shape for case in listed} == {(2, 4), (4, 4), (2, 8), (2, 2, 4)}
    for case in listed:
        assert 256 * 1024 <= case.payload_bytes <= 2 * 2**20
        wiring.Wiring(case.system)


@pytest.mark.slow
def test_every_case_has_thirty_pairs_that_are_right() -> None:
    for case in cases.cases():
        pairs = case.pairs()
        assert len({pair.name for pair in pairs}) == len(pairs) >= 30
        assert [pair.name for pair in pairs] == [pair.name for pair in case.pairs()]
        for pair in pairs[::7]:
            small = lower(pair.derivation, pair.reduction, 64)
            assert not isinstance(compare(small, 64), Failure)


class _Busy:
    """A stopwatch on a machine where others disturb every other run."""

    def __init__(self, runs: int) -> None:
        self.asked: list[int] = []
        self.thrown = 0
        self.runs = runs

    def time(self, number: int) -> float | None:
        self.asked.append(number)
        if len(self.asked) % 2:
            self.thrown += 1
            return None
        return float(number)

    def go_on(self) -> bool:
        return len(self.asked) < self.runs


def test_disturbed_samples_are_taken_again_and_it_can_go_on_later() -> None:
    samples = measure.Samples([[] for _ in range(6)])
    first, second = _Busy(11), _Busy(10**6)
    assert not measure.rounds(first, samples, first.go_on, 3, "x")
    assert sum(map(len, samples.seconds)) == 5
    assert measure.rounds(second, samples, second.go_on, 3, "x")
    assert samples.seconds == [[float(i)] * 3 for i in range(6)]
    assert len(second.asked) == 2 * (18 - 5)


def test_memory_of_other_processes_counts_but_not_our_own() -> None:
    seen = bystanders.Seen
    before = seen(10.0, {1: 5.0, 2: 7.0}, {1: 1.0, 2: 0.0}, 3.0)
    after = seen(11.0, {1: 5.1, 3: 0.06}, {1: 1.05, 3: 9.0}, 3.0)
    assert bystanders.share(before, after, 2) == pytest.approx((0.1 + 0.05 + 0.06 - 0.01) / 2)
    assert bystanders.share(before, before.__class__(11.0, {}, {}, 3.0), 2) == 0


def _committed() -> Iterator[tuple[Any, dict[str, Any]]]:
    for case in cases.cases():
        path = measure.DATA / f"{case.name}.json"
        if path.exists():
            yield case, json.loads(path.read_text(encoding="utf-8"))


def test_committed_figures_are_of_cases_that_exist() -> None:
    names = {f"{case.name}.json" for case in cases.cases()}
    names |= {f"flows-{case.system.name}.json" for case in cases.cases()}
    assert {path.name for path in measure.DATA.glob("*.json")} <= names
    for case, told in _committed():
        assert told["case"] == measure.described(case)
        assert {"command", "commit", "date", "machine"} <= {*told}
        for part in told["carried"]:
            assert part["dropped"] == 0
            assert all(1.0 < ratio < 1.12 for ratio in part["sent_over_model"] if ratio)
        assert len(told["pairs"]) >= 30
        for pair in told["pairs"]:
            assert len(pair["microseconds"]) >= 5


def test_the_page_matches_the_data() -> None:
    data = record.read(campaign.REPORT)
    assert campaign.page(data).is_current


def test_fresh_prices_of_measured_cases_give_the_data() -> None:
    data = record.read(campaign.REPORT)
    assert [row["name"] for row in data["cases"]] == [case.name for case, _ in _committed()]
    for shape in {case.shape: case for case, _ in _committed()}.values():
        [told] = [one for case, one in _committed() if case == shape]
        fit = judged.fit_of(shape, measure.DATA)
        fresh = accuracy.told([judged.measured(shape, told, fit)])
        [row] = [row for row in data["cases"] if row["name"] == shape.name]
        assert row["ordered"] == judged.rounded(fresh["ordered"])
        assert row["mean_error"] == pytest.approx(fresh["error"]["mean"], rel=1e-3)
        assert (row["place"] == 1) == (fresh["top1"]["hits"] == 1)


def test_shortfalls_are_stated() -> None:
    data = record.read(campaign.REPORT)
    good = {"hits": 40, "of": 40, "wilson": [0.91, 1.0]}
    whole = {**data["all"]["fitted"], "top1": good, "ordered": {"right": 99, "of": 100}}
    text = campaign.page({**data, "all": {**data["all"], "fitted": whole}}).text
    [first] = [line for line in text.splitlines() if "the simulator's first |" in line]
    [order] = [line for line in text.splitlines() if "that are ordered right" in line]
    assert first.endswith("| yes |")
    assert "99 of 100 (99.00%)" in order
    assert order.endswith("| **no** |")


def test_a_repeat_is_near_if_medians_and_order_are() -> None:
    old = [[100 * i, 101 * i, 102 * i] for i in range(1, 6)]
    near = repeat.nearness(old, [[102 * i, 103 * i] for i in range(1, 6)])
    assert near.near
    assert near.ratios == pytest.approx([102.5 / 101] * 5)
    assert (near.order.right, near.order.pairs) == (10, 10)
    assert not repeat.nearness(old, [[110 * i, 110 * i] for i in range(1, 6)]).near
    assert not repeat.nearness(old, old[:-2] + old[:-3:-1]).near
    assert {*repeat.AGAIN} <= {case.name for case in cases.cases()}


# A real one.


@pytest.mark.slow
def test_a_real_network_carries_a_program(tmp_path: Path) -> None:
    if reason := network.missing():
        pytest.skip(f"a test network {reason}")
    case = cases.Case((2, 2, 2), (20, 50, 100), (8,), (0,), 65536)
    program = "reduce-scatter node inside; all-reduce node parallel(root); all-gather node inside"
    placement = next(case.all_pairs())[0]
    tasks = [measure.task_of(case.pair(placement, p)) for p in ("all-reduce root inside", program)]
    wrong = tuple((*mine, orders.Turn((2, 2), (1, 0))) for mine in tasks[0].orders)
    tasks.append(crew.Task(wrong, tasks[0].elements, tasks[0].groups))
    with network.network(case.system) as wiring, crew.crew(wiring, tasks) as hired:
        least = 2 * 7 / 8 * 65536 / (20e6 / 8)
        assert hired.run(0) > 0.8 * least
        assert hired.run(1) > 0
        with pytest.raises(crew.TroubleError, match="wrong result"):
            hired.run(2)
        with pytest.raises(InputError, match="another"), network.network(case.system):
            pass
        pids = hired.pids
        assert network.counters().dropped == 0
    assert pids == []
    assert network.down() == 0
