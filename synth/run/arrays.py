"""The backend without processes: a schedule replayed on numpy arrays, checked and timed."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from synth.replay import Failure, plain_sum, replay
from synth.run.errors import RunError
from synth.schedule import Schedule


def on_arrays(schedule: Schedule, dtype: str, payload_bytes: int, repeat: int) -> dict[str, Any]:
    """The report of a run on arrays; checked always, as it costs nothing to speak of.

    Raises RunError if the arrays do not fit together: then the schedule is broken.
    """
    kind = np.dtype(dtype)
    elements = max(1, payload_bytes // kind.itemsize)
    random = np.random.default_rng(0)
    shape = (schedule.devices, elements)
    real = np.issubdtype(kind, np.floating)
    drawn = random.normal(size=shape) if real else random.integers(-1000, 1000, shape)
    given = drawn.astype(kind)
    seconds, plain = [], []
    for _ in range(repeat):
        begun = time.perf_counter()
        found = replay(schedule, given)
        between = time.perf_counter()
        wanted = plain_sum(schedule.reduction, given)
        plain.append(time.perf_counter() - between)
        seconds.append(between - begun)
    if isinstance(found, Failure):
        raise RunError(found.reason)
    groups = schedule.reduction.grid()
    error = 0.0
    if real:
        room = plain_sum(schedule.reduction, np.abs(given)).astype(np.float64)
        allowed = 2 * groups.shape[1] * float(np.finfo(kind).eps) * room
        off = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
        error = float((off / np.maximum(allowed, 1e-300)).max())
    bits = found.view(f"i{kind.itemsize}")[groups]
    return {
        "bytes": elements * kind.itemsize,
        "equal": error <= 1 if real else bool(np.array_equal(found, wanted)),
        "error": error,
        "bitwise_equal": bool((bits == bits[:, :1]).all()),
        "seconds": statistics.median(seconds),
        "plain_seconds": statistics.median(plain),
    }
