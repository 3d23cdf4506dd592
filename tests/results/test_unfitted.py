"""What the product says of published memory and seconds, nothing fitted: rows, samples, figures."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from results import record
from results.steps.__main__ import UNFITTED
from results.steps.rows import families, raw_rows
from results.steps.unfitted import counted, resnet
from shared import shared

KEPT: dict[str, Any] = record.read(UNFITTED)


def test_every_row_of_resnet_50_is_estimated_or_left_out_with_a_reason() -> None:
    shared("steps")
    found, left = resnet.runs()
    assert {one["id"]: one["measured"] for one in KEPT["resnet"]["rows"]} == pytest.approx(
        {one.name: one.seconds for _, one in found}, rel=1e-3
    )
    every = Counter(
        name
        for name, model in (
            ("mlperf_training", "resnet"),
            ("nvidia_dle_training", "/resnet50v1.5"),
            ("dlperf_dp", "ResNet50 "),
            ("pytorch_ddp_bucket", "resnet50"),
        )
        for raw in raw_rows(name)
        if any(model in raw.get(at, "") for at in ("model", "benchmark", "model_folder"))
    )
    assert every == Counter(name for name, _ in found) + Counter(
        {name: some.total() for name, some in left.items()}
    )


def test_batches_are_read_by_precision() -> None:
    shared("steps")
    runs = {one.name: one for _, one in resnet.runs()[0]}
    both = (runs[f"nvidia_dle_training-{number}"] for number in ("0575", "0576"))
    assert [(one.samples, one.dtype) for one in both] == [(128, "float32"), (256, "float16")]
    dell = runs["mlperf_training-0019"]
    assert (dell.system, dell.samples) == ("dgx-a100:2x4", 408)
    assert dell.seconds == pytest.approx(3264 / 26737.7669)


@pytest.mark.parametrize("name", ["mlperf_training-0076", "dlperf_dp-0001"])
def test_a_step_of_resnet_50_estimated_afresh_gives_the_data(name: str) -> None:
    shared("steps")
    [one] = [one for _, one in resnet.runs()[0] if one.name == name]
    [row] = [row for row in KEPT["resnet"]["rows"] if row["id"] == name]
    assert resnet.estimate(one) == pytest.approx(row["estimated"], rel=1e-3)


def test_resnet_50_on_mlperf_s_machines_is_within_three_tenths() -> None:
    """Twenty of twenty such rows were 1.6 to 2.2 times too slow."""
    rows = [one for one in KEPT["resnet"]["rows"] if one["set"] == "mlperf_training"]
    assert len(rows) == 14
    for one in rows:
        assert 1 / resnet.NEAR < one["estimated"] / one["measured"] < resnet.NEAR, one


@pytest.mark.parametrize("number", ["0107", "0740", "1561", "2409"])
def test_the_memory_of_a_run_counted_afresh_gives_the_data(number: str) -> None:
    """The first had 32 GiB of logits whole; the others cut tensors in 8 and 32."""
    shared("steps")
    family, name = next(families()), f"nanotron_bench-{number}"
    [row] = [one for one in family.rows if one.name == name]
    size = counted.offer(family, row).size_bytes / 1e9
    assert size == pytest.approx(KEPT["memory"]["rows"][name]["counted"], rel=1e-3)


def test_every_run_with_a_peak_is_counted_or_refused() -> None:
    shared("steps")
    peaks, memory = counted.measured(next(families())), KEPT["memory"]
    kept = {name: one["measured"] for name, one in memory["rows"].items()}
    assert kept.items() <= peaks.items()
    assert len(kept) + sum(memory["refused"].values()) == len(peaks)


def test_no_run_is_counted_with_its_logits_whole() -> None:
    classes = counted.classes(KEPT["memory"])
    assert classes["8 parts of tensors and more"]["rows"] > 600
    assert classes["all runs"]["high"] < 1.4
    assert sum(classes[f"{parts} parts"]["rows"] for parts in (1, 2, 4, 8, 16, 32)) == len(
        KEPT["memory"]["rows"]
    )
