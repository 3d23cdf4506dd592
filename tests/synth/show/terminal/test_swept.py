"""The verdict on a sweep of plans: what makes the most on each device, and what changes that."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest

from plain_text import printed
from synth.ask.answers.training.swept import PlanSweepReply
from synth.show.report.summaries import view_sweep
from synth.show.terminal.headlines import headline
from synth.show.terminal.training.swept import MOST_STATED, render_swept, summarize_sweep

RATES = {("64", "a:1"): 800.0, ("64", "a:2"): 1000.0, ("128", "a:1"): 900.0, ("128", "a:2"): 1764.0}


def row(values: Mapping[str, str], rate: float | None, **others: Any) -> dict[str, Any]:
    """A row that makes ``rate`` tokens a second on 8 devices of each node; None: without a plan."""
    devices = 8 * int(values.get("system", "a:1")[2:])
    made = {
        "plan": f"data={devices}; batch over data",
        "axes": {"data": devices},
        "placement": [[devices // 8, 8]],
        "seconds": 1.0,
        "tokens_per_second": rate,
        "utilisation": 0.5,
        "bytes": 2**30,
        "gap": 0.25,
    }
    if rate is None:
        made = dict.fromkeys(made)
    return {
        "values": values,
        "problem": "" if rate is not None else "nothing fits",
        "system": values.get("system", "a:1"),
        "devices": devices,
        "samples": 64,
        "complete": True,
        **made,
        **others,
    }


def reply(swept: Mapping[str, list[str]], *rows: dict[str, Any]) -> PlanSweepReply:
    answer = {"schema_version": 1, "swept": swept, "rows": [*rows], "complete": True}
    return PlanSweepReply.model_validate(answer)


@pytest.fixture
def four() -> PlanSweepReply:
    swept = {"batch": ["64", "128"], "system": ["a:1", "a:2"]}
    rows = [row(dict(zip(swept, of, strict=True)), RATES[of]) for of in product(*swept.values())]
    return reply(swept, *rows)


def test_the_most_per_device_comes_first_and_then_what_changes_it(four: PlanSweepReply) -> None:
    summary = summarize_sweep(four)
    assert summary.headline == "Fastest per device: batch 128, system a:1: 112 tokens/s"
    most = "makes the most in all: 1,764 tokens/s on 16 devices (-2% per device)"
    assert list(summary.lines) == [
        f"batch 128, system a:2 {most}",
        "per device at system a:1: batch 64 -11%, batch 128 best",
        "per device at batch 128: system a:1 best, system a:2 -2%",
        "2 different plans",
    ]
    assert headline("plan", four.model_dump(mode="json")) == summary.headline
    assert printed(render_swept(four)).splitlines()[0] == summary.headline


def test_samples_are_compared_where_any_row_has_no_tokens() -> None:
    values = [{"batch": "64"}, {"batch": "128"}]
    other = row(values[1], 0.0, samples=128, seconds=4.0)
    summary = summarize_sweep(reply({"batch": ["64", "128"]}, row(values[0], 9.0), other))
    assert summary.unit == "samples"
    assert summary.headline == "Fastest per device: batch 64: 8 samples/s"
    table = printed(render_swept(reply({"batch": ["64", "128"]}, other)))
    assert "samples/s" in table
    assert "tokens" not in table


def test_combinations_without_a_plan_are_counted() -> None:
    values = [{"batch": "64"}, {"batch": "128"}]
    swept = {"batch": ["64", "128"]}
    one = summarize_sweep(reply(swept, row(values[0], 80.0), row(values[1], None)))
    assert one.headline == "batch 64: 10 tokens/s per device"
    assert one.lines == ["1 of 2 combinations has no plan, with the reason below"]
    none = summarize_sweep(reply(swept, *(row(of, None) for of in values)))
    assert none.headline == "None of 2 combinations has a plan"
    assert (none.lines, none.throughputs) == ([], ())
    assert view_sweep(reply(swept, *(row(of, None) for of in values))).drawings == []


def test_of_many_values_the_first_the_best_and_the_last_are_stated() -> None:
    batches = [str(batch) for batch in range(1, MOST_STATED + 3)]
    rates = [8.0 * (10 - abs(int(batch) - 3)) for batch in batches]
    rows = [row({"batch": batch}, rate) for batch, rate in zip(batches, rates, strict=True)]
    lines = summarize_sweep(reply({"batch": batches}, *rows)).lines
    assert lines[0] == "per device: batch 1 -20%, batch 3 best, batch 8 -50% (8 in all)"
    assert lines[1] == "the plan is the same in all rows"


def test_pages_draw_seconds_by_a_number_and_bars_of_all_rows(four: PlanSweepReply) -> None:
    view = view_sweep(four)
    headings = [heading for heading, _ in view.drawings]
    assert headings == ["Tokens a second per device", "Seconds of a step by batch"]
    seconds = str(view.drawings[1][1])
    assert seconds.count("<polyline") == 2
    assert "<title>a:2, 128: 1 s</title>" in seconds
    assert view.table is not None
    assert len(view.table.rows) == len(four.rows)
