"""Seconds of local work: laws for all sizes, and measured products of matrices."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammar.tensors.parser import parse_step
from hierarchies import InputError
from hierarchies.devices import Device, device_named, devices
from results.steps.attention import Attention, attention_estimate
from synth.compute import (
    MatrixProduct,
    bytes_estimate,
    estimate_operation,
    flops_of,
    product_estimate,
    product_of,
)

H100 = device_named("H100 SXM5 80 GB")
DEVICES = st.sampled_from(list(devices().values()))
SIZES = st.integers(1, 20_000)
SIDES = st.sampled_from(("rows", "columns", "depth", "batch"))
PRODUCTS = st.builds(
    MatrixProduct,
    rows=SIZES,
    columns=SIZES,
    depth=SIZES,
    batch=st.integers(1, 40),
    dtype=st.just("f16"),
)


def dtype_of(device: Device) -> str:
    return "f16" if "f16" in device.matrix_flops_per_second else "bf16"


@given(PRODUCTS, DEVICES)
def test_no_product_is_faster_than_the_peak_or_the_memory(
    product: MatrixProduct, device: Device
) -> None:
    product = replace(product, dtype=dtype_of(device))
    found = product_estimate(product, device)
    assert found.low >= product.flops / device.peak(product.dtype) * (1 - 1e-12)
    assert found.low >= product.bytes / device.memory_bytes_per_second * (1 - 1e-12)
    assert found.low <= found.seconds <= found.high
    assert found.how == "roofline"


@given(
    PRODUCTS, DEVICES, st.sampled_from(("rows", "columns", "depth", "batch")), st.integers(1, 999)
)
def test_a_larger_product_never_takes_less(
    product: MatrixProduct, device: Device, size: str, more: int
) -> None:
    product = replace(product, dtype=dtype_of(device))
    larger = replace(product, **{size: getattr(product, size) + more})
    less, most = product_estimate(product, device), product_estimate(larger, device)
    assert less.seconds <= most.seconds * (1 + 1e-12)
    assert less.low <= most.low * (1 + 1e-12)
    assert less.high <= most.high * (1 + 1e-12)


@given(st.integers(0, 10**12), st.integers(0, 10**9), DEVICES)
def test_bytes_take_as_long_as_the_memory_needs_and_more_take_more(
    size: int, more: int, device: Device
) -> None:
    found = bytes_estimate(size, device)
    assert found.low >= size / device.memory_bytes_per_second * (1 - 1e-12)
    assert found.seconds >= device.launch_seconds
    assert found.seconds <= bytes_estimate(size + more, device).seconds


@given(
    st.builds(
        Attention,
        heads=st.integers(1, 500),
        queries=SIZES,
        keys=SIZES,
        width=st.sampled_from((32, 64, 128)),
        causal=st.booleans(),
        backward=st.booleans(),
    ),
    DEVICES.filter(lambda device: "bf16" in device.matrix_flops_per_second),
)
def test_attention_keeps_the_same_laws(one: Attention, device: Device) -> None:
    found = attention_estimate(one, device)
    assert found.low >= one.flops / device.peak("bf16") * (1 - 1e-12)
    assert found.low >= one.bytes / device.memory_bytes_per_second * (1 - 1e-12)
    assert found.low <= found.seconds <= found.high
    longer = attention_estimate(replace(one, keys=one.keys + 1), device)
    assert found.seconds <= longer.seconds
    whole = attention_estimate(replace(one, causal=False), device)
    assert found.seconds <= whole.seconds


def test_attention_is_as_fast_as_it_was_measured_else_a_share_of_products() -> None:
    one = Attention(heads=64, queries=8192, keys=8192, width=128, causal=True)
    back = replace(one, backward=True)
    for each, rate in ((one, 310e12), (back, 290e12)):
        assert each.flops / attention_estimate(each, H100).seconds == pytest.approx(rate, rel=0.01)
    assert back.flops == 2.5 * one.flops
    bare = replace(H100, attention_flops_per_second=None)
    found = one.flops / attention_estimate(one, bare).seconds
    assert found == pytest.approx(0.6 * 794.5e12, rel=0.01)


def test_a_product_of_one_round_more_takes_that_round() -> None:
    """12 x 27 tiles of 128 are three rounds of 108 processors, 12 x 28 are four."""
    a100 = device_named("A100 SXM4 80 GB")
    three, four = (
        product_estimate(MatrixProduct(128 * rows, 12 * 128, 4096), a100).seconds
        - a100.launch_seconds
        for rows in (27, 28)
    )
    assert four / three == pytest.approx(4 / 3)


def rows(device: str, *models: str, least: int = 1) -> list[tuple[MatrixProduct, float]]:
    """Measured products with their seconds."""
    path = Path(__file__).with_name("matmuls.csv")
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    return [
        (
            MatrixProduct(int(row["rows"]), int(row["columns"]), int(row["depth"]), dtype="f16"),
            float(row["milliseconds"]) * 1e-3,
        )
        for row in csv.DictReader(lines)
        if row["device"] == device and row["model"] in models and int(row["rows"]) >= least
    ]


def errors(samples: Sequence[tuple[MatrixProduct, float]], device: Device) -> list[float]:
    return sorted(abs(product_estimate(one, device).seconds / taken - 1) for one, taken in samples)


def test_measured_products_are_within_a_tenth_and_held_by_the_interval() -> None:
    """70b and eight parts of 7b are rows that the share was not chosen by."""
    a100 = device_named("A100 SXM4 80 GB")
    for device, model in ((H100, "70b/1"), (a100, "7b/8")):
        found = errors(rows(device.name, model), device)
        assert median(found) <= 0.15
        assert found[int(0.9 * len(found))] <= 0.25
    whole = [(H100, *row) for row in rows(H100.name, "7b/1", "70b/1")]
    whole += [(a100, *row) for row in rows(a100.name, "7b/1", "7b/8")]
    held = [
        found.low <= taken <= found.high
        for device, one, taken in whole
        for found in [product_estimate(one, device)]
    ]
    assert len(held) == 72
    assert sum(held) >= 0.9 * len(held)


MOVED = {
    "A100 SXM4 80 GB": ((3 * 4096, 55.0), (2 * 4096, 102.2), (33024, 261.6)),
    "H100 SXM5 80 GB": ((3 * 4096, 31.2), (2 * 4096, 66.45), (33024, 138.55)),
}
"""Halves moved for each of 4,096 tokens and microseconds: an addition, a normalisation and a gated
activation of the 7b; from the tables of ``matmuls.csv``."""


@pytest.mark.parametrize("name", MOVED)
def test_measured_kernels_that_only_move_are_held_by_the_interval(name: str) -> None:
    device = device_named(name)
    for halves, microseconds in MOVED[name]:
        found = bytes_estimate(2 * 4096 * halves, device)
        assert found.low <= microseconds * 1e-6 <= found.high


TEXT = """
step some
in x: bf16[8,64,128] batch
in w: bf16[128,256] parameter
in k: bf16[8,128,64] batch
v0: bf16[8,64,256] = dot_general(x, w) dimension_numbers=(((2),(0)),((),()))
v1: bf16[8,64,64] = dot_general(x, k) dimension_numbers=(((2),(1)),((0),(0)))
v2: bf16[512,256] = reshape(v0) dimensions=none new_sizes=(512,256)
v3: bf16[512,256] = add(v2, v2)
out v3
"""


def test_operations_are_priced_on_the_part_that_a_device_holds() -> None:
    plain, batched, view, add = parse_step(TEXT).graph.operations
    assert product_of(plain) == MatrixProduct(rows=512, columns=256, depth=128)
    assert product_of(batched) == MatrixProduct(rows=64, columns=64, depth=128, batch=8)
    for operation in (plain, batched):
        assert product_of(operation).flops == flops_of(operation)
        assert estimate_operation(operation, H100) == product_estimate(product_of(operation), H100)
    assert estimate_operation(view, H100).seconds == 0
    assert estimate_operation(add, H100) == bytes_estimate(3 * 512 * 256 * 2, H100)


CONVOLUTION = """
step some
in x: f16[4,32,32,16] batch
in w: f16[3,3,16,64] parameter
v0: f16[4,32,32,64] = conv_general_dilated(x, w) batch_group_count=1 dimension_numbers={DIMS} \
feature_group_count=1 lhs_dilation=(1,1) padding=((1,1),(1,1)) precision=none \
preferred_element_type=none rhs_dilation=(1,1) window_strides=(1,1)
out v0
"""


def test_a_convolution_is_a_product_of_its_windows() -> None:
    dims = "{lhs_spec=(0,3,1,2),rhs_spec=(3,2,0,1),out_spec=(0,3,1,2)}"
    [operation] = parse_step(CONVOLUTION.replace("{DIMS}", dims)).graph.operations
    found = product_of(operation)
    assert (found.rows, found.columns, found.batch) == (4 * 32 * 32, 64, 1)
    assert found.depth <= 3 * 3 * 16
    assert found.flops == pytest.approx(flops_of(operation), rel=0.01)


def test_what_cannot_be_priced_is_refused() -> None:
    with pytest.raises(InputError, match="a product of no size"):
        MatrixProduct(0, 1, 1)
    with pytest.raises(InputError, match="an attention of no size"):
        Attention(1, 0, 1, 1)
    with pytest.raises(InputError, match="no matrix rate of f32 is known of TPU v4"):
        product_estimate(MatrixProduct(1, 1, 1, dtype="f32"), device_named("TPU v4"))
    assert product_estimate(MatrixProduct(1, 1, 1), H100).how == "roofline"
