"""Rows whose blocks NCCL copies by single elements: which they are, and that no fit sees them."""

from __future__ import annotations

import pytest

from grammar import Goal
from hierarchies import InputError, load
from shared import shared
from synth.measure.calibration.measurements import SEND_RECEIVE, Measurement, Sample
from synth.measure.logs.matching import MatchedLog, match_log
from synth.measure.logs.reading import parse_logs
from synth.measure.logs.text import read_log_text

FIVE = 5 * 16 * 1024


def of_five(collective: str, *sizes: int) -> Measurement:
    return Measurement(collective, (1, 5), (1, 5), tuple(Sample(size, 1e-3) for size in sizes))


@pytest.mark.parametrize("goal", [goal for goal in Goal if goal.in_pieces or goal.apart])
def test_blocks_between_multiples_of_sixteen_bytes_are_misaligned(goal: Goal) -> None:
    sizes = [FIVE, FIVE + 5 * 4, FIVE + 5 * 8, FIVE + 5 * 16]
    table = of_five(goal.value, *sizes)
    assert [sample.size_bytes for sample in table.misaligned] == sizes[1:3]
    assert [sample.size_bytes for sample in table.aligned.samples] == [sizes[0], sizes[3]]


def test_short_blocks_count_as_aligned() -> None:
    """Waits for messages hide what copying them takes."""
    assert not of_five("all-to-all", 5 * 4, 5 * 1000).misaligned
    assert of_five("all-to-all", 5 * 1028).misaligned


@pytest.mark.parametrize("collective", ["all-reduce", "broadcast", "reduce", SEND_RECEIVE])
def test_whole_buffers_are_aligned(collective: str) -> None:
    assert not of_five(collective, FIVE + 4).misaligned


def a_published_log(ranks: int) -> MatchedLog:
    path = shared("nccl-tests-logs", f"hgx-a100-80g-1x{ranks}-alltoall-1.txt")
    [log] = parse_logs(read_log_text(path), path.name)
    return match_log(load("dgx-a100:1"), log)


def test_a_log_says_which_rows_are_left_out() -> None:
    """Between rows of 9 GB/s on five GPUs stand aligned ones of 187 and 271."""
    found = a_published_log(5)
    kept = {s.size_bytes: s.seconds for s in found.measurement.samples if not s.in_place}
    rates = [size / seconds / 1e9 for size, seconds in kept.items() if size > 64 << 20]
    assert rates == pytest.approx([187, 271], rel=0.01)
    [warning] = [each for each in found.log.warnings if "left out" in each]
    assert warning.startswith("15 sizes are left out, from 6140 bytes on: ")
    assert "multiples of 80 bytes" in warning
    assert not any("single elements" in each for each in a_published_log(8).log.warnings)


def test_a_log_of_misaligned_rows_alone_is_refused() -> None:
    log = a_published_log(7).log
    rows = tuple(row for row in log.rows if row.size_bytes > 1 << 16)
    with pytest.raises(InputError) as raised:
        match_log(load("dgx-a100:1"), type(log)(**{**vars(log), "rows": rows}))
    assert "no block of the 7 ranks is a multiple of 16 bytes" in str(raised.value)
    assert "multiples of 112 bytes" in str(raised.value)
