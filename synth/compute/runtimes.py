"""What a framework does to the seconds of compute: a factor by framework and accelerator.

Rates of a device are those of its best kernels. A framework launches operations one by one, fuses
fewer of them, or keeps a device waiting: its compute takes longer by a factor, which was measured
by published steps (``results/runtimes``) and stands in ``runtimes.toml`` with its source.

>>> from hierarchies.devices import device_named
>>> from synth.compute.runtimes import find_factor, set_framework
>>> h100 = device_named("H100 SXM5 80 GB")
>>> find_factor(h100, "torchtitan").factor > 1.0, find_factor(h100, "jax")
(True, None)
>>> set_framework(h100, "jax").compute_factor
1.0
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from hierarchies.devices import Device, model_words

IDEAL = "ideal"
"""The name of no framework: compute takes what the device's best kernels take."""


@dataclass(frozen=True)
class ComputeFactor:
    """The ratio of the seconds of compute to those of the device's rates, by framework and device.

    ``frameworks`` and ``models``: those it holds for; a model is a word of a device's name.
    ``factor`` is the median of so many published ``steps``, and four fifths of them lie between
    ``low`` and ``high``.
    """

    frameworks: tuple[str, ...]
    models: tuple[str, ...]
    factor: float
    low: float
    high: float
    steps: int
    source: str


@cache
def factors() -> Sequence[ComputeFactor]:
    """Returns all factors that were measured."""
    text = resources.files("synth.compute").joinpath("runtimes.toml").read_text(encoding="utf-8")
    return tuple(
        ComputeFactor(tuple(one.pop("frameworks")), tuple(one.pop("models")), **one)
        for one in tomllib.loads(text)["factor"]
    )


def find_factor(device: Device, framework: str) -> ComputeFactor | None:
    """Returns the factor of a framework on a device; None if it was not measured."""
    words = model_words(device.name)
    for factor in factors():
        if framework in factor.frameworks and not words.isdisjoint(factor.models):
            return factor
    return None


def set_framework(device: Device, framework: str) -> Device:
    """Returns a device with the compute factor of a framework; the same device without a factor."""
    factor = find_factor(device, framework)
    return device if factor is None else replace(device, compute_factor=factor.factor)
