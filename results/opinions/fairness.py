"""Random flows that come and go: when they end by ``synth.events.max_min``, and by SimGrid.

A flow crosses some links at one rate and starts when all of some earlier flows have ended. Ours are
followed event by event with the shares that ``Sharing`` keeps up to date as flows come and go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from results.opinions.application import Problem
from results.opinions.asking import verdicts
from synth.events.max_min import Sharing, scarce_uses

SETS = 200
MOST_LINKS, MOST_FLOWS = 12, 60


@dataclass(frozen=True)
class Flow:
    """Bytes over links, after the flows of these numbers; never faster than ``most``."""

    size_bytes: int
    links: tuple[int, ...]
    after: tuple[int, ...]
    most_bytes_per_second: float


@dataclass(frozen=True)
class Flows:
    """Flows on links of so many bytes per second."""

    bytes_per_second: tuple[float, ...]
    flows: tuple[Flow, ...]


def drawn(seed: int) -> Flows:
    """Links of different speeds, some flows with a ceiling of their own, a few waits."""
    random = np.random.default_rng(seed)
    links = int(random.integers(2, MOST_LINKS + 1))
    rates = random.uniform(1e9, 1e11, links)
    flows = []
    for number in range(int(random.integers(2, MOST_FLOWS + 1))):
        used = random.choice(links, int(random.integers(1, min(links, 5) + 1)), replace=False)
        least = float(rates[used].min())
        capped = random.random() < 0.2
        waits = int(random.integers(0, 3)) if number else 0
        after = random.choice(number, min(waits, number), replace=False) if waits else ()
        flows.append(
            Flow(
                int(random.integers(10**6, 10**9)),
                tuple(int(link) for link in used),
                tuple(sorted(int(one) for one in after)),
                least * float(random.uniform(0.05, 0.5)) if capped else least,
            )
        )
    return Flows(tuple(rates.tolist()), tuple(flows))


def asked(told: Flows) -> Problem:
    """The same as a problem for the judge; every flow has ends and a link of its own."""
    shared = len(told.bytes_per_second)
    own = [flow.most_bytes_per_second for flow in told.flows]
    return {
        "links": [*told.bytes_per_second, *own],
        "routes": [
            [2 * n, 2 * n + 1, [*flow.links, shared + n]] for n, flow in enumerate(told.flows)
        ],
        "messages": [
            [n, flow.size_bytes, 0.0, list(flow.after), -1, n] for n, flow in enumerate(told.flows)
        ],
        "arrivals": True,
    }


def ends(told: Flows) -> list[float]:
    """When each flow ends by our shares, in seconds."""
    sharing, whole = _shared(told)
    left = {n: float(flow.size_bytes) for n, flow in enumerate(told.flows)}
    ended: dict[int, float] = {}
    moving: set[int] = set()
    now, leaving = 0.0, list[int]()
    while left:
        ready = [n for n in left if n not in moving and {*told.flows[n].after} <= {*ended}]
        sharing.change(leaving, ready)
        moving |= {*ready}
        rates = {n: sharing.levels[n] * whole for n in moving}
        step = min(left[n] / rates[n] for n in moving)
        now += step
        leaving = [n for n in moving if left[n] <= rates[n] * step * (1 + 1e-12)]
        for n in moving:
            left[n] -= rates[n] * step
        for n in leaving:
            moving.discard(n)
            del left[n]
            ended[n] = now
    return [ended[n] for n in range(len(told.flows))]


def _shared(told: Flows) -> tuple[Sharing, float]:
    """Levels in units of the fastest link, of which a rate is the same part for everyone."""
    whole = max(told.bytes_per_second)
    entries = [(n, link) for n, flow in enumerate(told.flows) for link in flow.links]
    flow, link = (np.array(column, dtype=np.int64) for column in zip(*entries, strict=True))
    ceilings = np.array([one.most_bytes_per_second for one in told.flows]) / whole
    uses = scarce_uses(flow, link, whole / np.array(told.bytes_per_second)[link], ceilings)
    return Sharing(uses, ceilings.tolist()), whole


def worst_difference(told: Flows, verdict: dict[str, Any]) -> float:
    """The largest difference of two ends, as a share of the whole time."""
    judged: list[float] = verdict["arrivals"]
    apart = (abs(one - other) for one, other in zip(ends(told), judged, strict=True))
    return max(apart) / max(judged)


def fairness(sets: int = SETS) -> dict[str, Any]:
    """How far the two are apart on so many sets of random flows."""
    found = [drawn(seed) for seed in range(sets)]
    problems: Iterator[Problem] = (asked(told) for told in found)
    worst = [
        worst_difference(told, verdict)
        for told, verdict in zip(found, verdicts(problems), strict=True)
    ]
    return {
        "sets": sets,
        "flows": sum(len(told.flows) for told in found),
        "worst": float(f"{max(worst):.2g}"),
    }
