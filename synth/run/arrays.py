"""The backend without processes: a schedule replayed on numpy arrays, checked and timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hierarchies import InputError
from synth.run.trial import RunError, Seen, Trial
from synth.semantics.schedule import Schedule
from synth.verify.replay import Failure, plain_sum, replay_stripes

Array = npt.NDArray[Any]


def on_arrays(stripes: Sequence[Schedule], trial: Trial, go_on: Callable[[], bool]) -> Seen:
    """A run on arrays, always checked, as the check costs next to nothing.

    ``stripes`` are the schedules that share the payload; a plain schedule is a single one.

    Raises RunError if the arrays do not fit together (then the schedule is broken), if time runs
    out and if ``go_on`` says no; InputError if memory is too small.
    """
    first, end = stripes[0], time.monotonic() + trial.timeout_seconds

    def ask(phase: object = None) -> None:
        if time.monotonic() > end:
            hint = "give more time with --timeout, or a smaller --bytes"
            raise RunError(f"the run was not done after {trial.timeout_seconds:g} s", hint=hint)
        if not go_on():
            raise RunError("stopped before the end", hint="the budget is used up")

    def plain() -> None:
        plain_sum(first.reduction, given)
        ask()

    try:
        given = drawn(first.devices, trial.dtype, trial.payload_bytes)
        replayed = partial(replay_stripes, stripes, given, ask)
        return measured(given, first.reduction.grid(), replayed, plain, trial.repeat)
    except MemoryError:
        raise InputError(
            f"{first.devices} devices with {trial.payload_bytes} bytes each do not fit into memory",
            where="--bytes",
            hint="give less",
        ) from None


def drawn(devices: int, dtype: str, payload_bytes: int) -> Array:
    """The payloads that devices start with, shape (devices, elements): the same for every call."""
    kind, random = np.dtype(dtype), np.random.default_rng(0)
    shape = (devices, max(1, payload_bytes // kind.itemsize))
    if np.issubdtype(kind, np.floating):
        wide = np.float64 if kind.itemsize == 8 else np.float32
        return random.standard_normal(shape, wide).astype(kind, copy=False)
    return random.integers(-100, 100, shape, kind)


def measured(
    given: Array,
    groups: npt.NDArray[np.int64],
    run: Callable[[], Array | Failure],
    plain: Callable[[], object],
    repeat: int,
) -> Seen:
    """Time a run, and compare its result with the sum of each group's payloads.

    The plain sum is timed beside it. Raises RunError for a failure.
    """
    seconds, plain_seconds = [], []
    for _ in range(repeat):
        begun = time.perf_counter()
        found = run()
        between = time.perf_counter()
        plain()
        plain_seconds.append(time.perf_counter() - between)
        seconds.append(between - begun)
    if isinstance(found, Failure):
        raise RunError(found.reason)
    equal, error, same_bits = _compared(given, found, groups)
    return Seen(
        bytes=given.shape[1] * given.itemsize,
        seconds=statistics.median(seconds),
        plain_seconds=statistics.median(plain_seconds),
        equal=equal,
        error=error,
        bitwise_equal=same_bits,
    )


def _compared(
    given: Array, found: Array, groups: npt.NDArray[np.int64]
) -> tuple[bool, float, bool]:
    """Whether the sums are right, their error, and whether all have the same bits.

    It goes group by group, so that few arrays of wider numbers are held at once.
    """
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
    return equal and error <= 1, error, same_bits
