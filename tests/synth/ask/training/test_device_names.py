"""Names of accelerators in descriptions and in ``--device``: common spellings, no guesses."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hierarchies import InputError, load
from hierarchies.devices import devices
from synth.ask.training.machines import accelerator_of

SYSTEM = load("dgx-h100:1")
DESCRIBE = Path(__file__).parents[4] / "docs" / "describe.md"


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("H100", "H100 SXM5 80 GB"),
        ("h100", "H100 SXM5 80 GB"),
        ("GB200", "Blackwell B200 (GB200)"),
        ("mi300x", "Instinct MI300X 192 GB"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM5 80 GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM4 80 GB"),
        ("NVIDIA A100-PCIE-40GB", "A100 PCIe 40 GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80 GB"),
        ("NVIDIA H100 PCIe", "H100 PCIe 80 GB"),
        ("NVIDIA H20", "H20 SXM5 96 GB"),
        ("h800", "H800 SXM5 80 GB"),
        ("NVIDIA GeForce RTX 4090", "GeForce RTX 4090 24 GB"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell 96 GB"),
        ("mi250x", "Instinct MI250X die 64 GB"),
        *((name, name) for name in devices()),
    ],
)
def test_a_device_has_its_rates_by_any_spelling_that_names_it(name: str, device: str) -> None:
    """In a description and in a question alike."""
    assert accelerator_of(replace(SYSTEM, device=name), None).name == device
    assert accelerator_of(SYSTEM, name).name == device


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("H30", "no rates are known of the device 'H30'"),
        ("NVIDIA B200 PCIe", "no rates are known"),
        (
            "A100",
            "'A100' names 2 devices; give one with --device: A100 SXM4 40 GB, A100 SXM4 80 GB",
        ),
        ("TPU v5", "'TPU v5' names 2 devices"),
    ],
)
def test_another_device_is_not_taken_for_it(name: str, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        accelerator_of(replace(SYSTEM, device=name), None)


def test_the_page_on_descriptions_names_a_device_with_rates() -> None:
    name, *_ = re.findall(r'\[device\]\nname = "(.*)"', DESCRIBE.read_text(encoding="utf-8"))
    assert accelerator_of(replace(SYSTEM, device=name), None).name == "H100 SXM5 80 GB"
