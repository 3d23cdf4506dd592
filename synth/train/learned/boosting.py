"""Fits trees by scikit-learn, and keeps them as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor

from synth.train.learned.rungs import Tree, Trees, feature_rows, fit_rates
from synth.train.learned.samples import Sample

HOW = {
    "n_estimators": 200,
    "max_depth": 4,
    "learning_rate": 0.06,
    "subsample": 0.7,
    "min_samples_leaf": 5,
    "max_features": 0.5,
    "random_state": 0,
}
"""Usual values of small tables, set before anything was held out, and not searched."""


def fit_trees(samples: Sequence[Sample]) -> Trees:
    """Of the logarithm of how far rates are off."""
    rates = fit_rates(samples)
    kernels = [one.kernel for one in samples]
    off = np.log(np.array([one.seconds for one in samples]) / rates.seconds(kernels))
    found = GradientBoostingRegressor(**HOW).fit(feature_rows(kernels), off)
    rate = float(HOW["learning_rate"])
    trees = tuple(_tree(one.tree_, rate) for one in found.estimators_[:, 0])
    return Trees(rates, float(np.mean(off)), trees)


def _tree(found: Any, rate: float) -> Tree:
    """Of a leaf scikit-learn has the children -1 and the feature -2; here it is its own child."""
    places = range(len(found.feature))
    leaf = [int(one) < 0 for one in found.children_left]
    return Tree(
        tuple(0 if leaf[at] else int(found.feature[at]) for at in places),
        tuple(0.0 if leaf[at] else float(found.threshold[at]) for at in places),
        tuple(at if leaf[at] else int(found.children_left[at]) for at in places),
        tuple(at if leaf[at] else int(found.children_right[at]) for at in places),
        tuple(float(f"{rate * found.value[at, 0, 0]:.6g}") for at in places),
    )
