"""Adapts a program to a machine: each redistribution takes the path that is fastest there.

The path with the fewest bytes is not always the fastest: a small value is not worth another
request. Redistributions along time stay as the plan has them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from synth.step.redistribution.seconds import NetworkPrices
from synth.step.sharding import LocalOperation, RedistributedValue, SentValue, StepProgram
from synth.step.sharding.plan import TIME


def choose_fastest_paths(program: StepProgram, network: NetworkPrices) -> StepProgram:
    """Returns the program with the paths that are fastest on the placement of ``network``."""

    def choose(
        instruction: LocalOperation | RedistributedValue | SentValue,
    ) -> LocalOperation | RedistributedValue | SentValue:
        match instruction:
            case LocalOperation(body=StepProgram() as body):
                return replace(instruction, body=choose_fastest_paths(body, network))
            case LocalOperation() | SentValue():
                return instruction
            case RedistributedValue(value, path):
                if TIME in (*path.source.axes, *path.target.axes):
                    return instruction
                if not path.requests(network.sizes):
                    return instruction
                fastest = network.redistribution(value.type, path.source, path.target)
                return RedistributedValue(value, fastest.path)
        assert_never(instruction)

    return replace(program, instructions=tuple(map(choose, program.instructions)))
