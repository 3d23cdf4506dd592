"""The section about DDP's buckets says what was measured, and what is measured is DDP's own."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from hierarchies import Axis, placements
from results import record
from results.ddp import __main__ as ddp
from results.ddp import replayed
from results.ddp.judged import BEST, NEAR, USUAL, figures
from results.ddp.measure import backward_of
from results.ddp.merged import machine
from results.ddp.programs import PAYLOAD_BYTES, Seconds, best, plain
from results.ddp.replay import NETWORKS
from results.ddp.standins import slept
from results.testbed.systems import built
from synth.collective.algorithms.nccl_model import RING
from synth.step.bucketing.sums import Sums


def test_the_section_about_ddp_is_made_from_its_data() -> None:
    data = record.read(ddp.REPORT)
    assert ddp.page(data).is_current


def test_ours_is_never_slower_than_the_default_beyond_noise() -> None:
    data = record.read(ddp.REPORT)
    assert data["slower"] == 0
    assert data["off"]["ours_near"] == sum(
        abs(row["ways"][BEST]["gain"] - row["ways"][BEST]["predicted_gain"]) <= NEAR
        for row in data["rows"]
    )
    assert all(row["ways"][USUAL]["gain"] == 0 for row in data["rows"])


def test_ddp_filled_the_buckets_that_were_asked_for() -> None:
    for path in ddp.DATA.glob("*.json"):
        for model in record.read(path)["models"]:
            upto = backward_of(model).upto_bytes
            for name, way in model["ways"].items():
                asked = [upto[b] - upto[a] for a, b in pairwise((0, *way["ends"]))]
                if name != BEST:
                    assert way["buckets_bytes"] == asked, (path, model["name"], name)
                    continue
                # by the file, whose order is that of parameters: a bias may be in the next bucket
                assert sum(way["buckets_bytes"]) == upto[-1]
                assert len(way["buckets_bytes"]) == len(asked), (path, model["name"])


@pytest.mark.slow
def test_stored_results_about_ddp_match_the_data() -> None:
    fresh = json.loads(json.dumps(figures(ddp.DATA)))
    kept = record.read(ddp.REPORT)
    assert list(record.differences({name: kept[name] for name in fresh}, fresh)) == []


def test_a_program_costs_the_price_of_the_planner_on_the_described_machine() -> None:
    system = built((2, 4), (100.0, 400.0))
    program, text = best(system, "a test")
    assert program.segments == 8
    members = [program.members(at) for at in range(len(program.moves))]
    assert members == [(1, 4), (2, 1), (2, 1), (1, 4)]
    assert "def install_ddp(" in text
    # a node's port carries half of what each of two nodes has, both ways: at least
    least = PAYLOAD_BYTES / (100e6 / 8)
    assert least < Seconds(program, [system] * 4)(PAYLOAD_BYTES) < 1.4 * least
    [placement] = placements(system.hierarchy, [Axis("data", 8)])
    for size in (4096, PAYLOAD_BYTES):
        flat = Sums(system, placement, RING).seconds(size)
        assert Seconds(plain(system), [system])(size) == pytest.approx(flat)


def test_a_stand_in_produces_gradients_at_their_times() -> None:
    torch = pytest.importorskip("torch")
    rests: list[float] = []
    made = [("last", 6, 1.0), ("middle", 4, 1.5), ("first", 2, 3.5)]
    module = slept(made, rests.append, 2.0)
    seen: list[int] = []
    for one in module.parameters():
        one.register_post_accumulate_grad_hook(lambda one: seen.append(one.numel()))
    module(torch.zeros(())).backward()
    assert seen == [6, 4, 2]
    assert [one.numel() for one in module.parameters()] == [2, 4, 6]
    assert rests == pytest.approx([1.0, 0.5, 2.0], abs=0.1)
    assert all((one.grad == 2.0).all() for one in module.parameters())


def test_the_replayed_programs_are_those_that_the_planner_gives() -> None:
    for one in NETWORKS:
        path = ddp.REPLAYED / f"{one.name}.json"
        if path.exists():
            program, _ = best(one.system, "a test")
            told = record.read(path)["program"]
            assert (program.text, program.segments) == (told["text"], told["segments"])


def test_ddp_on_nodes_filled_the_buckets_that_were_asked_for() -> None:
    for path in ddp.REPLAYED.glob("*.json"):
        for model in record.read(path)["models"]:
            upto = backward_of(model).upto_bytes
            for name, way in model["ways"].items():
                asked = [upto[b] - upto[a] for a, b in pairwise((0, *way["ends"]))]
                if name == BEST:
                    assert len(way["buckets_bytes"]) == len(asked), (path, model["name"])
                    assert sum(way["buckets_bytes"]) == upto[-1]
                else:
                    assert way["buckets_bytes"] == asked, (path, model["name"], name)


def test_merging_is_never_simulated_to_be_slower_than_the_extremes() -> None:
    for row in record.read(ddp.REPORT)["merged"]["rows"]:
        gains = {one["method"]: one["simulated"] for one in row["gains"]}
        most = max(0.0, gains.get("WFBP-A2A", 0.0))
        assert gains.get("MG-WFBP", most) >= (1 + most) / 1.001 - 1 - 1e-9, row


def test_published_machines_are_priced_as_their_links_are_known_to_be() -> None:
    slow, fast = (machine(network, 32) for network in ("10GbE with TCP/IP", "100GbIB with RDMA"))
    assert [one.hierarchy.cardinalities for one in (slow, fast)] == [(8, 4), (8, 4)]
    [placement] = placements(slow.hierarchy, [Axis("data", 32)])
    size = 10**8
    seconds = Sums(slow, placement).seconds(size)
    assert seconds > 2 * 31 / 32 * size / 1.25e9 > Sums(fast, placement).seconds(size)


@pytest.mark.slow
def test_stored_results_of_replayed_ddp_match_the_data() -> None:
    fresh = json.loads(json.dumps(replayed.figures(ddp.REPLAYED)))
    assert list(record.differences(record.read(ddp.REPORT)["replayed"], fresh)) == []
