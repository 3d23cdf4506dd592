"""Layer, model, pipeline, replicas: each timed once, against every task of every rank."""

from __future__ import annotations

from itertools import product

import pytest

from each import each
from synth.events.blocks import Block, composed, expanded
from synth.train.orders import SCHEDULES, Pass, Protocol, Scheduled, scheduled

COMPUTE, COMMUNICATION = 0, 1
SECONDS = {Pass.FORWARD: 1.0, Pass.BACKWARD: 2.0}
SENT = Block((0,), ((),), (0.5,))
NAMES = ("gpipe", "1f1b", "interleaved-1f1b")
PROTOCOLS = (Protocol.EAGER, Protocol.RENDEZVOUS)
Case = tuple[str, int, int, int, float, Protocol]
CASES = list(product(NAMES, (1, 2, 4), (1, 2), (1, 3), (0.25, 2.5), PROTOCOLS))


def layers(deep: int, seconds: float, collective: float, held: bool = False) -> Block:
    """Layers of a product, a collective that the next waits for, and one that nobody waits for.

    ``held``: nobody but the next layer.
    """
    streams: list[int] = []
    before: list[tuple[int, ...]] = []
    takes: list[float] = []
    for first in range(0, 3 * deep, 3):
        streams += [COMPUTE, COMMUNICATION, COMMUNICATION]
        earlier = (first - 2, first - 1) if held else (first - 2,)
        before += [earlier if first else (), (first,), (first,)]
        takes += [seconds, collective, collective / 2]
    return Block(tuple(streams), tuple(before), tuple(takes), (len(streams) - 2,))


def pipeline(case: Case) -> tuple[Scheduled, list[Block]]:
    name, ranks, rounds, deep, collective, protocol = case
    graph = scheduled(SCHEDULES[name](ranks, ranks * rounds, 2), protocol)
    kinds = {kind: layers(deep, seconds, collective) for kind, seconds in SECONDS.items()}
    return graph, [
        *(kinds[one.kind] for one in graph.order.actions),
        *[SENT] * len(graph.transfers),
    ]


@each("case", CASES)
def test_a_pipeline_of_passes(case: Case) -> None:
    """144 cases: equal to the last bit where they hold their stage, an upper bound if not."""
    graph, blocks = pipeline(case)
    whole = max(composed(graph.before, graph.queues, blocks)[1])
    assert expanded(graph.before, graph.queues, blocks, holds=True).seconds == whole
    assert expanded(graph.before, graph.queues, blocks, holds=False).seconds <= whole


def test_what_may_start_before_the_last_collective_has_ended_gains() -> None:
    graph, blocks = pipeline(("1f1b", 2, 2, 3, 2.5, Protocol.EAGER))
    whole = max(composed(graph.before, graph.queues, blocks)[1])
    assert expanded(graph.before, graph.queues, blocks, holds=False).seconds < whole


@pytest.mark.parametrize("deep", [1, 2, 5])
@pytest.mark.parametrize("collective", [0.25, 2.5])
def test_a_pass_of_layers(deep: int, collective: float) -> None:
    once = layers(1, 1.0, collective).alone
    assert layers(deep, 1.0, collective, held=True).alone == deep * once
    assert layers(deep, 1.0, collective).alone <= deep * once


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_replicas_that_meet_at_the_end(replicas: int) -> None:
    """One stands for all: gradients are summed when every rank of every replica has ended."""
    graph, blocks = pipeline(("1f1b", 2, 2, 3, 2.5, Protocol.EAGER))
    once = max(composed(graph.before, graph.queues, blocks)[1]) + SENT.alone
    size, everywhere = len(blocks), range(replicas)
    before = [[r * size + one for one in some] for r in everywhere for some in graph.before]
    queues = [[r * size + one for one in queue] for r in everywhere for queue in graph.queues]
    last = [*range(replicas * size)]
    flat = expanded([*before, last], queues, [*blocks * replicas, SENT], holds=True)
    assert flat.seconds == once
