"""Programs of explicit groups, as users get and return them: proved again, and run on arrays."""

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
    """A program of explicit groups, the machine it is for, and the prices it came with.

    ``devices[rank]`` is the id of a device that is left; ``flat_seconds`` is the price of the
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
        """Prove the program again: an earlier proof is not trusted, as a file may be edited.

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
    handed: PricedGroupProgram,
    dtype: str,
    payload_bytes: int,
    repeat: int,
    op: ReductionKind = ReductionKind.SUM,
) -> TrialResult:
    """Replay a program on arrays, always checked, and timed beside the plain result.

    Raises InputError for more than memory holds, and as ``PricedGroupProgram.check``.
    """
    handed.check()
    ranks = len(handed.devices)
    if ranks * payload_bytes > MOST_BYTES:
        raise InputError(
            f"{ranks} devices with {payload_bytes} bytes each", where="--bytes", hint="give less"
        )
    schedule = schedule_program(handed.program, ranks, payload_bytes)
    assert isinstance(schedule, Schedule)
    trial = TrialRequest(payload_bytes, dtype, repeat, timeout_seconds=inf)
    return time_on_arrays([replace(schedule, op=op)], trial, go_on=lambda: True)
