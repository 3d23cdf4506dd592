"""Buffers that live for a while: the largest moment against all moments, and pipelines' laws."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.step.schedules import (
    Durations,
    Pass,
    PipelineSchedule,
    gpipe,
    interleaved,
    one_f_one_b,
    time_schedule,
)
from synth.step.simulation.memory import BufferLifetimes

MOMENTS = st.integers(0, 12)
BUFFERS = st.lists(st.tuples(MOMENTS, MOMENTS, st.integers(0, 9)), max_size=8)


def lives(several: list[tuple[float, float, int]]) -> BufferLifetimes:
    begins, ends, sizes = (np.array([one[at] for one in several]) for at in range(3))
    return BufferLifetimes(begins.astype(float), ends.astype(float), sizes.astype(np.int64))


@given(BUFFERS)
def test_the_largest_moment_of_all(several: list[tuple[int, int, int]]) -> None:
    """Looked at between all moments, when nothing begins or ends."""
    found = lives([(float(b), float(e), size) for b, e, size in several])

    def held(moment: float) -> int:
        return sum(size for b, e, size in several if b <= moment < e)

    at, most = found.largest()
    assert most == max(held(moment) for moment in range(14))
    assert held(at) == most == found.sizes[found.at(at)].sum()


Held = Callable[[int, int, int], int]


@pytest.mark.parametrize(
    ("make", "held"),
    [
        (gpipe, lambda stages, s, m: m),
        (one_f_one_b, lambda stages, s, m: min(stages - s, m)),
        (
            lambda stages, m: interleaved(stages, m, 2),
            lambda stages, s, m: min(2 * (stages - s - 1) + stages + 1, 2 * m),
        ),
    ],
    ids=["gpipe", "1f1b", "interleaved"],
)
@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_activations_of_a_pipeline(
    make: Callable[[int, int], PipelineSchedule], held: Held, stages: int, rounds: int
) -> None:
    """On the clock from the begin of a forward pass until its backward pass has ended."""
    m = stages * rounds
    order = make(stages, m)
    done = time_schedule(order, Durations(1, 2).on(order))
    for rank, spans in enumerate(done.ranks):
        begins = {
            (one.action.stage, one.action.microbatch): one.begin_seconds
            for one in spans
            if one.action.kind is Pass.FORWARD
        }
        buffers = [
            (begins[one.action.stage, one.action.microbatch], one.end_seconds, 1)
            for one in spans
            if one.action.kind is Pass.BACKWARD
        ]
        assert lives(buffers).largest()[1] == held(stages, rank, m)
