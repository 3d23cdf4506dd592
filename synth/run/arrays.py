"""The backend without processes: a schedule replayed on numpy arrays, checked and timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hierarchies import InputError
from synth.run.errors import RunError
from synth.semantics.schedule import Schedule
from synth.verify.replay import Failure, plain_sum, replay_stripes

Array = npt.NDArray[Any]


def on_arrays(
    stripes: Sequence[Schedule],
    dtype: str,
    payload_bytes: int,
    repeat: int,
    timeout_seconds: float = 120.0,
    go_on: Callable[[], bool] = lambda: True,
) -> dict[str, Any]:
    """The report of a run on arrays; checked always, as it costs nothing to speak of.

    ``stripes`` are the schedules that share the payload: one of them, if nothing runs beside it.

    Raises RunError if the arrays do not fit together (then the schedule is broken), if time runs
    out and if ``go_on`` says no; InputError if memory is too small.
    """
    end = time.monotonic() + timeout_seconds

    def ask(phase: object = None) -> None:
        if time.monotonic() > end:
            hint = "give more time with --timeout, or a smaller --bytes"
            raise RunError(f"the run was not done after {timeout_seconds:g} s", hint=hint)
        if not go_on():
            raise RunError("stopped before the end", hint="the budget is used up")

    first = stripes[0]
    elements = max(1, payload_bytes // np.dtype(dtype).itemsize)
    try:
        given = _drawn((first.devices, elements), np.dtype(dtype))
        seconds, plain = [], []
        for _ in range(repeat):
            begun = time.perf_counter()
            found = replay_stripes(stripes, given, ask)
            between = time.perf_counter()
            plain_sum(first.reduction, given)
            plain.append(time.perf_counter() - between)
            seconds.append(between - begun)
            ask()
        if isinstance(found, Failure):
            raise RunError(found.reason)
        return {
            "bytes": elements * given.itemsize,
            **_compared(given, found, first.reduction.grid()),
            "seconds": statistics.median(seconds),
            "plain_seconds": statistics.median(plain),
        }
    except MemoryError:
        raise InputError(
            f"{first.devices} devices with {payload_bytes} bytes each do not fit into memory",
            where="--bytes",
            hint="give less",
        ) from None


def _drawn(shape: tuple[int, int], kind: np.dtype[Any]) -> Array:
    random = np.random.default_rng(0)
    if np.issubdtype(kind, np.floating):
        wide = np.float64 if kind.itemsize == 8 else np.float32
        return random.standard_normal(shape, wide).astype(kind, copy=False)
    return random.integers(-100, 100, shape, kind)


def _compared(given: Array, found: Array, groups: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Group by group, so that little is held at once in wider numbers."""
    equal, same_bits, error = True, True, 0.0
    for group in groups:
        wanted = given[group].sum(axis=0, dtype=given.dtype)
        if np.issubdtype(given.dtype, np.floating):
            room = np.abs(given[group]).sum(axis=0, dtype=np.float64)
            allowed = 2 * len(group) * float(np.finfo(given.dtype).eps) * room
            off = np.abs(found[group].astype(np.float64) - wanted.astype(np.float64))
            error = max(error, float((off / np.maximum(allowed, 1e-300)).max()))
        else:
            equal = equal and bool((found[group] == wanted).all())
        bits = found[group].view(f"i{found.itemsize}")
        same_bits = same_bits and bool((bits == bits[:1]).all())
    return {"equal": equal and error <= 1, "error": error, "bitwise_equal": same_bits}
