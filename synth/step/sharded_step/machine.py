"""A program on a machine: each redistribution by the path that is fastest there.

The fewest bytes are not always the least time: a small value is not worth a request more. What is
of microbatches moves as the plan says.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from synth.step.redistribution.seconds import Redistributor
from synth.step.sharding import LocalOperation, RedistributedValue, SentValue, StepProgram
from synth.step.sharding.plan import TIME


def choose_fastest_paths(program: StepProgram, redistributor: Redistributor) -> StepProgram:
    """The same program, which on the redistributor's placement moves its values the fastest way."""

    def fastest(
        one: LocalOperation | RedistributedValue | SentValue,
    ) -> LocalOperation | RedistributedValue | SentValue:
        match one:
            case LocalOperation(body=StepProgram() as body):
                return replace(one, body=choose_fastest_paths(body, redistributor))
            case LocalOperation() | SentValue():
                return one
            case RedistributedValue(value, path):
                if TIME in (*path.source.axes, *path.target.axes):
                    return one
                if not path.requests(redistributor.sizes):
                    return one
                found = redistributor.redistribution(value.type, path.source, path.target)
                return RedistributedValue(value, found.path)
        assert_never(one)

    return replace(program, instructions=tuple(map(fastest, program.instructions)))
