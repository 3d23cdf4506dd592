"""Dumps of jax.devices(): boxes of chips, slices, cores, and processes without coordinates."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import InputError, read
from hierarchies.importers import Draft, draft_to_toml, import_texts
from hierarchies.importers.networks.jax_dump import SNIPPET
from manual import DOCS
from network_texts import counts, rows


def of(found: object) -> Draft:
    return import_texts("jax", {"devices.json": json.dumps(found)})


@given(st.tuples(*[st.integers(1, 4)] * 3), st.integers(1, 2), st.integers(1, 3))
def test_a_box_becomes_its_dimensions(box: tuple[int, int, int], cores: int, slices: int) -> None:
    draft = of(rows(box, cores=cores, slices=slices))
    expected = {"slice": slices, "z": box[2], "y": box[1], "x": box[0], "core": cores}
    assert counts(draft) == ({k: v for k, v in expected.items() if v > 1} or {"x": 1})
    assert not any("different order" in note for note in draft.notes)
    assert draft.counted["chips"] == box[0] * box[1] * box[2] * slices


def test_known_values_of_a_chip_are_suggested_with_their_source() -> None:
    draft = of(rows((4, 4, 4)))
    blanks = {(where, key): blank for where, key, blank in draft.blanks()}
    assert blanks["x", "bandwidth_GB_per_s"].suggestion == 45e9
    assert "tpu-v4-pod-slice" in blanks["x", "bandwidth_GB_per_s"].source
    system = read(draft_to_toml(draft.suggested()))
    assert system.hierarchy.cardinalities == (4, 4, 4)
    assert [link.ports for link in system.links] == [16, 4, 1]
    with pytest.raises(InputError):
        read(draft_to_toml(of(rows((2, 2, 1), kind="TPU v99"))))


def test_ids_in_another_order_are_reported() -> None:
    found = rows((2, 2, 1))
    found[1][0], found[2][0] = 2, 1
    assert any("different order" in note for note in of(found).notes)


def test_processes_of_devices_without_coordinates() -> None:
    found = [[i, i // 8, "NVIDIA H100 80GB HBM3", None, None, 0] for i in range(32)]
    draft = of(found)
    assert counts(draft) == {"node": 4, "device": 8}
    named = [
        dict(zip(("id", "process_index", "device_kind"), row[:3], strict=True)) for row in found
    ]
    assert of(named) == draft


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ({}, "not a list of devices"),
        ([], "not a list of devices"),
        ([[0, 0, "TPU v4"]], "not 6 values"),
        ([[0, 0, "TPU v4", [0, 0, "x"], 0, 0]], "'x' is not a number"),
        ([[0, 0, "TPU v4", [0] * 9, 0, 0]], "1 to 3 numbers"),
        ([[True, 0, "k", None, None, None]], "not a number"),
        ([[-1, 0, "k", None, None, None]], "not a number"),
        ([[0, 0, None, None, None, None]], "not a string"),
        (rows((2, 2, 2))[:-1], "7 devices in a box of 2 x 2 x 2"),
        ([*rows((2, 1, 1)), *rows((2, 1, 1))], "more than once"),
        ([*rows((2, 1, 1)), [9, 0, "TPU v4", [0, 0, 0], 0, 0]], "at one place"),
        ([*rows((2, 1, 1)), [9, 0, "TPU v5", [0, 1, 0], 0, 0]], "several kinds"),
        ([*rows((2, 1, 1)), [9, 0, "TPU v4", [0, 0, 0], 0, 1]], "several shapes"),
        (
            [[0, 0, "a", None, None, 0], [1, 1, "a", None, None, 0], [2, 1, "a", None, None, 0]],
            "different numbers",
        ),
    ],
)
def test_invalid_input_is_refused_with_a_reason(found: object, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        of(found)


def test_the_snippet_is_python_that_asks_for_what_is_read() -> None:
    compile(SNIPPET, "snippet", "exec")
    assert SNIPPET in (DOCS / "import.md").read_text(encoding="utf-8")
    for field in ("id", "process_index", "device_kind", "coords", "core_on_chip", "slice_index"):
        assert field in SNIPPET
