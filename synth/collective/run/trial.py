"""The input and result of a run, for all backends."""

from __future__ import annotations

from dataclasses import dataclass

from hierarchies import InputError


class RunError(InputError):
    """The processes of a run did not complete."""


@dataclass(frozen=True)
class TrialRequest:
    """The parameters of a run: payload in bytes, dtype, number of repeats, checked or not."""

    payload_bytes: int
    dtype: str = "float32"
    repeat: int = 5
    check: bool = False
    timeout_seconds: float = 120.0


@dataclass(frozen=True)
class PayloadSlice:
    """A stripe's elements of the payload, and its number of segments."""

    elements: int
    segments: int


@dataclass(frozen=True)
class TrialResult:
    """The bytes as run, median seconds, and those of the same backend's plain collective.

    ``equal``, ``error`` (in units of what rounding allows) and ``bitwise_equal`` compare the
    result with the plain one, if that was checked. After an all-reduce, bits are compared over
    all devices of a group; otherwise with the plain result, for sums where they are exact.
    ``segments`` or ``stripes`` are how the payload was cut, if processes report it.
    """

    bytes: int
    seconds: float
    plain_seconds: float
    equal: bool | None = None
    error: float | None = None
    bitwise_equal: bool | None = None
    segments: int | None = None
    stripes: tuple[PayloadSlice, ...] = ()
