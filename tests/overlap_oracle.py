"""The least that overlapped segments can take, worked out apart."""

from __future__ import annotations

from hypothesis import strategies as st

from synth.events.overlap import (
    PhaseWork,
)

RESOURCES = ("node", "gpu", "memory")


SECONDS = st.integers(0, 20).map(lambda n: n / 8)


@st.composite
def works(draw: st.DrawFn) -> PhaseWork:
    busy = draw(st.dictionaries(st.sampled_from(RESOURCES), SECONDS, max_size=3))
    return PhaseWork(draw(SECONDS), {name: seconds for name, seconds in busy.items() if seconds})


def least_seconds(phases: list[PhaseWork], segments: int) -> float:
    """What ``makespan_seconds`` cannot be below, from a formula.

    The longest phase follows itself in every segment; and a resource is busy for the sum of what
    all segments ask, not before the first phase that uses it has begun to, nor in the last
    segment's phases after the last that does.
    """
    alone = [phase.alone_seconds for phase in phases]
    least = sum(alone) + (segments - 1) * max(alone, default=0.0)
    for resource in {name for phase in phases for name in phase.busy}:
        users = [i for i, phase in enumerate(phases) if phase.busy.get(resource)]
        if users:
            work = segments * sum(phases[i].busy[resource] for i in users)
            head = sum(alone[: users[0]]) + phases[users[0]].latency_seconds
            least = max(least, head + work + sum(alone[users[-1] + 1 :]))
    return least
