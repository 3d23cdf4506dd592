"""Logs of other devices than a system has say nothing of it, and are refused by it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hierarchies import InputError, catalogue, load
from hierarchies.devices import devices as accelerators
from hierarchies.devices import model_words
from log_writer import Written, devices, text
from synth.measure.logs.matching import check_devices, machines_of
from synth.measure.logs.reading import parse_logs
from synth.measure.logs.tables import CheckedLog

SIZES = tuple(1 << power for power in range(20, 31, 2))


def logged(model: str, ranks: int = 32, hosts: int = 4) -> list[CheckedLog]:
    told = Written("all_reduce", ranks, hosts, tuple((size, 99.0, 99.0) for size in SIZES))
    lines = ["all_reduce_perf", *devices(told, model), *text(told, head=False)]
    return parse_logs("\n".join(lines), "log.txt")


def test_a_log_of_an_h100_is_refused_for_an_a100() -> None:
    logs = logged("NVIDIA H100 80GB HBM3")
    with pytest.raises(InputError, match="NVIDIA H100 80GB HBM3, and dgx-a100 has A100") as raised:
        check_devices(load("dgx-a100:4"), logs)
    assert "dgx-h100:4" in raised.value.hint
    assert machines_of(logs)[0].name == "dgx-h100"
    for name in ("dgx-h100:4", "aws-p5:4"):
        check_devices(load(name), logs)


@pytest.mark.parametrize("model", ["", "Graphics Device", "NVIDIA Blackwell GPU"])
def test_devices_without_a_stated_model_are_not_compared(model: str) -> None:
    check_devices(load("dgx-a100:4"), logged(model))
    check_devices(replace(load("dgx-a100:4"), device=""), logged("NVIDIA H100 80GB HBM3"))


def test_every_accelerator_of_a_gpu_maker_is_known_by_its_model() -> None:
    """And no two of them share one, but for memory sizes of the same chip."""
    named = [one for one in accelerators() if not one.startswith(("TPU", "Trainium"))]
    assert all(model_words(one) for one in named)
    for one in named:
        for other in named:
            if model_words(one) & model_words(other):
                assert one.split()[0] == other.split()[0] or "B200" in one


def test_machines_that_a_log_may_be_of_have_its_devices_and_enough_of_them() -> None:
    for name in ("dgx-a100", "mi300x", "dgx-b200", "gb200-nvl72"):
        device = load(name).device
        for one in machines_of(logged(f"NVIDIA {device}")):
            assert model_words(one.device) & model_words(device)
            assert one.hierarchy.cardinalities[0] == 4
            assert one.devices >= 32
    assert not machines_of(logged("NVIDIA GeForce RTX 4090"))
    assert not machines_of([])
    assert len(catalogue()) > 20
