"""The ladder: what says the seconds of a kernel, from the simplest up, as plain numbers.

Nothing here needs an extra but the network, which is asked by PyTorch; ``forest`` and ``network``
fit what stands on the upper rungs.

* ``parts``: each operation alone, by the best rates that any sample reached (a roofline).
* ``rates``: the whole kernel once: nonnegative seconds a byte, a flop of each kind, an operation.
* ``trees``: the mean of decision trees of how far ``rates`` is off.
* ``network``: the same by attention over the graph (DisCo, arXiv 2209.12769).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import Annotated, Literal

import numpy as np
import scipy
from pydantic import ConfigDict, Field

from synth.train.learned.kernels import FEATURES, NOT_ADDED, WHOLE, Kernel, counts, features
from synth.train.learned.samples import Sample

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
ADDED = tuple(at for at, name in enumerate(FEATURES) if name not in NOT_ADDED)
"""Of the counts those that add up over what is done one after the other."""

MOST_RATIO = 8.0
"""Logarithm of how far a correction may go: what was fitted must not say 0 or infinity."""


@dataclass(frozen=True)
class Parts:
    """The sum over operations, each the longer of its flops and its bytes, and one launch."""

    __pydantic_config__ = _STRICT
    flops_per_second: Annotated[float, Field(gt=0)]
    bytes_per_second: Annotated[float, Field(gt=0)]
    launch_seconds: Annotated[float, Field(ge=0)]
    rung: Literal["parts"] = "parts"

    def seconds(self, kernels: Sequence[Kernel]) -> np.ndarray:
        """Of each kernel."""
        return np.array([self.launch_seconds + self._sum(one) for one in kernels])

    def _sum(self, kernel: Kernel) -> float:
        return sum(
            max(
                one.flops / self.flops_per_second,
                (one.read_bytes + one.made_bytes) / self.bytes_per_second,
            )
            for one in kernel.parts
            if one.kind != "view"
        )


@dataclass(frozen=True)
class Rates:
    """Seconds of each of the counts of a kernel, added up."""

    __pydantic_config__ = _STRICT
    seconds_each: tuple[Annotated[float, Field(ge=0)], ...]
    least_seconds: Annotated[float, Field(gt=0)]
    rung: Literal["rates"] = "rates"

    def __post_init__(self) -> None:
        if len(self.seconds_each) != len(ADDED):
            raise ValueError(f"{len(self.seconds_each)} rates, and there are {len(ADDED)}")

    def seconds(self, kernels: Sequence[Kernel]) -> np.ndarray:
        """Of each kernel."""
        added = _added(kernels) @ np.array(self.seconds_each)
        found: np.ndarray = np.maximum(added, self.least_seconds)
        return found


@dataclass(frozen=True)
class Tree:
    """Nodes in an order in which children follow; a leaf is its own child. See ``tree_rows``."""

    __pydantic_config__ = _STRICT
    feature: tuple[int, ...]
    threshold: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    value: tuple[float, ...]

    def __post_init__(self) -> None:
        columns = (self.feature, self.threshold, self.left, self.right, self.value)
        if len({len(one) for one in columns}) != 1 or not self.value:
            raise ValueError("a tree whose columns are not of one length")
        for at, ends in enumerate(zip(self.left, self.right, strict=True)):
            if ends != (at, at) and not all(at < one < len(self.value) for one in ends):
                raise ValueError(f"node {at} of a tree has the children {ends}")
        if any(not 0 <= one < len(WHOLE) + len(ADDED) for one in self.feature):
            raise ValueError("a tree asks for a feature that there is not")

    def values(self, rows: np.ndarray) -> np.ndarray:
        """What the leaf says that each row comes to; ``rows`` are of features."""
        feature, threshold = np.array(self.feature), np.array(self.threshold)
        left, right = np.array(self.left), np.array(self.right)
        at = np.zeros(len(rows), dtype=int)
        while True:
            goes_left = rows[np.arange(len(rows)), feature[at]] <= threshold[at]
            after = np.where(goes_left, left[at], right[at])
            if (after == at).all():
                found: np.ndarray = np.array(self.value)[at]
                return found
            at = after


@dataclass(frozen=True)
class Trees:
    """Rates, times what trees say in the mean, as a logarithm."""

    __pydantic_config__ = _STRICT
    rates: Rates
    trees: Annotated[tuple[Tree, ...], Field(min_length=1)]
    rung: Literal["trees"] = "trees"

    def seconds(self, kernels: Sequence[Kernel]) -> np.ndarray:
        """Of each kernel."""
        rows = tree_rows(self.rates, kernels)
        said = sum(one.values(rows) for one in self.trees) / len(self.trees)
        return corrected(self.rates.seconds(kernels), np.asarray(said))


@dataclass(frozen=True)
class Network:
    """Rates, times what a graph network says; its weights by name, row by row."""

    __pydantic_config__ = _STRICT
    rates: Rates
    weights: dict[str, tuple[tuple[float, ...], ...]]
    rung: Literal["network"] = "network"

    def seconds(self, kernels: Sequence[Kernel]) -> np.ndarray:
        """Of each kernel. Raises InputError where PyTorch is not installed."""
        from synth.train.learned.network import said  # Only this rung needs PyTorch.

        return corrected(self.rates.seconds(kernels), said(self.weights, kernels))


Fitted = Annotated[Parts | Rates | Trees | Network, Field(discriminator="rung")]


def corrected(seconds: np.ndarray, logarithms: np.ndarray) -> np.ndarray:
    """Seconds times a factor each."""
    found: np.ndarray = seconds * np.exp(np.clip(logarithms, -MOST_RATIO, MOST_RATIO))
    return found


def tree_rows(rates: Rates, kernels: Sequence[Kernel]) -> np.ndarray:
    """What trees ask of each kernel: what it is as a whole, and of its seconds each count's share.

    Shares are alike for kernels of all sizes. Rounded as trees were fitted.
    """
    whole = [features(one)[: len(WHOLE)] for one in kernels]
    shares = _added(kernels) * np.array(rates.seconds_each) / rates.seconds(kernels)[:, None]
    return np.hstack([np.array(whole), shares]).astype(np.float32)


def _added(kernels: Sequence[Kernel]) -> np.ndarray:
    return np.array([counts(one) for one in kernels], dtype=float)[:, ADDED]


def fit_parts(samples: Sequence[Sample]) -> Parts:
    """The best rates that a sample reached, and the fewest seconds that one took."""
    flops = (sum(p.flops for p in one.kernel.parts) / one.seconds for one in samples)
    moved = ((one.kernel.read_bytes + one.kernel.made_bytes) / one.seconds for one in samples)
    return Parts(max(flops), max(moved), min(one.seconds for one in samples))


def fit_rates(samples: Sequence[Sample]) -> Rates:
    """By least squares of the relative errors, with no rate below 0."""
    table = _added([one.kernel for one in samples])
    taken = np.array([one.seconds for one in samples])
    scale = np.maximum((table / taken[:, None]).max(axis=0), 1e-300)
    found, _ = scipy.optimize.nnls(table / taken[:, None] / scale, np.ones(len(taken)))
    return Rates(tuple(map(float, found / scale)), float(taken.min() / exp(1)))
