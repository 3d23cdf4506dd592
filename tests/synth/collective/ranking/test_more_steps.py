"""A search among more programs: never a dearer best, though splits are not searched exactly."""

from __future__ import annotations

import pytest

from grammar import Goal
from hierarchies import Axis, load
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Request
from synth.collective.semantics.programs import Language

MiB = 2**20


@pytest.mark.parametrize(
    ("machine", "size_bytes", "fewest"),
    [("p2-a100:4", 16 * MiB, 4), ("mi300x:4", 256 * MiB, 3), ("dgx-h100:4", 1024 * MiB, 2)],
)
def test_more_steps_never_give_a_dearer_best(machine: str, size_bytes: int, fewest: int) -> None:
    system = load(machine)
    axes = (Axis("data", system.devices),)

    def best(steps: int) -> int:
        language = Language(steps, goal=Goal.ALL_REDUCE)
        [answer] = answers(
            system, Request(axes, ("data",), size_bytes, 1, language, exact=True)
        ).answers
        return answer.candidate.ticks

    assert best(fewest + 1) <= best(fewest)
