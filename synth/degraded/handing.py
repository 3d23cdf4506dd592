"""Programs of explicit groups read back, judged anew, written down and run on arrays."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from grammar import Collective
from hierarchies import InputError
from synth.degraded.programs import GroupProgram
from synth.degraded.ranking import judged
from synth.degraded.replay import replay_groups
from synth.run.arrays import compared_sums, drawn
from synth.run.errors import RunError
from synth.verify.concrete import GroupStep
from synth.verify.replay import Failure
from synth.verify.symbolic import Proved, Verdict

FORMAT = "collsynth-groups"
VERSION = 1
MOST_BYTES = 2**31


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Step(_Part):
    collective: Collective
    groups: list[list[int]]
    pieces: list[list[list[int]]] | None = None

    def step(self) -> GroupStep:
        pieces = None
        if self.pieces is not None:
            pieces = tuple(tuple(frozenset(piece) for piece in some) for some in self.pieces)
        return GroupStep(self.collective, tuple(tuple(g) for g in self.groups), pieces)


class _Answer(_Part):
    rank: int
    program: str
    chunks: int = Field(ge=1, le=2**16)
    segments: int = Field(ge=1, le=4096)
    seconds: float
    group_steps: list[_Step]


class _Uneven(_Part):
    devices: list[int] = Field(min_length=1)


class _System(_Part):
    name: str


class UnevenRanking(_Part):
    """The part of ``top --json`` for a machine that lacks devices that is needed to hand it out."""

    system: _System
    bytes: int = Field(ge=1)
    uneven: _Uneven
    flat_seconds: float
    answers: list[_Answer]

    def chosen(self, rank: int) -> _Answer:
        """The answer of a rank. Raises InputError if there is none."""
        found = [answer for answer in self.answers if answer.rank == rank]
        if not found:
            have = ", ".join(str(answer.rank) for answer in self.answers) or "none"
            raise InputError(f"no answer has rank {rank}", where="rank", hint=f"ranks are: {have}")
        return found[0]


def ranking_of(answer: Mapping[str, Any]) -> UnevenRanking:
    """Read a ranking. Raises InputError for JSON that is none."""
    try:
        return UnevenRanking.model_validate(answer)
    except ValidationError as error:
        found = error.errors()[0]
        where = ".".join(("from", *(str(part) for part in found["loc"])))
        hint = "give what 'collsynth top --json' printed"
        raise InputError(found["msg"].lower(), where=where, hint=hint) from None


def program_of(ranking: UnevenRanking, rank: int) -> tuple[GroupProgram, Verdict]:
    """A program with z3's verdict of now, whatever the file says was proved before.

    Raises InputError for groups that are none, and for a program that is wrong.
    """
    chosen = ranking.chosen(rank)
    steps = tuple(one.step() for one in chosen.group_steps)
    scattering = [s for s in steps if s.collective.scatters]
    if any(step.pieces is None for step in scattering):
        raise InputError("a reduce-scatter without pieces", where="from", hint="say who keeps what")
    program = GroupProgram(steps, chosen.chunks, tuple(chosen.program.split("; ")))
    verdict = judged(program, len(ranking.uneven.devices))
    if not isinstance(verdict, Proved):
        raise InputError(f"the program is not proved: {verdict}", where="from")
    return program, verdict


def document(ranking: UnevenRanking, rank: int) -> dict[str, Any]:
    """The program as data: steps over groups of ranks, which chunks each keeps, device ids."""
    program_of(ranking, rank)
    chosen = ranking.chosen(rank)
    return {
        "format": FORMAT,
        "version": VERSION,
        "system": ranking.system.name,
        "devices": ranking.uneven.devices,
        "program": chosen.program,
        "bytes": ranking.bytes,
        "chunks": chosen.chunks,
        "segments": chosen.segments,
        "proved_for": len(ranking.uneven.devices),
        "steps": [one.model_dump(mode="json") for one in chosen.group_steps],
    }


def run_on_arrays(
    ranking: UnevenRanking, rank: int, dtype: str, payload_bytes: int, repeat: int
) -> dict[str, Any]:
    """Replay a program on arrays; checked always, and timed beside the plain sum.

    Raises InputError for more than memory holds, RunError if arrays do not fit together.
    """
    program, _ = program_of(ranking, rank)
    ranks = len(ranking.uneven.devices)
    if ranks * payload_bytes > MOST_BYTES:
        raise InputError(
            f"{ranks} devices with {payload_bytes} bytes each", where="--bytes", hint="give less"
        )
    given = drawn(ranks, dtype, payload_bytes)
    seconds, plain = [], []
    for _ in range(repeat):
        begun = time.perf_counter()
        found = replay_groups(program.steps, program.chunks, given)
        between = time.perf_counter()
        given.sum(axis=0, dtype=given.dtype)
        plain.append(time.perf_counter() - between)
        seconds.append(between - begun)
    if isinstance(found, Failure):
        raise RunError(found.reason)
    return {
        "bytes": given.shape[1] * given.itemsize,
        **compared_sums(given, found),
        "seconds": statistics.median(seconds),
        "plain_seconds": statistics.median(plain),
    }
