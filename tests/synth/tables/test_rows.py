"""Rows of rankings in words: the figures that no other room knows, and what is left unsaid."""

from __future__ import annotations

import pytest

from synth.tables.rows import bus_bandwidth, in_lines, stripe


def test_bus_bandwidth_is_as_nccl_tests_count_it() -> None:
    assert bus_bandwidth("all-reduce", 1e9, 1e-2, 8) == "175 GB/s"
    assert bus_bandwidth("all-gather", 1e9, 1e-2, 8) == "87.5 GB/s"
    assert bus_bandwidth("broadcast", 1e9, 1e-2, 8) == "100 GB/s"
    assert bus_bandwidth("reduce", 1e9, 0.0, 8) == "-"


@pytest.mark.parametrize(
    ("program", "segments", "share", "lines"),
    [
        ("", [1], "", "(nothing to do)"),
        ("one; two", [1, 1], "", "one;\ntwo"),
        ("one", [4], "", "one\nin 4 segments"),
        ("one", [1, 4], "30%", "30% by\none\nin 1 to 4 segments"),
        ("one", [4, 1], "", "one\nin 1 to 4 segments"),
    ],
)
def test_of_a_program_only_what_there_is_is_said(
    program: str, segments: list[int], share: str, lines: str
) -> None:
    assert in_lines([stripe(program, segments, share)]) == lines
