"""Programs of explicit groups read back from files: proved again, and run on arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from grammar.tensors.sharding import ReductionKind
from hierarchies import InputError
from synth.collective.degraded.lowering import schedule_program
from synth.collective.degraded.programs import GroupProgram
from synth.collective.degraded.ranking import judge_program
from synth.collective.run import TrialRequest, TrialResult
from synth.collective.run.arrays import time_on_arrays
from synth.collective.semantics.schedule import Schedule
from synth.collective.verify.symbolic import Proved

MOST_BYTES = 2**31


@dataclass(frozen=True)
class PricedGroupProgram:
    """A program of explicit groups with its machine and the prices that were given with it.

    ``devices[rank]`` is the id of a device that is present; ``flat_seconds`` is the price of the
    plain all-reduce on these devices.
    """

    system: str
    devices: tuple[int, ...]
    payload_bytes: int
    program: GroupProgram
    segments: int
    seconds: float
    flat_seconds: float

    def check(self) -> None:
        """Proves the program again: an earlier proof is not trusted, because a file may be edited.

        Raises InputError for reduce-scatters without pieces, and for a program that is wrong.
        """
        scattering = [step for step in self.program.steps if step.collective.scatters]
        if any(step.pieces is None for step in scattering):
            raise InputError(
                "a reduce-scatter without pieces", where="from", hint="say who keeps what"
            )
        verdict = judge_program(self.program, len(self.devices))
        if not isinstance(verdict, Proved):
            raise InputError(f"the program is not proved: {verdict}", where="from")


def run_on_arrays(
    priced: PricedGroupProgram,
    dtype: str,
    payload_bytes: int,
    repeat: int,
    op: ReductionKind = ReductionKind.SUM,
) -> TrialResult:
    """Replays a program on arrays, checks the result, and times it and the plain collective.

    Raises InputError for more data than memory holds, and as ``PricedGroupProgram.check``.
    """
    priced.check()
    ranks = len(priced.devices)
    if ranks * payload_bytes > MOST_BYTES:
        raise InputError(
            f"{ranks} devices with {payload_bytes} bytes each", where="--bytes", hint="give less"
        )
    schedule = schedule_program(priced.program, ranks, payload_bytes)
    assert isinstance(schedule, Schedule)
    trial = TrialRequest(payload_bytes, dtype, repeat, timeout_seconds=inf)
    return time_on_arrays([replace(schedule, op=op)], trial, go_on=lambda: True)
