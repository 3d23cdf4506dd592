"""What is run, and what is seen of it, whichever backend carries it out."""

from __future__ import annotations

from dataclasses import dataclass

from hierarchies import InputError


class RunError(InputError):
    """The processes of a run did not get to their end."""


@dataclass(frozen=True)
class TrialRequest:
    """What to execute: a payload of so many bytes of a dtype, how often, checked or not."""

    payload_bytes: int
    dtype: str = "float32"
    repeat: int = 5
    check: bool = False
    timeout_seconds: float = 120.0


@dataclass(frozen=True)
class PayloadSlice:
    """How much of the payload a stripe carried, and in how many segments."""

    elements: int
    segments: int


@dataclass(frozen=True)
class TrialResult:
    """The bytes as run, median seconds, and those of the same backend's plain collective.

    ``equal``, ``error`` (in units of what rounding allows) and ``bitwise_equal`` compare the result
    with the plain one, if that was checked. After an all-reduce the bits are those of all devices
    of a group; else those of the plain result, of sums where they are exact. ``segments`` or
    ``stripes`` say into what the payload was cut, where processes say so.
    """

    bytes: int
    seconds: float
    plain_seconds: float
    equal: bool | None = None
    error: float | None = None
    bitwise_equal: bool | None = None
    segments: int | None = None
    stripes: tuple[PayloadSlice, ...] = ()
