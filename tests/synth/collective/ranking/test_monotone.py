"""A slower link, or more bytes, and the answer asked anew: splits are searched, not solved.

So the answer may come out a little faster all the same. ``cost``, which knows both machines, tries
the healthy one's answer too, and is never faster on what is left of it (degraded/test_comparison).
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import exhaustive
from grammar import Goal
from hierarchies import Axis, System, load
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Request
from synth.collective.semantics.programs import Language

MISSED = 0.05
"""Of 758 such pairs 39 came out faster: by 0.6 % in the median, by 4.4 % at most."""
MACHINES = (
    *("dgx-h100:2", "dgx-a100:2", "p2-a100:2", "mi300x:2", "l40s-pcie:2", "tpu-v5e-slice:4x4"),
    *("dgx1-v100:2", "aws-p4d:4", "aws-trn2:1", "gb200-nvl72:2x8"),
)
CASES = [
    (name, goal, size, level, share)
    for name in MACHINES
    for goal in Goal
    for size in (10**5, 10**7, 10**9)
    for level in range(len(load(name).links))
    for share in (0.9, 0.5)
]
random.Random(7).shuffle(CASES)


def seconds(system: System, goal: Goal, size: int) -> float:
    axes = (Axis("d", system.devices),)
    found = answers(system, Request(axes, ("d",), size, 1, Language(3, goal=goal)))
    return min(answer.candidate.seconds for answer in found.answers)


@pytest.mark.slow
@exhaustive.sampled(40, seed=8)
def test_a_slower_link_and_more_bytes_gain_no_more_than_a_search_may_miss(
    sample: exhaustive.Sample,
) -> None:
    for name, goal, size, level, share in sample(CASES):
        system = load(name)
        links = list(system.links)
        slower = links[level].bandwidth_bytes_per_second * share
        links[level] = replace(links[level], bandwidth_bytes_per_second=slower)
        least = seconds(system, goal, size) * (1 - MISSED)
        assert seconds(replace(system, links=tuple(links)), goal, size) >= least
        assert seconds(system, goal, size * 11 // 10) >= least


@pytest.mark.parametrize("size", [10**7, 10**9])
def test_a_cut_that_costs_more_at_first_is_followed(size: int) -> None:
    """Three stripes reduce on a square of TPUs in less than two; found only with a slower axis, the
    answer there was faster, by 5.06 %."""
    system = load("tpu-v5e-slice:4x4")
    for level, link in enumerate(system.links):
        links = list(system.links)
        links[level] = replace(
            link, bandwidth_bytes_per_second=0.9 * link.bandwidth_bytes_per_second
        )
        slower = seconds(replace(system, links=tuple(links)), Goal.REDUCE, size)
        assert slower >= seconds(system, Goal.REDUCE, size) * (1 - MISSED)
