"""A machine's links with small random errors, which keep a simulation from finding equal times."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hierarchies.links import Network


def perturb(network: Network, seed: int, share: float = 0.1) -> Network:
    """Scale every bandwidth by a factor drawn uniformly from [1 - share, 1 + share)."""
    drawn = np.random.default_rng(seed).uniform(1 - share, 1 + share, len(network.bandwidths))
    return replace(network, bandwidths=network.bandwidths * drawn)
