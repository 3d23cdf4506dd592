"""The backend without processes: replays a schedule on numpy arrays, checks and times it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from grammar import Goal
from grammar.tensors.sharding import ReductionKind
from hierarchies import InputError
from synth.collective.run.trial import RunError, TrialRequest, TrialResult
from synth.collective.semantics.schedule import Schedule
from synth.collective.verify.replay import Failure, plain_result, replay_stripes

Array = npt.NDArray[Any]


def time_on_arrays(
    stripes: Sequence[Schedule], trial: TrialRequest, go_on: Callable[[], bool]
) -> TrialResult:
    """Runs on arrays; the result is always checked, because a check costs almost nothing.

    ``stripes`` are the schedules that share the payload; a plain schedule is a single one.
    Raises RunError if the arrays do not fit together (the schedule is broken), on a timeout and
    if ``go_on`` returns False; InputError if memory is too small.
    """
    first, end = stripes[0], time.monotonic() + trial.timeout_seconds
    itemsize = np.dtype(trial.dtype).itemsize
    elements = max(1, trial.payload_bytes // itemsize)

    def check_limits(phase: object = None) -> None:
        if time.monotonic() > end:
            hint = "give more time with --timeout, or a smaller --bytes"
            raise RunError(f"the run was not done after {trial.timeout_seconds:g} s", hint=hint)
        if not go_on():
            raise RunError("stopped before the end", hint="the budget is used up")

    def plain(given: Array) -> Array:
        check_limits()
        return plain_result(first.reduction, given, first.goal, first.op)

    def run(given: Array) -> Array:
        found = replay_stripes(stripes, given, check_limits)
        if isinstance(found, Failure):
            raise RunError(found.reason)
        return found

    try:
        per_device = -(-elements // first.pieces) if first.goal.gathers else elements
        given = draw_inputs(first.devices, trial.dtype, per_device)
        found, seconds, plain_seconds = _time_schedule(given, run, plain, trial.repeat)
        if first.goal is Goal.ALL_REDUCE and first.op is ReductionKind.SUM:
            checked = _compare_sums(given, found, first.reduction.grid())
        else:
            checked = _compare_with_plain(plain, run, given, found, first)
    except MemoryError:
        raise InputError(
            f"{first.devices} devices with {trial.payload_bytes} bytes each do not fit into memory",
            where="--bytes",
            hint="give less",
        ) from None
    return TrialResult(elements * itemsize, seconds, plain_seconds, *checked)


def draw_inputs(devices: int, dtype: str, elements: int) -> Array:
    """Returns the devices' inputs, shape (devices, elements): the same for every call."""
    kind, random = np.dtype(dtype), np.random.default_rng(0)
    shape = (devices, elements)
    if np.issubdtype(kind, np.floating):
        wide = np.float64 if kind.itemsize == 8 else np.float32
        return random.standard_normal(shape, wide).astype(kind, copy=False)
    return random.integers(-100, 100, shape, kind)


def _time_schedule(
    given: Array, run: Callable[[Array], Array], plain: Callable[[Array], Array], repeat: int
) -> tuple[Array, float, float]:
    """Returns the result of a run, its median seconds, and those of the plain result."""
    seconds, plain_seconds = [], []
    for _ in range(repeat):
        begun = time.perf_counter()
        found = run(given)
        between = time.perf_counter()
        plain(given)
        plain_seconds.append(time.perf_counter() - between)
        seconds.append(between - begun)
    return found, statistics.median(seconds), statistics.median(plain_seconds)


Checked = tuple[bool, float, bool]
"""Whether a result is right within rounding, its error, and whether its bits are equal."""


def _compare_with_plain(
    plain: Callable[[Array], Array],
    run: Callable[[Array], Array],
    given: Array,
    found: Array,
    schedule: Schedule,
) -> Checked:
    """Compares a result with the plain one: bit for bit, or sums within rounding.

    Float sums are also compared bit for bit, on whole numbers small enough to need no rounding.
    """
    wanted = plain(given)
    sums = schedule.goal.reduces and schedule.op is ReductionKind.SUM
    if not (sums and np.issubdtype(given.dtype, np.floating)):
        same = _has_same_bits(found, wanted)
        return same, 0.0, same
    room = plain(np.abs(given).astype(np.float64))
    members = schedule.reduction.tree.devices
    allowed = 2 * members * float(np.finfo(given.dtype).eps) * room
    off = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
    error = float((off / np.maximum(allowed, 1e-300)).max())
    exact = int(2 / np.finfo(given.dtype).eps)
    most = max(1, min(100, exact // members))
    whole = np.random.default_rng(1).integers(-most, most + 1, given.shape).astype(given.dtype)
    whole[schedule.reduction.grid()[:, exact:]] = (
        0  # more than ``exact`` members of at least 1 would round
    )
    return error <= 1, error, _has_same_bits(run(whole), plain(whole))


def _has_same_bits(found: Array, wanted: Array) -> bool:
    kind = f"i{found.itemsize}"
    return bool((found.view(kind) == wanted.view(kind)).all())


def _compare_sums(given: Array, found: Array, groups: npt.NDArray[np.int64]) -> Checked:
    """Returns whether the sums are right, their error, and whether all have the same bits.

    Works group by group, so that few arrays of the wider type are in memory at once.
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
