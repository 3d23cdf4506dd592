"""The verb that puts a step on the clock: parts add up, files are read, mistakes are told."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from hierarchies import InputError
from synth.ask.answers.training.simulated import SimulateReply
from synth.ask.questions.question import parse_question
from synth.ask.reply import Outcome, Reply
from synth.ask.table import judge
from synth.ask.training.simulated import SimulateQuestion, simulate_step
from synth.collective.ranking.request import Watcher
from synth.collective.workload.files import read_job
from synth.service.page.results import drawing_of
from synth.show.report.steps import draw_timeline

STEP = Path(__file__).parents[3] / "steps" / "mlp-tiny.step"
PLAN = "data=8; batch over data; zero=1"
PIPE = "data=2 pipe=4; batch over data; schedule 1f1b, 4 microbatches"


def run(**more: Any) -> Reply:
    given = {"model": {"name": "mlp.step", "text": STEP.read_text()}, "system": "dgx-h100:1"}
    return simulate_step(parse_question(SimulateQuestion, given | {"plan": PLAN} | more), Watcher())


@cache
def answer(**more: Any) -> SimulateReply:
    found: SimulateReply = judge("simulate").validate_python(run(**more).body)
    return found


def zoo(**more: Any) -> Reply:
    pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
    return run(model="gpt2-tiny", sizes={"layers": 4}, **more)


def reply_of(found: Reply) -> SimulateReply:
    read: SimulateReply = judge("simulate").validate_python(found.body)
    return read


@pytest.mark.parametrize("overlap", ["none", "gradients", "all"])
def test_a_step_is_computing_waiting_and_idling(overlap: str) -> None:
    found = answer(overlap=overlap)
    for rank in found.ranks:
        parts = rank.compute_seconds + rank.exposed_seconds + rank.idle_seconds
        assert parts == pytest.approx(found.seconds)
    low, high = found.interval
    assert low <= found.seconds <= high
    assert sum(one.exposed_seconds for one in found.sent) == pytest.approx(
        found.ranks[found.busiest].exposed_seconds
    )


def test_ranks_of_a_pipeline_add_up_as_well() -> None:
    found = reply_of(zoo(plan=PIPE))
    assert [rank.stages for rank in found.ranks] == [[0], [1], [2], [3]]
    for rank in found.ranks:
        parts = rank.compute_seconds + rank.exposed_seconds + rank.idle_seconds
        assert parts == pytest.approx(found.seconds)
        assert all(row.end_seconds <= found.seconds * (1 + 1e-9) for row in rank.rows)
    assert found.idle_share > 0
    assert found.memory.bytes == max(rank.memory.bytes for rank in found.ranks)
    assert any(one.what == "no pipeline bubble" for one in found.gains)


@pytest.mark.parametrize(
    ("matrix", "shares"), [([[2, 4], [1, 2]], True), ([[2, 1], [1, 8]], False)]
)
def test_gathers_of_data_and_of_tensors_share_the_links_that_both_use(
    matrix: list[list[int]], shares: bool
) -> None:
    """Rings of data cross NVLink inside nodes; with one GPU a node in each they only use NICs."""
    sizes = [a * b for a, b in matrix]
    plan = f"data={sizes[0]} tensor={sizes[1]}; batch over data; zero=3; tokens over tensor;"
    pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
    found = reply_of(
        run(
            model="llama3-8b",
            plan=f"{plan} weights over tensor as Megatron",
            system="dgx-h100:2",
            placement=matrix,
            sizes={"layers": 4},
            dtype="bfloat16",
            overlap="all",
            batch=64,
        )
    )
    [alone] = [one for one in found.gains if "alone" in one.what] or [None]
    assert (alone is not None) is shares
    if alone:
        assert alone.seconds < found.seconds
    assert sum(rank.exposed_seconds for rank in found.ranks) > 0


def test_better_machines_are_never_slower() -> None:
    found = answer()
    assert all(one.seconds <= found.seconds * (1 + 1e-9) for one in found.gains)
    assert all(one.gain >= -1e-9 for one in found.gains)
    [hidden] = [one for one in found.gains if one.what == "all communication hidden"]
    assert hidden.seconds == pytest.approx(found.ranks[0].compute_seconds, rel=1e-6)


def test_utilisation_is_of_the_model_s_products() -> None:
    found = answer()
    rate = found.flops / found.seconds / found.devices
    assert found.utilisation == pytest.approx(rate / found.machine.peak_flops_per_second)
    assert found.machine.dtype == "f32"
    assert found.machine.device == "H100 SXM5 80 GB"


def test_the_job_is_one_that_plan_reads() -> None:
    [trace, job] = answer().files
    read = read_job(job.text)
    assert {one.goal.value for one in read.entries} == {"all-reduce", "all-gather"}
    assert all(0 <= float(str(one.hidden)) <= 1 for one in read.entries)
    times = sum(int(str(one.times)) for one in read.entries)
    assert times == sum(one.times for one in answer().sent)
    assert trace.name == "mlp-tiny.trace.json"


def test_the_trace_has_every_row_once_and_in_turn() -> None:
    found = answer()
    events = json.loads(found.files[0].text)["traceEvents"]
    slices = [one for one in events if one["ph"] == "X"]
    rows = [row for rank in found.ranks for row in rank.rows]
    # What of a task is exposed is a row of its own.
    cut = (
        one.end_seconds == other.begin_seconds
        and (one.stream, one.name) == (other.stream, other.name)
        and one.kind is not other.kind
        for one, other in pairwise(rows)
    )
    assert len(slices) == len(rows) - sum(cut)
    threads: dict[int, float] = {}
    for one in slices:
        assert one["ts"] >= threads.get(one["tid"], 0.0) * (1 - 1e-12)
        threads[one["tid"]] = one["ts"] + one["dur"]
    assert max(threads.values()) == pytest.approx(found.seconds * 1e6)
    ids = {one["pid"] for one in events} & set(threads)
    assert not ids


def test_the_drawing_has_a_bar_for_every_row() -> None:
    found = reply_of(zoo(plan=PIPE))
    made = str(draw_timeline(found.name, found.seconds, found.ranks))
    drawn = ElementTree.fromstring(made)
    bars = [one for one in drawn.iter() if one.get("class") == "bar"]
    passes = sum(row.stream == "passes" for rank in found.ranks for row in rank.rows)
    streams = sum(row.stream != "passes" for row in found.ranks[found.busiest].rows)
    assert len(bars) == passes + streams
    assert all(len(one) for one in bars)
    assert "style" not in made.replace("font-style", "")


def test_another_device_takes_another_time() -> None:
    slow = answer(device="v100-sxm")
    assert slow.ranks[0].compute_seconds > answer().ranks[0].compute_seconds
    assert slow.machine.device.startswith("V100")


@pytest.mark.parametrize("more", ["", "; 2 microbatches"])
def test_replicas_normalise_their_own_samples_unless_all_are_asked_for(more: str) -> None:
    plan = f"data=8; batch over data{more}; buckets of 25 MB"
    told = {"model": "resnet-tiny", "batch": 64, "optimizer": "sgd", "plan": plan}
    own = run(**told)
    assert sum(one.times for one in reply_of(own).sent) == 1
    if not more:
        together = run(sizes={"groups": 1}, **told)
        assert sum(one.times for one in reply_of(together).sent) > 30


def test_a_plan_that_does_not_fit_reports_the_excess_and_its_causes() -> None:
    found = zoo(plan="data=8; batch over data", batch=2**24, dtype="bfloat16", attention="plain")
    assert found.outcome is Outcome.NO
    read = reply_of(found)
    assert not read.fits
    assert read.memory.bytes > read.machine.device_bytes
    assert read.memory.bytes == sum(one.bytes for one in read.memory.kinds)
    assert read.memory.largest


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"device": "H100 SXM6"}, "no rates are known of the device 'H100 SXM6'"),
        ({"framework": "megatro"}, "no framework 'megatro'"),
        ({"system": "dgx-h100:2"}, "the axes multiply to 8 devices, and dgx-h100 has 16"),
        ({"system": None}, "on which machine?"),
        ({"plan": None}, "which plan? a step is sharded by one"),
        ({"plan": "pipe=8; schedule 1f1b, 100000 microbatches"}, "are too many"),
    ],
)
def test_mistakes_are_reported(more: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        run(**more)
    assert said in str(error.value)


def test_a_framework_s_compute_takes_its_published_factor() -> None:
    """Nothing else of the answer changes, and a framework that nobody measured says so."""
    more = {"plan": "data=8; batch over data", "device": "H100"}
    plain, eager = zoo(**more), reply_of(zoo(**more, framework="torchtitan"))
    assert reply_of(plain).speed is None
    assert eager.speed is not None
    factor = eager.speed.factor
    assert factor > 1.2
    busy = reply_of(plain).ranks[0].compute_seconds
    assert eager.ranks[0].compute_seconds == pytest.approx(factor * busy)
    assert reply_of(zoo(**more, framework="ideal")) == reply_of(plain)
    unknown = reply_of(zoo(**more, framework="jax"))
    assert unknown.speed is not None
    assert (unknown.speed.factor, unknown.speed.steps) == (1.0, 0)
    assert unknown.seconds == reply_of(plain).seconds


def test_a_deadlocked_order_is_shown_and_continues_with_eager_transfers() -> None:
    with pytest.raises(InputError, match=r"blocking transfers deadlock: .* waits for "):
        zoo(plan=PIPE, protocol="blocking")
    assert reply_of(zoo(plan=PIPE, protocol="eager")).seconds > 0


def test_the_page_draws_it_and_no_other_answer() -> None:
    found = answer()
    drawn = draw_timeline(found.name, found.seconds, found.ranks)
    assert drawing_of("simulate", run().body) == drawn
    assert drawing_of("order", {}) is None
