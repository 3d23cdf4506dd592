"""The columns of a fit for the cost of messages by their size.

A curve is a factor of the cost over the size. There is one for each level and protocol, and another
for algorithms that send to all members at once. Its unknowns are the logarithms of the factor at
``SIZES``, interpolated for other sizes. The prior expects factors near 1 (``SPREAD``) and near the
factor of the next size (``STEP``). Its loss is soft, so that one large step costs less than many
small ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hierarchies import MessageCurve
from synth.measure.calibration.candidates import FitCandidate

Floats = npt.NDArray[np.float64]
CurveKey = tuple[str, str, int]
SIZES = tuple(float(4**power * 32) for power in range(9))
"""Sizes of messages in bytes, from 32 B to 2 MiB."""
SPREAD, STEP = 0.5, 0.2
"""Expected deviations of a whole curve's logarithm from 0, and of a factor from the next.

They were chosen from a few pairs by the errors of two machines, Polaris and Snellius (see
``results/fidelity``).
"""
MOST = 3.0
"""The largest logarithm of a factor."""


@dataclass(frozen=True)
class CurveColumns:
    """The curves of a fit's candidates.

    ``keys``: algorithm ("" for all that do not send at once), protocol and level of each curve.
    ``curve``: the curve of each candidate at each level, shape (candidates, levels). ``weights``:
    the weight of each size in the logarithm of a candidate's factor, shape (candidates, sizes).
    """

    keys: tuple[CurveKey, ...]
    curve: npt.NDArray[np.int64]
    weights: Floats

    @classmethod
    def of(cls, candidates: Sequence[FitCandidate], sizes: Floats) -> CurveColumns:
        """Returns the columns of candidates with buffers of ``sizes`` bytes, one each."""
        levels = range(len(candidates[0].waited))
        named = [
            [(each.way.curve_name, each.protocol.value, level) for level in levels]
            for each in candidates
        ]
        keys = tuple(dict.fromkeys(key for row in named for key in row))
        number = {key: place for place, key in enumerate(keys)}
        curve = np.array([[number[key] for key in row] for row in named])
        shares = np.array([candidate.way.message_share for candidate in candidates])
        return cls(keys, curve, _weights(sizes * shares))

    @property
    def start(self) -> Floats:
        """Curves of factor 1."""
        return np.zeros((len(self.keys), len(SIZES)))

    def factors(self, logarithms: Floats) -> Floats:
        """Returns the factor of each candidate's messages, shape (candidates, levels)."""
        return np.asarray(np.exp((logarithms[self.curve] * self.weights[:, None, :]).sum(axis=2)))

    def design(self, chosen: npt.NDArray[np.int64], waits: Floats) -> Floats:
        """Returns the derivatives of seconds by all logarithms, one row for each chosen candidate.

        ``waits``: their seconds for messages, shape (chosen, levels).
        """
        found = np.zeros((len(chosen), len(self.keys), len(SIZES)))
        rows = np.arange(len(chosen))
        for level, seconds in enumerate(waits.T):
            found[rows, self.curve[chosen, level]] += self.weights[chosen] * seconds[:, None]
        return found.reshape(len(chosen), -1)

    @property
    def prior(self) -> Floats:
        """The expectations as rows over all logarithms, each with spread 1 about 0."""
        count = len(SIZES)
        one = np.vstack(
            [np.eye(count) / SPREAD / np.sqrt(count), np.diff(np.eye(count), axis=0) / STEP]
        )
        return np.kron(np.eye(len(self.keys)), one)

    def curves(self, logarithms: Floats) -> tuple[MessageCurve, ...]:
        """Returns the curves that differ from 1."""
        return tuple(
            MessageCurve(level, SIZES, tuple(_round(factor) for factor in factors), protocol, way)
            for (way, protocol, level), factors in zip(
                self.keys, np.exp(logarithms).tolist(), strict=True
            )
            if any(_round(factor) != 1 for factor in factors)
        )


def soft_loss(strayed: Floats) -> tuple[float, Floats]:
    """Returns the soft-L1 loss of deviations, and the weights of their rows in least squares."""
    loss = float((2 * (np.sqrt(1 + strayed**2) - 1)).sum())
    return loss, np.asarray((1 + strayed**2) ** -0.25)


def _weights(message_bytes: Floats) -> Floats:
    knots = np.log2(np.array(SIZES))
    place = np.interp(np.log2(message_bytes), knots, np.arange(len(knots)))
    return np.asarray(np.maximum(0.0, 1 - np.abs(place[:, None] - np.arange(len(knots)))))


def _round(factor: float) -> float:
    return float(f"{factor:.4g}")
