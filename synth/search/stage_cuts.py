"""Layers in a row cut into stages so that the slowest stage is as fast as it can be.

Dynamic programming over where a stage ends: the best cut of the first layers into so many stages
is the best over the last of these. The classic linear partition, with limits: whether a stage can
be depends on which it is, as the first of a pipeline keeps most activations.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from synth.search.space import Infeasible, Optimal, Price

Stage = Callable[[int, int, int], Price]
"""Of the layers from the first up to, not with, the second, as the stage of the third number."""

Cuts = tuple[int, ...]


def cut_stages(layers: int, stages: int, price: Stage) -> Optimal[Cuts] | Infeasible:
    """Where stages end, and the seconds of the slowest: ``(3, 5)`` of 5 layers is 3 and 2.

    Every stage has a layer at least. Infeasible with the least that the worst stage exceeds its
    limit by, over all cuts.
    """
    if stages > layers:
        because = f"{stages} stages of {layers} layers: a stage would be empty"
        return Infeasible(because, stages - layers)
    prices = {
        (begin, end, stage): price(begin, end, stage)
        for stage in range(stages)
        for begin in _begins(layers, stages, stage)
        for end in range(begin + 1, layers - (stages - stage - 1) + 1)
    }
    seconds = {at: inf if isinstance(one, Infeasible) else one for at, one in prices.items()}
    slowest, cuts = _least_of_largest(layers, stages, seconds)
    if slowest < inf:
        return Optimal(cuts, slowest)
    excess = {at: one.excess if isinstance(one, Infeasible) else 0.0 for at, one in prices.items()}
    least, cuts = _least_of_largest(layers, stages, excess)
    begins = (0, *cuts[:-1])
    parts = [
        prices[begin, end, at] for at, (begin, end) in enumerate(zip(begins, cuts, strict=True))
    ]
    worst = max((one for one in parts if isinstance(one, Infeasible)), key=lambda one: one.excess)
    return Infeasible(worst.because, least)


def _least_of_largest(
    layers: int, stages: int, of: dict[tuple[int, int, int], float]
) -> tuple[float, Cuts]:
    """From the last stage backwards: for each layer that a stage may begin with, the best rest."""
    best: dict[int, tuple[float, Cuts]] = {layers: (-inf, ())}
    for stage in reversed(range(stages)):
        best = {
            begin: min(
                (max(of[begin, end, stage], best[end][0]), (end, *best[end][1]))
                for end in range(begin + 1, layers - (stages - stage - 1) + 1)
                if end in best
            )
            for begin in _begins(layers, stages, stage)
        }
    return best[0]


def _begins(layers: int, stages: int, stage: int) -> range:
    """The first layers that a stage may have, such that none before or after it is empty."""
    return range(stage, layers - (stages - stage) + 1) if stage else range(1)
