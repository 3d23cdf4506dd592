"""Fits trees by scikit-learn, and keeps them as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor

from synth.train.learned.rungs import Tree, Trees, fit_rates, tree_rows
from synth.train.learned.samples import Sample

HOW = {"n_estimators": 100, "min_samples_leaf": 3, "max_features": 0.5, "random_state": 0}


def fit_trees(samples: Sequence[Sample]) -> Trees:
    """Of the logarithm of how far rates are off: the mean of trees with drawn thresholds.

    Extremely randomized trees (Geurts, Ernst and Wehenkel 2006). Trees that are boosted, each
    fitted to what is left by those before, were further off on models that they had not seen:
    there are about ten samples a count.
    """
    rates = fit_rates(samples)
    kernels = [one.kernel for one in samples]
    off = np.log(np.array([one.seconds for one in samples]) / rates.seconds(kernels))
    found = ExtraTreesRegressor(**HOW).fit(tree_rows(rates, kernels), off)
    return Trees(rates, tuple(_tree(one.tree_) for one in found.estimators_))


def _tree(found: Any) -> Tree:
    """Of a leaf scikit-learn has the children -1 and the feature -2; here it is its own child."""
    places = range(len(found.feature))
    leaf = [int(one) < 0 for one in found.children_left]
    return Tree(
        tuple(0 if leaf[at] else int(found.feature[at]) for at in places),
        tuple(0.0 if leaf[at] else float(found.threshold[at]) for at in places),
        tuple(at if leaf[at] else int(found.children_left[at]) for at in places),
        tuple(at if leaf[at] else int(found.children_right[at]) for at in places),
        tuple(float(f"{found.value[at, 0, 0]:.4g}") if leaf[at] else 0.0 for at in places),
    )
