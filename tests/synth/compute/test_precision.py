"""Products in eight bits: which ones, what they cost, and against NVIDIA's measured tables."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammar.tensors.operations import Operation, Value
from grammar.tensors.sharding import Type
from hierarchies import InputError
from hierarchies.devices import device_named
from synth.compute import MatrixProduct, Section, bytes_estimate, product_estimate, section_estimate
from synth.compute.precision import (
    PRECISIONS,
    estimate_quantized,
    is_quantized,
    product_peak,
    set_precision,
)

H100 = device_named("H100 SXM5 80 GB")
B200 = device_named("B200 SXM 180 GB")
KERNELS = Path(__file__).resolve().parents[4] / "shared" / "data" / "kernels"
TABLES = {
    "gemm_h100-sxm.csv": ("H100 SXM5 80 GB", 0.15),
    "gemm_h200-sxm.csv": ("H200 SXM5 141 GB", 0.15),
    "gemm_b200-sxm.csv": ("B200 SXM 180 GB", 0.2),
    "gemm_gb200.csv": ("Blackwell B200 (GB200)", 0.2),
}
"""Tables of serving kernels, each with its device and the median error that is expected."""


def quantized_seconds(product: MatrixProduct, name: str = "fp8") -> float:
    return sum(part.seconds for part in estimate_quantized(product, set_precision(H100, name)))


def test_large_products_gain_by_less_than_their_peak() -> None:
    large = MatrixProduct(8192, 28672, 8192)
    gain = product_estimate(large, H100).seconds / quantized_seconds(large)
    assert 1.3 < gain < product_peak(set_precision(H100, "fp8"), "bf16") / H100.peak("bf16")


def test_thin_products_lose_what_quantizing_takes() -> None:
    thin = MatrixProduct(8192, 128, 8192)
    assert quantized_seconds(thin) > product_estimate(thin, H100).seconds


@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 400))
def test_only_whole_products_of_weights_are_quantized(rows: int, columns: int, depth: int) -> None:
    device = set_precision(H100, "fp8")
    product = MatrixProduct(16 * rows, 16 * columns, 16 * depth)
    assert is_quantized(product, device, ())
    assert not is_quantized(product, H100, ())
    assert not is_quantized(replace(product, dtype="f32"), device, ())
    assert not is_quantized(replace(product, rows=product.rows + 1), device, ())
    assert not is_quantized(product, device, {product.columns})


def test_a_section_quantizes_its_products_but_not_those_of_the_vocabulary() -> None:
    x, w, y = (
        Value(name, Type("bf16", shape))
        for name, shape in (("x", (8192, 4096)), ("w", (4096, 16384)), ("y", (8192, 16384)))
    )
    numbers = (("dimension_numbers", (((1,), (0,)), ((), ()))),)
    section = Section((Operation("dot_general", (x, w), (y,), numbers),), frozenset("y"))
    device = set_precision(H100, "fp8")
    kept, quantized = section_estimate(section, H100), section_estimate(section, device)
    assert quantized.seconds < kept.seconds
    assert section_estimate(section, device, (), {16384}) == kept


def test_a_precision_that_a_device_lacks_is_refused() -> None:
    with pytest.raises(InputError, match="does not multiply in mxfp8"):
        set_precision(H100, "mxfp8")
    with pytest.raises(InputError, match="A100 SXM4 80 GB does not multiply in fp8"):
        set_precision(device_named("A100 SXM4 80 GB"), "fp8")
    with pytest.raises(InputError, match="products in fp8 of values in f32"):
        set_precision(H100, "fp8", "f32")
    assert set_precision(B200, "mxfp8").precision == "mxfp8"
    assert set_precision(H100, None) == H100


@pytest.mark.skipif(
    not KERNELS.is_dir(), reason="measured kernels are in ../shared, which is absent"
)
@pytest.mark.parametrize("table", TABLES)
def test_seconds_are_near_measured_kernels(table: str) -> None:
    """A serving kernel quantizes its activations alone, once, with a scale a row."""
    name, error = TABLES[table]
    device, errors = device_named(name), []
    with (KERNELS / table).open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["dtype"] == "fp8"]
    for row in rows:
        m, n, k = (int(row[size]) for size in "mnk")
        if min(m, n, k) < 2048:
            continue
        stored = m * k + k * n + 2 * m * n
        product = MatrixProduct(m, n, k, dtype=PRECISIONS["fp8"].rate, stored_bytes=stored)
        seconds = product_estimate(product, device).seconds
        seconds += bytes_estimate(round(5 * m * k), device).seconds
        errors.append(abs(seconds / float(row["seconds"]) - 1))
    assert len(errors) > 500
    assert median(errors) < error
