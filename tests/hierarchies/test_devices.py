"""Accelerators of the catalogue: every number has a source, and machines agree with them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import hierarchies
from hierarchies import InputError, load
from hierarchies.devices import device_named, devices, read_device
from hierarchies.files.loading import catalogue

FOLDER = Path(hierarchies.__file__).parent / "catalogue" / "devices"
DATED = re.compile(r"https://\S+, 20\d\d-\d\d-\d\d")
H100 = (FOLDER / "h100-sxm5-80gb.toml").read_text(encoding="utf-8")
ASKED = (
    *("V100", "A100 SXM4 40", "A100 SXM4 80", "A100 PCIe", "H100 SXM5", "H100 PCIe", "H100 NVL"),
    *("H200", "H20 ", "H800", "B200", "B300", "GB200", "GB300", "L40S", "RTX PRO 6000"),
    *("RTX 4090", "RTX 5090", "MI250X", "MI300X", "MI325X", "MI355X", "Trainium1", "Trainium2"),
    *("v4", "v5e", "v5p", "v6e", "v7x"),
)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_every_number_of_an_entry_has_a_dated_address(path: Path) -> None:
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    assert raw["source"]
    assert all(DATED.fullmatch(source) for source in raw["source"].values())


@pytest.mark.parametrize("name", ASKED)
def test_the_accelerators_that_steps_are_published_of_are_known(name: str) -> None:
    assert [one for one in devices() if name in one]


@pytest.mark.parametrize("spec", catalogue())
def test_a_machine_s_memory_is_as_fast_as_that_of_its_device(spec: str) -> None:
    system = load(spec)
    known = devices()[system.device]
    assert known.memory_bytes_per_second == system.memory_bytes_per_second


@pytest.mark.parametrize("spec", catalogue())
def test_every_machine_of_the_catalogue_has_a_device_with_rates(spec: str) -> None:
    assert device_named(load(spec).device).matrix_flops_per_second


def test_a_rate_is_by_element_type_and_all_of_eight_bits_have_one() -> None:
    h100 = device_named("H100 SXM5 80 GB")
    assert h100.peak("bf16") == 989e12
    assert h100.peak("f8_e4m3fn") == h100.peak("f8_e5m2") == 1979e12
    assert (h100.reached("bf16"), h100.reached("f32")) == (794.5e12, None)
    with pytest.raises(InputError, match=r"no matrix rate of f64 is known of H100.*bf16"):
        h100.peak("f64")


def test_a_device_that_is_not_known_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="H100 SXM5 80 GB"):
        device_named("H100 SXM5 80GB")


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        ("memory_GB = 80\n", "", "memory_GB: field required"),
        ("memory_GB = 80\n", "memory_GB = -1\n", "memory_GB: .*greater than 0"),
        ("memory_GB = 80\n", "memory_GB = 80\nspeed = 1\n", "speed: extra"),
        ('launch_us = "', 'other = "', "'other' in source is no number given here"),
        ('launch_us = "https', '# "https', "no source for launch_us"),
        ("bf16 = 794.5", "bf16 = 990", "990.0 reached in bf16, more than the peak"),
        ("reached_GB_per_s = 3226", "reached_GB_per_s = 3400", "above the peak"),
        ("[310, 290]", "[310, 2900]", "attention at 2900.0, not between 0 and the peak"),
        ("[310, 290]", "[310]", "attention_TFLOP_per_s: list should have at least 2 items"),
        ('name = "', "name = ", "not a TOML file"),
    ],
)
def test_a_wrong_entry_is_refused(old: str, new: str, refused: str) -> None:
    assert old in H100
    with pytest.raises(InputError, match=f"h100.toml: {refused}|{refused}"):
        read_device(H100.replace(old, new, 1), where="h100.toml")
